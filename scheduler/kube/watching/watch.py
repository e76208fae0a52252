"""Step 1 of a pod's path: report all objects of a kind to the engine.

A `Reflector` lists its kind in pages, emits the list as one `Listed`, then watches from that
resource version and emits one `Watched` per change. When the server no longer has the resource
version (410 Gone), it emits `Behind` and lists again. Invariant: applying its events in order
yields exactly the server's objects, regardless of lost connections. It never touches state and runs
until it is cancelled.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from enum import Enum
from random import Random
from typing import Any

import msgspec
import structlog

from scheduler.base.clock import perf_s
from scheduler.base.meters import Meters
from scheduler.engine.effects import Behind, CaughtUp, Event, Listed, Watched
from scheduler.kube.api import Api, Response, ResponseStream
from scheduler.kube.connection.backoff import RetryBackoff
from scheduler.kube.watching.collection import Collection
from scheduler.kube.watching.decode import Bookmark, DecodedPage, DecodeFault, Decoder, GarbageError
from scheduler.objects.kinds import Kind

_log = structlog.get_logger()
# A watch that lasted this long was successful, whatever it brought; a shorter one was refused.
HEALTHY_S = 10.0
SHORT_S = 1.0
# A busy watch proves within this time that it is current. A quiet one cannot, because the server's
# version counts the changes of all kinds: its kind is listed again.
CATCH_UP_S = 0.5
MAX_LINE_BYTES = 64 * 1024 * 1024
_KEPT_FAULTS = 1000
_GROWS = {"ADDED": 1, "DELETED": -1}


class WatchSettings(msgspec.Struct, frozen=True):
    """Settings of lists and watches; times in seconds.

    A watch without a byte for `silence_s` counts as dead: API servers send bookmarks about once a
    minute, and restarting from the last version costs one request.
    """

    page_limit: int = 500
    watch_shortest_s: float = 300.0
    watch_longest_s: float = 600.0
    silence_s: float = 150.0
    look_again_s: float = 30.0
    first_delay_s: float = 0.5
    longest_delay_s: float = 30.0


class _End(Enum):
    """The reason why a watch ended; the value is the label in metrics."""

    CLOSED = "closed"
    EXPIRED = "expired"
    SILENT = "silent"
    ERROR = "error"
    GARBAGE = "decode"


class Reflector:
    """Lists and watches one kind and emits its changes as events.

    `others_listed` returns when all required kinds have been listed; without it they count as
    listed.
    """

    def __init__(
        self,
        kind: Kind,
        api: Api,
        emit: Callable[[Event], None],
        *,
        random: Random,
        meters: Meters,
        settings: WatchSettings | None = None,
        keep: Callable[[bytes], None] | None = None,
        others_listed: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.kind = kind
        self.was_listed = asyncio.Event()
        self._others_listed = others_listed
        self._emit = emit
        self._random = random
        self._meters = meters
        self._settings = settings or WatchSettings()
        self._decoder = Decoder(kind, self._note_fault, keep)
        self._collection = Collection(kind, api, self._decoder, self._settings.page_limit)
        self._wanted = asyncio.Event()
        self._moved = asyncio.Event()
        self._is_watching = False
        self._backoff = self._new_backoff()
        self._version = ""
        self._garbage_at: str | None = None
        self._is_offered: bool | None = None
        self._is_denied = False
        self._unreadable: dict[str, DecodeFault] = {}
        self._lists = 0
        self._count = 0
        self._synced = meters.watch_synced.labels(kind.kind)
        self._seen = {
            verb: meters.watch_events.labels(kind.kind, verb)
            for verb in ("ADDED", "MODIFIED", "DELETED")
        }

    @property
    def is_synced(self) -> bool:
        """Return whether the engine has received all objects, or the server does not serve this
        kind.
        """
        return self._lists > 0 or self._is_offered is False

    @property
    def is_missing(self) -> bool:
        """Return whether the server does not serve the kind, by the last list."""
        return self._is_offered is False

    @property
    def is_denied(self) -> bool:
        """Return whether this process may not list the kind, by the last list."""
        return self.is_missing and self._is_denied

    def look_again(self) -> None:
        """Retry a kind at once that the server did not serve before."""
        self._wanted.set()

    async def run(self) -> None:
        """List and watch until cancelled."""
        try:
            while True:
                if await self._list():
                    self._synced.set(1)
                    self._is_watching = True
                    await self._follow()
                    self._is_watching = False
                else:
                    await self._wait_until_offered()
                self._synced.set(0)
        finally:
            self._is_watching = False
            self._synced.set(0)

    def doubt(self) -> None:
        """Block decisions until `catch_up`, or a new list, has ended."""
        if self._lists and self.kind.required:
            self._emit(Behind(self.kind.kind))

    async def catch_up(self) -> bool:
        """Read the watch until every change known to the server at the time of the call is emitted.

        Return False if that does not happen soon, or if one page lists the kind, which takes no
        longer than reading the server's version: then another call of `run` must list it again.
        """
        if not self._is_watching:
            # A kind that is not offered is polled on its own.
            return self._is_offered is False
        if self._count <= self._settings.page_limit:
            return False
        try:
            async with asyncio.timeout(CATCH_UP_S):
                newest = await self._collection.newest_version()
                while newest is None or not _is_reached(newest, self._version):
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError:
            return False
        return self._has_caught_up()

    def _has_caught_up(self) -> bool:
        """Emit that the kind is caught up, unless the watch has ended meanwhile."""
        if self._is_watching and self.kind.required:
            self._emit(CaughtUp(self.kind.kind))
        return self._is_watching

    async def _list(self) -> bool:
        """List all objects and emit them; return False if the server does not serve the kind."""
        started = perf_s()
        self.doubt()
        objects: list[Any] = []
        token = ""
        backoff = self._new_backoff()
        while True:
            page = await self._collection.page(token)
            if isinstance(page, DecodedPage):
                objects += page.objects
                token = page.continue_token
                if not token:
                    break
                await asyncio.sleep(0)
            elif await self._is_missing(page):
                return False
            else:
                # The pages read so far belong to a list whose continuation has expired.
                objects, token = [], ""
                await self._pause("list", page, backoff)
        self._version = page.resource_version
        self._is_offered = True
        self._lists += 1
        self._count = len(objects)
        self.was_listed.set()
        self._meters.watch_list_duration.labels(self.kind.kind).observe(perf_s() - started)
        self._emit(Listed(self.kind.kind, tuple(objects)))
        return True

    async def _is_missing(self, why: Response) -> bool:
        """Return whether a list failed because the server does not serve the kind, or not to this
        user.

        A single 404 is no proof, because it would drop all objects of the kind: required kinds are
        always served, and for the others discovery must confirm it.
        """
        if self.kind.required or why.code not in (403, 404):
            return False
        if self._is_offered is False:
            return True
        if why.code == 403 and not (self._lists == 0 and await self._stays_denied()):
            return False
        is_offered = await self._collection.is_offered()
        # Rights are checked first: an unavailable kind is forbidden as well.
        self._is_denied = why.code == 403 and is_offered is not False
        return self._is_denied or is_offered is False

    async def _stays_denied(self) -> bool:
        """Return whether a list is still forbidden although all required kinds could be listed.

        A server that rejects all requests, as during its start, does not deny this kind in
        particular.
        """
        if self._others_listed is not None:
            await self._others_listed()
        again = await self._collection.page("")
        return isinstance(again, Response) and again.code == 403

    async def _follow(self) -> None:
        """Watch, and resume after each end, until a new list is needed."""
        listed_at = self._version
        while True:
            end, why = await self._watch()
            self._meters.watch_restarts.labels(self.kind.kind, end.value).inc()
            # A server that expires at once the version that it has just listed must not be called
            # in a tight loop.
            is_expected = end is _End.EXPIRED and self._version != listed_at
            if why is not None and not is_expected:
                await self._pause("watch", why, self._backoff)
            if end is _End.EXPIRED or (why is not None and not why.is_transient):
                return
            if end is _End.SILENT and await self._collection.is_behind(self._version):
                return
            if end is _End.GARBAGE:
                if self._garbage_at == self._version:
                    # The same position twice: the connection is not the cause, and only a list gets
                    # past it.
                    self._garbage_at = None
                    return
                self._garbage_at = self._version

    async def _watch(self) -> tuple[_End, Response | None]:
        """Watch once, from the last version; return the reason of its end, and the error of a
        failure.
        """
        clock = asyncio.get_running_loop().time
        opened_at = clock()
        async with self._open() as got:
            if not got.head.ok:
                return _failed(got.head), got.head
            failure: Response | None = None
            try:
                failure = await self._read(got)
            except GarbageError as error:
                return _End.GARBAGE, Response(0, reason="Garbage", message=str(error))
            except TimeoutError:
                return _End.SILENT, None
            except OSError as error:
                return _End.ERROR, Response(0, reason="Disconnected", message=str(error))
            finally:
                if clock() - opened_at >= HEALTHY_S:
                    self._backoff.reset()
        if failure is not None:
            return _failed(failure), failure
        if self._backoff.failures or clock() - opened_at < SHORT_S:
            # It ended at once without an event: the server is stopping or starting.
            return _End.CLOSED, Response(0, reason="Closed", message="closed at once")
        return _End.CLOSED, None

    def _open(self) -> AbstractAsyncContextManager[ResponseStream]:
        low, high = self._settings.watch_shortest_s, self._settings.watch_longest_s
        seconds = int(low + (high - low) * self._random.random())
        return self._collection.watch(self._version, seconds, self._settings.silence_s)

    async def _read(self, stream: ResponseStream) -> Response | None:
        """Read until the stream ends; return the server's error, if any."""
        pending: list[bytes] = []
        size = 0
        while data := await stream.read():
            head, found, tail = data.rpartition(b"\n")
            if not found:
                pending.append(data)
                size += len(data)
                if size > MAX_LINE_BYTES:
                    raise GarbageError("a line of a watch does not end")
                continue
            pending.append(head)
            failure = self._take(b"".join(pending))
            if failure is not None:
                return failure
            pending, size = [tail] if tail else [], len(tail)
            # A fast server keeps the buffer full; other tasks run between two pieces.
            await asyncio.sleep(0)
        return None

    def _take(self, data: bytes) -> Response | None:
        """Emit the changes of whole lines together."""
        for line in data.split(b"\n"):
            if not line:
                continue
            found = self._decoder.line(line)
            if isinstance(found, Response):
                return found
            if isinstance(found, Watched):
                self._seen[found.verb].inc()
                self._count += _GROWS.get(found.verb, 0)
                self._emit(found)
                version = found.object.metadata.resource_version
            else:
                assert isinstance(found, Bookmark)  # noqa: S101 - for the type checker
                version = found.resource_version
            if version:
                self._version = version
        self._moved.set()
        self._backoff.reset()
        return None

    async def _wait_until_offered(self) -> None:
        if self._is_offered is not False:
            if self._is_denied:
                _log.info("kind may not be listed", kind=self.kind.kind, right=self._right())
            else:
                _log.info("kind is not offered by the API server", kind=self.kind.kind)
            self._is_offered = False
            self._version = ""
            self._emit(Listed(self.kind.kind, is_denied=self._is_denied))
        self._wanted.clear()
        delay = self._settings.look_again_s * (0.9 + self._random.random() / 5)
        try:
            async with asyncio.timeout(delay):
                await self._wanted.wait()
        except TimeoutError:
            return

    def _right(self) -> str:
        return f"list, watch {self.kind.resource}"

    async def _pause(self, action: str, why: Response, backoff: RetryBackoff) -> None:
        delay = backoff.next_s(why.retry_after_s)
        _log.warning(
            f"cannot {action}",
            kind=self.kind.kind,
            code=why.code,
            reason=why.reason,
            message=why.message,
            again_in_s=round(delay, 1),
        )
        await asyncio.sleep(delay)

    def _new_backoff(self) -> RetryBackoff:
        settings = self._settings
        return RetryBackoff(
            self._random, first_s=settings.first_delay_s, longest_s=settings.longest_delay_s
        )

    def _note_fault(self, fault: DecodeFault) -> None:
        self._meters.watch_decode_errors.labels(self.kind.kind).inc()
        if self._unreadable.get(fault.key) == fault:
            return
        if len(self._unreadable) < _KEPT_FAULTS:
            self._unreadable[fault.key] = fault
        _log.error("object left out", kind=fault.kind, object=fault.key, error=fault.message)


def _is_reached(newest: str, version: str) -> bool:
    return newest.isdecimal() and version.isdecimal() and int(version) >= int(newest)


def _failed(response: Response) -> _End:
    # A server that was restored from a backup is behind the known version: it would never catch up.
    is_ahead = response.code == 504 and "Too large resource version" in response.message
    return _End.EXPIRED if is_ahead or response.code == 410 else _End.ERROR
