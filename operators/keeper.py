"""`StatusKeeper`: keeps the status of every object of a kind equal to the calculated one.

kopf reports the objects, `ClusterView` the other inputs; the rules are in pure modules. An object
is written at most once per interval, and only when its status differs. A write names the
resourceVersion it is based on and is repeated after a conflict.
"""

import asyncio
import contextlib
from collections.abc import Hashable
from typing import Any, ClassVar, Generic, TypeVar

import msgspec
import structlog

from operators.api import CONFLICT, NOT_FOUND
from operators.operator import OperatorSurroundings
from scheduler.base.errors import ApiError
from scheduler.objects.kinds import Kind

# 404 may also mean that a server does not have a definition's new subresource yet.
TRIES_NOT_FOUND = 4

Key = tuple[str, str]  # namespace, name
ObjectT = TypeVar("ObjectT")

_log = structlog.get_logger("operators")


class StatusKeeper(Generic[ObjectT]):
    """One run of an operator; its state comes from events and ends with the run.

    A subclass names its kind and the kinds of `ClusterView` that wake it, and calculates the status
    from the object and its other inputs.
    """

    kind: ClassVar[Kind]
    wakes: ClassVar[tuple[str, ...]] = ()

    def __init__(self, around: OperatorSurroundings) -> None:
        self.around = around
        self.objects: dict[Key, ObjectT] = {}
        # The state of an object and its inputs when its status was last found or made correct.
        self._evaluated: dict[Key, tuple[str, Hashable]] = {}
        self._not_found: dict[Key, int] = {}
        self._wake = asyncio.Event()
        self._failures = 0

    # For subclasses.

    async def gather(self) -> None:
        """Read shared inputs once before a round over the objects."""

    def patience_s(self) -> float | None:
        """Return the seconds after which to calculate again without a change; None for never."""
        return None

    async def surroundings(self, _key: Key, _obj: ObjectT) -> Hashable:
        """Return the inputs of the status besides the object; equal inputs give an equal status."""
        return None

    async def patch(self, _key: Key, _obj: ObjectT) -> dict[str, Any]:
        """Return the fields of status to be written, empty when all is right."""
        raise NotImplementedError

    # Methods that the runner calls.

    def seen(self, type_: str | None, raw: dict[str, Any]) -> None:
        """Receive the current version of an object; `type_` DELETED means that it was deleted."""
        meta = raw["metadata"]
        key = (meta["namespace"], meta["name"])
        if type_ == "DELETED":
            self._forget(key)
            self._wake.set()
            return
        try:
            self.objects[key] = msgspec.convert(raw, self.kind.struct)
        except msgspec.ValidationError as error:
            self._forget(key)
            _log.warning(
                "object cannot be read",
                kind=self.kind.kind,
                object="/".join(key),
                error=str(error),
            )
        self._wake.set()

    async def work(self) -> None:
        """Keep the objects until cancelled."""
        stop = self.around.view.changes(self.wakes, self._wake.set)
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self.patience_s()):
                        await self._wake.wait()
                self._wake.clear()
                await self._look()
                # A minimum time between two rounds combines many changes in one write.
                await asyncio.sleep(self._pause_s())
        finally:
            stop()

    def _pause_s(self) -> float:
        settings = self.around.settings
        failures = max(self._failures, *self._not_found.values(), 0)
        doubled = settings.status_interval_s * 2 ** min(failures, 16)
        return float(min(doubled, max(settings.retry_limit_s, settings.status_interval_s)))

    async def _look(self) -> None:
        """Write each status that differs from the calculated one."""
        failed = ""
        await self.gather()
        for key, known in list(self.objects.items()):
            await asyncio.sleep(0)  # with many objects, other tasks run in between
            if self.objects.get(key) is not known:
                continue  # changed meanwhile, therefore enqueued again
            around = await self.surroundings(key, known)
            if self._evaluated.get(key) == (_version(known), around):
                continue
            await asyncio.sleep(0)
            try:
                now = await self._write(key, known)
            except ApiError as error:
                failed = str(error)
                continue
            if now is not None and key in self.objects:
                self._evaluated[key] = (_version(now), around)
        if self._not_found:
            self._wake.set()
        self._settle(failed)

    def _settle(self, failed: str) -> None:
        """Retry soon after a failure; log its beginning and its end, once each."""
        if failed:
            if not self._failures:
                _log.warning("status not written, trying again", kind=self.kind.kind, error=failed)
            self._failures += 1
            self.around.report(failed)
            self._wake.set()
        elif self._failures:
            self._failures = 0
            self.around.report("")
            _log.info("status written again", kind=self.kind.kind)

    async def _write(self, key: Key, obj: ObjectT) -> ObjectT | None:
        """Make the status right and return the object as it is now.

        ApiError requests a retry with a log entry, None one without: an object that is not found is
        usually deleted.
        """
        patch = await self.patch(key, obj)
        if not patch:
            return obj
        # With the version, a write that rests on an old state loses instead of overwriting.
        body = {"metadata": {"resourceVersion": _version(obj)}, "status": patch}
        try:
            written = await self._send(key, body)
        except ApiError as error:
            if error.code == CONFLICT:
                return obj  # its event is in flight and triggers another round
            if error.code != NOT_FOUND:
                raise
            self._not_found[key] = self._not_found.get(key, 0) + 1
            if self._not_found[key] == TRIES_NOT_FOUND:
                # Deleted, or its subresource no longer exists: then the runner restarts this
                # operator.
                self._forget(key)
            return None
        self._not_found.pop(key, None)
        now: ObjectT = msgspec.convert(written, self.kind.struct)
        await asyncio.sleep(0)  # a large object is long in reading
        if await self.patch(key, now):
            _log.debug(
                "the schema drops fields of status", kind=self.kind.kind, object="/".join(key)
            )
        if self.objects.get(key) is obj:
            self.objects[key] = now
        return now

    async def _send(self, key: Key, body: dict[str, Any]) -> dict[str, Any]:
        api, kind = self.around.api.custom, self.kind
        patch = api.patch_namespaced_custom_object_status
        if self.around.legacy:
            patch = api.patch_namespaced_custom_object
        where = kind.group, kind.version, key[0], kind.plural, key[1]
        written: dict[str, Any] = await patch(*where, body)
        return written

    def _forget(self, key: Key) -> None:
        self.objects.pop(key, None)
        self._evaluated.pop(key, None)
        self._not_found.pop(key, None)


def _version(obj: Any) -> str:
    version: str = obj.metadata.resource_version
    return version
