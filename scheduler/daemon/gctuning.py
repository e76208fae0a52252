"""Short pauses: objects that survive a long collection are excluded from later ones.

A full collection visits all live objects and blocks the loop. Most objects that exist after the
initial lists live as long as the daemon; later, a long collection shows that many more such objects
exist. Both are set aside (`gc.freeze`), where reference counting still frees them. The price is
garbage in cycles that was alive at such a moment; it is rare, and a reload collects it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from scheduler.base.clock import perf_s

LONG_S = 0.015
_FULL = 2


def keep() -> None:
    """Collect garbage and freeze all live objects."""
    gc.collect()
    gc.freeze()
    gc.collect()  # so that the collector does not count frozen objects when it next decides to run


def forget() -> None:
    """Unfreeze all objects, collect garbage, and freeze the live ones."""
    gc.unfreeze()
    keep()


@contextmanager
def short_pauses() -> Iterator[None]:
    """Inside the block, freeze the live objects after each collection longer than `LONG_S`."""
    began = 0.0

    def notice(phase: str, info: dict[str, int]) -> None:
        nonlocal began
        if info["generation"] != _FULL:
            return
        if phase == "start":
            began = perf_s()
        elif perf_s() - began > LONG_S:
            gc.freeze()

    gc.callbacks.append(notice)
    try:
        yield
    finally:
        gc.callbacks.remove(notice)
