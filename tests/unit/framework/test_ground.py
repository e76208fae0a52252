"""What is kept for pods of a kind, how long, and who is asked again."""

from typing import Any

import numpy as np
import pytest

from scheduler.framework.answers import Scored, States
from scheduler.framework.cycle import Cycle
from scheduler.framework.ground import Ground
from scheduler.framework.nodes import Nodes
from scheduler.framework.plugin import Plugin
from scheduler.framework.rowrule import RowRule
from scheduler.framework.status import not_concerned_while, reject
from scheduler.objects.pod import Pod
from tests.property.making import make_node, make_pod
from tests.unit.framework.stage import Stage, made


def by_cpu() -> type[Plugin[Any]]:
    """Return a plugin that rejects and scores by the CPU in use, and counts the columns it made."""

    def verdict(self: Any, _cycle: Cycle, nodes: Nodes) -> Any:
        self.sifted += 1
        return reject(nodes.requested("cpu") >= 3000, "busy")

    def score(self: Any, _cycle: Cycle, nodes: Nodes) -> Any:
        self.scored += 1
        return nodes.requested("cpu") // 100

    def passes(nodes: Nodes) -> Any:
        used = nodes.requested("cpu")
        return lambda row: int(used[row]) < 3000

    def cells(nodes: Nodes) -> Any:
        used = nodes.requested("cpu")
        return lambda row: int(used[row]) // 100

    return made(
        "ByCpu",
        filter=verdict,
        score=score,
        filter_rule=lambda _self, _cycle: RowRule("cpu", passes),
        score_rule=lambda _self, _cycle: RowRule("cpu", cells),
        sifted=0,
        scored=0,
        bounded=True,
    )


class Played(Stage):
    """A stage with attempts from pre-filter to score."""

    def attempt(self, pod: Pod | None = None) -> tuple[list[bool], list[int], list[Scored]]:
        """Return who is feasible, the totals and the scores."""
        one = pod or self.pod
        cycle = Cycle(one, self.cluster.shapes.of(one), 0.0, self.cycle.random)
        nodes = Nodes(self.cluster.table, self.cluster.pods)
        self.states = States()
        self.runner.pre_filter(cycle, nodes, self.states)
        feasible, self.rejections = self.runner.filter(cycle, nodes, self.states, nodes.exists)
        total, scores = self.runner.score(cycle, nodes.among(feasible), self.states)
        self.total = total
        return feasible.tolist(), total.tolist(), scores

    def place(self, name: str, node: str, cpu: int = 1) -> None:
        """Let a pod land on a node."""
        self.cluster.put_pod(make_pod(name, node=node, cpu=cpu))

    @property
    def ground(self) -> Ground:
        """Return what the last attempt stood on."""
        assert self.states.ground is not None
        return self.states.ground


@pytest.fixture
def stage() -> Played:
    """Return a stage on which two pods of a kind were tried: the second one is when it is kept."""
    played = Played(by_cpu())
    played.attempt()
    played.attempt()
    return played


def asked(stage: Played) -> tuple[int, int]:
    """Return how often the plugin made columns to filter and to score."""
    plugin = stage.plugin(by_cpu())
    return plugin.sifted, plugin.scored


def test_rows_are_redone_without_asking_again(stage: Played):
    """One row changed: it alone is worked out, by cells."""
    stage.place("a", "n1")

    assert ([True, True, True], [0, 10, 0]) == stage.attempt()[:2]
    assert (2, 2) == asked(stage)


def test_shapes_of_a_kind_share_it(stage: Played):
    """Another shape with the same keys finds it at once."""
    stage.attempt(make_pod("other", labels={"app": "other"}))

    assert (2, 2) == asked(stage)


def test_a_row_that_fills_up_is_put_to_the_filters(stage: Played):
    """Only filters can say why a row is rejected; afterwards that stays."""
    stage.place("a", "n1", cpu=3)
    assert ([True, False, True], [0, 30, 0]) == stage.attempt()[:2]
    assert (3, 2) == asked(stage)

    stage.place("b", "n2")

    assert ([True, False, True], [0, 30, 10]) == stage.attempt()[:2]
    assert [[False, True, False]] == [one.rows.tolist() for one in stage.rejections]
    assert (3, 2) == asked(stage)


def test_a_rejected_row_that_empties(stage: Played):
    """A rejected row is put to the filters whenever it changes."""
    stage.place("a", "n1", cpu=3)
    stage.attempt()
    stage.cluster.drop_pod("uid-a")

    assert [True, True, True] == stage.attempt()[0]


def test_nothing_left_is_kept_too():
    """Pods that fit nowhere are told so again without a filter being asked."""
    stage = Played(by_cpu(), nodes=1)
    stage.place("a", "n0", cpu=3)
    stage.attempt()
    stage.attempt()

    assert [False] == stage.attempt()[0]
    assert 2 == asked(stage)[0]
    assert 1 == len(stage.rejections)


def test_a_node_that_changes_ends_it(stage: Played):
    """Labels, taints and the like may mean anything to anybody."""
    stage.cluster.put_node(make_node("n0", labels={"new": "label"}))
    stage.attempt()

    assert (3, 3) == asked(stage)


def test_many_rows_are_put_to_the_plugins():
    """Columns are cheaper than cells from some number of rows on."""
    stage = Played(by_cpu(), nodes=40)
    stage.attempt()
    stage.attempt()
    for number in range(20):
        stage.place(f"p{number}", f"n{number}")

    assert [10] * 20 + [0] * 20 == stage.attempt()[1]
    assert (3, 3) == asked(stage)


def test_what_was_handed_out_stays_as_it_was(stage: Played):
    """Whoever keeps a total or a plugin's scores keeps what they were."""
    _, _, scores = stage.attempt()
    total, raw = stage.total, scores[0].raw
    del scores
    stage.place("a", "n1")

    assert [0, 10, 0] == stage.attempt()[1]
    assert [0, 0, 0] == total.tolist() == raw.tolist()
    with pytest.raises(ValueError, match="read-only"):
        total[0] = 1


def test_columns_that_nobody_keeps_are_not_copied(stage: Played):
    """A copy per pod would cost as much as working them out."""
    assert stage.ground.scored is not None
    before = id(stage.ground.scored.total), id(stage.ground.scored.scores[0].raw)
    del stage.total
    stage.place("a", "n1")
    stage.attempt()

    assert stage.ground.scored is not None
    assert before == (id(stage.ground.scored.total), id(stage.ground.scored.scores[0].raw))


def test_scores_that_depend_on_others_are_not_kept():
    """The highest score of feasible rows becomes 100: no row stands for itself."""
    cls = made(
        "Relative",
        filter=lambda *_: None,
        score=lambda _self, _cycle, nodes: np.arange(nodes.size, dtype=np.int64),
        normalize="max",
        filter_rule=lambda _self, _cycle: RowRule(()),
        score_rule=lambda _self, _cycle: RowRule(()),
    )
    stage = Played(cls)
    for _ in range(3):
        assert [0, 50, 100] == stage.attempt()[1]
    assert stage.ground.scored is None


def test_a_hypothetical_view_finds_nothing_kept(stage: Played):
    """What is kept is said of the nodes as they are."""
    placed = make_pod("a", node="n0", cpu=3)
    stage.cluster.put_pod(placed)
    without = Nodes(stage.cluster.table, stage.cluster.pods).hypothetical(
        [stage.cluster.pods.on("n0")["uid-a"]]
    )
    feasible, _ = stage.runner.filter(stage.cycle, without, States(), without.exists)

    assert feasible.all()


class Bell:
    """Something that moves."""

    def __init__(self) -> None:
        self.version = 0


class TestNotConcernedWhile:
    """An answer that holds until a guard moves."""

    @pytest.fixture
    def bell(self) -> Bell:
        """Return the guard."""
        return Bell()

    @pytest.fixture
    def stage(self, bell: Bell) -> Played:
        """Return a stage whose plugin is not concerned, to begin with."""

        def pre_filter(self: Any, _cycle: Cycle, _nodes: Nodes) -> Any:
            self.calls += 1
            return self.answer

        cls = made("A", pre_filter=pre_filter, filter=lambda *_: None, calls=0)
        cls.answer = not_concerned_while(bell)  # type: ignore[attr-defined]
        self.cls = cls
        return Played(cls)

    def calls(self, stage: Played, attempts: int) -> int:
        """Return how often the plugin is asked in some attempts."""
        plugin = stage.plugin(self.cls)
        before = plugin.calls
        for _ in range(attempts):
            stage.attempt()
        return int(plugin.calls - before)

    def test_it_is_asked_once(self, stage: Played):
        """And skipped, here and at the points that go with pre-filter."""
        assert 1 == self.calls(stage, 3)
        assert {"A"} == stage.states.skipped == stage.states.absent

    def test_a_guard_that_moves_has_it_asked_again(self, stage: Played, bell: Bell):
        """Once more, when it says the same again."""
        self.calls(stage, 2)
        bell.version += 1

        assert 1 == self.calls(stage, 3)

    def test_another_answer_is_not_kept(self, stage: Played, bell: Bell):
        """The guard has moved, and now the plugin has something to do with the pod."""
        self.calls(stage, 2)
        bell.version += 1
        stage.plugin(self.cls).answer = 7

        assert 3 == self.calls(stage, 3)
        assert {"A": 7} == stage.states.by_plugin
        assert not stage.states.absent

    def test_it_is_kept_from_when_it_is_said(self, stage: Played, bell: Bell):
        """Also if the plugin said something else at first."""
        held = stage.plugin(self.cls).answer
        stage.plugin(self.cls).answer = 7
        self.calls(stage, 2)
        stage.plugin(self.cls).answer = held

        assert 1 == self.calls(stage, 3)
        bell.version += 1
        assert 1 == self.calls(stage, 2)
