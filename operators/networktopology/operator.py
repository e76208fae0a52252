"""Keep `status` of every NetworkTopology in step with its spec and with the nodes.

kopf tells of the objects, `ClusterView` of the nodes; the rules are in `status`. However fast nodes
come and go, an object is written at most once per interval, and only when something differs.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import structlog

from operators.networktopology.status import Observed, merge_patch, status_of
from operators.operator import Recipe, Surroundings
from scheduler.base.clock import rfc3339
from scheduler.base.errors import ApiError
from scheduler.objects.kinds import Kind
from scheduler.objects.network import NetworkTopology

NETWORK_TOPOLOGY = Kind(
    "NetworkTopology",
    "networktopology.diktyo.x-k8s.io",
    "v1alpha1",
    "networktopologies",
    NetworkTopology,
    required=False,
)
NOT_FOUND, CONFLICT = 404, 409

Key = tuple[str, str]  # namespace, name

_log = structlog.get_logger("operators.networktopology")


class NetworkTopologyOperator:
    """One run; everything it knows comes from events and is gone with it."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._objects: dict[Key, NetworkTopology] = {}
        # What an object and the nodes were when its status was last found or made right.
        self._judged: dict[Key, tuple[str, int]] = {}
        self._wake = asyncio.Event()
        self._failures = 0

    def seen(self, type_: str | None, raw: dict[str, Any]) -> None:
        """Take in an object as the API server shows it; `type_` DELETED says that it is gone."""
        meta = raw["metadata"]
        key = (meta["namespace"], meta["name"])
        if type_ == "DELETED":
            self._forget(key)
            return
        try:
            self._objects[key] = msgspec.convert(raw, NetworkTopology)
        except msgspec.ValidationError as error:
            self._forget(key)
            _log.warning("object cannot be read", object="/".join(key), error=str(error))
        self._wake.set()

    async def work(self) -> None:
        """Keep the objects until cancelled."""
        stop = self._around.view.changes(("Node",), self._wake.set)
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self._look()
                # A floor between two rounds is what makes many changes one write.
                await asyncio.sleep(self._pause_s())
        finally:
            stop()

    def _pause_s(self) -> float:
        settings = self._around.settings
        doubled = settings.status_interval_s * 2 ** min(self._failures, 16)
        return float(min(doubled, max(settings.retry_limit_s, settings.status_interval_s)))

    async def _look(self) -> None:
        """Write the status of every object whose status differs from what it should be."""
        failed = ""
        for key, known in list(self._objects.items()):
            count = self._around.view.node_count()
            if self._judged.get(key) == (known.metadata.resource_version, count):
                continue
            try:
                now = await self._write(key, known, count)
            except ApiError as error:
                failed = str(error)
                continue
            if key in self._objects:
                self._judged[key] = (now.metadata.resource_version, count)
        self._settle(failed)

    def _settle(self, failed: str) -> None:
        """Come back soon after a failure; say so once, and once more when it is over."""
        if failed:
            if not self._failures:
                _log.warning("status not written, trying again", error=failed)
            self._failures += 1
            self._around.report(failed)
            self._wake.set()
        elif self._failures:
            self._failures = 0
            self._around.report("")
            _log.info("status written again")

    def _patch(self, topology: NetworkTopology, count: int) -> dict[str, Any]:
        observed = Observed(
            node_count=count,
            generation=topology.metadata.generation,
            previous=topology.status,
            now=rfc3339(self._around.clock.now()),
        )
        wanted = status_of(topology.spec, observed)
        return merge_patch(topology.status, wanted, legacy=self._around.legacy)

    async def _write(self, key: Key, topology: NetworkTopology, count: int) -> NetworkTopology:
        """Make the status right and return the object as it is now; ApiError asks for a retry."""
        patch = self._patch(topology, count)
        if not patch:
            return topology
        # With the version, a write that rests on an old state loses instead of overwriting.
        version = {"resourceVersion": topology.metadata.resource_version}
        try:
            body = await self._around.api.patch(
                NETWORK_TOPOLOGY,
                key,
                {"metadata": version, "status": patch},
                "" if self._around.legacy else "status",
            )
        except ApiError as error:
            if error.code == CONFLICT:
                return topology  # its event is on the way and brings us back here
            if error.code != NOT_FOUND:
                raise
            # Gone, or no such subresource any more: then the runner starts us anew.
            self._forget(key)
            return topology
        written = msgspec.json.decode(body, type=NetworkTopology)
        if self._patch(written, count):
            _log.debug("the schema drops fields of status", object="/".join(key))
        if self._objects.get(key) is topology:
            self._objects[key] = written
        return written

    def _forget(self, key: Key) -> None:
        self._objects.pop(key, None)
        self._judged.pop(key, None)


RECIPE = Recipe("networktopology", NETWORK_TOPOLOGY, NetworkTopologyOperator)
