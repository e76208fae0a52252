"""Long work in small steps, so that the loop stays responsive.

A calculation in steps is a pure generator that yields where other tasks may run. A caller without a
deadline runs it `at_once`.
"""

import asyncio
from collections.abc import AsyncIterator, Generator, Iterable
from itertools import islice
from typing import TypeAlias, TypeVar

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]

AT_A_TIME = 2000


async def in_turns(items: Iterable[T], at_a_time: int = AT_A_TIME) -> AsyncIterator[list[T]]:
    """Yield chunks of `items`, which must not change meanwhile: other tasks may run after each."""
    source = iter(items)
    while handful := list(islice(source, at_a_time)):
        yield handful
        await asyncio.sleep(0)


async def step_by_step(steps: Steps[T]) -> T:
    """Return the result of a calculation; other tasks may run after each step."""
    found: list[T] = []
    for _ in _into(found, steps):
        await asyncio.sleep(0)
    return found[0]


def at_once(steps: Steps[T]) -> T:
    """Return the result of a calculation, without pauses."""
    found: list[T] = []
    for _ in _into(found, steps):
        pass
    return found[0]


def _into(found: list[T], steps: Steps[T]) -> Steps[None]:
    """Run the steps; `found` has their result afterwards."""
    found.append((yield from steps))
