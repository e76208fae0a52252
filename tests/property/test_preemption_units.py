"""A pod's victims, some of them in groups: the least harm, and no partially evicted group."""

from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduler.engine.decision import Decision
from scheduler.engine.effects import Answer, AskExtender, ExtenderAnswer, Watched
from scheduler.engine.engine import Engine
from scheduler.engine.extender.extenders import ConfiguredExtender
from scheduler.engine.settings import EngineSettings
from scheduler.objects.pod import Pod
from tests.property import unitcluster
from tests.property.engines import PROFILES, REGISTRY
from tests.property.evictionevents import check_eviction_events
from tests.property.making import make_node, make_pod
from tests.property.unitcluster import (
    CONFIG_MAP_LABEL,
    POD_GROUP_LABEL,
    SimulatedCluster,
    choices,
    describe,
    fits,
    objects_of,
    units_of,
)

NOW = 1_767_225_600.0


# It receives the candidates of each node, and rejects none.
REVIEWER = ConfiguredExtender(0, "http://reviewer", preempts=True)


def decide(cluster: SimulatedCluster, *, reviewed: bool = False) -> Decision:
    """Return the engine's decision on the preemptor; check the invariant of eviction events."""
    extenders = (REVIEWER,) if reviewed else ()
    engine = Engine(PROFILES, REGISTRY, settings=EngineSettings(extenders=extenders))
    decisions: list[Decision] = []
    engine.observation.on_decision = lambda _queued, decision: decisions.append(decision)
    for kind, obj in objects_of(cluster):
        engine.handle(Watched(kind, "ADDED", obj), NOW)
    engine.handle(Watched("Pod", "ADDED", cluster.preemptor), NOW)
    effects = engine.run(NOW, 1)
    for asked in [one for one in effects if isinstance(one, AskExtender)]:
        engine.handle(Answer(asked.id, 200, body=ExtenderAnswer(offers=asked.offers)), NOW)
        effects = engine.run(NOW, 0)
    check_eviction_events(effects, engine)
    (decision,) = decisions
    return decision


def check(seed: int, *, shrinking: bool = False) -> bool:
    """Compare one cluster with every possible choice; return whether any pod had to be evicted."""
    cluster = unitcluster.cluster_of(Random(seed), shrinking=shrinking)
    decision = decide(cluster, reviewed=seed % 3 == 0)
    victims = frozenset(victim.pod.metadata.name for victim in decision.victims)
    if any(fits(cluster, node, frozenset()) for node in cluster.nodes):
        assert decision.fits, seed
        return False
    possible = choices(cluster)
    if not possible:
        assert not victims, seed
        return False
    least = min(choice.harm for choice in possible.values())
    best = {name: one.victims for name, one in possible.items() if one.harm == least}
    assert decision.nominated_node in best, (seed, possible)
    assert best[decision.nominated_node] == victims, (seed, possible)
    for unit in units_of(cluster):
        names = {pod.metadata.name for pod in unit.pods}
        needed = cluster.needs.get(unit.key, len(names))
        assert names <= victims or len(names - victims) >= min(needed, len(names)), (seed, unit)
    return True


def member(name: str, node: str, label: str) -> Pod:
    """Return a running member of the group `low`."""
    return make_pod(name, node=node, priority=5, scheduler="another", labels={label: "low"})


def around(kind: str, label: str, *others: Pod, cpus: tuple[int, int] = (2, 2)) -> SimulatedCluster:
    """Return two nodes that a group of three and `others` fill, and a pod of higher priority."""
    nodes = [make_node(f"n{number}", cpu=cpu) for number, cpu in enumerate(cpus)]
    where = ("n0", "n0", "n1")
    pods = [member(f"low-{number}", node, label) for number, node in enumerate(where)]
    described = [(kind, describe(kind, "low", 3, 5))] if kind else []
    return SimulatedCluster(
        nodes, [*pods, *others], described, {}, (), make_pod("boss", priority=50)
    )


@pytest.mark.parametrize(
    ("kind", "label", "victims"),
    [
        ("GroupConfigMap", CONFIG_MAP_LABEL, ["low-0", "low-1", "low-2"]),
        ("PodGroup", POD_GROUP_LABEL, ["low-0", "low-1", "low-2"]),
        ("", CONFIG_MAP_LABEL, ["low-2"]),
    ],
)
def test_a_described_group_goes_whole(kind: str, label: str, victims: list[str]):
    """The members of a group on other nodes are victims as well; a label without an object joins no
    pods.
    """
    for reviewed in (False, True):
        decision = decide(around(kind, label, cpus=(2, 1)), reviewed=reviewed)
        assert victims == sorted(victim.pod.metadata.name for victim in decision.victims)


@pytest.mark.parametrize("kind", ["GroupConfigMap", "PodGroup"])
def test_a_pod_on_its_own_goes_before_a_group_of_three(kind: str):
    """The whole group counts when nodes are compared, and is spared first if both are on one
    node.
    """
    label = POD_GROUP_LABEL if kind == "PodGroup" else CONFIG_MAP_LABEL
    solo = make_pod("solo", node="n1", priority=5, scheduler="another")
    decision = decide(around(kind, label, solo))

    assert "n1" == decision.nominated_node
    assert ["solo"] == [victim.pod.metadata.name for victim in decision.victims]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
@example(seed=311)  # a member elsewhere keeps the preemptor away from this node's zone
@example(seed=542)  # several members of a group are under one budget
@example(seed=16)  # a budget has counted the eviction of a group
def test_who_goes_does_the_least_harm_of_all(seed: int):
    """Victims and node are those of an exhaustive search, and groups are evicted as a whole."""
    check(seed)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
@example(seed=282)  # a budget has counted the eviction of a group that could shrink
def test_a_group_shrinks_before_it_goes(seed: int):
    """Groups above their minimum: their surplus members are evicted alone, before the group as a
    whole.
    """
    check(seed, shrinking=True)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_groups_shrink_ten_thousand_times():
    """The invariant holds in ten thousand cases."""
    assert sum(check(seed, shrinking=True) for seed in range(10_000)) > 2_000


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_who_goes_does_the_least_harm_of_all_ten_thousand_times():
    """The invariant holds in ten thousand cases, which combine all rules."""
    preemptions = sum(check(seed) for seed in range(10_000))

    assert preemptions > 2_000
