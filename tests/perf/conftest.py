"""Fixtures for tests of the benchmarks."""

import gc

import pytest


@pytest.fixture(autouse=True)
def no_collections(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable collections before each measurement in these small tests.

    They make figures comparable; in a process full of tests each takes a second.
    """
    if request.node.get_closest_marker("perf") is None:
        monkeypatch.setattr(gc, "collect", lambda *_: 0)
        monkeypatch.setattr(gc, "unfreeze", lambda: None)
