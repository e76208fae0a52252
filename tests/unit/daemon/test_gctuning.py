"""Long-lived objects are excluded from collections, and only those."""

import gc
import weakref

import pytest

from scheduler.daemon import gctuning


@pytest.mark.parametrize(("limit_s", "is_kept"), [(-1.0, True), (3600.0, False)])
def test_what_a_long_collection_leaves_is_set_aside(
    monkeypatch: pytest.MonkeyPatch, limit_s: float, is_kept: bool
):
    """The length of a full collection decides; collections of young generations never count."""
    gc.collect()
    # The collected tests are frozen, and by Python 3.12 immortal objects in every collection.
    before = gc.get_freeze_count()
    monkeypatch.setattr(gctuning, "LONG_S", limit_s)
    with gctuning.short_pauses():
        gc.collect(1)
        assert before >= gc.get_freeze_count()
        rings = [Ring() for _ in range(100)]
        gc.collect()
        found = gc.get_freeze_count()

    assert is_kept is (found > before)
    rings += [Ring() for _ in range(100)]
    gc.collect()
    assert found >= gc.get_freeze_count()


class Ring:
    """An object that refers to itself."""

    def __init__(self) -> None:
        self.itself = self


def test_garbage_of_before_is_found_again():
    """Objects that became garbage while frozen are freed by a full collection."""
    ring = Ring()
    there = weakref.ref(ring)
    gctuning.keep()
    del ring
    gc.collect()
    assert there() is not None
    gctuning.forget()

    assert there() is None
