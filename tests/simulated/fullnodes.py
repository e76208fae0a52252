"""Scenarios on full nodes: all but a contested part is filled, then pods compete for it.

A lost or duplicated write is visible only without free capacity. Each scenario first fills the
nodes with other pods, and removes them at the end.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from scheduler.engine.effects import LATE_S
from scheduler.kube.api import Response
from tests.simulated.cluster import Object
from tests.simulated.disruptions import PODS_PATH
from tests.simulated.groupcapacity import at_most, members
from tests.simulated.invariants import Breach, Invariant
from tests.simulated.races import BUSY, FORBIDDEN, NO_QUORUM, URGENT, RaceScenarios
from tests.simulated.replica import Replica
from tests.simulated.states import any_bind_unsettled
from tests.unit.kube.memoryapi import LOST, Accident, Flow

# This module runs on a loop with virtual time: its delays cost nothing.
pytestmark = pytest.mark.looptime

BINDINGS = "*/binding"
DOWN = Accident(Response(503, message="service unavailable\n"))
GONE = Accident(Response(404, message="404 page not found\n"))
APPLIED_LATE = Accident(
    Response(504, reason="Timeout", message="response too late"), is_applied=True
)
# A broken etcd connection during a bind is reported as a conflict; this bind was carried out.
CUT_SHORT = Accident(
    Response(
        409,
        reason="Conflict",
        message='Operation cannot be fulfilled on pods/binding "p": rpc error: code = Unavailable',
    ),
    is_applied=True,
)
PATIENT = {"priorityClassName": "patient"}
# The time within which a pod without obstacles is bound.
PROMPT_S = 40.0
# The longest wait of a scenario for a leader.
LEADERLESS_S = 600.0


class FullNodeScenarios(RaceScenarios):
    """Scenarios; see the module."""

    @asynccontextmanager
    async def full_nodes(self, free_milli: int) -> AsyncIterator[None]:
        """Fill the nodes with foreign pods up to the given free CPU.

        Where less is free, end some pods.
        """
        self.clear_faults()
        for replica in self.cluster.replicas:
            for flow in [flow for flow in replica.wiring.flows if flow.is_dead]:
                flow.cut()
        await self.cluster.pass_time(4)
        names, history = [], self.cluster.history
        for pod in self._bound(len(history.bound_pods)):
            if self._cores_free() * 1000 >= free_milli:
                break
            self._end(pod)
        for node, offer in sorted(history.nodes.items()):
            free = offer.allocatable.get("cpu", 0) - history.used(node).get("cpu", 0)
            kept = 0 if offer.is_closed else max(0, min(free, free_milli))
            # Requests are whole cores: parts of them on two nodes are useless.
            kept -= kept % 1000
            free_milli -= kept
            if free > kept:
                names.append(self._named("c"))
                # No pod may preempt them: only the free capacity is contested.
                spec = {"nodeName": node, **URGENT}
                self.cluster.pod(names[-1], f"{free - kept}m", spec=spec)
        await self.cluster.pass_time(3)
        yield
        self.clear_faults()
        for name in names:
            if self.cluster.outside.get(f"{PODS_PATH}/{name}") is not None:
                self.cluster.remove_pod(name)

    async def contest_rejected_group(self) -> None:
        """Reject all members of a group but one while urgent pods compete for their capacity."""
        async with self.full_nodes(8000):
            self.cluster.refusals[BINDINGS] = self.dice.choice(
                ((FORBIDDEN,) * 5 + (DOWN,), (FORBIDDEN,) * 4 + (APPLIED_LATE, DOWN), (BUSY, DOWN))
            )
            group = self._gang("1")
            await self.cluster.pass_time(self.dice.choice((0.5, 2.5)))
            spec = self.dice.choice((URGENT, {}))
            for _ in range(4):
                self.cluster.pod(self._named("u"), "1", spec=spec)
            await self.cluster.pass_time(self.dice.choice((0.5, 3.0, 12.0)))
            self.cluster.refusals.clear()
            await self.cluster.pass_time(25)
            if not spec:
                self._whole(group)

    async def bind_late(self) -> None:
        """Delay binds until long after their senders' timeout while other pods compete for the
        capacity.
        """
        async with self.full_nodes(2000):
            frozen = self._freeze_watches("/api/v1/pods")
            if self.dice.random() < 0.3:
                self.cluster.refusals[BINDINGS] = (self.dice.choice((APPLIED_LATE, CUT_SHORT)),)
            for replica in self.cluster.replicas:
                replica.wiring.late = {"/binding": self.dice.choice((5.0, 12.0))}
                replica.wiring.fault_share = 0.9
            names = [self._named("h") for _ in range(2)]
            for name in names:
                self.cluster.pod(name, "1")
            await self.cluster.pass_time(self.dice.choice((0.1, 0.4, 0.8)))
            for name in names if self.dice.random() < 0.5 else ():
                patch = {"metadata": {"labels": {"seen": "twice"}}}
                self.cluster.outside.change(f"{PODS_PATH}/{name}", patch)
            for _ in range(2):
                self.cluster.pod(self._named("r"), "1", spec=self.dice.choice(({}, {}, URGENT)))
            await self.cluster.pass_time(self.dice.choice((0.1, 0.8, 1.5)))
            self.clear_faults()
            await self.cluster.pass_time(self.dice.choice((3.0, 11.0)))
            self._thaw(frozen)

    async def shrink_nodes(self) -> None:
        """Delay binds into the last capacity while their nodes shrink."""
        async with self.full_nodes(2000):
            self.cluster.refusals[BINDINGS] = (self.dice.choice((BUSY, DOWN)),)
            for _ in range(2):
                self.cluster.pod(self._named("k"), "1")
            await self.cluster.pass_time(1)
            nodes = sorted(self.cluster.history.nodes)
            for node in nodes:
                self.cluster.resize(node, "4")
            await self.cluster.pass_time(5)
            self.cluster.refusals.clear()
            await self.cluster.pass_time(10)
            for node in nodes:
                self.cluster.resize(node, "8")

    async def half_bound(self) -> None:
        """Kill the leader during a group's binds, or reject some, while others compete for the
        capacity.
        """
        async with self.full_nodes(8000):
            leader = self._leader()
            if leader is None:
                return
            dies = self.dice.random() < 0.5
            if dies:
                leader.wiring.writes_left = self.dice.randint(2, 20)
            if not dies or self.dice.random() < 0.5:
                self.cluster.refusals[BINDINGS] = (FORBIDDEN, APPLIED_LATE)
            group = self._gang("1")
            await self._begins(group, 3.0)
            # They come first in the queue, and cannot evict.
            for _ in range(4):
                self.cluster.pod(self._named("w"), "1", spec=PATIENT)
            if dies:
                await leader.kill()
            else:
                await self.cluster.pass_time(self.dice.choice((0.5, 3.0, 12.0)))
            self.cluster.refusals.clear()
            await self.cluster.revive()
            await self.cluster.pass_time(25 + (self.cluster.longest_lease_s if dies else 0))
            self._whole(group)

    async def promote_stale_standby(self) -> None:
        """Make a standby without recent events the leader at once."""
        async with self.full_nodes(4000):
            leader = self._leader()
            if leader is None:
                return
            # It may or may not have received the pods that the leader binds.
            leader.wiring.late = {"/binding": 0.5}
            sees_pods = self.dice.random() < 0.8
            for _ in range(4 if sees_pods else 0):
                self.cluster.pod(self._named("i"), "1")
            await self.cluster.pass_time(0.2)
            standbys = [one for one in self.cluster.replicas if one is not leader]
            for replica in standbys:
                for flow in replica.wiring.flows:
                    flow.die()
            for _ in range(0 if sees_pods else 4):
                self.cluster.pod(self._named("i"), "1")
            await self.cluster.pass_time(2)
            await leader.kill()
            if standbys:
                await self.cluster.pass_time(self.cluster.longest_lease_s + 5)
            await self.cluster.revive()
            for _ in range(3):
                self.cluster.pod(self._named("j"), "1")
            await self.cluster.pass_time(30)

    async def terminate_leader(self) -> None:
        """Terminate the leader while its binds are in flight for long."""
        async with self.full_nodes(2000):
            leader = self._leader()
            if leader is None:
                return
            leader.wiring.late = {"/binding": self.dice.choice((3.0, 13.0, 18.0))}
            for _ in range(4):
                self.cluster.pod(self._named("e"), "1")
            await self.cluster.pass_time(self.dice.choice((0.2, 2.0)))
            await leader.leave()
            # The next leader has other pods to bind first, into the same capacity.
            for _ in range(self.dice.choice((0, 2))):
                self.cluster.pod(self._named("e"), "1", spec=PATIENT)
            await self.cluster.revive()
            await self.cluster.pass_time(30)

    async def fail_list(self) -> None:
        """Fail the list of a required kind, and break its watches."""
        kind = self.dice.choice(("/api/v1/pods", "/api/v1/nodes"))
        async with self.full_nodes(self.dice.choice((0, 2000))):
            self.cluster.refusals[f"GET {kind}?"] = (self.dice.choice((GONE, FORBIDDEN, DOWN)),)
            self.cluster.store.forget_history()
            for replica in self.cluster.replicas:
                for flow in list(replica.wiring.flows):
                    if flow.path.startswith(kind):
                        flow.cut()
            await self.cluster.pass_time(self.dice.choice((0.5, 4.0)))
            for _ in range(4):
                self.cluster.pod(self._named("o"), "1")
            await self.cluster.pass_time(self.dice.choice((4.0, 12.0)))
            self.cluster.refusals.clear()
            await self.cluster.pass_time(20)

    async def pause_leader(self) -> None:
        """Stop the leader with requests that wait for a connection, and continue it when another
        leads.
        """
        leader = self._leader()
        if leader is None:
            return
        self.clear_faults()
        leader.wiring.busy_s = self.dice.choice((0.0, 2.0, 6.0))
        if self.dice.random() < 0.3:
            leader.wiring.accident = lambda method, path: (
                NO_QUORUM if "/leases" in path else self.cluster.refusal(method, path)
            )
        await self._arrive(self.dice.choice((3, 12)))
        leader.stop()
        still_s = self.dice.choice((5.0, 11.0, 14.0, 20.0, 45.0))
        await self.cluster.pass_time(still_s / 2)
        await self._arrive(2)
        await self.cluster.pass_time(still_s / 2)
        leader.go_on()
        await self.cluster.pass_time(5)
        self.clear_faults()

    async def reject_status_writes(self) -> None:
        """Reject all status writes; pods that fit are still bound in time."""
        async with self.full_nodes(0):
            self.cluster.refusals["*/status"] = (DOWN,)
            name = self._named("m")
            self.cluster.pod(name, "500m")
            await self.cluster.pass_time(self.dice.choice((2.0, 20.0)))
        self.cluster.refusals["*/status"] = (DOWN,)
        began = self.cluster.clock.now()
        await self._bound_in_time(name, began)
        self.cluster.refusals.clear()

    async def hide_recreated_pod(self) -> None:
        """Hide a pod with a lost bind, and bind another of its name to the same node as another
        client.
        """
        async with self.full_nodes(4000):
            self.cluster.refusals[BINDINGS] = (Accident(LOST),)
            names = [self._named("y") for _ in range(3)]
            for name in names:
                self.cluster.pod(name, "1")
            await self.cluster.pass_time(0.002)
            frozen = [
                flow for one in self.cluster.replicas for flow in self._freeze_pod_watches(one)
            ]
            await self.cluster.pass_time(self.dice.choice((0.05, 0.2, 1.0)))
            for name in names:
                self.cluster.remove_pod(name)
                target = self.cluster.audit.targets.get(name)
                if target and self.cluster.outside.get(f"/api/v1/nodes/{target}") is not None:
                    self.cluster.foreign(name, target, "500m")
            await self.cluster.pass_time(5)
            self._thaw(frozen)

    async def delay_events(self) -> None:
        """Delay events by seconds during preemptions, and free less than the preemptor needs
        meanwhile.
        """
        async with self.full_nodes(3000):
            others = [self._named("z") for _ in range(3)]
            for other in others:
                self.cluster.pod(other, "1")
            await self.cluster.pass_time(3)
            for replica in self.cluster.replicas:
                replica.wiring.late = {"/events": self.dice.choice((1.0, 3.0))}
            urgent = self._named("u")
            self.cluster.pod(urgent, "2", spec=URGENT)
            await self.cluster.pass_time(0.5)
            if self.cluster.outside.get(f"{PODS_PATH}/{others[-1]}") is not None:
                self.cluster.remove_pod(others[-1])
            await self.cluster.pass_time(8)
            await self._bound_in_time(urgent, self.cluster.clock.now())

    async def miss_deletions(self) -> None:
        """Delete pods without events to a process, and drop the history."""
        frozen = self._freeze_watches("/api/v1/pods")
        for pod in self._bound(4):
            self._end(pod)
        await self.cluster.pass_time(0.2)
        self.cluster.store.forget_history()
        for flow in frozen:
            flow.cut()
        await self.cluster.pass_time(5)

    async def preempt_one_member(self) -> None:
        """Create an urgent pod that needs one member's capacity in a group that fills the nodes."""
        async with self.full_nodes(8000):
            group = self._gang("1")
            await self.cluster.pass_time(5)
            self.cluster.pod(self._named("u"), "1", spec=URGENT)
            await self.cluster.pass_time(self.dice.choice((5.0, 12.0)))
            self._whole(group)

    async def free_during_planning(self) -> None:
        """Free a group's missing capacity during its planning, without any event afterwards."""
        async with self.full_nodes(7000):
            others = self._bound(1)
            group = self._gang("1")
            await self.cluster.pass_time(self.dice.choice((0.003, 0.008, 0.1, 0.5)))
            for pod in others:
                self._end(pod)
            leader = self._leader()
            # A bind in doubt reserves its capacity until it can no longer arrive.
            is_in_doubt = leader is not None and any_bind_unsettled(leader.daemon.engine)
            patience_s = PROMPT_S + (LATE_S if is_in_doubt else 0)
            for _ in range(int(patience_s)):
                pods = self.cluster.pods()
                is_bound = all(one["spec"].get("nodeName") for one in members(pods, group))
                may_be = at_most(self.cluster.history, pods, group) >= 8
                if is_bound or not may_be or not self._is_led():
                    return
                await self.cluster.pass_time(1)
            what = f"{group} fits and is not bound in {patience_s:.0f} s"
            self.cluster.history.broken.append(
                Breach(Invariant.LIVENESS, self.cluster.clock.now(), what)
            )

    # Building blocks

    def _cores_free(self) -> int:
        """Return the whole free cores of schedulable nodes."""
        history, cores = self.cluster.history, 0
        for node, offer in history.nodes.items():
            free = offer.allocatable.get("cpu", 0) - history.used(node).get("cpu", 0)
            cores += 0 if offer.is_closed else max(0, free) // 1000
        return cores

    def _named(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}{self._number}"

    def _gang(self, cpu: str) -> str:
        name = self._named("g")
        self.groups[name] = 8
        self.cluster.gang(name, 8, cpu)
        return name

    async def _begins(self, group: str, limit_s: float) -> None:
        """Wait until a member of a group is bound, up to a limit."""
        until = self.cluster.clock.now() + limit_s
        while self.cluster.clock.now() < until:
            if any(one["spec"].get("nodeName") for one in members(self.cluster.pods(), group)):
                return
            await self.cluster.pass_time(0.02)

    def _whole(self, group: str) -> None:
        """Record a violation when a group is partial though nothing has prevented its completion
        for a while.
        """
        if self._is_led() and self.cluster.partial({group: 8}):
            what = f"{group} is in part, and its capacity is free"
            self.cluster.history.broken.append(
                Breach(Invariant.WHOLE, self.cluster.clock.now(), what)
            )

    async def _arrive(self, pods: int) -> None:
        for _ in range(pods):
            self.cluster.pod(self._named("q"), "50m")
            await self.cluster.pass_time(self.dice.choice((0.05, 0.5)))

    @staticmethod
    def _freeze_pod_watches(replica: Replica) -> list[Flow]:
        flows = [flow for flow in replica.wiring.flows if flow.path.startswith("/api/v1/pods")]
        for flow in flows:
            flow.die()
        return flows

    def _is_led(self) -> bool:
        """Return whether an up-to-date process leads."""
        leader = self._leader()
        if leader is None or not leader.leads:
            return False  # the lease may still name a process that lost it
        return not any(flow.is_dead for flow in leader.wiring.flows)

    def _is_outranked(self, pod: Object) -> bool:
        """Return whether a more important pod is pending: it keeps its nomination while it cannot
        evict.
        """
        own = pod["spec"].get("priority") or 0
        return any(
            (other["spec"].get("priority") or 0) > own and not other["spec"].get("nodeName")
            for other in self.cluster.pods().values()
        )

    async def _bound_in_time(self, name: str, began: float, limit_s: float = PROMPT_S) -> None:
        """Record a violation when a pod that fits is not bound in time, and its capacity is not
        nominated.
        """

        def is_owed() -> bool:
            pod = self.cluster.outside.get(f"{PODS_PATH}/{name}")
            if pod is None or pod["spec"].get("nodeName"):
                return False
            return self.cluster.history.fits(pod) and not self._is_outranked(pod)

        await self._in_time(name, is_owed, began, limit_s)

    async def _in_time(
        self, who: str, is_owed: Callable[[], bool], began: float, limit_s: float
    ) -> None:
        """Record a violation when a leader does not bind in time.

        Whether a leader exists is checked in the final state.
        """
        led_at = began
        while is_owed() and (now := self.cluster.clock.now()) - led_at <= LEADERLESS_S:
            is_led = self._is_led()
            began, led_at = (began, now) if is_led else (now, led_at)
            if now - began > limit_s:
                what = f"{who} fits and is not bound in {limit_s:.0f} s"
                self.cluster.history.broken.append(Breach(Invariant.LIVENESS, now, what))
                return
            await self.cluster.pass_time(1)
            await self.cluster.revive()
