"""A daemon that counts the processor time of its page and of its decision log, and that can do
without both.

    python -m tests.perf.accounted FILE run --config=… --decision-log=…

runs `trellis run …` and writes to FILE, as `read` returns it, the seconds of page and log in the
loop and in threads. On a busy machine the throughput of two daemons differs by more than the cost
of both; the share of one daemon's own time does not. Not counted is their indirect cost by
displaced memory and garbage collection. For that, `switch` makes a running daemon stop both and
start them again: unlike two daemons, it is equal in all else. A log with gaps cannot be replayed,
and a page that is not drawn plans nothing.
"""

from __future__ import annotations

import functools
import itertools
import mmap
import struct
import sys
import threading
import types
from collections.abc import Callable, Coroutine, Generator
from pathlib import Path
from time import thread_time
from typing import Any

from scheduler.cli.main import run as trellis
from scheduler.daemon import answering, page
from scheduler.daemon.records import decisionfile
from scheduler.serve import feed, pageroutes

PARTS = struct.Struct("dd")
SWITCH = PARTS.size
SLOT = {"page": 0, "log": 1}
ONE_IN = 17
_taken = [0.0, 0.0]
_shared: list[mmap.mmap] = []
# Threads count, too; time within another measured part is not counted twice.
_lock = threading.Lock()
_inside = threading.local()


def _count(part: str, call: Callable[[], Any]) -> Any:
    if getattr(_inside, "part", ""):
        return call()
    _inside.part = part
    began = thread_time()
    try:
        return call()
    finally:
        took = thread_time() - began
        _inside.part = ""
        with _lock:
            _taken[SLOT[part]] += took
            PARTS.pack_into(_shared[0], 0, *_taken)


def read(file: Path) -> dict[str, float]:
    """Return the seconds of each part so far."""
    return dict(zip(SLOT, PARTS.unpack_from(file.read_bytes()), strict=True))


def switch(file: Path, *, on: bool) -> None:
    """Have the daemon draw its page and write its log from now on, or not."""
    with file.open("r+b") as shared:
        shared.seek(SWITCH)
        shared.write(bytes([on]))


def switched(owner: Any, name: str) -> None:
    """Make a function do nothing while both are switched off."""
    whole = getattr(owner, name)

    def call(*args: Any) -> Any:
        return whole(*args) if _shared[0][SWITCH] else 0

    setattr(owner, name, call)


def counted(owner: Any, name: str, part: str) -> None:
    """Wrap a function so that its CPU time is counted for `part`."""
    whole = getattr(owner, name)

    @functools.wraps(whole)
    def call(*args: Any, **named: Any) -> Any:
        return _count(part, lambda: whole(*args, **named))

    setattr(owner, name, call)


def draws_switched(owner: Any, name: str) -> None:
    """Make a coroutine that returns seconds do nothing while both are switched off.

    It returns its last result, because the pace of drawing depends on it.
    """
    whole, last = getattr(owner, name), [0.0]

    async def call(*args: Any) -> Any:
        if _shared[0][SWITCH]:
            last[0] = await whole(*args)
        return last[0]

    setattr(owner, name, call)


def often_counted(owner: Any, name: str, part: str) -> None:
    """Measure a short function that the loop calls often: one call in `ONE_IN`, for all.

    Reading the clock takes a good part of such a call's time, and is subtracted.
    """
    whole = getattr(owner, name)
    slot, calls = SLOT[part], itertools.count(1)

    def call(*arguments: Any) -> Any:
        if next(calls) % ONE_IN:
            return whole(*arguments)
        began = thread_time()
        result = whole(*arguments)
        ended = thread_time()
        _taken[slot] += (ended - began - (thread_time() - ended)) * ONE_IN
        return result

    setattr(owner, name, call)


def steps_counted(owner: Any, name: str, part: str) -> None:
    """Have a coroutine count for a part while it runs, and not while it waits."""
    whole = getattr(owner, name)

    @types.coroutine
    def driven(inner: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
        step: Callable[[], Any] = functools.partial(inner.send, None)
        while True:
            try:
                awaited = _count(part, step)
            except StopIteration as ended:
                return ended.value
            try:
                sent = yield awaited
            except BaseException as error:  # noqa: BLE001 - it is the coroutine's to handle
                step = functools.partial(inner.throw, error)
            else:
                step = functools.partial(inner.send, sent)

    @functools.wraps(whole)
    async def call(*args: Any, **named: Any) -> Any:
        return await driven(whole(*args, **named))

    setattr(owner, name, call)


def _in_thread(module: Any, part: str) -> None:
    """Measure the work that a module passes to threads."""
    whole = module.asyncio.to_thread

    async def to_thread(call: Callable[..., Any], *args: Any, **named: Any) -> Any:
        return await whole(lambda: _count(part, lambda: call(*args, **named)))

    own = types.SimpleNamespace(**vars(module.asyncio))
    own.to_thread = to_thread
    module.asyncio = own


def main(words: list[str]) -> int:
    """Count, and run the daemon."""
    file = Path(words[0])
    file.write_bytes(bytes(SWITCH) + b"\x01")
    with file.open("r+b") as shared:
        _shared.append(mmap.mmap(shared.fileno(), SWITCH + 1))
    for module, part in ((page, "page"), (answering, "page"), (decisionfile, "log")):
        _in_thread(module, part)
    often_counted(decisionfile.DecisionFile, "arrive", "log")
    counted(decisionfile.DecisionFile, "record", "log")
    counted(feed.PageFeed, "publish", "page")
    counted(feed.PageFeed, "whole", "page")
    switched(decisionfile.DecisionFile, "arrive")
    switched(decisionfile.DecisionFile, "record")
    for owner, name in (
        (page.DaemonPage, "show"),
        (page._View, "draw"),
        (answering.AnswerPool, "answer"),
        (pageroutes, "_hand_on"),
        (decisionfile.DecisionFile, "_write"),
    ):
        steps_counted(owner, name, "page" if owner is not decisionfile.DecisionFile else "log")
    draws_switched(page._View, "draw")
    return trellis(words[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
