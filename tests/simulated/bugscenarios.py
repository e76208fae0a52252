"""Scenarios that each reveal one injected bug: the events and their order that make it visible.

Most of them combine two rare events, which chance alone combines in days.
"""

from __future__ import annotations

import pytest

from scheduler.kube.api import Response
from tests.simulated.audit import LOOK_AGAIN_S
from tests.simulated.cluster import POD_GROUPS
from tests.simulated.disruptions import CRDS, PODS_PATH
from tests.simulated.fullnodes import BINDINGS, DOWN, GONE, PROMPT_S, FullNodeScenarios
from tests.simulated.groupcapacity import POD_GROUP, at_most, members
from tests.simulated.races import BUSY, FORBIDDEN, TOO_MANY, URGENT
from tests.unit.kube.memoryapi import LOST, Accident

# This module runs on a loop with virtual time: its delays cost nothing.
pytestmark = pytest.mark.looptime

TIMED_OUT = Response(504, reason="Timeout", message="it may still be carried out")
IN_TEN_MINUTES = Accident(Response(429, message=TOO_MANY, retry_after_s=600.0))
# A pod that cannot evict, and still comes first in the queue.
PATIENT = {"priorityClassName": "patient"}
# A failed list is retried soon.
BLIP_S = 15.0
# New processes lead, and have done their initial work, within this time.
STARTED_S = 45
# More pods than a cluster has.
MANY = 10_000
# An eviction of a group is complete within this time.
PARTIAL_S = 3
OTHER_KIND = "others.scheduling.x-k8s.io"
SCHEMA = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}


class BugScenarios(FullNodeScenarios):
    """Scenarios; see the module."""

    async def bind_after_timeout(self) -> None:
        """Carry out a bind long after its sender received no answer, or a timeout."""
        async with self.full_nodes(1000):
            name, after_s = self._named("h"), self.dice.choice((8.0, 20.0, 30.0))
            for replica in self.cluster.replicas:
                what = self.dice.choice((LOST, TIMED_OUT))
                replica.wiring.unheard = {f"/{name}/binding": (what, after_s)}
            self.cluster.pod(name, "1")
            await self.cluster.pass_time(0.5)
            for _ in range(2):
                self.cluster.pod(self._named("r"), "1")
            await self.cluster.pass_time(after_s + 5)

    async def terminate_during_binds(self) -> None:
        """Terminate the leader during binds while urgent pods compete for the capacity."""
        async with self.full_nodes(2000):
            leader = self._leader()
            if leader is None:
                return
            leader.wiring.late = {"/binding": self.dice.choice((12.0, 15.0, 18.0))}
            for _ in range(2):
                self.cluster.pod(self._named("e"), "1")
            await self.cluster.pass_time(0.2)
            for flow in leader.wiring.flows:
                flow.die()
            for _ in range(2):
                self.cluster.pod(self._named("u"), "1", spec=URGENT)
            await leader.leave()
            await self.cluster.revive()
            await self.cluster.pass_time(20)

    async def start_rejected(self) -> None:
        """Start processes while the server rejects all requests.

        An urgent pod needs a group's capacity.
        """
        for pod in self._bound(MANY):
            if self._is_there(pod["metadata"]["name"]):
                self._end(pod)
        async with self.full_nodes(8000):
            await self._undisturbed()
            group = self._gang("1")
            # A new process could not know a younger one.
            await self.cluster.pass_time(LOOK_AGAIN_S + 10)
            # Each releases the lease, so that the next one leads as soon as it is admitted.
            for replica in list(self.cluster.replicas):
                await replica.leave()
            self.cluster.refusals["GET /api"] = (FORBIDDEN,)
            await self.cluster.revive()
            await self.cluster.pass_time(self.dice.choice((0.3, 1.0, 3.0)))
            self.cluster.refusals.clear()
            self.cluster.pod(self._named("u"), "1", spec=URGENT)
            await self._never_partial(group, STARTED_S)
            self._whole(group)

    async def recreate_kind(self) -> None:
        """Delete the CRD of PodGroups and create it again in a group with other kinds."""
        names = {"plural": "others", "singular": "other", "kind": "Other", "listKind": "OtherList"}
        version = {"name": "v1alpha1", "served": True, "storage": True, "schema": SCHEMA}
        spec = {
            "group": "scheduling.x-k8s.io",
            "scope": "Namespaced",
            "names": names,
            "versions": [version],
        }
        if self.cluster.outside.get(f"{CRDS}/{OTHER_KIND}") is None:
            self.cluster.outside.put(CRDS, {"metadata": {"name": OTHER_KIND}, "spec": spec})
        await self.drop_kind()
        async with self.full_nodes(9000):
            await self._undisturbed()
            await self._prompt(self._gang("1"))

    async def deliver_old_version(self) -> None:
        """Deliver an old version of a bound pod to a process, and its binding only afterwards."""
        async with self.full_nodes(1000):
            name = self._named("x")
            for replica in self.cluster.replicas:
                replica.wiring.late = {f"/{name}/binding": 1.0}
            self.cluster.pod(name, "1")
            await self.cluster.pass_time(0.5)
            self.cluster.pod(self._named("f"), "1", spec=PATIENT)
            await self.cluster.pass_time(0.3)
            frozen = [
                flow for one in self.cluster.replicas for flow in self._freeze_pod_watches(one)
            ]
            self.cluster.outside.change(f"{PODS_PATH}/{name}", {"metadata": {"labels": {"a": "b"}}})
            await self.cluster.pass_time(self.dice.choice((1.0, 12.0)))
            for flow in frozen:
                flow.chunk_bytes = 64
            self._thaw(frozen)
            await self.cluster.pass_time(3)

    async def create_large_group(self) -> None:
        """Create a group with more members than are processed at a time, and delete some at
        once.
        """
        async with self.full_nodes(8000):
            await self._undisturbed()
            name, size = self._named("g"), 72
            self.groups[name] = size
            self.cluster.gang(name, size, "50m")
            if self.dice.random() < 0.5:
                await self.cluster.pass_time(self.dice.choice((0.01, 0.5, 2.1)))
                path = f"{PODS_PATH}/{name}-{self.dice.randrange(size)}"
                if self.cluster.outside.get(path) is not None:
                    self.cluster.outside.remove(path)
                    self.cluster.pod(path.rpartition("/")[2], "50m", labels={POD_GROUP: name})
            await self._prompt(name)

    async def create_surplus_member(self) -> None:
        """Create a surplus member of a group while the others are being bound."""
        async with self.full_nodes(9000):
            await self._undisturbed()
            for replica in self.cluster.replicas:
                replica.wiring.late = {"/binding": 2.0}
            group = self._gang("1")
            await self.cluster.pass_time(0.5)
            self.cluster.pod(f"{group}-8", "1", labels={POD_GROUP: group})
            await self.cluster.pass_time(5)
            self._clear_delays()
            await self._prompt(group)

    async def reject_binds(self) -> None:
        """Reject binds of a group for a short time, without any other event."""
        async with self.full_nodes(8000):
            await self._undisturbed()
            self.cluster.refusals[BINDINGS] = (FORBIDDEN,)
            group = self._gang("1")
            await self.cluster.pass_time(self.dice.choice((0.05, 0.5, 2.0)))
            self.cluster.refusals.clear()
            await self._prompt(group)

    async def remove_gates(self) -> None:
        """Create gated pods, then remove the gates one by one, without any other event."""
        async with self.full_nodes(4000):
            await self._undisturbed()
            names = [self._named("o") for _ in range(3)]
            gates = [{"name": "example.com/quota"}, {"name": "example.com/licence"}]
            for name in names:
                self.cluster.pod(name, "1", spec={"schedulingGates": gates})
            await self.cluster.pass_time(self.dice.choice((0.5, 5.0)))
            for left in (gates[1:], None):
                for name in names:
                    if self._is_there(name):
                        patch = {"spec": {"schedulingGates": left}}
                        self.cluster.outside.change(f"{PODS_PATH}/{name}", patch)
                await self.cluster.pass_time(1)
            for name in names:
                await self._bound_in_time(name, self.cluster.clock.now(), BLIP_S)

    async def raise_minimum(self) -> None:
        """Raise a group's size to ten when eight are about to be bound; two more arrive later."""
        async with self.full_nodes(10_000):
            await self._undisturbed()
            self.cluster.refusals[BINDINGS] = (BUSY,)
            group = self._gang("1")
            await self.cluster.pass_time(self.dice.choice((0.03, 0.2)))
            self.groups[group] = 10
            self.cluster.outside.change(f"{POD_GROUPS}/{group}", {"spec": {"minMember": 10}})
            await self.cluster.pass_time(self.dice.choice((3.0, 6.0)))
            self.cluster.refusals.clear()
            await self.cluster.pass_time(8)
            for number in (8, 9):
                self.cluster.pod(f"{group}-{number}", "1", labels={POD_GROUP: group})
            await self._prompt(group)

    async def delete_bound_member(self) -> None:
        """Delete a member of a complete group with its capacity, and kill the leader: the others
        stay.
        """
        async with self.full_nodes(8000):
            await self._undisturbed()
            group = self._gang("1")
            await self.cluster.pass_time(5)
            mine = members(self.cluster.pods(), group)
            if not mine or not all(one["spec"].get("nodeName") for one in mine):
                return
            lost = self.dice.choice(mine)
            name, other = lost["metadata"]["name"], self._named("c")
            self.cluster.remove_pod(name)
            self.cluster.pod(other, "1", spec={"nodeName": lost["spec"]["nodeName"], **URGENT})
            self.cluster.pod(name, "1", labels={POD_GROUP: group})
            if (leader := self._leader()) is not None:
                await leader.kill()
            await self.cluster.revive()
            await self.cluster.pass_time(self.cluster.longest_lease_s + 20)
            self.cluster.remove_pod(other)
            await self._prompt(group)

    async def retry_after(self) -> None:
        """Answer binds with a retry after ten minutes; later pods are not delayed."""
        async with self.full_nodes(8000):
            await self._undisturbed()
            if self._free_milli() < 71 * 50:
                return
            self.cluster.refusals[BINDINGS] = (IN_TEN_MINUTES,)
            names = [self._named("k") for _ in range(70)]
            for name in names:
                self.cluster.pod(name, "50m")
            await self.cluster.pass_time(2)
            self.cluster.refusals.clear()
            other = self._named("k")
            self.cluster.pod(other, "50m")
            await self._bound_in_time(other, self.cluster.clock.now(), BLIP_S)
            await self._bound_in_time(names[0], self.cluster.clock.now(), PROMPT_S)
            for name in (*names, other):
                self.cluster.remove_pod(name)

    async def fail_list_once(self) -> None:
        """Fail one required list once; later pods are not delayed by half a minute."""
        kind = self.dice.choice(("/api/v1/pods", "/api/v1/nodes"))
        async with self.full_nodes(4000):
            await self._undisturbed()
            # Earlier failures may have a back-off, and succeed then.
            await self.cluster.pass_time(45)
            self.cluster.refusals[f"GET {kind}?"] = (self.dice.choice((GONE, FORBIDDEN, DOWN)),)
            self.cluster.store.forget_history()
            for replica in self.cluster.replicas:
                for flow in [one for one in replica.wiring.flows if one.path.startswith(kind)]:
                    flow.cut()
            await self.cluster.pass_time(1)
            self.cluster.refusals.clear()
            name = self._named("j")
            self.cluster.pod(name, "1")
            await self._bound_in_time(name, self.cluster.clock.now(), BLIP_S)

    async def _never_partial(self, group: str, seconds: int) -> None:
        """Record a violation when a part of a group is bound for some seconds without the rest,
        under a leader.
        """
        partial_s = 0
        for _ in range(seconds):
            await self.cluster.pass_time(1)
            partial_s = partial_s + 1 if self.cluster.partial({group: 8}) else 0
            if partial_s == PARTIAL_S:
                self._whole(group)

    async def _undisturbed(self) -> None:
        """Remove all other pending and nominated pods."""
        for pod in list(self.cluster.pods().values()):
            meta = pod["metadata"]
            if not pod["spec"].get("nodeName") and self._is_there(meta["name"]):
                self._end(pod)
        await self.cluster.pass_time(1)

    def _free_milli(self) -> int:
        """Return the free CPU of all schedulable nodes."""
        history = self.cluster.history
        return sum(
            max(0, offer.allocatable.get("cpu", 0) - history.used(name).get("cpu", 0))
            for name, offer in history.nodes.items()
            if not offer.is_closed
        )

    def _is_there(self, name: str) -> bool:
        return self.cluster.outside.get(f"{PODS_PATH}/{name}") is not None

    async def _prompt(self, group: str) -> None:
        """Record a violation when a group with capacity is not bound in time, under a leader."""

        def is_owed() -> bool:
            pods = self.cluster.pods()
            mine = members(pods, group)
            if all(one["spec"].get("nodeName") for one in mine):
                return False
            return at_most(self.cluster.history, pods, group) >= len(mine)

        limit_s = PROMPT_S + self.cluster.longest_backoff_s
        await self._in_time(group, is_owed, self.cluster.clock.now(), limit_s)
