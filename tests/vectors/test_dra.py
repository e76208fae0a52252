"""Vectors of device allocation: what the API server makes of selectors."""

from tests.vectors.celcases import run_selector

FOLDER = "dra"
RUNNERS = {
    "cel.json": run_selector,
    "cel-recorded.json": run_selector,
}


def test_vector(vector):
    """One case."""
    RUNNERS[vector.file](vector)
