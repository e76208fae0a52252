"""DefaultPreemption: victims, candidates and choice compared with a slow reference, and single
rules.
"""

from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.base.errors import PluginError
from scheduler.framework.hypothetical.dryrun import Attempted
from scheduler.framework.hypothetical.rowpods import NONE_NOMINATED, Nominated, row_pods
from scheduler.framework.postfilter import FitFailure
from scheduler.framework.status import SUCCESS, Code
from scheduler.objects.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta
from scheduler.objects.pod import (
    Affinity,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodCondition,
    PodStatus,
    TopologySpreadConstraint,
)
from scheduler.objects.policy import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from scheduler.plugins.preemption import DefaultPreemptionArgs
from scheduler.plugins.preemption.dryrun import Block, Walk
from scheduler.plugins.preemption.plugin import MOST_FAULTS
from scheduler.state.podindex import Placed, place
from tests.property.making import make_node, make_pod, with_meta, with_status
from tests.unit.plugins.slowpreemption import (
    Situation,
    Table,
    slow_best,
    slow_candidates,
    slow_others,
)

GPU = "example.com/gpu"
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def nominated_pods(moves: Sequence[tuple[Placed, int]]) -> Nominated:
    """Return nominated pods with their rows."""
    rows = np.array(sorted({row for _, row in moves}), dtype=np.intp)
    return Nominated(rows, lambda some: row_pods(some, moves))


def failure_of(table: Table, situation: Situation) -> FitFailure:
    """Return the failure of an attempt in which evictions may help on every node."""
    nominated = []
    for pod, node in situation.nominated:
        if pod.priority >= situation.preemptor.priority:
            placed = place(pod, table.cluster.shapes.of(pod), node)
            nominated.append((placed, table.cluster.table.rows[node]))
    what_if = Attempted(table.runner, table.cycle, table.nodes, table.states)
    return FitFailure(
        table.nodes.exists,
        (),
        SUCCESS,
        what_if,
        nominated_pods(nominated),
        lambda rows: int(rows[0]),
    )


def budget(
    name: str, app: str = "", *, allowed: int = 0, disrupted: Sequence[str] = (), **selector: Any
) -> PodDisruptionBudget:
    """Return a budget for the pods of an app."""
    labels = {"app": app} if app else {}
    return PodDisruptionBudget(
        ObjectMeta(name=name, namespace="default"),
        PodDisruptionBudgetSpec(LabelSelector(labels, **selector)),
        PodDisruptionBudgetStatus(allowed, dict.fromkeys(disrupted, "2026-01-01T00:00:00Z")),
    )


def anti(app: str, key: str) -> Affinity:
    """Return required anti-affinity to the pods of an app."""
    term = PodAffinityTerm(key, LabelSelector({"app": app}))
    return Affinity(pod_anti_affinity=PodAffinity(required=(term,)))


def near(app: str, key: str) -> Affinity:
    """Return required affinity to the pods of an app."""
    return Affinity(
        pod_affinity=PodAffinity(required=(PodAffinityTerm(key, LabelSelector({"app": app})),))
    )


def some_pod(random: Random, name: str, node: str, priority: int) -> Pod:
    """Return a pod with few distinct properties."""
    start = random.choice([None, "2026-01-01T00:00:00Z", "2026-01-02T00:00:00+01:00"])
    cpu = random.choice(["0", "1", "1", "2", "500m"])
    affinity = anti("x", random.choice([HOSTNAME, ZONE])) if random.random() < 0.1 else None
    pod = make_pod(
        name,
        node=node,
        cpu=cpu,
        priority=priority,
        labels=random.choice([{}, {"app": "x"}, {"app": "y"}]),
        host_port=80 if random.random() < 0.1 else 0,
        requests={GPU: random.choice([1, 2])} if random.random() < 0.2 else {},
        status=PodStatus(start_time=start),
        affinity=affinity,
    )
    return with_meta(pod, deletion_timestamp="x") if random.random() < 0.1 else pod


def some_situation(random: Random) -> Situation:
    """Return a small cluster in which a pod may need evictions."""
    nodes = [
        make_node(
            f"n{number}",
            cpu=random.choice([1, 2, 3, 4]),
            pods=random.choice([2, 4, 110]),
            labels={HOSTNAME: f"n{number}", ZONE: random.choice("ab")},
            allocatable={GPU: random.choice([0, 2, 4])},
        )
        for number in range(random.randint(1, 4))
    ]
    names = [node.metadata.name for node in nodes]
    pods = [
        some_pod(random, f"e{number}", random.choice(names), random.choice([-5, 0, 0, 5, 10, 20]))
        for number in range(random.randint(1, 4 * len(nodes)))
    ]
    budgets = [
        budget(
            f"b{number}",
            random.choice("xy"),
            allowed=random.randint(0, 2),
            disrupted=[random.choice(pods).metadata.name] if random.random() < 0.3 else (),
        )
        for number in range(random.choice([0, 0, 1, 3]))
    ]
    nominated = [
        (some_pod(random, f"p{number}", "", random.choice([0, 10, 30])), random.choice(names))
        for number in range(random.choice([0, 0, 1, 2]))
    ]
    preemptor = some_pod(random, "boss", "", 10)
    return Situation(nodes, pods, budgets, nominated, _demanding(random, preemptor))


def _demanding(random: Random, pod: Pod) -> Pod:
    """Add rules about other pods to some of the preemptors."""
    spec: dict[str, Any] = {}
    match random.randrange(6):
        case 0:
            spec["affinity"] = anti(random.choice("xy"), random.choice([HOSTNAME, ZONE]))
        case 1:
            spec["affinity"] = near(random.choice("xy"), random.choice([HOSTNAME, ZONE]))
        case 2:
            constraint = TopologySpreadConstraint(
                1, random.choice([HOSTNAME, ZONE]), "DoNotSchedule", LabelSelector({"app": "x"})
            )
            spec["topology_spread_constraints"] = (constraint,)
    return make_pod(
        "boss",
        cpu=random.choice([1, 2, 3]),
        priority=10,
        labels=dict(pod.metadata.labels),
        host_port=80 if random.random() < 0.2 else 0,
        requests={GPU: 2} if random.random() < 0.2 else {},
        **spec,
    )


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_victims_are_those_that_cannot_be_spared(seed: int):
    """Per node, all pods of lower priority are removed and then restored one by one, most important
    and budget-violating first.

    Candidates, victims, violated budgets and the reasons of other nodes equal those of the
    reference, and the chosen node is one of its best.
    """
    situation = some_situation(Random(seed))
    table = Table(situation, situation.pods)
    candidates, reasons = slow_candidates(situation)
    failure = failure_of(table, situation)
    found = table.plugin.candidates(table.cycle, table.nodes, failure)
    got = {
        table.nodes.name(int(block.pods.rows[place])): (
            [placed.pod.metadata.name for placed in block.victims(place)],
            int(block.violations[place]),
        )
        for block in found.blocks
        for place in block.places.tolist()
    }
    chosen = table.plugin.post_filter(table.cycle, table.nodes, failure)

    assert got == {
        name: ([pod.metadata.name for pod in candidate.victims], candidate.violations)
        for name, candidate in candidates.items()
    }
    if candidates:
        assert chosen.nominated_node in slow_best(candidates)
        assert got[chosen.nominated_node][0] == [p.pod.metadata.name for p in chosen.victims]
        return
    texts = [text for name in reasons for text in reasons[name]]
    parts = sorted(f"{texts.count(text)} {text}" for text in set(texts))
    head = f"preemption: 0/{len(situation.nodes)} nodes are available:"
    # Where no pod has to leave any node, no node has a reason.
    text = f"{head} {', '.join(parts)}." if parts else head
    assert (text, "") == (chosen.text, chosen.nominated_node)


def tied_situation(random: Random) -> Situation:
    """Return a cluster of full nodes with some free capacity. Several nodes have the same minimum
    number of victims.
    """
    nodes = [
        make_node(f"n{number}", cpu=random.choice([2, 3]), labels={HOSTNAME: f"n{number}"})
        for number in range(random.randint(3, 5))
    ]
    pods: list[Pod] = []
    for node in nodes:
        left = int(node.status.allocatable["cpu"]) - random.choice([0, 0, 0, 1])
        while left > 0:
            cpu = random.randint(1, min(2, left))
            left -= cpu
            pod = make_pod(
                f"e{len(pods)}",
                node=node.metadata.name,
                cpu=cpu,
                priority=random.choice([0, 0, 0, 20]),
                labels={"app": random.choice("xyz")},
                host_port=80 if random.random() < 0.3 else 0,
                affinity=anti("x", HOSTNAME) if random.random() < 0.2 else None,
            )
            start = f"2026-01-0{random.randint(1, 9)}T00:00:00Z"
            pods.append(with_status(pod, start_time=start))
    budgets = [budget("b0", "y", allowed=random.randint(0, 1))] if random.random() < 0.3 else []
    boss = make_pod("boss", cpu=random.choice([2, 2, 3]), priority=10)
    return Situation(nodes, pods, budgets, (), boss)


def best_elsewhere(seed: int) -> int:
    """Compare one choice with enumeration; return how many of its victims fit elsewhere."""
    situation = tied_situation(Random(seed))
    table = Table(situation, situation.pods, elsewhere=True)
    candidates, _ = slow_candidates(situation)
    answer = table.plugin.post_filter(table.cycle, table.nodes, failure_of(table, situation))
    if not candidates:
        assert not answer.victims
        return 0
    best = slow_best(candidates, lambda pod: not slow_others(situation, pod))
    assert answer.nominated_node in best
    expected = candidates[answer.nominated_node].victims
    assert names(answer) == [pod.metadata.name for pod in expected]
    for pod in expected:
        node = answer.expected.get(pod.metadata.uid)
        assert node is None or node in slow_others(situation, pod)
    if len(expected) == 1:
        assert bool(answer.expected) == bool(slow_others(situation, expected[0]))
    return len(answer.expected)


def test_victims_that_fit_elsewhere_come_first():
    """Among candidates with equally few victims, those whose victims fit other nodes are preferred;
    the nodes are named.
    """
    assert sum(best_elsewhere(seed) > 0 for seed in range(16)) > 2


@pytest.mark.long
@pytest.mark.timeout(900)
def test_victims_that_fit_elsewhere_come_first_often():
    """Of equal nodes, those whose victims fit elsewhere are chosen, in 500 clusters."""
    assert sum(best_elsewhere(seed) > 0 for seed in range(1000, 1500)) > 40


def test_the_choice_among_victims_is_an_option():
    """Without the option the later start time decides, as in kube-scheduler."""
    pods = [
        with_status(make_pod("a", node="n0", host_port=80), start_time="2026-01-02T00:00:00Z"),
        with_status(make_pod("b", node="n1"), start_time="2026-01-01T00:00:00Z"),
        make_pod("c", node="n2", cpu=0, host_port=80, priority=9),
    ]
    nodes = [make_node(f"n{number}", cpu=1) for number in range(3)]
    situation = Situation(nodes, pods, (), (), make_pod("boss", priority=1))
    chosen = {}
    for is_on in (False, True):
        table = Table(situation, pods, elsewhere=is_on)
        failure = failure_of(table, situation)
        rows = failure.candidates.copy()
        rows[table.cluster.table.rows["n2"]] = False
        failure = msgspec.structs.replace(failure, candidates=rows)
        chosen[is_on] = table.plugin.post_filter(table.cycle, table.nodes, failure)

    assert (names(chosen[False]), chosen[False].expected) == (["a"], {})
    assert (names(chosen[True]), chosen[True].expected) == (["b"], {"uid-b": "n2"})


def block_of(violations: Sequence[int | None]) -> Block:
    """Return the result of a dry run: per row None, or how many violated budgets."""
    places = [place for place, number in enumerate(violations) if number is not None]
    return Block(
        None,  # type: ignore[arg-type]
        np.array(places, dtype=np.intp),
        np.zeros(0, dtype=np.bool_),
        np.array([number or 0 for number in violations], dtype=np.int64),
    )


@pytest.mark.parametrize(
    ("wanted", "blocks", "kept", "is_over"),
    [
        (2, [[0, 0]], [[0, 1]], True),
        (2, [[None, None], [0, None], [0, 0]], [[], [0], [0]], True),
        # Violating candidates alone never end the walk, and are not all kept.
        (2, [[1, 1], [1, 1]], [[0, 1], []], False),
        (2, [[1, 1], [1, 0], [0, 0]], [[0, 1], [1]], True),
        (3, [[1, 0, 1]], [[0, 1, 2]], True),
        (3, [[1, 0, None], [0, 0, 0]], [[0, 1], [0]], True),
    ],
)
def test_the_walk_ends_when_there_are_enough(
    wanted: int, blocks: list[list[int | None]], kept: list[list[int]], is_over: bool
):
    """The walk over nodes ends with enough candidates, one of them without a violated budget. Later
    nodes are not evaluated.
    """
    walk = Walk(np.arange(wanted * len(blocks)), 0, wanted)
    got = [
        walk.keep(block_of(violations)).places.tolist()
        for _, violations in zip(walk.blocks(), blocks, strict=False)
    ]

    assert kept == got
    assert is_over == walk.is_over


def test_the_walk_starts_anywhere_and_visits_all():
    """The walk visits all rows from the offset on, wraps around, and takes as many rows at a time
    as candidates are wanted.
    """
    walk = Walk(np.array([3, 5, 7, 9]), 3, 3)

    assert [[9, 3, 5], [7]] == [rows.tolist() for rows in walk.blocks()]


@pytest.mark.parametrize(
    ("share", "number", "nodes", "wanted"),
    [(10, 100, 5000, 500), (10, 100, 500, 100), (10, 100, 7, 7), (0, 1, 50, 1), (40, 1, 5, 2)],
)
def test_how_many_candidates_are_enough(share: int, number: int, nodes: int, wanted: int):
    """The number is a share of the nodes, at least a minimum and at most all."""
    args = DefaultPreemptionArgs(
        min_candidate_nodes_percentage=share, min_candidate_nodes_absolute=number
    )

    assert wanted == args.wanted(nodes)


def preempt(preemptor: Pod, *pods: Pod, cpu: int = 2, budgets: Sequence[Any] = ()) -> Any:
    """Return the result of the plugin on one node `n0`."""
    situation = Situation([make_node("n0", cpu=cpu)], pods, budgets, (), preemptor)
    table = Table(situation, pods)
    return table.plugin.post_filter(table.cycle, table.nodes, failure_of(table, situation))


def names(answer: Any) -> list[str]:
    """Return the names of the victims."""
    return [placed.pod.metadata.name for placed in answer.victims]


def test_pods_without_a_start_are_least_important_and_the_last_that_came_most():
    """kube-scheduler takes the current time for a missing start time, so the pod created later is
    evicted first.
    """
    pods = [make_pod(name, node="n0") for name in ("a", "b")]
    early = with_status(make_pod("c", node="n0"), start_time="2026-01-01T00:00:00Z")

    assert ["a"] == names(preempt(make_pod("boss", priority=1), *pods))
    assert ["a"] == names(preempt(make_pod("boss", priority=1), pods[0], early))


def test_pods_of_equal_priority_are_no_victims():
    """Only lower priority can be evicted; the nomination is cleared when no eviction helps."""
    answer = preempt(make_pod("boss", cpu=2, priority=1), make_pod("a", node="n0", priority=1))

    assert ("", ()) == (answer.nominated_node, answer.victims)
    assert (
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
        == answer.text
    )


@pytest.mark.parametrize(
    "wrong",
    [
        budget("empty"),
        budget("other", "z"),
        PodDisruptionBudget(ObjectMeta(name="none", namespace="default")),
        budget("bad", match_expressions=(LabelSelectorRequirement("app", "Exists", ("x",)),)),
        budget("elsewhere", "x").__class__(
            ObjectMeta(name="elsewhere", namespace="other"), budget("", "x").spec
        ),
    ],
    ids=lambda b: b.metadata.name,
)
def test_budgets_without_pods(wrong: PodDisruptionBudget):
    """Budgets with an empty, invalid or non-matching selector protect no pod."""
    pods = [make_pod(name, node="n0", labels={"app": "x"}) for name in ("a", "b")]
    boss = make_pod("boss", priority=1)

    assert ["a"] == names(preempt(boss, *pods, budgets=[wrong]))
    # A real one does: "b" is the first to use it up, so "a" is spared first.
    assert ["b"] == names(preempt(boss, *pods, budgets=[wrong, budget("real", "x", allowed=1)]))


def leaving(name: str, reason: str = "PreemptionByScheduler", **changes: Any) -> Pod:
    """Return a pod of lower priority on `n0` that is being deleted for a preemptor."""
    condition = PodCondition("DisruptionTarget", "True", reason)
    pod = make_pod(name, node="n0", status=PodStatus(conditions=(condition,)), **changes)
    return with_meta(pod, deletion_timestamp="2026-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("on_node", "waits"),
    [
        (leaving("a"), True),
        (leaving("a", reason="EvictionByEvictionAPI"), False),
        (leaving("a", priority=9), False),
        (make_pod("a", node="n0"), False),
        (with_meta(make_pod("a", node="n0"), deletion_timestamp="x"), False),
    ],
)
def test_who_waits_for_whom(on_node: Pod, waits: bool):
    """The preemptor waits for its nominated node only if a terminating pod there has a lower
    priority and was preempted by a scheduler.
    """
    boss = make_pod("boss", cpu=2, priority=9, nominated="n0")
    answer = preempt(boss, on_node)

    text = "preemption: not eligible due to a terminating pod on the nominated node."
    assert waits == (text == answer.text)
    if waits:
        assert answer.nominated_node is None


def test_an_infeasible_nominated_node_does_not_prevent_preemption():
    """A pod whose nominated node cannot fit any more is given another."""
    boss = make_pod("boss", cpu=2, priority=9, nominated="n0")
    pods = [leaving("a"), make_pod("b", node="n1", cpu=2)]
    situation = Situation([make_node("n0", cpu=1), make_node("n1", cpu=2)], pods, (), (), boss)
    table = Table(situation, pods)
    failure = failure_of(table, situation)
    candidates = table.nodes.rows_named(["n1"])
    failure = FitFailure(
        candidates, (), SUCCESS, failure.attempted, NONE_NOMINATED, failure.break_tie
    )

    assert "n1" == table.plugin.post_filter(table.cycle, table.nodes, failure).nominated_node


def test_never_means_never():
    """A pod with preemptionPolicy Never evicts no pod and keeps its nomination."""
    boss = make_pod("boss", cpu=2, priority=9, preemption_policy="Never")
    answer = preempt(boss, make_pod("a", node="n0"))

    assert "preemption: not eligible due to preemptionPolicy=Never." == answer.text
    assert (None, ()) == (answer.nominated_node, answer.victims)


def test_nodes_that_cannot_be_helped_are_counted():
    """Nodes that are no candidates are counted with the reason "not helpful"."""
    boss = make_pod("boss", cpu=3, priority=9)
    pods = [make_pod("a", node="n0")]
    nodes = [make_node("n0"), make_node("n1"), make_node("n2")]
    situation = Situation(nodes, pods, (), (), boss)
    table = Table(situation, pods)
    failure = failure_of(table, situation)
    failure = FitFailure(
        table.nodes.rows_named([]),
        (),
        SUCCESS,
        failure.attempted,
        NONE_NOMINATED,
        failure.break_tie,
    )

    answer = table.plugin.post_filter(table.cycle, table.nodes, failure)
    assert (
        "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
        == answer.text
    )


class FailsOn(Attempted, frozen=True):
    """An attempt in which a filter fails on some rows as soon as pods leave them."""

    broken: frozenset[int] = frozenset()

    def dry_run(self, victims: Any, nominated: Nominated) -> Any:
        """Fail if a broken row is among the queried rows."""
        if self.broken.intersection(victims.rows.tolist()):
            raise PluginError("Devices", "Filter", "no such key: root")
        return super().dry_run(victims, nominated)


@pytest.mark.parametrize("broken", [0, 1, 6, 7, 40])
def test_a_node_on_which_a_filter_fails_is_no_candidate_and_others_are(broken: int):
    """kube-scheduler collects such errors by node, and reports them only if no node is left."""
    nodes = [make_node(f"n{number}", cpu=1) for number in range(max(broken, 6) + 1)]
    pods = [make_pod(f"p-{node.metadata.name}", node=node.metadata.name) for node in nodes]
    situation = Situation(nodes, pods, (), (), make_pod("boss", priority=9))
    table = Table(situation, pods)
    failure = failure_of(table, situation)
    asked = failure.attempted
    assert isinstance(asked, Attempted)
    failing = FailsOn(
        asked.runner, asked.cycle, asked.nodes, asked.states, frozenset(range(broken))
    )
    failure = msgspec.structs.replace(failure, attempted=failing)

    answer = table.plugin.post_filter(table.cycle, table.nodes, failure)
    left = {node.metadata.name for node in nodes[broken:]}
    # This number of failures in a row ends the search: a tenant may cause them.
    if not left or broken > MOST_FAULTS:
        assert (Code.ERROR, None) == (answer.status.code, answer.nominated_node)
        assert 'running "Devices" filter plugin: no such key: root' in answer.text
    else:
        assert answer.nominated_node in left
        assert [f"p-{answer.nominated_node}"] == names(answer)


def test_a_preemptor_is_gated_during_its_evictions():
    """The gate opens by a call of the engine."""
    situation = Situation([], [], (), (), make_pod("boss"))
    table = Table(situation, [])
    assert table.plugin.pre_enqueue(make_pod("boss")) is None

    table.preempting["uid-boss"] = None
    status = table.plugin.pre_enqueue(make_pod("boss"))
    assert "waiting for the preemption for this pod to be finished" == status.message
    assert table.plugin.pre_enqueue(make_pod("other")) is None
