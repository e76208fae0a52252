"""The actions of a run by seed: users, controllers, machines and the network."""

from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from scheduler.kube.api import Response
from scheduler.sandbox.kinds.kinds import NODES
from tests.simulated.audit import PROTECTED
from tests.simulated.bugscenarios import BugScenarios
from tests.simulated.cluster import SimulatedCluster
from tests.simulated.disruptions import PODS_PATH
from tests.simulated.groupcapacity import POD_GROUP
from tests.simulated.races import TOO_MANY
from tests.simulated.search import Step
from tests.simulated.setting import drawn
from tests.simulated.states import State, state_of
from tests.unit.kube.memoryapi import UNSENT, Accident

# This module runs on a loop with virtual time: its delays cost nothing.
pytestmark = pytest.mark.looptime

REFUSALS = (
    Accident(Response(404, message="404 page not found\n")),
    Accident(Response(403, reason="Forbidden", message="no")),
    Accident(Response(500, message="oops")),
    Accident(Response(429, message=TOO_MANY, retry_after_s=3.0)),
    Accident(Response(503, message="service unavailable\n")),
    Accident(Response(429, message=TOO_MANY, retry_after_s=600.0)),
    Accident(
        Response(504, reason="Timeout", message="applied, response too late"), is_applied=True
    ),
)
UNAUTHORIZED = Accident(Response(401, reason="Unauthorized", message="Unauthorized"))
BINDINGS = "*/binding"
FORBIDDEN, BUSY, DOWN = REFUSALS[1], REFUSALS[3], REFUSALS[4]
PUT_OFF = ((BUSY,), (DOWN,), (BUSY, DOWN), (FORBIDDEN, FORBIDDEN, FORBIDDEN, DOWN))
# What may fail: all requests for a kind, or one subresource of pods.
PREFIXES = ("/api/v1/pods", "/api/v1/nodes", "/api/v1/namespaces/default/pods", "/apis/", "/api")


# The shares, up to 1, of runs with one or two scenarios, with all scenarios, and with everything.
FOCUSED, SCENARIOS_ONLY, EVEN = 0.3, 0.55, 0.7
# In a fixed order, so that a seed draws the same ones.
SCENARIOS = (
    "delete_bound_member", "fail_list_once", "preempt_one_member", "bind_late", "half_bound",
    "bind_after_timeout", "hide_recreated_pod", "deliver_old_version", "terminate_during_binds",
    "free_during_planning", "free_during_decision", "delay_events", "create_surplus_member",
    "start_rejected", "lose_lease", "fail_list", "miss_deletions", "reject_status_writes",
    "recreate_victim", "recreate_pods", "remove_gates", "delay_binds", "raise_minimum",
    "recreate_kind", "terminate_leader", "retry_after", "create_late_urgent_pod",
    "shrink_nodes", "pause_leader", "promote_stale_standby", "create_large_group",
    "reject_binds", "urgent_gang", "contest_rejected_group",
)  # fmt: skip
# More pending pods do not reveal more.
MOST_WAITING = 64


class Actions(BugScenarios):
    """The actions of one run; `dice` chooses them."""

    def __init__(self, cluster: SimulatedCluster, dice: Random) -> None:
        super().__init__()
        self.cluster = cluster
        self.dice = dice
        self.groups: dict[str, int] = {}
        self.made: Counter[str] = Counter()
        self.states: set[State] = set()
        # The actions so far, as a script that can run again.
        self.steps: list[Step] = []
        cluster.looked = self.note_state
        self.settled_s = self.quiet_s = 0.0
        self.factors = self._drawn_factors()
        self._number = 0

    def _drawn_factors(self) -> dict[str, float]:
        """Return factors for the weights of actions: in most runs some are rare.

        Many kinds of actions at once cancel each other's effects; a run with few kinds reaches
        more states.
        """
        kind = self.dice.random()
        factors: dict[str, float] = {}
        chosen = self.dice.sample(SCENARIOS, 2) if kind < FOCUSED else SCENARIOS
        for move, _ in self.moves():
            name = move.__name__
            if kind < SCENARIOS_ONLY:
                share = 0.1 if kind >= FOCUSED else 0.02
                factors[name] = 1.0 if name in chosen else share
            else:
                factors[name] = 1.0 if kind < EVEN else self.dice.choice((0.0, 0.0, 1.0, 1.0, 4.0))
        if kind >= FOCUSED:
            factors["end_faults"] = factors["finish"] = 1.0
        return factors

    def moves(self) -> tuple[tuple[Callable[[], Awaitable[None]], int], ...]:
        """Return the actions with their relative frequencies."""
        return (
            (self.burst, 6), (self.plain, 4), (self.urgent, 2), (self.finish, 5),
            (self.touch_node, 3), (self.resize_node, 2), (self.resize_pod, 2),
            (self.bind_as_another_client, 2), (self.break_watches, 2), (self.freeze_watches, 1),
            (self.freeze_watches_briefly, 2), (self.fail_requests, 2), (self.end_faults, 3),
            (self.drop_history, 1), (self.restart_server, 1), (self.kill, 1),
            (self.terminate_replica, 1), (self.partition, 1), (self.cordon_briefly, 1),
            (self.lose_node, 1), (self.refuse_pod, 1), (self.gate, 1), (self.lift_gate, 1),
            (self.create_impossible_requests, 1), (self.recreate_group_object, 1),
            (self.recreate_unseen_pod, 2), (self.kill_during_write, 1), (self.drop_kind, 1),
            (self.delay_binds, 2), (self.recreate_pods, 2), (self.recreate_victim, 1),
            (self.lose_lease, 1), (self.urgent_gang, 2), (self.create_members_singly, 1),
            (self.create_late_urgent_pod, 1), (self.free_during_decision, 2),
            (self.delay_one_kind, 2), (self.complete_pods, 1), (self.advance_minutes, 1),
            (self.contest_rejected_group, 2), (self.bind_late, 2), (self.shrink_nodes, 1),
            (self.half_bound, 2), (self.promote_stale_standby, 3), (self.terminate_leader, 2),
            (self.fail_list, 1), (self.pause_leader, 2), (self.reject_status_writes, 1),
            (self.hide_recreated_pod, 1), (self.delay_events, 1), (self.miss_deletions, 1),
            (self.preempt_one_member, 1), (self.free_during_planning, 2), (self.upgrade, 1),
            (self.expire_token, 1), (self.bind_after_timeout, 2),
            (self.terminate_during_binds, 1), (self.start_rejected, 1), (self.recreate_kind, 1),
            (self.deliver_old_version, 1), (self.create_large_group, 1),
            (self.create_surplus_member, 1), (self.reject_binds, 1), (self.fail_list_once, 1),
            (self.raise_minimum, 1), (self.delete_bound_member, 1), (self.retry_after, 1),
            (self.remove_gates, 1),
        )  # fmt: skip

    def some_step(self) -> Step:
        """Draw the next action, with the factors of the run."""
        moves = self.moves()
        weights = [weight * self.factors[move.__name__] for move, weight in moves]
        chosen = self.dice.choices([move for move, _ in moves], weights)[0]
        return Step(chosen.__name__, self.dice.getrandbits(32))

    async def make(self, step: Step) -> None:
        """Run one action with its own random source, so that it is independent of earlier
        actions.
        """
        before, self.dice = self.dice, Random(step.dice)
        self.steps.append(step)
        self.made[step.move] += 1
        await getattr(self, step.move)()
        self.note_state()
        self._give_up()
        await self.cluster.revive()
        await self.cluster.pass_time(self.dice.choice((0.0, 0.05, 0.3, 1.0, 5.0)))
        self.dice = before

    def note_state(self) -> None:
        """Record the current state of the cluster."""
        self.states.add(state_of(self.cluster, self.groups))

    def _give_up(self) -> None:
        """Delete the longest pending pods when too many are pending."""
        waiting = [pod for pod in self.cluster.pods().values() if not pod["spec"].get("nodeName")]
        for pod in waiting[: max(0, len(waiting) - MOST_WAITING)]:
            if self.cluster.outside.get(f"{PODS_PATH}/{pod['metadata']['name']}") is not None:
                self._end(pod)

    async def burst(self) -> None:
        """Create some gangs of eight at once."""
        for _ in range(self.dice.randint(1, 3)):
            self._number += 1
            name = f"g{self._number}"
            self.groups[name] = 8
            self.cluster.gang(name, 8, self.dice.choice(("1", "1500m", "350m")))

    async def plain(self) -> None:
        """Create some pods."""
        for _ in range(self.dice.randint(1, 6)):
            self._number += 1
            labels = self.dice.choice(({}, {}, PROTECTED))
            cpu = self.dice.choice(("500m", "2", "350m"))
            self.cluster.pod(f"p{self._number}", cpu, labels=labels)

    async def urgent(self) -> None:
        """Create a pod that must preempt others."""
        self._number += 1
        spec = {"priorityClassName": "urgent"}
        self.cluster.pod(f"u{self._number}", self.dice.choice(("1", "3")), spec=spec)

    async def finish(self) -> None:
        """End some bound pods, or whole groups."""
        for pod in self._bound(3):
            self._end(pod)

    async def touch_node(self) -> None:
        """Change a node's labels, as its agents do frequently."""
        name = self._some_node()
        self._number += 1
        patch = {"metadata": {"labels": {"touched": str(self._number)}}}
        self.cluster.outside.change(f"/api/v1/nodes/{name}", patch)

    async def resize_node(self) -> None:
        """Change a node's allocatable amounts; its pods stay."""
        cpu = self.dice.choice(("6", "8", "8", "10"))
        self.cluster.resize(self._some_node(), cpu)

    async def resize_pod(self) -> None:
        """Change a running pod's requests, in place."""
        pod = self._some_pod(is_bound=True)
        if pod is None:
            return
        name = pod["spec"]["containers"][0]["name"]
        asked = {"cpu": self.dice.choice(("250m", "750m", "1250m")), "memory": "64Mi"}
        spec = {"containers": [{"name": name, "resources": {"requests": asked}}]}
        path = f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}/resize"
        self.cluster.outside.merge(path, {"spec": spec})

    async def bind_as_another_client(self) -> None:
        """Bind a pending pod as another scheduler."""
        pod = self._some_pod(is_bound=False)
        if pod is None or POD_GROUP in pod["metadata"].get("labels", {}):
            return
        meta = pod["metadata"]
        self.cluster.history.foreign.add(meta["uid"])
        target = {"target": {"kind": "Node", "name": self._some_node()}}
        self.cluster.outside.put(f"/api/v1/namespaces/default/pods/{meta['name']}/binding", target)

    async def cordon_briefly(self) -> None:
        """Cordon a node, and uncordon it again."""
        path = f"/api/v1/nodes/{self._some_node()}"
        self.cluster.outside.change(path, {"spec": {"unschedulable": True}})
        await self.cluster.pass_time(self.dice.random())
        self.cluster.outside.change(path, {"spec": {"unschedulable": None}})

    async def break_watches(self) -> None:
        """Break all watches of a replica."""
        for flow in list(self._some_replica().wiring.flows):
            flow.cut()

    async def freeze_watches(self) -> None:
        """Stop the events of all watches of a replica without breaking them."""
        for flow in self._some_replica().wiring.flows:
            flow.die()

    async def freeze_watches_briefly(self) -> None:
        """Serve a replica from an API server that is behind: its watches freeze, then continue."""
        replica = self._some_replica()
        flows = [flow for flow in replica.wiring.flows if not flow.is_dead]
        for flow in flows:
            flow.die()
        await self.cluster.pass_time(self.dice.choice((0.5, 3.0, 12.0)))
        for flow in flows:
            flow.recover()

    async def restart_server(self) -> None:
        """Stop the API server for a while, and start it without its history."""
        self.cluster.refusals[""] = (Accident(UNSENT),)
        for replica in self.cluster.replicas:
            for flow in list(replica.wiring.flows):
                flow.cut()
        await self.cluster.pass_time(self.dice.choice((0.5, 4.0, 20.0)))
        self.cluster.store.forget_history()
        self.cluster.refusals.pop("", None)

    async def fail_requests(self) -> None:
        """Fail a part of the API."""
        self.cluster.refusals[self.dice.choice(PREFIXES)] = (self.dice.choice(REFUSALS),)

    async def delay_binds(self) -> None:
        """Free capacity, and delay, reject or reorder the binds into it while nodes shrink or are
        deleted.
        """
        for _ in range(self.dice.randint(0, 3)):
            await self.finish()
        if self.dice.random() < 0.3:
            for replica in self.cluster.replicas:
                replica.wiring.late, replica.wiring.fault_share = {"/binding": 8.0}, 0.5
        else:
            self.cluster.refusals[BINDINGS] = self.dice.choice(PUT_OFF)
        await self.dice.choice((self.burst, self.plain))()
        await self.cluster.pass_time(self.dice.choice((0.1, 0.5, 2.0)))
        nodes = [stored.obj["metadata"]["name"] for stored in self.cluster.store.list(NODES)]
        for name in nodes:
            if self.dice.random() < 0.5:
                self.cluster.resize(name, self.dice.choice(("4", "6")))
        away = await self._take_node(self.dice.choice(nodes))
        await self.cluster.pass_time(self.dice.choice((0.1, 5.0, 20.0)))
        self.cluster.refusals.pop(BINDINGS, None)
        for replica in self.cluster.replicas:
            replica.wiring.late, replica.wiring.fault_share = {}, 0.0
        await self.burst()
        await self.cluster.pass_time(5)
        self._bring_node(away)
        for name in nodes:
            self.cluster.resize(name, "8")

    async def end_faults(self) -> None:
        """End all faults of API and network, and start others."""
        self.cluster.refusals.clear()
        for replica in self.cluster.replicas:
            replica.wiring.join()
            replica.wiring.fault_share = self.dice.choice((0.0, 0.05, 0.2))
            replica.wiring.twice = self.dice.choice((0.0, 0.0, 0.1))

    async def drop_history(self) -> None:
        """Drop the server's history."""
        self.cluster.store.forget_history()

    async def kill(self) -> None:
        """Kill a replica."""
        await self._some_replica().kill()

    async def terminate_replica(self) -> None:
        """Terminate a replica gracefully."""
        await self._some_replica().leave()

    async def upgrade(self) -> None:
        """Restart the replicas one after the other with another configuration."""
        other = drawn(self.dice)
        self.cluster.setting = self.cluster.setting._replace(
            lease=other.lease, backoff=other.backoff
        )
        for replica in list(self.cluster.replicas):
            await replica.leave()
            await self.cluster.revive()
            await self.cluster.pass_time(self.dice.choice((0.5, 5.0)))

    async def expire_token(self) -> None:
        """Expire a replica's token before it has read the next one."""
        wiring = self._some_replica().wiring
        wiring.accident = lambda _, __: UNAUTHORIZED
        for flow in list(wiring.flows):
            flow.cut()
        await self.cluster.pass_time(self.dice.choice((0.2, 2.0, 8.0, 30.0)))
        wiring.accident = self.cluster.refusal

    async def partition(self) -> None:
        """Partition a replica from the network."""
        self._some_replica().wiring.cut_off()


# Their names, as used in scripts.
MOVES = tuple(move.__name__ for move, _ in Actions.__new__(Actions).moves())
