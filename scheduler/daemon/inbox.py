"""`Inbox`: events on their way to the engine, in order of arrival.

Watches, answers and the election put events in; the loop alone takes them out.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from scheduler.engine.effects import Complete, Event, Listed, Watched
from scheduler.engine.intake import identity

LONGEST_LIST = 256
# An event, and the size of its text where the turns are recorded, else 0.
Arrived = tuple[Event, int]


class Inbox:
    """A queue of events that a coroutine can wait for; `note` keeps the text of each and returns
    its size.
    """

    def __init__(self, note: Callable[[Event], int] | None = None) -> None:
        self._note = note
        self._events: deque[Arrived] = deque()
        self._arrived = asyncio.Event()

    def __len__(self) -> int:
        return len(self._events)

    def put(self, event: Event) -> None:
        """Add an event and wake the loop; a long list is taken apart, to fit into many turns."""
        if isinstance(event, Listed) and len(event.objects) > LONGEST_LIST:
            for obj in event.objects:
                self._append(Watched(event.kind, "MODIFIED", obj))
            event = Complete(event.kind, tuple(map(identity, event.objects)))
        self._append(event)
        self._arrived.set()

    def _append(self, event: Event) -> None:
        self._events.append((event, self._note(event) if self._note else 0))

    def take(self, most: int) -> list[Arrived]:
        """Return up to `most` events."""
        return [self._events.popleft() for _ in range(min(most, len(self._events)))]

    async def wait(self, timeout_s: float | None) -> None:
        """Wait until an event arrives or the timeout expires; None waits without a limit."""
        if self._events:
            return
        self._arrived.clear()
        try:
            async with asyncio.timeout(timeout_s):
                await self._arrived.wait()
        except TimeoutError:
            return
