"""The auditor of a campaign: it follows nodes, pods and events of the real API server itself.

Its only sources are the server: the watches of an admin, and the audit log. The daemons are not
queried.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from tests.apiserver.patience import pause
from tests.real.api import Api, ApiError
from tests.real.audit import Audit, binds_per_pod
from tests.simulated.groupcapacity import POD_GROUP
from tests.simulated.history import History

Object = dict[str, Any]
EVICTION_REASONS = ("Preempted", "GroupReleased")
PODS = "/api/v1/namespaces/default/pods"


class Auditor:
    """The invariants of a campaign; `taken` are the uids of pods that the campaign itself took
    away.
    """

    def __init__(self, api: Api, audit: Audit) -> None:
        self._api = api
        self._audit = audit
        self.history = History()
        self.pods: dict[str, Object] = {}
        self.nodes: dict[str, Object] = {}
        self.gone: dict[str, str] = {}
        self.taken: set[str] = set()
        self.eviction_events: set[str] = set()

    @asynccontextmanager
    async def watching(self) -> AsyncIterator["Auditor"]:
        """Follow the server until the block ends, through its restarts."""
        kinds = {"Pod": "/api/v1/pods", "Node": "/api/v1/nodes", "Event": "/api/v1/events"}
        # Nodes first: a bind is verified against its node's allocatable amounts.
        listed = {kind: await self._api.list(kinds[kind]) for kind in ("Node", "Pod", "Event")}
        for kind, (objects, _) in listed.items():
            for obj in objects:
                self._take(kind, "ADDED", obj)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._follow(kind, kinds[kind], version))
                for kind, (_, version) in listed.items()
            ]
            try:
                yield self
            finally:
                for task in tasks:
                    task.cancel()

    async def _follow(self, kind: str, path: str, version: str) -> None:
        while True:
            try:
                async for event in self._api.watch(path, version):
                    version = event["object"]["metadata"]["resourceVersion"]
                    self._take(kind, event["type"], event["object"])
            except (aiohttp.ClientError, ConnectionError, TimeoutError):
                await pause(0.2)
            except ApiError as error:
                await pause(0.2)  # a server that is starting
                if "410" in str(error):
                    with contextlib.suppress(aiohttp.ClientError, ApiError):
                        version = await self._list_anew(kind, path)

    async def _list_anew(self, kind: str, path: str) -> str:
        """Read the state of a restarted server, which no watch reports any more.

        Return its version.
        """
        objects, version = await self._api.list(path)
        known = self.pods if kind == "Pod" else self.nodes if kind == "Node" else {}
        there = {obj["metadata"]["uid"] for obj in objects}
        for obj in [obj for uid, obj in known.items() if uid not in there]:
            self._take(kind, "DELETED", obj)
        for obj in objects:
            self._take(kind, "MODIFIED", obj)
        return version

    def _take(self, kind: str, verb: str, obj: Object) -> None:
        if kind == "Event":
            if obj.get("reason") in EVICTION_REASONS:
                self.eviction_events.add(obj["involvedObject"].get("uid", ""))
            return
        self.history.take(kind, verb, obj, asyncio.get_running_loop().time())
        meta = obj["metadata"]
        if kind == "Node":
            self.nodes[meta["uid"]] = obj
            if verb == "DELETED":
                del self.nodes[meta["uid"]]
        elif verb == "DELETED":
            self.pods.pop(meta["uid"], None)
            self.gone[meta["uid"]] = f"{meta['namespace']}/{meta['name']}"
        else:
            self.pods[meta["uid"]] = obj

    def waiting(self) -> list[Object]:
        """Return the pods without a node."""
        return [pod for pod in self.pods.values() if not pod["spec"].get("nodeName")]

    def open(self, groups: Mapping[str, int]) -> list[str]:
        """Return unfinished work: groups bound in part, and pending pods that fit."""
        found = self.history.partial(dict(groups), POD_GROUP, self.pods)
        for pod in self.waiting():
            group = pod["metadata"].get("labels", {}).get(POD_GROUP)
            if not group and self.history.fits(pod):
                found.append(pod["metadata"]["name"])
        return found

    def verdict(self, made: set[str]) -> dict[str, list[str]]:
        """Return the violations by invariant; `made` are the uids of all created pods."""
        unasked = self.gone.keys() - self.taken
        binds = binds_per_pod(self._audit.bindings())
        twice = [f"{name}: {times} times" for name, times in binds.items() if times > 1]
        return {
            "no pod is lost": sorted(made - self.pods.keys() - self.gone.keys()),
            "no pod is bound twice": twice,
            "no node is over capacity, and no pod is bound elsewhere": [
                str(breach) for breach in self.history.broken
            ],
            "no pod is evicted without an event": [
                self.gone[uid] for uid in sorted(unasked - self.eviction_events)
            ],
        }
