"""Waiting for a condition, without sleeping: turn the loop until it holds."""

import asyncio
from collections.abc import Callable
from time import monotonic

PATIENCE_S = 10.0


async def wait_until(condition: Callable[[], object]) -> None:
    """Return when `condition` holds; fail after ten seconds."""
    deadline = monotonic() + PATIENCE_S
    while not condition():
        if monotonic() > deadline:
            raise AssertionError("the condition did not come true")
        await asyncio.sleep(0)
