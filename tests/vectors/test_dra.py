"""Vectors of device allocation: selectors as the API server takes them, and whole cases as
recorded.
"""

from typing import Any

from tests.vectors.celcases import run_selector
from tests.vectors.drarecorded import run_case

FOLDER = "dra"


class _Runners(dict[str, Any]):
    """The runner of a file: one without selectors is a recorded case, whatever its name."""

    def __contains__(self, _file):
        return True

    def __missing__(self, _file):
        return lambda vector: run_case(vector.case)


RUNNERS = _Runners({"cel.json": run_selector, "cel-recorded.json": run_selector})


def test_vector(vector):
    """Run one case."""
    RUNNERS[vector.file](vector)
