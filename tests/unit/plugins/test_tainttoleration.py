"""TaintToleration: hard taints reject, soft ones cost points."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.framework.status import Code
from scheduler.objects.node import Taint
from scheduler.objects.pod import Toleration
from scheduler.plugins.tainttoleration import REASON, TaintToleration
from scheduler.state.taints import tolerates
from scheduler.testing import check_plugin, evaluate, node, pod

EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")


def test_it_keeps_the_invariants():
    """The invariants of all plugins hold."""
    check_plugin(TaintToleration)


def test_without_taints_every_node_has_the_best_score():
    """The plugin never skips: 100 for all, not nothing (seen live)."""
    got = evaluate(TaintToleration, nodes=[node("a"), node("b")], pod=pod())

    assert Code.SUCCESS == got.pre_score.code
    assert {"a": 100, "b": 100} == got.normalized


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "k", "operator": "Exists"}, True),
        ({"key": "k", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "k", "value": "v"}, True),
        ({"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}, True),
        ({"key": "k", "value": "other"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "k", "operator": "Gt", "value": "1"}, False),
    ],
)
def test_what_a_toleration_matches(toleration, tolerated):
    """Effect empty or equal, key empty or equal, Exists or an equal value.

    Gt only with its gate.
    """
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    got = evaluate(
        TaintToleration,
        nodes=[node("n", taints=[taint])],
        pod=pod(spec={"tolerations": [toleration]}),
    )

    assert tolerated == got.filter["n"].is_success
    if not tolerated:
        assert (Code.UNRESOLVABLE, (REASON,)) == (got.filter["n"].code, got.filter["n"].reasons)


def test_with_the_gate_values_are_compared_as_integers():
    """Gt tolerates taints of a larger value; text that is no integer is never tolerated."""
    taints = {"more": "20", "less": "5", "text": "high"}
    got = evaluate(
        TaintToleration,
        nodes=[
            node(n, taints=[{"key": "sla", "value": v, "effect": "NoSchedule"}])
            for n, v in taints.items()
        ],
        pod=pod(spec={"tolerations": [{"key": "sla", "operator": "Gt", "value": "10"}]}),
        feature_gates={"TaintTolerationComparisonOperators": True},
    )

    assert {"more"} == {name for name, status in got.filter.items() if status.is_success}


_texts = st.sampled_from(["", "a", "b"])
_taints = st.builds(Taint, st.sampled_from(["a", "b", "c"]), _texts, st.sampled_from(EFFECTS))
_tolerations = st.builds(
    Toleration,
    _texts,
    st.sampled_from(["", "Equal", "Exists"]),
    _texts,
    st.sampled_from(["", *EFFECTS]),
)


@given(
    nodes=st.lists(st.lists(_taints, max_size=3), min_size=1, max_size=5),
    tolerations=st.lists(_tolerations, max_size=3),
)
def test_verdicts_equal_a_slow_reference(nodes, tolerations):
    """Computed per distinct set of taints, the verdicts equal those of a scan of each node."""
    raw = [
        node(f"n{i}", taints=[{"key": t.key, "value": t.value, "effect": t.effect} for t in taints])
        for i, taints in enumerate(nodes)
    ]
    spec = {
        "tolerations": [
            {"key": t.key, "operator": t.operator, "value": t.value, "effect": t.effect}
            for t in tolerations
        ]
    }
    got = evaluate(TaintToleration, nodes=raw, pod=pod(spec=spec))

    soft = [t for t in tolerations if t.effect in ("", "PreferNoSchedule")]
    counts = []
    for i, taints in enumerate(nodes):
        hard = [t for t in taints if t.effect != "PreferNoSchedule"]
        fits = all(any(tolerates(one, taint) for one in tolerations) for taint in hard)
        liked = [t for t in taints if t.effect == "PreferNoSchedule"]
        counts.append(sum(not any(tolerates(one, taint) for one in soft) for taint in liked))
        assert fits == got.filter[f"n{i}"].is_success
        assert counts[-1] == got.raw[f"n{i}"]
    top = max(counts)
    for i, count in enumerate(counts):
        assert (100 - 100 * count // top if top else 100) == got.normalized[f"n{i}"]
