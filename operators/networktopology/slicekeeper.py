"""`SliceKeeper`: keeps the NetworkTopologySlices of all topologies up to date.

Writes a slice only when its content changes, deletes unused slices, and keeps slices of users
(slices without a NetworkTopology as controller). The existing slices are those of the scheduler's
store, which may lack recent writes; these count as written.
"""

from collections.abc import Awaitable, Mapping

import msgspec
import structlog

from operators.api import CONFLICT, NOT_FOUND, Json
from operators.keeper import Key
from operators.networktopology.slices import is_same
from operators.operator import OperatorSurroundings
from scheduler.base.errors import ApiError
from scheduler.objects.kinds import BY_KIND
from scheduler.objects.network import NetworkTopologySlice

SLICE = BY_KIND["NetworkTopologySlice"]
SETTLE_S = 5.0

_log = structlog.get_logger("operators.networktopology")

Slices = Mapping[str, NetworkTopologySlice]


class SliceKeeper:
    """The slices of this cluster."""

    def __init__(self, around: OperatorSurroundings) -> None:
        self._around = around
        self._api = around.api.custom
        # The last write per slice (None for a deletion), and its time.
        self._written: dict[Key, tuple[NetworkTopologySlice | None, float]] = {}
        self._is_absent = False

    @property
    def is_settling(self) -> bool:
        """Return whether the store may not show the last write yet."""
        return bool(self._written)

    def published(self, topology: Key) -> list[NetworkTopologySlice]:
        """Return a topology's slices that this operator wrote."""
        return [part for key, part in self._known().items() if (key[0], part.topology) == topology]

    async def keep(self, wanted: Mapping[Key, Slices | None]) -> str:
        """Write the differences; return the error, '' without one.

        `wanted` has the slices of each topology by name; None keeps its existing slices. Slices of
        topologies that are not listed are deleted.
        """
        known = self._known()
        errors = []
        for topology, slices in wanted.items():
            for name, part in (slices or {}).items():
                key = (topology[0], name)
                before = known.get(key)
                if before is None or not is_same(before, part):
                    errors.append(await self._put(key, part, is_new=before is None))
        kept = {topology for topology, slices in wanted.items() if slices is None}
        needed = {(ns, name) for (ns, _), slices in wanted.items() for name in slices or ()}
        for key, part in known.items():
            if key not in needed and (key[0], part.topology) not in kept:
                errors.append(await self._delete(key))
        return next(filter(None, errors), "")

    def _known(self) -> dict[Key, NetworkTopologySlice]:
        lately = self._around.clock.now() - SETTLE_S
        self._written = {key: one for key, one in self._written.items() if one[1] > lately}
        found: dict[Key, NetworkTopologySlice] = {
            (part.metadata.namespace, part.metadata.name): part
            for part in self._around.view.objects(SLICE.kind).values()
            if _is_ours(part)
        }
        for key, (written, _) in self._written.items():
            if written is not None:
                found[key] = written
            else:
                found.pop(key, None)
        return found

    async def _put(self, key: Key, part: NetworkTopologySlice, *, is_new: bool) -> str:
        fields: Json = msgspec.to_builtins(part)
        fields |= {"apiVersion": SLICE.api_version, "kind": SLICE.kind}
        if is_new:
            create = self._api.create_namespaced_custom_object
            error = await self._tried(create(*_where(key)[:-1], fields), is_new=True)
        else:
            patch = self._api.patch_namespaced_custom_object
            error = await self._tried(patch(*_where(key), fields))
        if not error:
            self._written[key] = (part, self._around.clock.now())
        return error

    async def _delete(self, key: Key) -> str:
        error = await self._tried(self._api.delete_namespaced_custom_object(*_where(key)))
        if not error:
            self._written[key] = (None, self._around.clock.now())
        return error

    async def _tried(self, request: Awaitable[object], *, is_new: bool = False) -> str:
        """Send a request; the next comparison finds changes by other clients."""
        try:
            await request
        except ApiError as error:
            if error.code == NOT_FOUND and is_new:
                if not self._is_absent:
                    _log.info("costs between nodes are not written: their kind is not served")
                self._is_absent = True
            elif error.code not in (NOT_FOUND, CONFLICT):
                return str(error)
        else:
            self._is_absent = False
        return ""


def _where(key: Key) -> tuple[str, str, str, str, str]:
    return SLICE.group, SLICE.version, key[0], SLICE.plural, key[1]


def _is_ours(part: NetworkTopologySlice) -> bool:
    return any(
        owner.controller and owner.kind == "NetworkTopology"
        for owner in part.metadata.owner_references
    )
