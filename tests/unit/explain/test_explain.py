"""`explain` states the verdict of every node, and the reason of the choice."""

from types import SimpleNamespace
from typing import Any

import pytest

from scheduler.base.errors import MissingError
from scheduler.engine.attempt.cycle import Ties
from scheduler.explain.explain import explain
from scheduler.explain.report import explanation_lines, explanation_tables
from scheduler.intree import IN_TREE
from scheduler.simulate.hints import woken_by
from scheduler.simulate.records import Result
from scheduler.simulate.stage import AnswerOptions
from scheduler.testing import node
from tests.unit.plugins.devices import claim, gpu_class, local_slice
from tests.unit.plugins.groupobjects import group, member, members, tree
from tests.unit.simulate.asking import default_setup, place, plain, pod, results, snapshot

CLUSTER = (
    node("big", cpu="8"),
    node("busy"),
    node("small", cpu="1"),
    node("kept", taints=[{"key": "k", "effect": "NoSchedule"}], unschedulable=True),
    pod("old", node_name="busy", requests={"cpu": "3"}),
)


def ask(name, *objects, only="", **options):
    cluster = snapshot(*objects)
    return explain(cluster, default_setup(), f"default/{name}", AnswerOptions(**options), node=only)


def why(explanation):
    return {one.name: one.why for one in explanation.nodes}


def test_why_one_node_wins_and_the_others_lose():
    """The winner, the next one's distance and its plugins, and the plugins that rejected the
    rest.
    """
    got = ask("p", *CLUSTER, pod("p", requests={"cpu": "500m"})).explanation

    assert (Result.SCHEDULED, "big", None) == (got.result, got.node, got.current_node)
    assert "chosen" == why(got)["big"]
    assert " behind big: NodeResourcesFit -" in why(got)["busy"]
    # kube-scheduler's order of filters: unschedulable comes first.
    assert "NodeUnschedulable: node(s) were unschedulable" == why(got)["kept"]


def test_every_filter_speaks_for_itself():
    """A node shows all its rejections, not only the first one."""
    got = ask("p", *CLUSTER, pod("p", requests={"cpu": "2"})).explanation
    (kept,) = (one for one in got.nodes if one.name == "kept")

    assert "NodeUnschedulable" == kept.rejected_by
    assert ("node(s) had untolerated taint(s)",) == kept.plugins["TaintToleration"].reasons
    assert "Success" == kept.plugins["NodeResourcesFit"].code


def test_a_pod_that_is_placed():
    """A placed pod is evaluated as if it were pending, without its own usage."""
    objects = (node("a"), node("b"), pod("p", node_name="b", requests={"cpu": "4"}))
    got = ask("p", *objects).explanation

    assert ("a", "b") == (got.node, got.current_node)
    moved = "default/p is on b; would now go to a: b has the same score, and the name decides"
    assert [moved] == explanation_lines(got)
    alone = "default/p is on a, and would be placed there again: the only node found to fit"
    assert [alone] == explanation_lines(ask("p", node("a"), pod("p", node_name="a")).explanation)


def test_a_pod_that_fits_nowhere():
    """Message and reasons are those of the PodScheduled condition; victims are named."""
    high = pod("p", requests={"cpu": "4"}, spec={"priority": 5})
    got = ask("p", *CLUSTER[1:], high).explanation

    assert (Result.UNSCHEDULABLE, None, False) == (got.result, got.node, got.fits)
    assert got.message.startswith("0/3 nodes are available: ")
    assert ("busy", ["old"]) == (got.nominated_node, [one.name for one in got.victims])
    reported = explanation_lines(got)
    assert "default/p waits for busy, where default/old are evicted for it" == reported[0]
    assert "  nominated:   to busy in place of default/old" in reported


def suggested(name, *objects):
    found = ask(name, *objects).explanation.why
    return found.sentence.partition(": ")[2].partition(": ")[2], [
        one.text for one in found.suggestions
    ]


def test_no_node_is_expected_to_free_more_than_it_has():
    """A request above the largest node names that node's amount, and a request or a node that
    fits.
    """
    free, full = node("free", cpu="8"), node("full", cpu="8")
    other = node("other", cpu="32", labels={"pool": "b"})
    use = pod("use", node_name="free", requests={"cpu": "3"})
    fill = pod("fill", node_name="full", requests={"cpu": "8"})
    huge, six = pod("p", requests={"cpu": "20"}), pod("p", requests={"cpu": "6"})
    two = pod("p", requests={"cpu": "12"})
    two["spec"]["containers"].append({**two["spec"]["containers"][0], "name": "second"})
    bound = pod("p", requests={"cpu": "20"}, spec={"nodeSelector": {"pool": "a"}})
    labelled = node("in-a", cpu="4", labels={"pool": "a"})

    text = "the largest node has 8 cpu; it fits free with a request of 5 cpu"
    assert (text, ["fits free with a request of 5 cpu"]) == suggested(
        "p", free, full, use, fill, huge
    )
    assert suggested("p", free, full, use, fill, two) == suggested("p", free, full, use, fill, huge)
    assert ["fits free if 1 more cpu were free"] == suggested("p", free, use, six)[1][:1]
    text = "the largest node has 8 cpu; it fits a new node like full with 20 cpu"
    assert text == suggested("p", full, fill, huge)[0]
    text, helps = suggested("p", labelled, other, bound)
    assert text.startswith("the largest that otherwise fits has 4 cpu; it fits ")
    assert [
        "fits in-a with a request of 4 cpu",
        "fits other without its node selector pool=a",
    ] == sorted(helps)
    gpu = pod("p", requests={"example.com/gpu": "1"})
    text = "no node offers example.com/gpu; it fits a new node like free with 1 example.com/gpu"
    assert text == suggested("p", free, gpu)[0]


def test_gates_and_faults():
    """A gated pod names its gate, and so does one without any node."""
    gated = ask("p", node("a"), pod("p", spec={"schedulingGates": [{"name": "x"}]})).explanation
    alone = ask("p", pod("p")).explanation

    assert (Result.GATED, "SchedulingGates") == (gated.result, gated.reason)
    assert "waiting for scheduling gates: [x]" == gated.message
    assert "no nodes available to schedule pods" == alone.message


def test_ties_are_explained():
    """Equal nodes state the tie-break."""
    objects = (node("a"), node("b"), pod("p"))

    assert "same score as a; the name decides" == why(ask("p", *objects).explanation)["b"]
    words = why(ask("p", *objects, ties=Ties.UID).explanation).values()
    assert {"chosen"} < set(words)
    assert any(word.endswith("; the pod's uid decides") for word in words)


def test_a_nominated_node_is_chosen_without_a_search():
    """A nomination that still holds ends the search."""
    got = ask("p", node("a"), node("b"), pod("p", status={"nominatedNodeName": "b"})).explanation

    assert "b" == got.node
    assert "chosen: the only one that fits" == why(got)["b"]
    assert why(got)["a"].startswith("not evaluated")


def test_a_misspelt_scheduler_name_is_no_placement():
    """The pod would wait forever: no node is named for it, and the correct name is suggested."""
    answer = ask("p", node("a"), pod("p", spec={"schedulerName": "treliss"}))
    found = answer.explanation

    assert (found.node, found.result, found.nodes) == (None, "Unschedulable", ())
    assert found.why.sentence == (
        "default/p waits: no profile is called treliss; did you mean trellis?"
    )
    assert [one.text for one in found.why.suggestions] == ["fits a with the schedulerName trellis"]


def test_a_pod_of_another_scheduler():
    """The pod is explained as the first profile would place it, and a notice states that."""
    answer = ask("p", node("a"), pod("p", spec={"schedulerName": "default-scheduler"}))

    assert "a" == answer.explanation.node
    assert ('no profile is called "default-scheduler"',) == tuple(
        notice.partition(":")[0] for notice in answer.notices
    )


def test_one_node():
    """`--node` leaves one node, with each plugin's verdict and numbers."""
    got = ask("p", *CLUSTER, pod("p"), only="busy").explanation
    (table,) = explanation_tables(got, wide=False, one_node=True)

    assert ["busy"] == [one.name for one in got.nodes]
    assert table.heading.startswith("busy: ")
    assert {"NodeResourcesFit", "ImageLocality", "TaintToleration"} <= {
        row[0] for row in table.rows
    }


def test_nodes_with_equal_verdicts_are_one_row():
    """Equal explanations are one row, the chosen node has its own; `-o wide` lists every node."""
    large = [node(f"large-{n:02}", cpu="4") for n in range(30)]
    small = [node(f"small-{n:02}", cpu="1") for n in range(30)]
    closed = node("zero", unschedulable=True)
    got = ask("p", *large, *small, closed, pod("p", requests={"cpu": "2"})).explanation
    (table,) = explanation_tables(got, wide=False, one_node=False)
    (every,) = explanation_tables(got, wide=True, one_node=False)

    names = [row[0] for row in table.rows]
    assert ["large-00", "large-01 and 28 more", "small-00 and 29 more", "zero"] == names
    assert 61 == len(every.rows)


def test_unknown_names_are_refused():
    """A mistyped pod or node is named, with a suggestion."""
    with pytest.raises(MissingError, match=r'default/pp: no such pod .*did you mean "default/p"'):
        ask("pp", node("a"), pod("p"))
    with pytest.raises(MissingError, match=r'nodf: no such node .did you mean "node"'):
        ask("p", node("node"), pod("p"), only="nodf")


def test_members_follow_the_plan_for_their_group():
    """Alone each would go to the largest node.

    The only rack that takes the group does not have it.
    """
    nodes = tree({"r0": {"large": 9}, "r1": {"a": 4, "b": 4, "c": 4}})
    busy = member("busy", on="large", cpu="1")
    waiting = members("g", 3, cpu="3")
    rules = {"rack": {"type": "pack", "hard": True}, "node": {"type": "spread", "hard": True}}
    objects = (*nodes, busy, *waiting)
    single = ask("g-0", *nodes, busy, pod("g-0", requests={"cpu": "3"})).explanation
    plan = results(place(*objects, group("g", 3, rules)))

    assert "large" == single.node
    assert {"a", "b", "c"} == {plan[f"g-{n}"] for n in range(3)}
    for name, where in plan.items():
        got = ask(name, *objects, group("g", 3, rules)).explanation
        chosen = [one.name for one in got.nodes if one.why.startswith("chosen")]
        assert (where, [where]) == (got.node, chosen)
        reported = f"default/{name} would go to {where} with the 3 pods of the group default/g"
        assert explanation_lines(got)[0].startswith(reported)
        assert "chosen" not in why(got)["large"]


def test_claims_from_templates_are_made_first():
    """`explain` creates the claims as `simulate` does: without any device, the claim is the
    conflict.
    """
    spec = {"spec": claim("any")["spec"]}
    meta = {"namespace": "default", "name": "t"}
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate"}
    template = {**kind, "metadata": meta, "spec": spec}
    entry = {"name": "d", "resourceClaimTemplateName": "t"}
    objects = (node("a"), gpu_class(), template, pod("p", spec={"resourceClaims": [entry]}))

    assert "a" == ask("p", *objects, local_slice("a", "gpu-0")).explanation.node
    got = ask("p", *objects).explanation
    assert got.why is not None
    assert got.why.sentence.startswith("default/p waits: no node satisfies its resource claim d")


@pytest.mark.parametrize("timed", [{}, {"for": "10m"}])
def test_a_group_waits_for_rules_that_cannot_hold(timed: dict[str, str]):
    """The conflicting rules and a remedy for the whole group are named. A member's own reason does
    not help it.
    """
    nodes = tree({"r0": {"a": 4}, "r1": {"b": 4, "c": 4}})
    hard: dict[str, object] = {"hard": True, **timed}
    rules = {"rack": {"type": "pack", **hard}, "node": {"type": "spread", **hard}}
    got = ask("g-0", *nodes, *members("g", 3), group("g", 3, rules)).explanation
    why = got.why

    assert got.node is None
    assert why is not None
    named = ["data.constraints.node.hard", "data.constraints.rack.hard"]
    assert named == sorted(one.field for one in why.conflict)
    helps = [[(one.object, one.field) for one in each.changes] for each in why.suggestions]
    # A smaller group comes first, then the rules.
    smaller, *rest = helps
    assert [("ConfigMap default/g", "data.size"), ("Pod default/g-2", "")] == smaller
    assert [[("ConfigMap default/g", one)] for one in named] == sorted(rest[:2])
    assert why.sentence == f"default/g-0 waits: {got.message}"


def test_a_member_of_another_scheduler_is_not_bound():
    """The group does not count this member, and no text states that it is on a node."""
    other = member("g-1", "g")
    other["spec"]["schedulerName"] = "default-scheduler"
    got = ask("g-1", *tree({"r0": {"n0": 8}}), group("g", 2), member("g-0", "g"), other).explanation

    assert got.current_node is None
    sentence = (
        "default/g-1 is no member of the group default/g here: no profile has its schedulerName"
    )
    assert sentence == got.why.sentence


def test_the_place_in_the_queue_and_what_wakes():
    """The place is by priority; the waiting time is by the snapshot's clock, if the start is
    known.
    """
    made = {"creationTimestamp": "2026-01-01T10:00:00Z"}
    late = pod("late", requests={"cpu": "9"})
    late["metadata"] |= made
    first = pod("first", spec={"priority": 5})
    first["metadata"] |= {"creationTimestamp": "2026-01-01T10:01:30Z"}
    got = ask("late", node("a"), first, late).explanation
    reported = explanation_lines(got)

    assert "  waits:       position 2 of 2 in the queue, for 1m30s" in reported
    assert got.why is not None
    assert "a pod that leaves its node" in got.why.woken_by
    assert "a new node" == got.why.woken_by[0]


def test_the_listed_changes_are_all_that_can_wake_the_pod():
    """A new node counts as a change of whatever a node has; it does not open a gate."""
    waiting = place(
        node("a", cpu="1"),
        pod("large", requests={"cpu": "9"}),
        pod("gated", spec={"schedulingGates": [{"name": "later"}]}),
        pod("small"),
        waking=True,
    )
    woken = {one.name: one.woken_by for one in waiting.pods}

    assert ("the removal of its scheduling gates",) == woken["gated"]
    assert () == woken["small"]
    assert {
        "a new node",
        "a node that offers more",
        "a pod that leaves its node",
        "a bound pod that requests less",
        "a smaller request of its own",
    } == set(woken["large"])
    (no_node,) = place(pod("p"), waking=True).pods
    assert ("a new node",) == no_node.woken_by
    assert "wokenBy" not in plain(place(pod("p")))["pods"][0]


@pytest.mark.parametrize("plugin", IN_TREE, ids=lambda one: one.name)
def test_every_fact_that_a_plugin_reads_has_words(plugin):
    """Kinds are named, all other facts have a text."""
    profile: Any = SimpleNamespace(plugins={plugin.name: plugin})
    reported = woken_by(profile, (plugin.name,))

    assert plugin.reads == () or reported
    kinds = [
        one.removeprefix("a change of a ") for one in reported if one.startswith("a change of a ")
    ]
    assert [] == [
        one
        for one in kinds
        if not one[0].isupper() and not one.startswith(("node's", "bound pod's"))
    ]
