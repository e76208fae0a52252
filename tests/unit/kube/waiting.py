"""Waiting for a condition, without sleeping: turn the loop until it holds."""

import asyncio
from collections.abc import Callable
from time import monotonic

from tests.apiserver.patience import PATIENCE_S


async def wait_until(condition: Callable[[], object]) -> None:
    """Return when `condition` holds; fail when that takes longer than any machine needs."""
    deadline = monotonic() + PATIENCE_S
    while not condition():
        if monotonic() > deadline:
            raise AssertionError("the condition did not come true")
        await asyncio.sleep(0)
