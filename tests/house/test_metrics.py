"""Each row of the table of metrics is written, by one package."""

import re

from scheduler.base.meters import Meters
from tests.house.source import PRODUCT, name_of, python_files


def test_every_metric_is_written_by_one_package():
    """A row that no code writes is always 0.

    A row that two packages write has two owners.
    """
    feeding: dict[str, set[str]] = {name: set() for name in Meters.table()}
    for file in python_files(*PRODUCT):
        for name in re.findall(r"meters\.([a-z_]+)", file.read_text()):
            if name in feeding:
                feeding[name].add("/".join(name_of(file).split("/")[:2]))
    feeding.pop("scrape_errors")  # the table's own

    assert [] == [name for name, writers in feeding.items() if not writers]
    assert {"config_last_reload_successful", "effects", "goroutines"} >= {
        name for name, writers in feeding.items() if len(writers) > 1
    }
