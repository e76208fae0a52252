"""Sends a watch over its connection: when to send, bookmarks, the time limit.

The data comes from `watching.Stream`. A change wakes the watcher once; it sends in the loop's next
turn, so that all writes of this turn are sent together. While a client reads too slowly nothing is
sent, and one that falls behind the stored history gets a 410 in its stream.
"""

import asyncio
import random
from typing import Final

from scheduler.sandbox.api.http import HttpConnection
from scheduler.sandbox.api.request import ResourceRequest
from scheduler.sandbox.api.watching import WatchStream
from scheduler.sandbox.store.store import ObjectStore

_LIMIT_S: Final = (1800.0, 3600.0)
# Spreads the ends of long watches, so that clients do not reconnect all at once.
_spread: Final = random.Random()  # noqa: S311


class Watcher:
    """One running watch."""

    def __init__(
        self,
        store: ObjectStore,
        call: ResourceRequest,
        connection: HttpConnection,
        bookmark_s: float,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._connection = connection
        self._bookmark_s = bookmark_s
        self._limit_s = call.number("timeoutSeconds") or _spread.uniform(*_LIMIT_S)
        self._stream = WatchStream(store, call, self._wake)
        self._is_woken = False
        self._is_over = False
        self._timers: list[asyncio.TimerHandle] = []

    def start(self) -> None:
        """Send the initial objects and follow the changes."""
        connection = self._connection
        connection.on_lost = self._release
        connection.on_writable = self._wake
        connection.begin_stream()
        connection.send_chunk(self._stream.first())
        if self._stream.ended:
            self._end()
            return
        self._timers = [self._loop.call_later(self._limit_s, self._end)]
        if self._stream.wants_bookmarks:
            self._timers.append(self._loop.call_later(self._bookmark_s, self._mark))

    def _wake(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon(self._send)

    def _send(self) -> None:
        self._is_woken = False
        if self._is_over or self._connection.is_paused:
            return
        self._connection.send_chunk(self._stream.next())
        if self._stream.ended:
            self._end()

    def _mark(self) -> None:
        if not self._connection.is_paused:
            self._connection.send_chunk(self._stream.next() + self._stream.bookmark())
        self._timers[1] = self._loop.call_later(self._bookmark_s, self._mark)

    def _end(self) -> None:
        if not self._is_over:
            self._release()
            self._connection.end_stream()

    def _release(self) -> None:
        self._is_over = True
        for timer in self._timers:
            timer.cancel()
        self._stream.close()
