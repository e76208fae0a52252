"""How long each callback blocks asyncio's loop, by the task or protocol it belongs to.

    with LoopWatch() as watch:
        watch.time(engine, "run", "cycles")   # a step inside a callback, timed under this name
        ...
    watch.figures()

Wall time, and the most CPU time of the thread that one of them took: on a busy machine a span is
long because something else had the core.
"""

from __future__ import annotations

import asyncio
import gc
import time
from asyncio.events import Handle
from collections.abc import Callable
from typing import Any, Self

import msgspec

BOUNDS_MS = (1, 2, 5, 10, 15, 20, 30, 50, 100)


class Spans(msgspec.Struct):
    """The durations of one name: their number up to each bound, and the longest by either clock."""

    counts: list[int] = msgspec.field(default_factory=lambda: [0] * (len(BOUNDS_MS) + 1))
    total_s: float = 0.0
    longest_s: float = 0.0
    longest_cpu_s: float = 0.0

    def add(self, took_s: float, cpu_s: float) -> None:
        """Count one duration."""
        place = sum(1000 * took_s > bound for bound in BOUNDS_MS)
        self.counts[place] += 1
        self.total_s += took_s
        self.longest_s = max(self.longest_s, took_s)
        self.longest_cpu_s = max(self.longest_cpu_s, cpu_s)

    def figures(self) -> dict[str, Any]:
        """Return the figures: durations in milliseconds, counted by their bounds."""
        names = [f"≤{bound}" for bound in BOUNDS_MS] + [f">{BOUNDS_MS[-1]}"]
        counts = {name: n for name, n in zip(names, self.counts, strict=True) if n}
        return {
            "longestMs": round(1000 * self.longest_s, 1),
            "longestCpuMs": round(1000 * self.longest_cpu_s, 1),
            "totalS": round(self.total_s, 2),
            "countsMs": counts,
        }


class LoopWatch:
    """Times the loop's callbacks, garbage collections and chosen steps while it is entered."""

    def __init__(self) -> None:
        self.spans: dict[str, Spans] = {}
        self._undo: list[Callable[[], None]] = []
        self._collecting = (0.0, 0.0)

    def __enter__(self) -> Self:
        run: Any = vars(Handle)["_run"]

        def timed(handle: Any) -> None:
            callback = handle._callback
            began, cpu = time.perf_counter(), time.thread_time()
            run(handle)
            took = time.perf_counter() - began
            self.add(f"loop: {owner(callback)}", took, time.thread_time() - cpu)

        setattr(Handle, "_run", timed)  # noqa: B010 - typeshed lacks it
        self._undo.append(lambda: setattr(Handle, "_run", run))
        gc.callbacks.append(self._collected)
        self._undo.append(lambda: gc.callbacks.remove(self._collected))
        return self

    def __exit__(self, *_: object) -> None:
        while self._undo:
            self._undo.pop()()

    def add(self, name: str, took_s: float, cpu_s: float) -> None:
        """Count a span under a name."""
        spans = self.spans.get(name)
        if spans is None:
            spans = self.spans[name] = Spans()
        spans.add(took_s, cpu_s)

    def time(self, target: Any, method: str, name: str) -> None:
        """Time a method of an object until the end."""
        inner = getattr(target, method)

        def timed(*args: Any, **named: Any) -> Any:
            began, cpu = time.perf_counter(), time.thread_time()
            try:
                return inner(*args, **named)
            finally:
                self.add(name, time.perf_counter() - began, time.thread_time() - cpu)

        setattr(target, method, timed)
        self._undo.append(lambda: setattr(target, method, inner))

    def figures(self, longer_than_ms: float = 5.0) -> dict[str, Any]:
        """Return the spans of every name that lasted so long at least once, longest first."""
        long = [one for one in self.spans.items() if 1000 * one[1].longest_s > longer_than_ms]
        long.sort(key=lambda one: -one[1].longest_s)
        return {name: spans.figures() for name, spans in long}

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._collecting = time.perf_counter(), time.thread_time()
            return
        began, cpu = self._collecting
        name = f"garbage of generation {info['generation']}"
        self.add(name, time.perf_counter() - began, time.thread_time() - cpu)


def owner(callback: Any) -> str:
    """Return the owner of a callback: a task's coroutine, a transport's protocol, or its own
    name.
    """
    target = getattr(callback, "__self__", None)
    if isinstance(target, asyncio.Task):
        coroutine = target.get_coro()
        return str(getattr(coroutine, "__qualname__", coroutine))
    protocol = getattr(target, "_protocol", None)
    protocol = getattr(protocol, "_app_protocol", protocol)
    if protocol is not None:
        kind = type(protocol)
        return f"{kind.__module__}.{kind.__qualname__}"
    return str(getattr(callback, "__qualname__", type(callback).__qualname__))
