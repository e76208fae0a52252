"""The state that preemption keeps between attempts equals a state computed afresh."""

from random import Random
from typing import Any, cast

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine.handle import EngineHandle
from scheduler.framework.hypothetical.disruption import (
    DisruptionMode,
    DisruptionUnit,
    DisruptionUnits,
)
from scheduler.framework.nodes import Nodes
from scheduler.objects.meta import LabelSelector, ObjectMeta
from scheduler.objects.pod import Pod, PodStatus
from scheduler.objects.policy import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from scheduler.plugins.preemption import budgets
from scheduler.plugins.preemption.budgets import BudgetIndex
from scheduler.plugins.preemption.importance import PodsByImportance
from scheduler.plugins.preemption.units import UnitIndex
from scheduler.plugins.preemption.victims import Victims
from scheduler.state.change import Change
from scheduler.state.cluster import Cluster
from scheduler.state.counts import rowlists
from tests.property.making import make_node, make_pod

NODES = ("n0", "n1", "n2", "n3")
KIND = "PodDisruptionBudget"


class Kept:
    """A cluster with the two trackers, and the same trackers made anew on demand."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.handle = EngineHandle(self.cluster, {})
        self.ranks = self.handle.tracker(PodsByImportance)
        self.budgets = self.handle.tracker(BudgetIndex)

    def follow(self, change: Change) -> None:
        """Apply a change to the trackers."""
        for tracker in self.handle.trackers.values():
            if change.kind:
                tracker.apply(change)

    def anew(self) -> tuple[PodsByImportance, BudgetIndex]:
        """Return both trackers, made from the cluster as it is."""
        ranks, index = PodsByImportance(), BudgetIndex()
        ranks.rebuild(self.cluster)
        index.rebuild(self.cluster)
        return ranks, index

    def victims(self, ranks: PodsByImportance, rows: Any, priority: int) -> Victims:
        """Return the pods below a priority on some rows."""
        nodes = Nodes(self.cluster.table, self.cluster.pods)
        return Victims(ranks, UnitIndex(self.handle), nodes, rows, priority)


def look(kept: Kept, ranks: PodsByImportance, index: BudgetIndex, rows: Any, priority: int) -> Any:
    """Return all results of a preemptor for these rows."""
    victims = kept.victims(ranks, rows, priority)
    pods = [victims.pod(number).pod for number in range(len(victims))]
    return (
        victims.rows.tolist(),
        victims.counts.tolist(),
        [(pod.key, pod.status.start_time, pod.is_terminating) for pod in pods],
        [victims.priority.tolist(), victims.start.tolist(), victims.shape_ids.tolist()],
        [victims.amounts(name).tolist() for name in ("cpu", "memory", "example.com/gpu")],
        [victims.amounts(name, scored=True).tolist() for name in ("cpu", "memory")],
        index.violations(victims).tolist(),
    )


def change_something(kept: Kept, random: Random) -> Change:
    """Make one small change of the cluster."""
    cluster, name = kept.cluster, f"p{random.randrange(12)}"
    uid = f"uid-{name}"
    match random.randrange(10):
        case 0:
            return cluster.put_node(make_node(random.choice(NODES)))
        case 1:
            return cluster.drop_node(random.choice(NODES))
        case 2 | 3:
            return cluster.drop_pod(uid)
        case 4:
            return _change_budget(kept, random)
        case 5 if cluster.pods.get(uid) is None:
            return cluster.assume(_pod(name, "", random), random.choice(NODES))
        case _:
            return cluster.put_pod(_pod(name, random.choice(NODES), random))


def _pod(name: str, node: str, random: Random) -> Pod:
    return make_pod(
        name,
        node=node,
        cpu=random.choice([0, 1, 2]),
        priority=random.choice([0, 0, 5]),
        labels=random.choice([{}, {"app": "x"}, {"app": "y", "tier": "z"}]),
        requests={"example.com/gpu": random.choice([0, 1])},
        status=PodStatus(start_time=random.choice([None, "2026-01-01T00:00:00Z"])),
    )


def _change_budget(kept: Kept, random: Random) -> Change:
    name = random.choice("abc")
    budget = PodDisruptionBudget(
        ObjectMeta(name=name, namespace=random.choice(["default", "default", "other"])),
        PodDisruptionBudgetSpec(LabelSelector(random.choice([{"app": "x"}, {"tier": "z"}, {}]))),
        PodDisruptionBudgetStatus(
            random.randrange(3), random.choice([{}, {"p1": "2026-01-01T00:00:00Z"}])
        ),
    )
    if random.random() < 0.3:
        return kept.cluster.drop_object(KIND, budget)
    return kept.cluster.put_object(KIND, budget)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_incremental_is_as_afresh(seed: int):
    """After every change a preemptor has the same results from kept columns as from new ones."""
    random, kept = Random(seed), Kept()
    ranks, index = kept.anew()
    for _ in range(40):
        kept.follow(change_something(kept, random))
        ranks, index = kept.anew()
        rows = np.flatnonzero(kept.cluster.table.exists)
        priority = random.choice([0, 1, 9])
        expected = look(kept, ranks, index, rows[::-1], priority)

        assert expected == look(kept, kept.ranks, kept.budgets, rows[::-1], priority)
    assert ranks.columns() == kept.ranks.columns()
    assert index.columns() == kept.budgets.columns()


def test_outdated_rows_are_swept_together(monkeypatch):
    """However often a row changes, the list stays about as long as the number of pods."""
    monkeypatch.setattr(rowlists, "_LEAST_OUTDATED", 4)
    kept, row = Kept(), np.array([0, 1])
    for name in NODES[:2]:
        kept.follow(kept.cluster.put_node(make_node(name)))
    for number in range(50):
        kept.follow(kept.cluster.put_pod(make_pod(f"a{number % 3}", node="n0", cpu=number)))
        kept.follow(kept.cluster.put_pod(make_pod(f"b{number % 2}", node="n1")))
        numbers, _, _ = kept.ranks.lists.on(row)
        found = [kept.ranks.lists.pods[pod].pod.key for pod in numbers.tolist()]

        assert sorted(placed.pod.key for placed in kept.cluster.pods) == sorted(found)
        assert 20 > len(kept.ranks.lists.pods)


def test_shapes_that_are_gone_do_not_pile_up(monkeypatch):
    """Past a number of shapes the lookup of budgets is rebuilt, with the same results."""
    monkeypatch.setattr(budgets, "_MOST_SHAPES", 3)
    kept = Kept()
    kept.follow(kept.cluster.put_node(make_node("n0")))
    spec = PodDisruptionBudgetSpec(LabelSelector({"app": "x"}))
    kept.follow(
        kept.cluster.put_object(
            KIND, PodDisruptionBudget(ObjectMeta(name="b", namespace="default"), spec)
        )
    )
    for number in range(10):
        pod = make_pod("a", node="n0", cpu=number, labels={"app": "x" if number % 2 else "y"})
        kept.follow(kept.cluster.put_pod(pod))
        victims = kept.victims(kept.ranks, np.array([0]), 1)

        assert [number % 2] == kept.budgets.violations(victims).tolist()


class OneGroup:
    """A planner whose only group of two pods is evicted as a whole."""

    def __init__(self, kept: Kept) -> None:
        members = tuple(sorted(kept.cluster.pods, key=lambda placed: placed.pod.key))
        self._unit = DisruptionUnit("g", DisruptionMode.ALL, 0, members)

    def disruption_units(self, since: int) -> DisruptionUnits:
        """Return the group on the first call."""
        changed = {} if since else {self._unit.key: self._unit}
        return DisruptionUnits(1, changed, is_all=not since)


def test_a_new_status_of_a_budget_applies_to_a_known_group():
    """The budget allows no further eviction, and now counts one of the two members as evicted."""
    kept = Kept()
    kept.follow(kept.cluster.put_node(make_node("n0")))
    for name in ("g-0", "g-1"):
        kept.follow(kept.cluster.put_pod(make_pod(name, node="n0", labels={"app": "x"})))
    kept.handle.planners["default"] = cast(Any, OneGroup(kept))
    units = UnitIndex(kept.handle)

    def violations(disrupted: dict[str, str]) -> list[int]:
        spec = PodDisruptionBudgetSpec(LabelSelector({"app": "x"}))
        status = PodDisruptionBudgetStatus(0, disrupted)
        budget = PodDisruptionBudget(ObjectMeta(name="b", namespace="default"), spec, status)
        kept.follow(kept.cluster.put_object(KIND, budget))
        nodes = Nodes(kept.cluster.table, kept.cluster.pods)
        units.catch_up(nodes)
        victims = Victims(kept.ranks, units, nodes, np.array([0]), 1)
        return [int(one) for one in kept.budgets.violations(victims)]

    assert [2] == violations({})
    assert [1] == violations({"g-0": "2026-01-01T00:00:00Z"})
