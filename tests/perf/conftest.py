"""What tests of the benchmarks get."""

import gc

import pytest


@pytest.fixture(autouse=True)
def no_collections(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare the tests in small the collections before each measurement.

    They are for figures that can be compared; in a process full of tests each takes a second.
    """
    if request.node.get_closest_marker("perf") is None:
        monkeypatch.setattr(gc, "collect", lambda *_: 0)
        monkeypatch.setattr(gc, "unfreeze", lambda: None)
