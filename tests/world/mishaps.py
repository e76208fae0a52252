"""What goes wrong around a scheduler: machines that leave, kubelets that refuse, users who change their minds.

Each move leaves the world as its owners would: a Job whose pods went with their node begins anew, what a
user took away comes back. What is left over when a run ends is set right by `Mishaps.amends`.
"""

from __future__ import annotations

from random import Random

import pytest

from scheduler.sandbox.kinds.kinds import CUSTOMRESOURCEDEFINITIONS, NODES
from tests.world.grouproom import POD_GROUP
from tests.world.replica import Replica
from tests.world.world import POD_GROUPS, Object, World

# Whoever uses this module runs on a loop whose time jumps: its delays cost nothing.
pytestmark = pytest.mark.looptime

PODS_PATH = "/api/v1/namespaces/default/pods"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ALL_PODGROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"
PODGROUPS_CRD = "podgroups.scheduling.x-k8s.io"
# What nobody should ask for, and what somebody will.
NONSENSE: tuple[Object, ...] = (
    {"cpu": "100000"},
    {"cpu": "1", "memory": "8Ei"},
    {"cpu": "9223372036854775807"},
)


class Mishaps:
    """Moves; `groups` are the gangs of a run with their sizes, without those that have ended."""

    world: World
    dice: Random
    groups: dict[str, int]
    _number: int

    def __init__(self) -> None:
        self._gated: list[str] = []

    async def lose_node(self) -> None:
        """A node goes, its pods go after it, and it comes back; groups that lost a member begin anew."""
        before = await self._take_node(self._some_node())
        await self.world.pass_time(self.dice.choice((0.0, 0.2, 5.0)))
        self._bring_node(before)

    async def _take_node(self, name: str) -> Object:
        """Take a node away, and its pods after it; return it as it was."""
        before: Object = self.world.outside.get(f"/api/v1/nodes/{name}")
        self.world.outside.remove(f"/api/v1/nodes/{name}")
        await self.world.pass_time(self.dice.choice((0.0, 1.0, 8.0)))
        for pod in list(self.world.pods().values()):
            if pod["spec"].get("nodeName") == name:
                self._end(pod)
        return before

    def _bring_node(self, before: Object) -> None:
        """Bring a node back."""
        meta = {"name": before["metadata"]["name"], "labels": before["metadata"].get("labels", {})}
        self.world.outside.put("/api/v1/nodes", {"metadata": meta, "status": before["status"]})

    async def refuse_pod(self) -> None:
        """A kubelet does not take a pod that was bound to its node."""
        pod = self._some_pod(is_bound=True)
        if pod is None or POD_GROUP in pod["metadata"].get("labels", {}):
            return
        status = {"status": {"phase": "Failed", "reason": "OutOfcpu", "message": "no room here"}}
        self.world.outside.change(f"{PODS_PATH}/{pod['metadata']['name']}/status", status)

    async def gate(self) -> None:
        """A pod arrives that is not to be scheduled yet."""
        self._number += 1
        name = f"gated{self._number}"
        self.world.pod(name, "500m", spec={"schedulingGates": [{"name": "example.com/quota"}]})
        self._gated.append(name)

    async def lift_gate(self) -> None:
        """A pod may be scheduled from now on."""
        if self._gated:
            name = self._gated.pop(self.dice.randrange(len(self._gated)))
            if self.world.outside.get(f"{PODS_PATH}/{name}") is not None:
                patch = {"spec": {"schedulingGates": None}}
                self.world.outside.change(f"{PODS_PATH}/{name}", patch)

    async def nonsense(self) -> None:
        """Somebody asks for what nobody can have, alone and as a group of absurd size."""
        self._number += 1
        resources = {"requests": dict(self.dice.choice(NONSENSE))}
        containers = [{"name": "c", "image": "i", "resources": resources}]
        labels = self.dice.choice(({}, {POD_GROUP: "nobody"}, {POD_GROUP: f"x{self._number}"}))
        spec = {"containers": containers}
        self.world.pod(f"nonsense{self._number}", labels=labels, spec=spec)
        meta = {"name": f"x{self._number}"}
        size = self.dice.choice((1, 1000, 10_000))
        self.world.outside.put(POD_GROUPS, {"metadata": meta, "spec": {"minMember": size}})

    async def forget_group(self) -> None:
        """Somebody takes a group's object away while its pods are there, and makes it again."""
        if self.groups:
            name = self.dice.choice(sorted(self.groups))
            if self.world.outside.get(f"{POD_GROUPS}/{name}") is not None:
                self.world.outside.remove(f"{POD_GROUPS}/{name}")
            await self.world.pass_time(self.dice.choice((0.0, 0.5, 5.0)))
            self.world.group(name, self.groups[name])

    async def rename(self) -> None:
        """A pod that waits goes, and another of its name comes, unseen by one whose watches stand still."""
        pod = self._some_pod(is_bound=False)
        if pod is None or POD_GROUP in pod["metadata"].get("labels", {}):
            return
        name = pod["metadata"]["name"]
        flows = [flow for flow in self._some_replica().wiring.flows if not flow.is_dead]
        for flow in flows:
            flow.die()
        self._end(pod)
        self.world.pod(name, self.dice.choice(("500m", "2")))
        await self.world.pass_time(self.dice.choice((0.0, 1.0, 6.0)))
        for flow in flows:
            flow.recover()

    async def crash(self) -> None:
        """A replica dies with one of the writes that it does next: that one arrives, and no other."""
        replica = self._some_replica()
        replica.wiring.writes_left = self.dice.randint(1, 12)
        self._number += 1
        self.groups[f"g{self._number}"] = 8
        self.world.gang(f"g{self._number}", 8, "350m")
        await self.world.pass_time(3)
        await replica.kill()

    async def drop_kind(self) -> None:
        """The definition of PodGroups is removed, and with it all of them; both come back."""
        definition = self.world.store.find(CUSTOMRESOURCEDEFINITIONS, "", PODGROUPS_CRD)
        if definition is None:
            return
        meta = {"name": PODGROUPS_CRD, "annotations": definition.obj["metadata"]["annotations"]}
        again = {"metadata": meta, "spec": definition.obj["spec"]}
        path = f"{CRDS}/{PODGROUPS_CRD}"
        self.world.outside.remove(path)
        # What the API server's own controller does next: the objects go, then the definition.
        for group in self.world.outside.get(POD_GROUPS)["items"]:
            self.world.outside.remove(f"{POD_GROUPS}/{group['metadata']['name']}")
        self.world.outside.change(path, {"metadata": {"finalizers": None}})
        for replica in self.world.replicas:
            for flow in [one for one in replica.wiring.flows if one.path.startswith(ALL_PODGROUPS)]:
                flow.cut()  # the server serves this kind no more
        await self.world.pass_time(self.dice.choice((0.5, 10.0, 40.0)))
        self.world.outside.put(CRDS, again)
        await self.world.pass_time(self.dice.choice((0.0, 2.0)))
        for name, size in self.groups.items():
            self.world.group(name, size)

    async def amends(self) -> None:
        """Lift the gates that are left."""
        while self._gated:
            await self.lift_gate()

    def _end(self, pod: Object) -> None:
        """Take a pod away, and its whole group, as a Job does that begins anew."""
        group = pod["metadata"].get("labels", {}).get(POD_GROUP)
        self.groups.pop(group, None)
        for one in list(self.world.pods().values()):
            mine = one["metadata"].get("labels", {}).get(POD_GROUP)
            if one["metadata"]["uid"] == pod["metadata"]["uid"] or (group and mine == group):
                self.world.remove_pod(one["metadata"]["name"])
                self._gated = [name for name in self._gated if name != one["metadata"]["name"]]

    def _some_replica(self) -> Replica:
        return self.dice.choice(self.world.replicas)

    def _some_pod(self, *, is_bound: bool) -> Object | None:
        pods = self.world.pods().values()
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
        pods = [pod for pod in self.world.pods().values() if pod["spec"].get("nodeName")]
        return self.dice.sample(pods, min(len(pods), most))

    def _some_node(self) -> str:
        nodes = [stored.obj["metadata"]["name"] for stored in self.world.store.list(NODES)]
        return str(self.dice.choice(nodes))
