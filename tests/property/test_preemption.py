"""Preemption from beginning to end: the default profile, the model API server, and a manual
clock.
"""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.config import default_config
from scheduler.engine.attempt.attempt import decide
from scheduler.engine.effects import Bind, Evict, SetStatus
from scheduler.engine.engine import Engine
from scheduler.engine.queue.pod import Where
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.objects.pod import Pod
from tests.property.making import SCHEDULER, make_node, make_pod
from tests.property.rig import Rig

WAITS = "not eligible due to a terminating pod on the nominated node."


def default_engine() -> Engine:
    """Return an engine with the default profile."""
    registry = Registry(IN_TREE)
    profiles = default_config(registry).profiles
    return Engine([one for one in profiles if one.scheduler_name == SCHEDULER], registry)


def rig_with(*pods: Pod, nodes: int = 1, cpu: int = 2) -> Rig:
    """Return a rig with nodes `n0`… whose engine has seen the pods and tried each once."""
    rig = Rig(default_engine)
    for number in range(nodes):
        rig.api.put("Node", make_node(f"n{number}", cpu=cpu, labels={"there": f"n{number}"}))
    rig.watch("Node")
    for pod in pods:
        create(rig, pod)
    return rig


def create(rig: Rig, pod: Pod) -> None:
    """Create a pod and run the engine's attempt."""
    rig.api.put("Pod", pod)
    rig.watch("Pod")
    rig.run(1)


def boss(name: str = "boss", priority: int = 10, **changes: Any) -> Pod:
    """Return a pod of high priority that fills a node."""
    return make_pod(name, priority=priority, **{"cpu": 2, **changes})


def low(name: str, node: str = "n0", **changes: Any) -> Pod:
    """Return a pod of low priority that another scheduler bound."""
    return make_pod(name, node=node, scheduler="another", **changes)


def evictions(rig: Rig) -> list[str]:
    """Return the pods to be evicted by effects in flight."""
    return sorted(effect.name for effect in rig.wire if isinstance(effect, Evict))


def nominations(rig: Rig) -> list[tuple[str, str | None]]:
    """Return the nominations written by effects in flight."""
    return [
        (effect.name, effect.nominated_node)
        for effect in rig.wire
        if isinstance(effect, SetStatus) and effect.nominated_node is not None
    ]


def carry_out(rig: Rig) -> None:
    """Carry out all effects in flight, and report them to the engine."""
    while rig.wire:
        rig.perform(0)
    while rig.answers:
        rig.deliver(0)
    rig.watch("Pod")


def end(rig: Rig, *names: str) -> None:
    """Delete the evicted pods."""
    for name in names:
        rig.api.remove("Pod", f"default/{name}")
    rig.watch("Pod")


def message(rig: Rig, name: str = "boss") -> str:
    """Return the message of a pod's PodScheduled condition."""
    condition = rig.api.pods[f"default/{name}"].condition("PodScheduled")
    assert condition is not None
    return condition.message


def node_of(rig: Rig, name: str) -> str:
    """Return the node that the API server has bound a pod to."""
    return rig.api.pods[f"default/{name}"].spec.node_name


def test_the_preemptor_waits_until_its_victims_are_gone():
    """Evictions and a nomination at once, no second round of evictions, then the nominated node."""
    rig = rig_with(low("a"), low("b"), boss())
    assert ["a", "b"] == evictions(rig)
    assert [("boss", "n0")] == nominations(rig)
    assert "uid-boss" in rig.engine.preemptions.running

    carry_out(rig)
    assert "0/1 nodes are available: 1 Insufficient cpu." == message(rig)
    rig.pass_time(20)
    end(rig, "a")
    rig.run()
    assert [] == evictions(rig)
    carry_out(rig)
    assert message(rig).endswith(f" no new claims to deallocate, preemption: {WAITS}")
    assert "n0" == rig.api.pods["default/boss"].status.nominated_node_name

    end(rig, "b")
    carry_out(rig)
    rig.run()
    assert [("boss", "n0")] == [(e.name, e.node) for e in rig.wire if isinstance(e, Bind)]
    rig.settle()
    assert "" == rig.api.pods["default/boss"].status.nominated_node_name


def test_no_pod_takes_the_capacity_of_victims():
    """Pods of equal or lower priority respect the nomination, higher ones do not."""
    rig = rig_with(low("a"), boss())
    carry_out(rig)
    end(rig, "a")
    # The preemptor waits out its back-off; others come first.
    for name, priority in (("equal", 10), ("lower", 1)):
        rig.api.put("Pod", make_pod(name, priority=priority, cpu=2))
    rig.watch("Pod")
    rig.run()
    rig.settle()

    assert ["n0", "", ""] == [node_of(rig, name) for name in ("boss", "equal", "lower")]


@pytest.mark.parametrize("code", [403, 409, 429, 500])
def test_a_failed_eviction_is_tried_again(code: int):
    """The preemption is abandoned, and the pod that is retried after its back-off starts
    another.
    """
    rig = rig_with(low("a"), low("b"), boss())
    for effect in [one for one in rig.wire if isinstance(one, Evict)]:
        rig.refuse(rig.wire.index(effect), code)
    while rig.answers:
        rig.deliver(0)
    assert Where.ERROR_BACKOFF is rig.where("boss")
    carry_out(rig)
    rig.pass_time(1)
    rig.run()

    assert ["a", "b"] == evictions(rig)
    rig.settle()
    assert "n0" == node_of(rig, "boss")


def test_a_higher_preemptor_takes_the_nominated_node():
    """The lower one loses its nomination, is retried at once and evicts on another node."""
    placed = low("a", cpu=2), low("d", priority=7), low("c", "n1", cpu=3, priority=3)
    rig = rig_with(*placed, boss("mid", 5), nodes=2, cpu=3)
    assert ["a"] == evictions(rig)
    carry_out(rig)
    create(rig, boss("chief", 20, cpu=3, node_selector={"there": "n0"}))

    assert ["d"] == evictions(rig)
    assert [("mid", ""), ("chief", "n0")] == nominations(rig)
    rig.run()
    assert ["c", "d"] == evictions(rig)
    assert "n1" == rig.engine.nominations.node_of("uid-mid")
    rig.settle()
    assert ["n0", "n1"] == [node_of(rig, "chief"), node_of(rig, "mid")]


def test_without_victims_two_pods_stay_nominated():
    """Terminating victims are enough; kube-scheduler then keeps lower nominations."""
    rig = rig_with(low("a", cpu=2), boss("mid", 5))
    carry_out(rig)
    create(rig, boss("chief", 20))

    assert [] == evictions(rig)
    assert [("chief", "n0")] == nominations(rig)
    assert "n0" == rig.engine.nominations.node_of("uid-mid")
    rig.settle()
    assert ["n0", ""] == [node_of(rig, "chief"), node_of(rig, "mid")]


def test_a_nomination_survives_a_restart():
    """A new process reads it from the pod's status: no other pod takes the capacity, no other is
    evicted.
    """
    rig = rig_with(low("a", cpu=2), low("b", "n1", cpu=2, priority=50), boss(), nodes=2)
    (victim,) = evictions(rig)
    carry_out(rig)
    nominated_node = rig.api.pods["default/boss"].status.nominated_node_name
    rig.restart()
    rig.run()
    assert [] == evictions(rig)

    end(rig, victim)
    create(rig, make_pod("thief", priority=10, cpu=2))
    rig.settle()
    assert [nominated_node, ""] == [node_of(rig, "boss"), node_of(rig, "thief")]


def test_a_restart_while_evictions_are_under_way():
    """Sent effects may have been carried out or not; the pod finds its node either way."""
    rig = rig_with(low("a"), low("b"), boss())
    rig.perform(next(n for n, one in enumerate(rig.wire) if isinstance(one, Evict)))
    rig.restart()
    rig.settle()

    assert "n0" == node_of(rig, "boss")


def test_the_policy_never_evicts_no_pod():
    """preemptionPolicy Never: the pod waits like any other, and uses free capacity."""
    rig = rig_with(low("a"), boss(preemption_policy="Never"))
    assert ([], []) == (evictions(rig), nominations(rig))
    carry_out(rig)
    assert message(rig).endswith("preemption: not eligible due to preemptionPolicy=Never.")

    end(rig, "a")
    rig.settle()
    assert "n0" == node_of(rig, "boss")


def test_a_nomination_that_helps_no_more_is_cleared():
    """If no eviction helps any more, the pod loses its nomination."""
    rig = rig_with(low("a", cpu=2), boss())
    carry_out(rig)
    end(rig, "a")
    rig.api.put("Pod", low("f", priority=50, cpu=2))
    rig.watch("Pod")
    rig.pass_time(20)
    rig.run()
    carry_out(rig)

    assert "" == rig.api.pods["default/boss"].status.nominated_node_name
    assert message(rig).endswith(
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


class Lifecycle:
    """A seeded run: pods of many priorities are created and deleted, effects fail, processes
    die.
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        self.rig = Rig(default_engine)
        self.made = 0
        for number in range(random.randint(1, 4)):
            self.rig.api.put("Node", make_node(f"n{number}", cpu=random.choice([2, 3, 4])))
        self.rig.watch("Node")

    def step(self) -> None:
        """Make one random event."""
        rig, random = self.rig, self.random
        match random.randrange(12):
            case 0 | 1 | 2:
                self._create()
            case 3:
                rig.run(random.choice([1, 4]))
            case 4 if rig.ready():
                rig.perform(random.choice(rig.ready()), deliver=random.random() < 0.9)
            case 5 if rig.ready():
                rig.refuse(random.choice(rig.ready()), random.choice([0, 403, 409, 500]))
            case 6 | 7 if rig.answers:
                rig.deliver(random.randrange(len(rig.answers)))
            case 8:
                rig.watch("Pod", random.choice([1, 3, 100]))
            case 9:
                rig.pass_time(random.choice([0.1, 1, 15]))
            case 10 if random.random() < 0.1:
                rig.restart()
                # A bind that arrives after its sender has died may overcommit; that is unavoidable.
                rig.strays.clear()
            case _:
                self._end_one()

    def _create(self) -> None:
        random = self.random
        self.made += 1
        pod = make_pod(
            f"p{self.made}",
            cpu=random.choice([1, 2]),
            priority=random.choice([0, 0, 5, 10]),
            preemption_policy=random.choice(["PreemptLowerPriority"] * 5 + ["Never"]),
        )
        self.rig.api.put("Pod", pod)

    def _end_one(self) -> None:
        going = [key for key, pod in self.rig.api.pods.items() if pod.is_terminating]
        if going:
            self.rig.api.remove("Pod", self.random.choice(going))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_nothing_is_overcommitted_and_no_pod_is_forgotten(seed: int):
    """With all faults no node is overcommitted, and each pod that is left waiting has to.

    No remaining pod fits, may evict, or is kept from a node by a lower nomination.
    """
    lifecycle = Lifecycle(Random(seed))
    for _ in range(60):
        lifecycle.step()
    rig = lifecycle.rig
    rig.settle()

    waiting = [queued.pod for queued in rig.engine.queues]
    for pod in waiting:
        decision = decide(rig.engine.attempt(pod, rig.now))
        assert (False, ()) == (decision.fits, decision.victims), pod.key
    for name, node in rig.api.nodes.items():
        used = [
            int(pod.spec.containers[0].resources.requests["cpu"])
            for pod in rig.api.pods.values()
            if pod.spec.node_name == name
        ]
        assert sum(used) <= int(node.status.allocatable["cpu"])
    assert 0 == len(rig.engine.nominations)
