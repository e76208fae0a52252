"""`in_turns`: go over many things without holding the loop, for whoever has to look at all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

AT_A_TIME = 2000


async def in_turns(items: Iterable[T], at_a_time: int = AT_A_TIME) -> AsyncIterator[list[T]]:
    """Yield handfuls; others may run after each, so `items` must not be what they change."""
    source = iter(items)
    while handful := list(islice(source, at_a_time)):
        yield handful
        await asyncio.sleep(0)
