"""A sampling profile of this process, for pprof: the stacks of threads while they used the CPU.

`taken` is the content of `/debug/pprof/profile`. A thread samples all stacks a hundred times a
second and weighs each by its thread's CPU time since the last sample; nothing is traced, so the
threads keep their speed. Design 012 gives the reason for this module. The format is profile.proto
of github.com/google/pprof, gzipped.
"""

from __future__ import annotations

import asyncio
import gzip
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType

from scheduler.base.clock import perf_s
from scheduler.base.protobuf import content, number, varint

PERIOD_S = 0.01
SWITCH_S = 0.0001
MOST_FRAMES = 64
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")

# Innermost first: what runs, and the line it is at.
Stack = tuple[tuple[CodeType, int], ...]


async def taken(seconds: float) -> bytes:
    """Sample for `seconds` and return the profile."""
    stop = threading.Event()
    sampling = asyncio.create_task(asyncio.to_thread(_sample, stop, seconds))
    try:
        return encoded(await asyncio.shield(sampling), seconds)
    finally:
        stop.set()
        await asyncio.wait({sampling})


def _sample(stop: threading.Event, seconds: float) -> Counter[Stack]:
    """Return the nanoseconds that threads ran, by stack."""
    found: Counter[Stack] = Counter()
    own, ran = threading.get_ident(), dict(_run_times())
    until = perf_s() + seconds
    usual_s = sys.getswitchinterval()
    # Innermost first: the running function and its current line.
    sys.setswitchinterval(SWITCH_S)
    try:
        _look(stop, until, own, ran, found)
    finally:
        sys.setswitchinterval(usual_s)
    return found


def _look(
    stop: threading.Event, until: float, own: int, ran: dict[int, int], found: Counter[Stack]
) -> None:
    """Count stacks of threads that used CPU until `until` in `found`; `ran` has their CPU times."""
    while perf_s() < until and not stop.wait(PERIOD_S):
        # With the usual 5 ms this thread would run mostly when another one releases the interpreter
        # by itself, and would sample that place.
        frames = sys._current_frames()  # noqa: SLF001 - documented, and there is no other interface
        stacks = {one: _stack(frame) for one, frame in frames.items() if one != own}
        del frames
        for ident, total in _run_times():
            spent, ran[ident] = total - ran.get(ident, total), total
            if spent > 0 and ident in stacks:
                found[stacks[ident]] += spent


def _run_times() -> Iterator[tuple[int, int]]:
    """Yield the threads with their CPU time in nanoseconds, in ticks of mostly 10 ms;
    Linux only.
    """
    for thread in threading.enumerate():
        try:
            text = Path(f"/proc/self/task/{thread.native_id}/stat").read_text()
        except OSError:
            continue  # it has ended since
        # The name is in brackets and may contain any character; user and system time are fields 14
        # and 15.
        fields = text.rpartition(")")[2].split()
        if thread.ident is not None:
            yield thread.ident, (int(fields[11]) + int(fields[12])) * _TICK_NS


def _stack(frame: FrameType | None) -> Stack:
    found: list[tuple[CodeType, int]] = []
    while frame is not None and len(found) < MOST_FRAMES:
        found.append((frame.f_code, frame.f_lineno or 0))
        frame = frame.f_back
    return tuple(found)


def encoded(found: Counter[Stack], seconds: float) -> bytes:
    """Return a profile as pprof reads it: samples of nanoseconds, with functions and lines."""
    strings: dict[str, int] = {"": 0}
    functions: dict[CodeType, int] = {}
    places: dict[tuple[CodeType, int], int] = {}
    body = bytearray()

    def text(word: str) -> int:
        return strings.setdefault(word, len(strings))

    body += _message(1, number(1, text("cpu")), number(2, text("nanoseconds")))
    for stack, spent in found.items():
        places_of = b"".join(varint(places.setdefault(place, len(places) + 1)) for place in stack)
        body += _message(2, content(1, places_of), content(2, varint(spent)))
    for (code, line), place in places.items():
        function = functions.setdefault(code, len(functions) + 1)
        at = _message(4, number(1, function), number(2, line))
        body += _message(4, number(1, place), at)
    for code, function in functions.items():
        name = text(f"{_module(code)}.{code.co_qualname}")
        file = text(code.co_filename)
        body += _message(
            5,
            number(1, function),
            number(2, name),
            number(4, file),
            number(5, code.co_firstlineno),
        )
    period = _message(11, number(1, text("cpu")), number(2, text("nanoseconds")))
    body += b"".join(content(6, word.encode(errors="replace")) for word in strings)
    body += number(10, int(seconds * 1e9)) + period + number(12, int(PERIOD_S * 1e9))
    return gzip.compress(bytes(body), mtime=0)


def _module(code: CodeType) -> str:
    """Return the last two parts of a code object's path, enough to distinguish modules."""
    path = Path(code.co_filename)
    return f"{path.parent.name}.{path.stem}"


def _message(field: int, *parts: bytes) -> bytes:
    return content(field, b"".join(parts))
