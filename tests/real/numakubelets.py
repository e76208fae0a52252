"""Kubelets with a topology manager, and agents that report late, for nodes of a real API server.

They watch pods, admit or reject bound ones, write their status, and report zones some time after a
change. The rules are those of the sandbox's simulated kubelets.
"""

import asyncio
import json
from collections.abc import Callable
from random import Random
from typing import Any

from scheduler.sandbox.kinds.kinds import Resource
from scheduler.sandbox.nodes.alignment import REFUSED, Aligner
from scheduler.sandbox.nodes.topologyagents import Numa
from tests.real.api import Api, Json

REPORTS = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
KIND = Resource(
    "topology.node.k8s.io",
    "v1alpha2",
    "NodeResourceTopology",
    "noderesourcetopologies",
    "noderesourcetopology",
    namespaced=False,
)
CPUS = 4
GIB = 2**30


class Kubelets:
    """One kubelet per node; `refused` are the pods that a policy did not admit."""

    def __init__(self, api: Api, report_after_s: float, source: Random) -> None:
        self._api = api
        self._after_s = report_after_s
        self._source = source
        self._versions: dict[str, str] = {}
        self._due: set[str] = set()
        self._tasks: asyncio.TaskGroup | None = None
        self.nodes: dict[str, Numa] = {}
        self.refused: list[str] = []
        self.running: set[str] = set()

    async def create(self, count: int) -> None:
        """Create nodes of 2 to 8 zones, with their first reports."""
        bodies = []
        for number in range(count):
            zones = self._source.choice([2, 4, 8])
            each = {"cpu": CPUS * 1000, "memory": 2 * CPUS * GIB * 1000}
            aligner = Aligner([each] * zones, "single-numa-node", "pod")
            self.nodes[f"n{number:03}"] = Numa(aligner, self._after_s)
            bodies.append(json.dumps(_node(f"n{number:03}", zones)).encode())
        await self._api.create_all("/api/v1/nodes", bodies)
        for name in self.nodes:
            body = self.nodes[name].report(name, KIND)
            made = await self._api.expect("POST", REPORTS, body)
            self._versions[name] = made["metadata"]["resourceVersion"]

    async def follow(self, resource_version: str) -> None:
        """Do a kubelet's work for all nodes until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._tasks = group
            try:
                async for event in self._api.watch("/api/v1/pods", resource_version):
                    pod = event["object"]
                    name = pod["spec"].get("nodeName")
                    if name in self.nodes:
                        self._see(event["type"], pod, name)
            finally:
                self._tasks = None  # a group that is ending takes no more work

    def _see(self, verb: str, pod: Json, name: str) -> None:
        key, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        numa = self.nodes[name]
        if verb == "DELETED":
            numa.release(uid)
            self._changed(name)
        elif key not in self.running and key not in self.refused:
            takes = numa.admit(pod)
            status = {"phase": "Running"} if takes else {"phase": "Failed", **REFUSED}
            if takes:
                self.running.add(key)
                self._changed(name)
            else:
                self.refused.append(key)
            path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{key}/status"
            self._start(lambda: self._api.patch(path, {"status": status}))

    def _changed(self, name: str) -> None:
        if name in self._due:
            return
        self._due.add(name)
        loop = asyncio.get_running_loop()
        loop.call_later(self._after_s, self._start, lambda: self._report(name))

    def _start(self, work: Callable[[], Any]) -> None:
        if self._tasks is not None:
            self._tasks.create_task(work())

    async def _report(self, name: str) -> None:
        self._due.discard(name)
        body = self.nodes[name].report(name, KIND)
        body["metadata"]["resourceVersion"] = self._versions[name]
        made = await self._api.expect("PUT", f"{REPORTS}/{name}", body)
        self._versions[name] = made["metadata"]["resourceVersion"]


def _node(name: str, zones: int) -> Json:
    offers = {"cpu": str(zones * CPUS), "memory": f"{zones * CPUS * 2}Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"capacity": offers, "allocatable": offers, "conditions": [ready]},
    }
