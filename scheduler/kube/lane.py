"""A `Lane`: work of one kind, carried out in order of arrival, so many at a time.

The executor and the recorder put their work into lanes. A lane owns its tasks: they end when the
work is done, or when the lane is stopped. It drops nothing by itself; what a stop leaves undone is
counted and returned.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import structlog

from scheduler.kube.fence import FencedError

T = TypeVar("T")
_log = structlog.get_logger()


class Lane(Generic[T]):
    """At most `limit` calls of `work` at a time; `wait_room` waits while `room` are queued."""

    def __init__(
        self, name: str, work: Callable[[T], Awaitable[None]], *, limit: int, room: int = 1000
    ) -> None:
        self.name = name
        self._work = work
        self._limit = limit
        self._room = room
        self._queue: deque[T] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._is_stopped = False
        self.in_flight = 0
        self.dropped = 0

    @property
    def queued(self) -> int:
        """How many wait for their turn."""
        return len(self._queue)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing is under way."""
        return self._is_idle.is_set()

    def put(self, item: T) -> bool:
        """Queue work; a stopped lane counts it as dropped, and False says so."""
        if self._is_stopped:
            self.dropped += 1
            return False
        self._queue.append(item)
        self._is_idle.clear()
        if len(self._queue) >= self._room:
            self._has_room.clear()
        if len(self._tasks) < self._limit:
            task = asyncio.create_task(self._run(), name=self.name)
            self._tasks.add(task)
            task.add_done_callback(self._ended)
        return True

    async def wait_room(self) -> None:
        """Wait until fewer than `room` are queued."""
        await self._has_room.wait()

    async def wait_idle(self) -> None:
        """Wait until nothing is queued or under way."""
        await self._is_idle.wait()

    def stop(self) -> int:
        """Begin nothing more and abandon what is under way; return how much was left undone."""
        if self._is_stopped:
            return 0
        self._is_stopped = True
        left = len(self._queue) + self.in_flight
        self.dropped += left
        self._queue.clear()
        self._has_room.set()
        for task in self._tasks:
            task.cancel()
        return left

    def start(self) -> None:
        """Take work again after a stop."""
        self._is_stopped = False

    async def wait_stopped(self) -> None:
        """Wait until the tasks of a stopped lane have ended."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self) -> None:
        while self._queue:
            item = self._queue.popleft()
            if len(self._queue) < self._room:
                self._has_room.set()
            self.in_flight += 1
            try:
                await self._work(item)
            except FencedError:
                self.dropped += 1
            except Exception:  # noqa: BLE001 - one fault must not hold up the others
                _log.exception("work failed", lane=self.name)
            finally:
                self.in_flight -= 1

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not self._tasks and not self._queue:
            self._is_idle.set()
