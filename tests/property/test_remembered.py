"""Cached dry runs of preemption equal new ones."""

from random import Random
from typing import Any

import pytest

from scheduler.engine.effects import Watched
from scheduler.engine.engine import Engine
from scheduler.objects.meta import LabelSelector, ObjectMeta
from scheduler.objects.node import Taint
from scheduler.objects.pod import Pod, PodStatus, Toleration
from scheduler.objects.policy import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from scheduler.plugins.preemption.remembered import DryRunCache
from scheduler.plugins.preemption.units import UnitIndex
from tests.property.engines import PROFILES, REGISTRY
from tests.property.making import make_node, make_pod, with_meta
from tests.property.test_memo import outcome
from tests.property.unitcluster import POD_GROUP_LABEL, describe

NODES = 6


class SimulatedCluster:
    """An engine with a few full nodes, and the possible events."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.engine = Engine(PROFILES, REGISTRY)
        self.pods: dict[str, Pod] = {}
        self.number = 0
        self.cpus: dict[str, int] = {}
        for number in range(NODES):
            self.node(f"n{number}")
        for app in "xy":
            self.budget(app, "ADDED")

    def say(self, kind: str, verb: str, obj: Any) -> None:
        """Report an event to the engine."""
        self.engine.handle(Watched(kind, verb, obj), 1.0)

    def node(self, name: str = "") -> None:
        """A node appears or changes."""
        name = name or f"n{self.random.randrange(NODES)}"
        if name not in self.cpus or self.random.random() < 0.2:
            self.cpus[name] = self.random.choice([2, 3, 4])
        tainted = [Taint("dedicated", "", "NoSchedule")] if self.random.random() < 0.4 else []
        self.say("Node", "MODIFIED", make_node(name, cpu=self.cpus[name], taints=tainted))

    def node_goes(self) -> None:
        """Delete a node; another one with its name is added sooner or later."""
        self.say("Node", "DELETED", make_node(f"n{self.random.randrange(NODES)}"))

    def pod(self) -> None:
        """Bind a new pod to some node."""
        self.number += 1
        start = self.random.choice([None, "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"])
        pod = make_pod(
            f"e{self.number}",
            node=f"n{self.random.randrange(NODES)}",
            cpu=self.random.choice(["500m", "1", "2"]),
            priority=self.random.choice([-5, 0, 0, 3, 20]),
            labels={"app": self.random.choice("xyz"), **self.grouped()},
            host_port=self.random.choice([0, 0, 0, 80]),
            status=PodStatus(start_time=start),
        )
        self.pods[pod.metadata.uid] = pod
        self.say("Pod", "ADDED", pod)

    def pod_changes(self) -> None:
        """Delete a bound pod, request its deletion, or change its labels."""
        if not self.pods:
            return
        uid = self.random.choice(sorted(self.pods))
        match self.random.randrange(4):
            case 0:
                self.say("Pod", "DELETED", self.pods.pop(uid))
                return
            case 1:
                self.pods[uid] = with_meta(self.pods[uid], deletion_timestamp="x")
            case _:
                labels = {"app": self.random.choice("xyz"), **self.grouped()}
                self.pods[uid] = with_meta(self.pods[uid], labels=labels)
        self.say("Pod", "MODIFIED", self.pods[uid])

    def budget(self, app: str = "", verb: str = "") -> None:
        """Create, change or delete a disruption budget."""
        app = app or self.random.choice("xyz")
        one = PodDisruptionBudget(
            ObjectMeta(name=app, namespace="default"),
            PodDisruptionBudgetSpec(LabelSelector({"app": app})),
            PodDisruptionBudgetStatus(self.random.randrange(3), {}),
        )
        verb = verb or self.random.choice(["MODIFIED", "DELETED"])
        self.say("PodDisruptionBudget", verb, one)

    def grouped(self) -> dict[str, str]:
        """Return the label of a group, or none."""
        name = self.random.choice(["", "", "g0", "g1"])
        return {POD_GROUP_LABEL: name} if name else {}

    def group(self) -> None:
        """Create or delete the description of a group: its pods are evicted together, or each
        alone.
        """
        name = self.random.choice(["g0", "g1"])
        verb = self.random.choice(["ADDED", "MODIFIED", "DELETED"])
        self.say("PodGroup", verb, describe("PodGroup", name, 2, None))

    def nomination(self) -> None:
        """Nominate a pod, or clear a nomination."""
        name = f"wants{self.random.randrange(4)}"
        node = self.random.choice(["", *(f"n{number}" for number in range(NODES))])
        priority = self.random.choice([0, 10, 30])
        self.engine.nominations.put(make_pod(name, cpu=1, priority=priority), node)


def preemptors() -> list[Pod]:
    """Return two pods of each of three shapes; those of one shape differ in their names only."""
    shapes: list[dict[str, Any]] = [
        {"cpu": 2, "priority": 10},
        {"cpu": 1, "priority": 5, "host_port": 80},
        {"cpu": 3, "priority": 10, "tolerations": (Toleration("dedicated", "Exists"),)},
    ]
    return [make_pod(f"boss{s}{n}", **shapes[s]) for s in range(3) for n in range(2)]


@pytest.mark.parametrize("seed", range(6))
def test_remembered_dry_runs_are_like_new_ones(seed):
    """Whatever events happen, node, victims and message equal those without a cache."""
    random = Random(seed)
    cluster = SimulatedCluster(random)
    happenings = [cluster.pod] * 8 + [cluster.pod_changes] * 6 + [cluster.nomination] * 4
    happenings += [cluster.node] * 4 + [cluster.group] * 2 + [cluster.node_goes, cluster.budget]
    bosses, chosen = preemptors(), 0
    plugin: Any = cluster.engine.profiles["trellis"].plugins["DefaultPreemption"]
    shapes = [cluster.engine.cluster.shapes.of(pod) for pod in bosses]
    for _ in range(120):
        for _ in range(random.randrange(3)):
            random.choice(happenings)()
        boss = random.choice(bosses)
        one, other = cluster.engine.attempt(boss, 1.0), cluster.engine.attempt(boss, 1.0)
        before = one.cycle.random.getstate()
        got = outcome(one)
        chosen += bool(got[3])
        one.cycle.random.setstate(before)
        memory, plugin._remembered = plugin._remembered, DryRunCache()
        units, plugin._units = plugin._units, UnitIndex(plugin.handle)

        assert outcome(other) == got
        plugin._remembered, plugin._units = memory, units
    assert chosen > 2
    assert shapes
