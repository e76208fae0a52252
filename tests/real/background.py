"""Work beside a block of a test: a watch that follows, a series of samples, a load."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def background(work: Coroutine[Any, Any, None]) -> AsyncIterator["asyncio.Task[None]"]:
    """Run a coroutine beside the block and cancel it at the end; its error ends the block."""
    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(work)
            yield task
            task.cancel()
    except BaseExceptionGroup as errors:
        if len(errors.exceptions) == 1:
            raise errors.exceptions[0] from None
        raise
