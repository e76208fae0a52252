"""The cached results of filters and scores: their updates, and when they are recomputed."""

from typing import Any

import numpy as np
import pytest

from scheduler.framework import EACH_POD
from scheduler.framework.cycle import Cycle
from scheduler.framework.nodes import Nodes
from scheduler.framework.plugin import Plugin
from scheduler.framework.running.answers import Scored, States
from scheduler.framework.running.memo import FEW, MOST_KINDS
from scheduler.framework.status import reject
from scheduler.objects.meta import ObjectMeta
from scheduler.objects.pod import Pod
from scheduler.objects.workloads import MapSelectorSpec, Service
from tests.property.making import make_node, make_pod
from tests.unit.framework.runnerrig import RunnerRig, made


def by_cpu(**members: Any) -> type[Plugin[Any]]:
    """Return a plugin that rejects and scores by the CPU in use, and records the rows it was called
    for.
    """

    def sift(self: Any, _cycle: Cycle, nodes: Nodes) -> Any:
        self.filtered.append(nodes.size)
        return reject(nodes.requested("cpu") >= 3000, "busy")

    def score(self: Any, _cycle: Cycle, nodes: Nodes) -> Any:
        self.scored.append(nodes.size)
        return nodes.requested("cpu") // 100

    whole = {
        "filter": sift,
        "score": score,
        "key": lambda _self, _pod: "cpu",
        "reads": ("node.allocatable", "pod.deleted"),
        "local": True,
        "filtered": list[int](),
        "scored": list[int](),
    }
    return made("ByCpu", **(whole | members))


def worth(_self: Any, _cycle: Cycle, nodes: Nodes) -> Any:
    """Return the score of each row."""
    used = nodes.requested("cpu").item
    return lambda row: used(row) // 100


CELLS = {"score_cells": worth}


class ScoringRig(RunnerRig):
    """A rig with attempts from pre-filter to score."""

    def attempt(self, pod: Pod | None = None) -> tuple[list[bool], list[int], list[Scored]]:
        """Return the feasible rows, the totals and the scores."""
        one = pod or self.pod
        cycle = Cycle(one, self.cluster.shapes.of(one), 0.0, self.cycle.random)
        nodes = Nodes(self.cluster.table, self.cluster.pods)
        self.states = States()
        self.runner.pre_filter(cycle, nodes, self.states)
        feasible, self.rejections = self.runner.filter(cycle, nodes, self.states, nodes.exists)
        self.total, scores = self.runner.score(cycle, nodes.among(feasible), self.states)
        return feasible.tolist(), self.total.tolist(), scores

    def place(self, name: str, node: str, cpu: int = 1) -> None:
        """Place a pod on a node."""
        self.cluster.put_pod(make_pod(name, node=node, cpu=cpu))

    def asked(self) -> tuple[list[int], list[int]]:
        """Return the sizes of the views that the plugin was called with so far."""
        plugin = self.profile.plugins["ByCpu"]
        return plugin.filtered, plugin.scored  # type: ignore[attr-defined]


def test_one_row_is_asked_about_again():
    """For one changed row, the plugin's methods are called with a view of that row."""
    rig = ScoringRig(by_cpu())
    rig.attempt()
    rig.place("a", "n1")

    assert ([True, True, True], [0, 10, 0]) == rig.attempt()[:2]
    assert ([3, 1], [3, 1]) == rig.asked()
    rig.attempt()
    assert ([3, 1], [3, 1]) == rig.asked()


def test_cells_answer_for_a_few_rows():
    """A few changed rows are scored by `score_cells`, without a view."""
    rig = ScoringRig(by_cpu(**CELLS))
    rig.attempt()
    rig.place("a", "n1")
    assert ([True, True, True], [0, 10, 0]) == rig.attempt()[:2]
    assert ([3, 1], [3]) == rig.asked()

    rig.place("b", "n1", cpu=2)
    assert ([True, False, True], [0, 30, 0]) == rig.attempt()[:2]
    assert ([3, 1, 1], [3]) == rig.asked()


def test_pods_of_one_key_share_it():
    """Pods of one key share the cached answer, whatever their shapes."""
    rig = ScoringRig(by_cpu())
    rig.attempt()
    rig.attempt(make_pod("other", labels={"app": "other"}))

    assert ([3], [3]) == rig.asked()


def test_rows_that_fill_up_and_empty():
    """When rows become full or free, their rejections change, with the reasons."""
    rig = ScoringRig(by_cpu())
    rig.place("a", "n1", cpu=3)
    assert [True, False, True] == rig.attempt()[0]
    rig.place("b", "n2", cpu=3)
    assert [True, False, False] == rig.attempt()[0]
    assert [("ByCpu", [False, True, True])] == [
        (one.plugin, one.rows.tolist()) for one in rig.rejections
    ]
    rig.cluster.drop_pod("uid-a")
    assert [True, True, False] == rig.attempt()[0]
    rig.cluster.drop_pod("uid-b")
    assert [True, True, True] == rig.attempt()[0]
    assert [] == rig.rejections


def test_a_reason_that_was_not_there_has_everything_asked_again():
    """A new reason causes all rows to be filtered again, because one row does not show the plugin's
    order of reasons.
    """

    def two(self: Any, _cycle: Cycle, nodes: Nodes) -> Any:
        self.filtered.append(nodes.size)
        busy, full = nodes.requested("cpu") >= 2000, nodes.requested("pods") >= 2
        one = reject(full, "full") if full.any() else None
        other = reject(busy, "busy") if busy.any() else None
        return other if one is None else one | other

    rig = ScoringRig(by_cpu(filter=two))
    rig.place("a", "n1", cpu=2)
    rig.attempt()
    rig.place("b", "n1")
    rig.attempt()

    assert [3, 1, 3] == rig.asked()[0]
    assert ("full", "busy") == rig.rejections[0].rejected.texts(1)


def test_a_plugin_that_looks_across_rows_is_asked_about_all():
    """With `local = False`, a changed row causes all rows to be filtered again."""
    rig = ScoringRig(by_cpu(local=False))
    rig.attempt()
    rig.attempt()
    assert ([3], [3]) == rig.asked()
    rig.place("a", "n1")
    rig.attempt()

    assert ([3, 3], [3, 3]) == rig.asked()


def test_many_rows_are_worked_out_together():
    """A view is scored as columns if more than FEW rows changed, and all rows if more than a
    quarter changed.
    """
    rig = ScoringRig(by_cpu(**CELLS), nodes=4 * FEW + 8)
    rig.attempt()
    for number in range(FEW + 1):
        rig.place(f"p{number}", f"n{number}")
    rig.attempt()
    for number in range(FEW + 4):
        rig.place(f"q{number}", f"n{number}")
    assert [20] * (FEW + 1) + [10] * 3 == rig.attempt()[1][: FEW + 4]

    assert [4 * FEW + 8, FEW + 1, 4 * FEW + 8] == rig.asked()[1]


@pytest.mark.parametrize(
    ("reads", "asked"),
    [
        (("node.labels",), [3, 1]),
        (("node.allocatable",), [3]),
        (("pod.deleted",), [3]),
        (("node.labels", "Service"), [3, 1, 3]),
        (("pod.labels",), [3, 3, 3, 3]),
    ],
)
def test_reads_say_what_ends_it(reads: tuple[str, ...], asked: list[int]):
    """The facts in `reads` invalidate the cache: a node label, an object, or none. Facts without a
    log disable caching.
    """
    rig = ScoringRig(by_cpu(reads=reads))
    rig.attempt()
    rig.cluster.put_node(make_node("n0", labels={"new": "label"}))
    rig.attempt()
    service = Service(ObjectMeta("web", "default"), MapSelectorSpec({}))
    rig.cluster.put_object("Service", service)
    rig.attempt()
    rig.attempt()

    assert asked == rig.asked()[1]


def test_new_rows_and_new_resources_are_seen():
    """Cells are evaluated on the current arrays, which new rows and new resources replace."""
    rig = ScoringRig(by_cpu(**CELLS))
    rig.attempt()
    rig.cluster.put_node(make_node("n3", allocatable={"example.com/gpu": 1}))
    rig.place("a", "n3")

    assert [0, 0, 0, 10] == rig.attempt()[1]
    rig.cluster.put_pod(make_pod("b", node="n0", requests={"cpu": "1", "example.com/tpu": "1"}))
    assert [10, 0, 0, 10] == rig.attempt()[1]


def test_each_pod_is_asked_about_without_a_key_of_its_likes():
    """A plugin with the key `EACH_POD` is called for each pod."""
    rig = ScoringRig(by_cpu(key=lambda *_: EACH_POD))
    rig.attempt()
    rig.attempt()

    assert ([3, 3], [3, 3]) == rig.asked()


def test_what_was_handed_out_stays_as_it_was():
    """Returned scores are read-only and do not change when the cache is updated."""
    rig = ScoringRig(by_cpu(**CELLS))
    raw = rig.attempt()[2][0].raw
    rig.place("a", "n1")

    assert [0, 10, 0] == rig.attempt()[1]
    assert [0, 0, 0] == raw.tolist()
    with pytest.raises(ValueError, match="read-only"):
        raw[0] = 1


def test_columns_of_the_table_itself_are_copied():
    """If a plugin returns a column of the live table, the cache stores a copy."""
    rig = ScoringRig(by_cpu(score=lambda _self, _cycle, nodes: nodes.requested("pods")))
    raw = rig.attempt()[2][0].raw
    rig.place("a", "n1")

    assert [0, 1, 0] == rig.attempt()[1]
    assert [0, 0, 0] == raw.tolist()
    assert rig.nodes.requested("pods").flags.writeable


def test_scores_out_of_range_are_found_as_ever():
    """Invalid scores of feasible rows raise an error, whether the rows were computed now or
    cached.
    """
    rig = ScoringRig(by_cpu(score=lambda _self, _cycle, nodes: nodes.requested("cpu") // 10))
    rig.attempt()
    rig.place("a", "n1", cpu=2)
    with pytest.raises(Exception, match="invalid score 200"):
        rig.attempt()
    rig.place("b", "n1", cpu=2)  # now the filter keeps the row out
    assert [0, 0] == [one for row, one in enumerate(rig.attempt()[1]) if row != 1]


def test_a_hypothetical_view_finds_nothing_kept():
    """Cached results are used for the live nodes only."""
    rig = ScoringRig(by_cpu())
    rig.place("a", "n0", cpu=3)
    rig.attempt()
    nodes = Nodes(rig.cluster.table, rig.cluster.pods)
    without = nodes.hypothetical([rig.cluster.pods.on("n0")["uid-a"]])
    feasible, _ = rig.runner.filter(rig.cycle, without, rig.states, without.exists)

    assert feasible.all()


def test_the_oldest_key_is_forgotten_first():
    """Answers are cached for at most MOST_KINDS keys; the oldest is dropped first."""
    rig = ScoringRig(by_cpu(key=lambda _self, pod: pod.metadata.labels["n"]))
    pods = [make_pod(f"p{n}", labels={"n": str(n)}) for n in range(MOST_KINDS + 1)]
    for pod in pods:
        rig.attempt(pod)
    rig.attempt(pods[-1])
    assert MOST_KINDS + 1 == len(rig.asked()[0])
    rig.attempt(pods[0])

    assert MOST_KINDS + 2 == len(rig.asked()[0])


def test_constant_columns_stay_constant():
    """A constant column remains one after a row was recomputed, so that adding it costs nothing."""
    rig = ScoringRig(by_cpu(score=lambda _self, _cycle, nodes: nodes.constant(7)))
    rig.attempt()
    rig.place("a", "n1")
    raw = rig.attempt()[2][0].raw

    assert (0,) == raw.strides
    assert np.array_equal([7, 7, 7], raw)


def test_a_constant_for_changed_rows_keeps_the_column_that_has_it():
    """If changed rows score the value that the cached column has there, the column is reused, and
    with it normalised scores that a plugin caches. Any other value creates a new column.
    """

    def score(_self: Any, _cycle: Cycle, nodes: Nodes) -> Any:
        used = nodes.requested("cpu") // 1000
        return nodes.constant(int(used[0])) if nodes.size == 1 else np.maximum(used, 1)

    rig = ScoringRig(by_cpu(score=score))
    rig.place("a", "n0", cpu=2)
    raw = rig.attempt()[2][0].raw
    rig.place("b", "n1", cpu=1)
    assert raw is rig.attempt()[2][0].raw
    rig.place("c", "n1", cpu=1)

    assert [2, 2, 1] == rig.attempt()[2][0].raw.tolist()
    assert [2, 1, 1] == raw.tolist()
