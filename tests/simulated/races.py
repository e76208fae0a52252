"""Scenarios about races: a write in flight while its object changes.

Each prepares its own state, so that it reaches the race even in a run with few events.
"""

from __future__ import annotations

import pytest

from scheduler.kube.api import Response
from tests.simulated.audit import PROTECTED
from tests.simulated.disruptions import PODS_PATH, Disruptions
from tests.simulated.groupcapacity import POD_GROUP
from tests.simulated.replica import Replica
from tests.unit.kube.memoryapi import LOST, Accident, Flow

# This module runs on a loop with virtual time: its delays cost nothing.
pytestmark = pytest.mark.looptime

URGENT = {"priorityClassName": "urgent"}
# A real server's answers: see answers.json.
TOO_MANY = "Too many requests, please try again later.\n"
NO_QUORUM = Accident(Response(500, message="no quorum"))
FORBIDDEN = Accident(Response(403, reason="Forbidden", message="no"))
BUSY = Accident(Response(429, message=TOO_MANY, retry_after_s=3.0))
DELETIONS = "DELETE /api/v1/namespaces/default/pods/"


class RaceScenarios(Disruptions):
    """The scenarios: each prepares its own state, and starts one race."""

    async def recreate_pods(self) -> None:
        """Replace pods under their names while writes for them are in flight."""
        for replica in self.cluster.replicas:
            late_s = self.dice.choice((0.5, 3.0, 6.0))
            replica.wiring.late = {self.dice.choice(("/binding", "/status")): late_s}
        names = []
        for _ in range(self.dice.randint(2, 5)):
            self._number += 1
            names.append(f"n{self._number}")
            self.cluster.pod(names[-1], self.dice.choice(("250m", "250m", "7", "9")))
        await self.cluster.pass_time(self.dice.choice((0.05, 0.3, 1.0)))
        frozen = self._freeze_watches("/api/v1/pods") if self.dice.random() < 0.5 else []
        for name in names:
            self.cluster.remove_pod(name)
            self.cluster.pod(name, self.dice.choice(("250m", "1500m", "9")))
        await self.cluster.pass_time(self.dice.choice((0.5, 4.0, 7.0)))
        self._thaw(frozen)
        self._clear_delays()

    async def recreate_victim(self) -> None:
        """Replace a victim under its name before its eviction."""
        for replica in self.cluster.replicas:
            replica.wiring.late = {self.dice.choice(("DELETE", "/status", "GET")): 4.0}
        self._number += 1
        self.cluster.pod(f"u{self._number}", self.dice.choice(("2", "4")), spec=URGENT)
        await self.cluster.pass_time(self.dice.choice((0.05, 2.0, 4.5)))
        marked = [
            pod
            for pod in self.cluster.pods().values()
            if any(c["type"] == "DisruptionTarget" for c in pod["status"].get("conditions", ()))
            and not (pod["metadata"].get("labels") or {}).get(POD_GROUP)
        ]
        for pod in marked:
            meta, node = pod["metadata"], pod["spec"].get("nodeName", "")
            self.cluster.remove_pod(meta["name"])
            if node and self.cluster.outside.get(f"/api/v1/nodes/{node}") is not None:
                self.cluster.foreign(meta["name"], node, "250m")
        await self.cluster.pass_time(5)
        self._clear_delays()

    async def lose_lease(self) -> None:
        """Prevent the leader from renewing, for a while or for good, while pods arrive and
        connections are scarce.
        """
        leader = self._leader()
        if leader is None:
            return
        answer = self.dice.choice((NO_QUORUM, Accident(LOST), Accident(LOST, is_applied=True)))
        leader.wiring.accident = lambda method, path: (
            answer if "/leases" in path else self.cluster.refusal(method, path)
        )
        leader.wiring.late = {"/binding": self.dice.choice((0.0, 1.0, 2.5))}
        leader.wiring.busy_s = self.dice.choice((0.0, 0.0, 3.0, 8.0))
        for _ in range(self.dice.choice((8, 14, 22))):
            self._number += 1
            self.cluster.pod(f"l{self._number}", "100m")
            await self.cluster.pass_time(self.dice.choice((0.4, 1.0, 1.6)))
        leader.wiring.accident = self.cluster.refusal
        leader.wiring.busy_s = 0.0
        self._clear_delays()

    async def urgent_gang(self) -> None:
        """Create a group that must preempt others, while evictions are slow."""
        self._number += 1
        name = f"v{self._number}"
        if self.dice.random() < 0.5:
            self.cluster.refusals[DELETIONS] = (self.dice.choice((FORBIDDEN, BUSY)),)
        self.groups[name] = size = self.dice.choice((2, 8))
        self.cluster.group(name, size)
        cpu = self.dice.choice(("1", "2"))
        for number in range(size):
            self.cluster.pod(f"{name}-{number}", cpu, labels={POD_GROUP: name}, spec=URGENT)
        await self.cluster.pass_time(self.dice.choice((0.5, 3.0, 20.0)))
        self.cluster.refusals.pop(DELETIONS, None)

    async def create_members_singly(self) -> None:
        """Create a group's members one after the other, and free their capacity likewise."""
        self._number += 1
        name = f"s{self._number}"
        self.groups[name] = 8
        self.cluster.group(name, 8)
        early = self.dice.randint(3, 7)
        for number in range(8):
            if number == early:
                await self.cluster.pass_time(self.dice.choice((0.02, 2.0, 12.0)))
            self.cluster.pod(f"{name}-{number}", "500m", labels={POD_GROUP: name})

    async def create_late_urgent_pod(self) -> None:
        """Create an urgent pod after others have used all capacity."""
        for _ in range(self.dice.randint(2, 10)):
            self._number += 1
            labels = self.dice.choice(({}, PROTECTED))
            self.cluster.pod(f"u{self._number}", "2", spec=URGENT, labels=labels)
        await self.cluster.pass_time(self.dice.choice((0.2, 5.0)))

    async def free_during_decision(self) -> None:
        """Free capacity during the decision about a pod that needs it."""
        self._number += 1
        name = f"t{self._number}"
        self.groups[name] = 8
        self.cluster.gang(name, 8, self.dice.choice(("1", "2")))
        await self.cluster.pass_time(self.dice.choice((0.004, 0.012, 0.02, 1.0)))
        for pod in self._bound(self.dice.randint(1, 8)):
            self._end(pod)

    async def delay_one_kind(self) -> None:
        """Deliver one kind late to a replica, and all others at once."""
        kind = self.dice.choice(("/api/v1/pods", "/api/v1/nodes", "/apis/scheduling.x-k8s.io/"))
        frozen = self._freeze_watches(kind)
        for _ in range(self.dice.randint(1, 3)):
            self._number += 1
            self.cluster.pod(f"b{self._number}", self.dice.choice(("500m", "2")))
        for pod in self._bound(self.dice.randint(0, 2)):
            self._end(pod)
        await self.cluster.pass_time(self.dice.choice((0.5, 3.0, 12.0)))
        self._thaw(frozen)

    async def complete_pods(self) -> None:
        """Complete running pods; they stay as objects."""
        for pod in self._bound(3):
            if not (pod["metadata"].get("labels") or {}).get(POD_GROUP):
                path = f"{PODS_PATH}/{pod['metadata']['name']}/status"
                self.cluster.outside.change(path, {"status": {"phase": "Succeeded"}})

    async def advance_minutes(self) -> None:
        """Advance the time by minutes without events, so that rare timers run."""
        await self.cluster.pass_time(self.dice.choice((70.0, 330.0, 700.0)))

    def clear_faults(self) -> None:
        """End an action's leftovers in the network: its delays and rejections."""
        self.cluster.refusals.clear()
        for replica in self.cluster.replicas:
            replica.wiring.join()
            replica.wiring.accident = self.cluster.refusal
            replica.wiring.fault_share = replica.wiring.twice = replica.wiring.busy_s = 0.0
        self._clear_delays()

    def _clear_delays(self) -> None:
        for replica in self.cluster.replicas:
            replica.wiring.late, replica.wiring.unheard = {}, {}

    def _leader(self) -> Replica | None:
        holder = self.cluster.audit.holder
        return next((one for one in self.cluster.replicas if one.number == holder), None)

    def _freeze_watches(self, kind: str) -> list[Flow]:
        """Freeze some replica's watches of a kind; return them."""
        flows = self._some_replica().wiring.flows
        frozen = [flow for flow in flows if flow.path.startswith(kind) and not flow.is_dead]
        for flow in frozen:
            flow.die()
        return list(frozen)

    @staticmethod
    def _thaw(flows: list[Flow]) -> None:
        for flow in flows:
            flow.recover()
