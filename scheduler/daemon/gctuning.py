"""Short pauses: the collector does not look again at what has lived through a long collection.

A full collection visits all live objects and blocks the loop. What
is there when everything is listed lives as long as the daemon, mostly; later, a collection that
took long shows that much more of that kind has come. Both are set aside (`gc.freeze`), where
garbage without cycles still goes at once. The price is garbage in cycles that was alive at such a
moment; they are rare, and a reload looks through all of it again.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from scheduler.base.clock import perf_s

LONG_S = 0.015
_FULL = 2


def keep() -> None:
    """Set aside all that is alive now."""
    gc.collect()
    gc.freeze()
    gc.collect()  # so that it counts nothing of what is set aside when it next decides to run


def set_aside() -> None:
    """Set aside all that is alive without looking for garbage in it: modules are none."""
    gc.freeze()


def forget() -> None:
    """Look through everything again, then set it aside."""
    gc.unfreeze()
    keep()


@contextmanager
def short_pauses() -> Iterator[None]:
    """Meanwhile, set aside what a collection of more than `LONG_S` has left."""
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
