"""Faults around a scheduler: nodes that fail, kubelets that reject pods, users who delete objects.

Each action leaves the cluster as its owners would: a Job whose pods were lost with their node
starts again, an object deleted by a user is created again. `remove_leftover_gates`
ends a run.
"""

from __future__ import annotations

from random import Random

import pytest

from scheduler.sandbox.kinds.kinds import CUSTOMRESOURCEDEFINITIONS, NODES
from tests.simulated.cluster import POD_GROUPS, Object, SimulatedCluster
from tests.simulated.groupcapacity import POD_GROUP
from tests.simulated.replica import Replica

# This module runs on a loop with virtual time: its delays cost nothing.
pytestmark = pytest.mark.looptime

PODS_PATH = "/api/v1/namespaces/default/pods"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ALL_PODGROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"
PODGROUPS_CRD = "podgroups.scheduling.x-k8s.io"
# Invalid or absurd requests that users still make.
NONSENSE: tuple[Object, ...] = (
    {"cpu": "100000"},
    {"cpu": "1", "memory": "8Ei"},
    {"cpu": "9223372036854775807"},
)


class Disruptions:
    """Actions; `groups` are the gangs of a run with their sizes, without ended ones."""

    cluster: SimulatedCluster
    dice: Random
    groups: dict[str, int]
    _number: int

    def __init__(self) -> None:
        self._gated: list[str] = []

    async def lose_node(self) -> None:
        """Delete a node, then its pods, and create it again.

        Groups that lost a member start again.
        """
        before = await self._take_node(self._some_node())
        await self.cluster.pass_time(self.dice.choice((0.0, 0.2, 5.0)))
        self._bring_node(before)

    async def _take_node(self, name: str) -> Object:
        """Delete a node, then its pods; return the node."""
        before: Object = self.cluster.outside.get(f"/api/v1/nodes/{name}")
        self.cluster.outside.remove(f"/api/v1/nodes/{name}")
        await self.cluster.pass_time(self.dice.choice((0.0, 1.0, 8.0)))
        for pod in list(self.cluster.pods().values()):
            if pod["spec"].get("nodeName") == name:
                self._end(pod)
        return before

    def _bring_node(self, before: Object) -> None:
        """Create a node again."""
        meta = {"name": before["metadata"]["name"], "labels": before["metadata"].get("labels", {})}
        self.cluster.outside.put("/api/v1/nodes", {"metadata": meta, "status": before["status"]})

    async def refuse_pod(self) -> None:
        """Have a kubelet reject a pod that was bound to its node."""
        pod = self._some_pod(is_bound=True)
        if pod is None or POD_GROUP in pod["metadata"].get("labels", {}):
            return
        status = {"status": {"phase": "Failed", "reason": "OutOfcpu", "message": "no capacity"}}
        self.cluster.outside.change(f"{PODS_PATH}/{pod['metadata']['name']}/status", status)

    async def gate(self) -> None:
        """Create a pod with a scheduling gate."""
        self._number += 1
        name = f"gated{self._number}"
        self.cluster.pod(name, "500m", spec={"schedulingGates": [{"name": "example.com/quota"}]})
        self._gated.append(name)

    async def lift_gate(self) -> None:
        """Remove a pod's scheduling gate."""
        if self._gated:
            name = self._gated.pop(self.dice.randrange(len(self._gated)))
            if self.cluster.outside.get(f"{PODS_PATH}/{name}") is not None:
                patch = {"spec": {"schedulingGates": None}}
                self.cluster.outside.change(f"{PODS_PATH}/{name}", patch)

    async def create_impossible_requests(self) -> None:
        """Create impossible requests, as a pod and as a group of absurd size."""
        self._number += 1
        resources = {"requests": dict(self.dice.choice(NONSENSE))}
        containers = [{"name": "c", "image": "i", "resources": resources}]
        labels = self.dice.choice(({}, {POD_GROUP: "missing"}, {POD_GROUP: f"x{self._number}"}))
        spec = {"containers": containers}
        self.cluster.pod(f"nonsense{self._number}", labels=labels, spec=spec)
        meta = {"name": f"x{self._number}"}
        size = self.dice.choice((1, 1000, 10_000))
        self.cluster.outside.put(POD_GROUPS, {"metadata": meta, "spec": {"minMember": size}})

    async def recreate_group_object(self) -> None:
        """Delete a group's object while its pods exist, and create it again."""
        if self.groups:
            name = self.dice.choice(sorted(self.groups))
            if self.cluster.outside.get(f"{POD_GROUPS}/{name}") is not None:
                self.cluster.outside.remove(f"{POD_GROUPS}/{name}")
            await self.cluster.pass_time(self.dice.choice((0.0, 0.5, 5.0)))
            self.cluster.group(name, self.groups[name])

    async def recreate_unseen_pod(self) -> None:
        """Replace a pending pod by another of its name, unseen by a process with frozen watches."""
        pod = self._some_pod(is_bound=False)
        if pod is None or POD_GROUP in pod["metadata"].get("labels", {}):
            return
        name = pod["metadata"]["name"]
        flows = [flow for flow in self._some_replica().wiring.flows if not flow.is_dead]
        for flow in flows:
            flow.die()
        self._end(pod)
        self.cluster.pod(name, self.dice.choice(("500m", "2")))
        await self.cluster.pass_time(self.dice.choice((0.0, 1.0, 6.0)))
        for flow in flows:
            flow.recover()

    async def kill_during_write(self) -> None:
        """Kill a replica with one of its next writes: that one arrives, and no other."""
        replica = self._some_replica()
        replica.wiring.writes_left = self.dice.randint(1, 12)
        self._number += 1
        self.groups[f"g{self._number}"] = 8
        self.cluster.gang(f"g{self._number}", 8, "350m")
        await self.cluster.pass_time(3)
        await replica.kill()

    async def drop_kind(self) -> None:
        """Delete the CRD of PodGroups, and with it all of them; create both again."""
        definition = self.cluster.store.find(CUSTOMRESOURCEDEFINITIONS, "", PODGROUPS_CRD)
        if definition is None:
            return
        meta = {"name": PODGROUPS_CRD, "annotations": definition.obj["metadata"]["annotations"]}
        again = {"metadata": meta, "spec": definition.obj["spec"]}
        path = f"{CRDS}/{PODGROUPS_CRD}"
        self.cluster.outside.remove(path)
        # As the API server's own controller does: the objects first, then the definition.
        for group in self.cluster.outside.get(POD_GROUPS)["items"]:
            self.cluster.outside.remove(f"{POD_GROUPS}/{group['metadata']['name']}")
        self.cluster.outside.change(path, {"metadata": {"finalizers": None}})
        for replica in self.cluster.replicas:
            for flow in [one for one in replica.wiring.flows if one.path.startswith(ALL_PODGROUPS)]:
                flow.cut()  # the server no longer serves this kind
        await self.cluster.pass_time(self.dice.choice((0.5, 10.0, 40.0)))
        self.cluster.outside.put(CRDS, again)
        await self.cluster.pass_time(self.dice.choice((0.0, 2.0)))
        for name, size in self.groups.items():
            self.cluster.group(name, size)

    async def remove_leftover_gates(self) -> None:
        """Remove the remaining gates."""
        while self._gated:
            await self.lift_gate()

    def _end(self, pod: Object) -> None:
        """Delete a pod, and its whole group, as a Job does that starts again."""
        group = pod["metadata"].get("labels", {}).get(POD_GROUP)
        self.groups.pop(group, None)
        for one in list(self.cluster.pods().values()):
            mine = one["metadata"].get("labels", {}).get(POD_GROUP)
            if one["metadata"]["uid"] == pod["metadata"]["uid"] or (group and mine == group):
                self.cluster.remove_pod(one["metadata"]["name"])
                self._gated = [name for name in self._gated if name != one["metadata"]["name"]]

    def _some_replica(self) -> Replica:
        return self.dice.choice(self.cluster.replicas)

    def _some_pod(self, *, is_bound: bool) -> Object | None:
        pods = self.cluster.pods().values()
        found = [
            pod
            for pod in pods
            if bool(pod["spec"].get("nodeName")) == is_bound
            and "deletionTimestamp" not in pod["metadata"]
            and not pod["spec"].get("schedulingGates")
        ]
        return self.dice.choice(found) if found else None

    def _bound(self, most: int) -> list[Object]:
        """Return some pods that are bound."""
        pods = [pod for pod in self.cluster.pods().values() if pod["spec"].get("nodeName")]
        return self.dice.sample(pods, min(len(pods), most))

    def _some_node(self) -> str:
        nodes = [stored.obj["metadata"]["name"] for stored in self.cluster.store.list(NODES)]
        return str(self.dice.choice(nodes))
