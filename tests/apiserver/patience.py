"""Waiting for servers and programs of a test: for a condition, never for a fixed time.

The time limit is far beyond the time that a slow machine needs, so it states nothing about speed.
Between two checks the test yields the processors.
"""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, TypeVar

PATIENCE_S = 120.0
POLL_S = 0.02

Answer = TypeVar("Answer")


async def until(is_so: Callable[[], Any], what: str, timeout_s: float = PATIENCE_S) -> float:
    """Evaluate `is_so` (plain or async) until it is true; return the seconds it took."""
    started = monotonic()
    while True:
        answer = is_so()
        if await answer if asyncio.iscoroutine(answer) else answer:
            return monotonic() - started
        if monotonic() - started > timeout_s:
            raise AssertionError(f"waited {timeout_s:g} s in vain for {what}")
        await pause()


async def asked(
    ask: Callable[[], Awaitable[Answer]], holds: Callable[[Answer], Any], what: str
) -> Answer:
    """Repeat a request until its answer satisfies `holds`, and return the answer; at the time limit
    the error has the last one.
    """
    started = monotonic()
    while not holds(answer := await ask()):
        if monotonic() - started > PATIENCE_S:
            raise AssertionError(f"waited {PATIENCE_S:g} s in vain for {what}; last: {answer}")
        await pause()
    return answer


async def pause(seconds: float = POLL_S) -> None:
    """Sleep shortly between two checks of a program that cannot notify the test."""
    moment = asyncio.Event()
    timer = asyncio.get_running_loop().call_later(seconds, moment.set)
    try:
        await moment.wait()
    finally:
        timer.cancel()
