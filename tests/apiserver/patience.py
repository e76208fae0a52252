"""Waiting for servers and programs beside a test: for a condition, never for time to pass.

The limit is there for what never comes: it is far beyond what a slow machine needs, and says
nothing about how fast something is. Between two looks the processors are left to what is waited
for.
"""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, TypeVar

PATIENCE_S = 120.0
POLL_S = 0.02

Answer = TypeVar("Answer")


async def until(is_so: Callable[[], Any], what: str, timeout_s: float = PATIENCE_S) -> float:
    """Ask `is_so` (plain or async) until it is true; return the seconds it took."""
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
    """Ask until an answer is as wanted and return it; the last one is told when none is."""
    started = monotonic()
    while not holds(answer := await ask()):
        if monotonic() - started > PATIENCE_S:
            raise AssertionError(f"waited {PATIENCE_S:g} s in vain for {what}; last: {answer}")
        await pause()
    return answer


async def pause(seconds: float = POLL_S) -> None:
    """Let others run for a moment between two looks at something that cannot call us."""
    moment = asyncio.Event()
    timer = asyncio.get_running_loop().call_later(seconds, moment.set)
    try:
        await moment.wait()
    finally:
        timer.cancel()
