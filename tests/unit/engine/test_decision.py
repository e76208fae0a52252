"""The content of a decision: messages, the rejecting plugins, statuses of single nodes."""

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from scheduler.base.errors import PluginError
from scheduler.engine.attempt.attempt import decide
from scheduler.engine.attempt.cycle import Attempt, Ties
from scheduler.engine.decision import Decision, fit_message
from scheduler.engine.effects import Bind
from scheduler.engine.engine import Engine
from scheduler.framework.plugin import Plugin
from scheduler.framework.postfilter import PostFiltered
from scheduler.framework.registry import Registry
from scheduler.framework.status import (
    SUCCESS,
    Code,
    Narrow,
    Rejection,
    Status,
    reject,
    unresolvable,
    unschedulable,
)
from tests.property.making import make_node, make_pod, relabelled, with_status
from tests.property.rig import Rig
from tests.property.tinyplugins import ALL, spec_of
from tests.unit.framework.runnerrig import RunnerRig, made


def decision_of(rig: RunnerRig, **fields: Any) -> Decision:
    """Decide the pod of the rig."""
    attempt = Attempt(rig.cycle, rig.nodes, rig.runner, rig.states, **fields)
    return decide(attempt)


class TestMessage:
    """The message of kube-scheduler."""

    def rejection(self, plugin: str, rows: list[int], *texts: tuple[str, list[int]]) -> Rejection:
        """Return a rejection of `rows` (0/1 flags) with these reasons."""
        mask = np.array(rows, dtype=np.bool_)
        parts = [reject(np.array(where, dtype=np.bool_), text) for text, where in texts]
        whole = parts[0]
        for part in parts[1:]:
            whole = whole | part
        return Rejection(plugin, mask, whole)

    def test_counts_are_sorted_as_text(self):
        """`10 a` is before `2 b`, as plain strings sort."""
        many = [1] * 10 + [0] * 2
        two = [0] * 10 + [1] * 2
        text = fit_message(
            12,
            SUCCESS,
            (self.rejection("A", two, ("b", two)), self.rejection("B", many, ("a", many))),
            None,
            (),
        )

        assert "0/12 nodes are available: 10 a, 2 b." == text

    def test_a_node_counts_in_each_of_its_reasons(self):
        """The numbers may add up to more than the nodes."""
        both = self.rejection("Fit", [1, 1], ("Insufficient cpu", [1, 1]), ("Too many", [0, 1]))

        text = fit_message(2, SUCCESS, (both,), None, ())
        assert "0/2 nodes are available: 1 Too many, 2 Insufficient cpu." == text

    def test_only_the_rows_that_were_left_count(self):
        """A plugin's reasons do not count on rows that an earlier plugin had rejected."""
        second = self.rejection("B", [0, 1], ("b", [1, 1]))

        text = fit_message(
            2, SUCCESS, (self.rejection("A", [1, 0], ("a", [1, 0])), second), None, ()
        )
        assert "0/2 nodes are available: 1 a, 1 b." == text

    def test_equal_texts_are_added_up(self):
        """Equal texts of two plugins make one entry."""
        text = fit_message(
            2,
            SUCCESS,
            (
                self.rejection("A", [1, 0], ("x", [1, 0])),
                self.rejection("B", [0, 1], ("x", [0, 1])),
            ),
            None,
            (),
        )

        assert "0/2 nodes are available: 2 x." == text

    def test_nodes_outside_are_named_with_the_plugins_sorted(self):
        """Nodes that a pre-filter excluded count under its plugin's name."""
        text = fit_message(3, SUCCESS, (), np.array([1, 1, 1], dtype=np.bool_), ("B", "A"))

        assert "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [A B]." == text

    def test_a_pre_filter_speaks_for_all_nodes(self):
        """The pre-filter's message is the only one, reasons joined."""
        text = fit_message(3, unresolvable("a", "b"), (), None, ())

        assert "0/3 nodes are available: a, b." == text


class TestDecide:
    """The numbered steps of a decision, by their outcome."""

    def test_no_nodes_at_all(self):
        """The message is the only result, and no plugin runs."""
        decision = decision_of(RunnerRig(nodes=0))

        assert "no nodes available to schedule pods" == decision.message
        assert ((), Code.UNSCHEDULABLE) == (decision.rejected_by, decision.status.code)

    def test_unknown_names_leave_all_nodes_outside(self):
        """A pod that names a missing node: every node counts under the plugin."""
        cls = made("A", pre_filter=lambda _s, _c, n: Narrow(n.rows_named(["ghost"])))
        decision = decision_of(RunnerRig(cls))

        text = "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [A]."
        assert text == decision.message
        assert ("A",) == decision.rejected_by
        status = decision.node_status(RunnerRig(cls).nodes, 0)
        assert unresolvable("node(s) didn't satisfy plugin(s) [A]") == status

    def test_a_nominated_node_outside_reports_its_own_reason(self):
        """kube-scheduler tries it first, whatever pre-filter left."""
        rig = RunnerRig(
            made(
                "A",
                pre_filter=lambda _s, _c, n: Narrow(n.rows_named(["n0"])),
                filter=lambda _s, _c, n, _x: reject(n.exists, "full"),
            )
        )
        nominated_pod = with_status(rig.cycle.pod, nominated_node_name="n1")
        rig.cycle = replace(rig.cycle, pod=nominated_pod)

        text = "0/3 nodes are available: 1 node(s) didn't satisfy plugin(s) [A], 2 full."
        assert text == decision_of(rig).message

    def test_freed_rows_are_no_nodes(self):
        """Rows without a node do not count as excluded."""
        cls = made("A", pre_filter=lambda _s, _c, n: Narrow(~n.rows_named(["n0", "n1"])))
        rig = RunnerRig(cls)
        rig.cluster.drop_node("n2")

        text = "0/2 nodes are available: 2 node(s) didn't satisfy plugin(s) [A]."
        assert text == decision_of(rig).message

    def test_plugins_that_exclude_each_other_are_to_blame(self):
        """These plugins wake the pod, not only a new node."""
        decision = decision_of(
            RunnerRig(
                made("A", pre_filter=lambda _s, _c, n: Narrow(n.rows_named(["n0"]))),
                made("B", pre_filter=lambda _s, _c, n: Narrow(n.rows_named(["n1"]))),
            )
        )

        assert ("A", "B") == decision.rejected_by
        assert "satisfy plugin(s) [A B] simultaneously." in decision.message

    def test_a_pre_filter_that_rejects_is_alone_to_blame(self):
        """The pre-filters that narrowed the nodes before it could not have helped."""
        decision = decision_of(
            RunnerRig(
                made("A", pre_filter=lambda _s, _c, n: Narrow(n.rows_named(["n0"]))),
                made("B", pre_filter=lambda *_: unresolvable("no")),
            )
        )

        assert ("B",) == decision.rejected_by

    def test_one_feasible_node_is_taken_unscored(self):
        """Pre-score and score are not called, so that a plugin that fails there has no effect."""
        cls = made(
            "A",
            filter=lambda _s, _c, n: reject(~n.rows_named(["n1"]), "x"),
            pre_score=lambda *_: 1 / 0,
            score=lambda *_: 1 / 0,
        )
        decision = decision_of(RunnerRig(cls))

        assert ("n1", ()) == (decision.node, decision.scores)
        assert ("A",) == decision.rejected_by

    def test_an_error_in_pre_filter_asks_no_post_filter(self):
        """A fault is no reason for an eviction."""
        cls = made(
            "A",
            pre_filter=lambda *_: Status(Code.ERROR, ("x",)),
            post_filter=lambda *_: pytest.fail("post-filter was asked"),
        )
        with pytest.raises(PluginError):
            decision_of(RunnerRig(cls))

    @pytest.mark.parametrize(
        ("status", "candidates"),
        [(unschedulable("u"), ["n0", "n1", "n2"]), (unresolvable("uau"), [])],
    )
    def test_candidates_for_preemption(self, status: Status, candidates: list[str]):
        """A final result of pre-filter leaves no candidate; a plain one leaves all."""
        seen = []

        def post_filter(_self: Any, _cycle: Any, nodes: Any, failure: Any) -> PostFiltered:
            seen.append([nodes.name(row) for row in np.flatnonzero(failure.candidates)])
            return PostFiltered(unschedulable(), text="no use")

        cls = made("A", pre_filter=lambda *_: status, post_filter=post_filter)
        decision = decision_of(RunnerRig(cls))

        assert [candidates] == seen
        assert decision.message.endswith(". no use")

    def test_final_rejections_are_no_candidates(self):
        """Rows whose rejection evictions cannot lift, and excluded rows, are left out."""
        seen = []

        def post_filter(_self: Any, _cycle: Any, nodes: Any, failure: Any) -> PostFiltered:
            seen.append([nodes.name(row) for row in np.flatnonzero(failure.candidates)])
            return PostFiltered(SUCCESS, nominated_node="n0")

        cls = made(
            "A",
            pre_filter=lambda _s, _c, n: Narrow(n.rows_named(["n0", "n1"])),
            filter=lambda _s, _c, n, _x: reject(n.exists, "x").with_final(n.rows_named(["n1"])),
            post_filter=post_filter,
        )
        decision = decision_of(RunnerRig(cls))

        assert [["n0"]] == seen
        assert "n0" == decision.nominated_node
        assert "plugin(s) [A], 2 x." in decision.message
        assert not decision.message.endswith("no use")

    def test_texts_of_post_filters_are_joined(self):
        """If no post-filter plugin found a candidate, the texts are joined in order. The last one
        that sets the nomination counts.
        """
        answers = [
            PostFiltered(unschedulable(), text="a", nominated_node=""),
            PostFiltered(unschedulable(), text="b"),
        ]
        classes = [
            made(f"P{i}", post_filter=lambda *_, answer=answer: answer)
            for i, answer in enumerate(answers)
        ]
        first = made("F", filter=lambda _s, _c, n: reject(n.exists, "x"))
        decision = decision_of(RunnerRig(first, *classes))

        assert "0/3 nodes are available: 3 x. a, b" == decision.message
        assert "" == decision.nominated_node

    def test_ties_are_broken_equally_each_time(self):
        """Each tie-break (name, seed, hash of uid and node) chooses the same node each time."""
        for ties in Ties:
            first = decision_of(RunnerRig(nodes=9), ties=ties).node
            assert first == decision_of(RunnerRig(nodes=9), ties=ties).node
        assert "n0" == decision_of(RunnerRig(nodes=9), ties=Ties.NAME).node


class Company(Plugin[Any]):
    """Requires between `at_least` and `at_most` pods on its node, by the pod's labels."""

    def filter(self, cycle: Any, nodes: Any) -> Any:
        labels = cycle.pod.metadata.labels
        low, high = int(labels.get("at_least", "0")), int(labels.get("at_most", "9"))
        counts = np.array([len(nodes.pods_on(row)) for row in range(nodes.size)])
        return reject((counts < low) | (counts > high), "wrong company")


@pytest.mark.parametrize(
    ("labels", "fits"), [({"at_least": "1"}, False), ({"at_most": "0"}, False), ({}, True)]
)
def test_a_node_must_fit_with_and_without_its_nominated_pods(labels: dict[str, str], fits: bool):
    """A nominated pod may neither be counted upon nor be ignored."""
    classes = (*ALL, Company)
    rig = Rig(lambda: Engine([spec_of(*classes)], Registry(classes)))
    rig.api.put("Node", make_node("n0"))
    rig.api.put("Pod", make_pod("boss", priority=5, nominated="n0", gates=["g"]))
    rig.api.put("Pod", make_pod("p", labels=labels))
    rig.watch("Node")
    rig.watch("Pod")
    effects = rig.run()

    assert fits == any(isinstance(effect, Bind) for effect in effects)


class Exclusive(Plugin[Any]):
    """Evaluates only the node that the pod's label `only` names; reads node labels."""

    reads = ("node.labels",)

    def pre_filter(self, cycle: Any, nodes: Any) -> Any:
        return Narrow(nodes.rows_named([cycle.pod.metadata.labels.get("only", "n0")]))


class Rival(Exclusive):
    """Evaluates only nodes with label zone=a."""

    def pre_filter(self, cycle: Any, nodes: Any) -> Any:
        return Narrow(nodes.labels_mask({"zone": "a"}))


def test_a_pod_without_common_rows_is_woken_by_what_they_read():
    """Two plugins exclude each other; a label that brings them together is noticed at once."""
    classes = (*ALL, Exclusive, Rival)
    rig = Rig(lambda: Engine([spec_of(*classes)], Registry(classes)))
    rig.api.put("Node", make_node("n0", labels={"zone": "b"}))
    rig.api.put("Node", make_node("n1", labels={"zone": "a"}))
    rig.api.put("Pod", make_pod("p"))
    rig.settle()
    assert "" == rig.api.pods["default/p"].spec.node_name

    rig.api.put("Node", relabelled(rig.api.nodes["n0"], {"zone": "a"}))
    rig.watch("Node")
    rig.pass_time(1)
    assert [Bind] == [type(e) for e in rig.run() if isinstance(e, Bind)]
