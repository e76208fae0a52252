"""A `WriteQueue`: work of one kind in order of arrival, with a limit on concurrent calls.

The executor and the recorder put their work into write queues. Owners take turns: a thousand items
of one owner do not delay the first item of another. A queue owns its tasks: they end when the work
is done, or when the queue is stopped. Work that waits for a retry is `aside` and does not count
against the limit. A queue drops work only when it is stopped, and returns the number of items.
"""

import asyncio
import sys
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

import structlog

from scheduler.kube.connection.limits import RateLimit
from scheduler.kube.writing.fence import FencedError

T = TypeVar("T")
_log = structlog.get_logger()


class FairQueue(Generic[T]):
    """Items by owner: each owner's in order of arrival, the owners in turn, one item at a time."""

    def __init__(self) -> None:
        self._lines: OrderedDict[str, deque[T]] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def of(self, whose: str) -> int:
        """Return how many items an owner has here."""
        line = self._lines.get(whose)
        return 0 if line is None else len(line)

    def put(self, item: T, whose: str) -> None:
        """Add an item at the end of its owner's line."""
        line = self._lines.get(whose)
        if line is None:
            line = self._lines[whose] = deque()
        line.append(item)
        self._size += 1

    def take(self) -> T:
        """Remove and return the next item (one must exist); its owner's next turn comes last."""
        whose, line = next(iter(self._lines.items()))
        item = line.popleft()
        self._size -= 1
        if line:
            self._lines.move_to_end(whose)
        else:
            del self._lines[whose]
        return item

    def clear(self) -> None:
        """Drop all items."""
        self._lines.clear()
        self._size = 0


class WriteQueue(Generic[T]):
    """Runs at most `limit` calls of `work` at a time.

    `wait_capacity` waits while `capacity` or more items are queued, never if it is None. A `pace`
    limits the number of calls started per second.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[T], Awaitable[None]],
        *,
        limit: int,
        capacity: int | None = 1000,
        pace: RateLimit | None = None,
    ) -> None:
        self.name = name
        self._work = work
        self._limit = limit
        self._capacity = sys.maxsize if capacity is None else capacity
        self._pace = pace
        self._queue: FairQueue[T] = FairQueue()
        # In start order: tasks end, and answer, in this order when the queue is stopped.
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._has_capacity = asyncio.Event()
        self._has_capacity.set()
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._is_stopped = False
        self._returning: deque[asyncio.Future[None]] = deque()
        self.in_flight = 0
        self.aside = 0
        self.dropped = 0

    @property
    def queued(self) -> int:
        """Return the number of waiting items."""
        return len(self._queue)

    @property
    def is_idle(self) -> bool:
        """Return whether no item is waiting or in flight."""
        return self._is_idle.is_set()

    def queued_of(self, whose: str) -> int:
        """Return the number of waiting items of an owner."""
        return self._queue.of(whose)

    def put(self, item: T, whose: str = "") -> bool:
        """Queue work; return False if the queue is stopped, which counts it as dropped."""
        if self._is_stopped:
            self.dropped += 1
            return False
        self._queue.put(item, whose)
        self._is_idle.clear()
        self._check_capacity()
        self._begin()
        return True

    async def wait_capacity(self) -> None:
        """Wait until fewer than `capacity` are queued."""
        await self._has_capacity.wait()

    async def wait_idle(self) -> None:
        """Wait until no item is queued or in flight."""
        await self._is_idle.wait()

    def stop(self) -> int:
        """Start no further item, cancel those in flight; return the number of unfinished items."""
        if self._is_stopped:
            return 0
        self._is_stopped = True
        left = len(self._queue) + self.in_flight + self.aside
        self.dropped += left
        self._queue.clear()
        self._returning.clear()
        self._has_capacity.set()
        for task in self._tasks:
            task.cancel()
        return left

    def start(self) -> None:
        """Accept work again after a stop."""
        self._is_stopped = False

    async def wait_stopped(self) -> None:
        """Wait until the tasks of a stopped queue have ended."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @asynccontextmanager
    async def stepping_aside(self) -> AsyncGenerator[None, None]:
        """Free the current task's slot inside the block, and wait for a slot at its end."""
        self.in_flight -= 1
        self.aside += 1
        self._pass_on()
        place: asyncio.Future[None] | None = None
        try:
            yield
            if self.in_flight >= self._limit:
                place = asyncio.get_running_loop().create_future()
                self._returning.append(place)
                await place
        finally:
            # The task that released its place has counted this one already.
            if place is None or not place.done() or place.cancelled():
                self._count_in()

    def _count_in(self) -> None:
        self.in_flight += 1
        self.aside -= 1
        self._check_capacity()

    def _begin(self) -> None:
        """Start another task if a place is free and not reserved."""
        if len(self._tasks) - self.aside < self._limit and self._queue:
            task = asyncio.create_task(self._run(), name=self.name)
            self._tasks[task] = None
            task.add_done_callback(self._ended)

    def _pass_on(self) -> None:
        """Give a free slot to a task that returns from `aside`, else to a new task."""
        while self._returning and self.in_flight < self._limit:
            place = self._returning.popleft()
            if not place.done():
                place.set_result(None)
                self._count_in()
                return
        self._begin()

    def _check_capacity(self) -> None:
        # A task that released its place is unfinished work: otherwise a busy server would fill the
        # memory.
        if len(self._queue) + self.aside < self._capacity:
            self._has_capacity.set()
        else:
            self._has_capacity.clear()

    async def _run(self) -> None:
        _current.set(self)
        while self._queue and not self._must_make_way():
            if self._pace is not None:
                await self._pace.wait()
                if not self._queue:
                    break  # another was at its end before us
            item = self._queue.take()
            self._check_capacity()
            self.in_flight += 1
            try:
                await self._work(item)
            except FencedError:
                self.dropped += 1
            except Exception:  # noqa: BLE001 - one fault must not stop the others
                _log.exception("work failed", write_queue=self.name)
            finally:
                self.in_flight -= 1

    def _must_make_way(self) -> bool:
        """Return whether a task that stepped aside waits for the place of the calling task."""
        return any(not place.done() for place in self._returning)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        self._pass_on()
        if not self._tasks and not self._queue:
            self._is_idle.set()


_current: ContextVar[WriteQueue[Any] | None] = ContextVar("write_queue", default=None)


@asynccontextmanager
async def aside() -> AsyncGenerator[None, None]:
    """Release the caller's place in the write queue, if it has one, while the block runs."""
    write_queue = _current.get()
    if write_queue is None:
        yield
        return
    async with write_queue.stepping_aside():
        yield
