"""Facts on pages that a program can look up are verified."""

import re
from collections.abc import Iterator

import pytest
import yaml

from scheduler.about import KUBERNETES_VERSIONS, OLDEST_KUBERNETES
from scheduler.sandbox.kinds.kinds import BUILT_IN
from scheduler.sandbox.kinds.typetable import type_table
from tests.docs.pages import ROOT

PAGES = sorted((ROOT / "docs").rglob("*.md"))
BY_PLURAL = {row.plural: row for row in reversed(BUILT_IN)}
# `kubectl get KIND ... -o custom-columns=NAME:.path,...` as written on a page.
COLUMNS = re.compile(r"kubectl get (\w+)[^`\n]*?custom-columns=(\S+?)[`\s]")


def columns() -> Iterator[tuple[str, str, str]]:
    """Yield page, kind and path of every column in a page's kubectl output."""
    for page in PAGES:
        for plural, listed in COLUMNS.findall(page.read_text(encoding="utf-8")):
            if plural not in BY_PLURAL:  # of our own definitions, which have no field table
                continue
            for column in listed.split(","):
                yield page.name, plural, column.partition(":")[2]


@pytest.mark.parametrize(("page", "plural", "path"), list(columns()))
def test_columns_that_pages_ask_for_are_fields(page: str, plural: str, path: str):
    """kubectl prints `<none>` for a field that its version of a kind does not have."""
    shape = type_table().of_resource(BY_PLURAL[plural])
    for name in re.split(r"(?<!\\)\.", path.strip(".")):
        assert shape is not None
        if shape.fields is None and shape.inner is not None:  # a map: any key will do
            shape = shape.inner
            continue
        assert shape.fields is not None, f"{page}: {path} goes too deep"
        assert name in shape.fields, f"{page}: {plural} have no field {path}"
        shape = shape.fields[name].shape


def test_there_are_columns_to_look_at():
    """A pattern without any match would verify nothing."""
    assert list(columns())


def test_all_pages_name_the_same_versions_of_kubernetes():
    """The command, the chart and the page on upgrades name the same versions."""
    chart = yaml.safe_load((ROOT / "charts/trellis/Chart.yaml").read_text(encoding="utf-8"))
    page = (ROOT / "docs/howto/upgrade.md").read_text(encoding="utf-8")

    assert f">={OLDEST_KUBERNETES}.0-0" == chart["kubeVersion"]
    *older, newest = KUBERNETES_VERSIONS
    assert f"({', '.join(older)} and {newest})" in page
    assert f"({OLDEST_KUBERNETES})" in page
