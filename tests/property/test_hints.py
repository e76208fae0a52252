"""The pods that a change wakes: no pod that it lets fit is skipped, and equivalent pods are woken
together.
"""

from random import Random

import pytest

from scheduler.config import default_config
from scheduler.engine.engine import Engine
from scheduler.engine.queue import hints
from scheduler.engine.queue.hints import UnschedulablePods
from scheduler.engine.queue.pod import QueuedPod
from scheduler.groups.sources import appgroup
from scheduler.groups.sources import registry as sources
from scheduler.intree import registry
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.state.change import Change
from scheduler.state.cluster import Cluster
from tests.property import test_objects_alone
from tests.property.batches import batches
from tests.property.making import SCHEDULER, make_node, make_pod

GPU = "example.com/gpu"
GROUPS = "ClusterTopologyPlacementGroup"
ZONE = "topology.kubernetes.io/zone"


def some_pod(random: Random, name: str, node: str = "") -> Pod:
    """Return a pod of few kinds, so that several are equivalent."""
    return make_pod(
        name,
        node=node,
        cpu=random.choice([1, 2, 3, 9]),
        priority=random.choice([0, 0, 5]),
        host_port=random.choice([0, 0, 80]),
        requests=random.choice([{}, {GPU: 1}]),
        node_selector=random.choice([{}, {ZONE: "a"}, {ZONE: "z"}]),
    )


def some_node(random: Random, name: str) -> Node:
    """Return a small node."""
    return make_node(
        name,
        cpu=random.choice([2, 4]),
        pods=random.choice([2, 110]),
        labels={ZONE: random.choice("ab")},
        allocatable=random.choice([{}, {GPU: 2}]),
    )


def random_engine(random: Random) -> Engine:
    """Return an engine with some nodes and pods on them."""
    specs = [p for p in default_config(registry()).profiles if p.scheduler_name == SCHEDULER]
    engine = Engine(specs, registry())
    for number in range(3):
        engine.intake.follow(engine.cluster.put_node(some_node(random, f"n{number}")))
    for number in range(random.randint(2, 9)):
        pod = some_pod(random, f"e{number}", f"n{random.randrange(3)}")
        engine.intake.follow(engine.cluster.put_pod(pod))
    return engine


def may_have(cluster: Cluster, pod: Pod) -> bool:
    """Return whether some node has capacity for a pod after the deletion of all less important
    ones.
    """
    wanted = dict(cluster.shapes.of(pod).requests)
    for node in cluster.table.nodes:
        if node is None:
            continue
        row = cluster.table.rows[node.metadata.name]
        on_node = cluster.pods.on(node.metadata.name).values()
        stay = [one for one in on_node if one.pod.priority >= pod.priority]
        has_capacity = all(
            amount + sum(one.requests.get(name, 0) for one in stay)
            <= int(cluster.table.allocatable(name)[row])
            for name, amount in wanted.items()
        )
        if has_capacity and len(stay) < int(cluster.table.allocatable("pods")[row]):
            return True
    return False


@pytest.mark.parametrize("batch", batches(50, 100, 50))
def test_no_pod_is_skipped_that_fits_after_a_deletion(batch: int):
    """When each of a hundred pods ends, NodeResourcesFit wakes every pod that fits now and did
    not fit before.
    """
    woken = left = 0
    for seed in range(batch * 50, batch * 50 + 50):
        random = Random(seed)
        engine = random_engine(random)
        fit = engine.profiles[SCHEDULER].plugins["NodeResourcesFit"]
        waiting = [some_pod(random, f"w{number}") for number in range(6)]
        for placed in random.sample(list(engine.cluster.pods), 2):
            before = [may_have(engine.cluster, pod) for pod in waiting]
            change = engine.cluster.drop_pod(placed.pod.metadata.uid)
            engine.intake.follow(change)
            for pod, could in zip(waiting, before, strict=True):
                helps = fit.hint(change, pod)
                assert helps or could or not may_have(engine.cluster, pod), (seed, pod.key)
                woken, left = woken + helps, left + (not helps)

    assert woken > 100
    assert left > 100


@pytest.mark.parametrize("batch", batches(20, 40, 20))
@pytest.mark.parametrize("few", [hints.FEW, 0])
def test_equivalent_pods_are_woken_as_each_would_be(
    few: int, batch: int, monkeypatch: pytest.MonkeyPatch
):
    """Whichever plugin rejected the pods, those woken by their equivalence key are those that the
    hints of each pod would wake, also if their needs are compared.
    """
    monkeypatch.setattr(hints, "FEW", few)
    found = 0
    for seed in range(batch * 20, batch * 20 + 20):
        random = Random(seed)
        engine = random_engine(random)
        pods, profile = engine.queues._unschedulable_pods, engine.profiles[SCHEDULER]
        names = ["NodeResourcesFit", "NodeAffinity", "NodePorts", "TaintToleration", "Extender", ""]
        waiting = [QueuedPod(some_pod(random, f"w{n}"), n, 0.0) for n in range(40)]
        for queued in waiting:
            rejected = random.sample(names, random.randint(1, 2))
            queued.rejected_by = tuple(name for name in rejected if name)
            pods.park(queued)
        assert {*names[:-2]} <= profile.plugins.keys()
        for queued in random.sample(waiting, 10):
            pods.unpark(queued)
            waiting.remove(queued)
        cluster = engine.cluster
        for change in (
            cluster.drop_pod(next(iter(cluster.pods)).pod.metadata.uid),
            cluster.put_node(some_node(random, "n1")),
            cluster.put_node(some_node(random, "new")),
            cluster.drop_node("n2"),
        ):
            engine.intake.follow(change)
            each = [queued.uid for queued in waiting if pods.may_help(queued, change)]
            assert each == [queued.uid for queued in pods.helped_by(change)], (seed, change.label)
            found += len(each)
        for queued in waiting:
            pods.unpark(queued)
        assert (0, []) == (len(pods), [kinds for kinds in pods._parked.values() if kinds])

    assert found > 200


@pytest.mark.parametrize("batch", batches(20, 60, 20))
def test_members_of_groups_are_found_without_asking_about_each(
    batch: int, monkeypatch: pytest.MonkeyPatch
):
    """The members that a change of any kind may help are those found by running the hints for every
    waiting pod.

    `Groups.settle` checks gated members when an object changes the description of their group.
    """
    known, woken, asked = UnschedulablePods.helped_by, 0, 0

    def compared(self: UnschedulablePods, change: Change) -> list[QueuedPod]:
        nonlocal woken, asked
        found = known(self, change)
        waiting = sorted(self.parked(), key=lambda queued: queued.sequence)
        is_settled = change.kind in sources.BY_KIND and change.kind != appgroup.KIND
        others = (one for one in waiting if not (is_settled and one.gated_by == GROUPS))
        assert found == [one for one in others if self.may_help(one, change)], (
            change.kind,
            change.label,
        )
        woken, asked = woken + len(found), asked + len(waiting)
        return found

    monkeypatch.setattr(UnschedulablePods, "helped_by", compared)
    for seed in range(batch * 20, batch * 20 + 20):
        *_, rig = test_objects_alone.happen(seed)
        rig.calm()
    assert woken > 50
    assert asked - woken > 100
