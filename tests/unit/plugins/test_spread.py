"""PodTopologySpread against a slow reference, while pods, nodes and owners change."""

from typing import Any

import pytest
from hypothesis import given

from scheduler.framework.status import Code
from scheduler.plugins.spread import PodTopologySpread
from scheduler.testing import check_plugin, evaluate, node, pod
from tests.unit.plugins import smallclusters
from tests.unit.plugins.comparing import (
    assert_affects_what_it_closes,
    assert_equal_after_moves,
    assert_equal_results,
    assert_hypotheticals_hold,
    assert_wakes,
    is_woken,
    passing,
    seeds,
)
from tests.unit.plugins.slowspread import SlowSpread
from tests.unit.plugins.smallclusters import HOSTNAME, KEYS, ZONE, Move, SmallCluster

HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
LIST = {
    "defaultingType": "List",
    "defaultConstraints": [
        {"topologyKey": "rack", "maxSkew": 1, "whenUnsatisfiable": HARD},
        {"topologyKey": ZONE, "maxSkew": 2, "whenUnsatisfiable": SOFT},
        {"topologyKey": HOSTNAME, "maxSkew": 1, "whenUnsatisfiable": SOFT},
    ],
}


def constraint(key=ZONE, action=HARD, skew=1, selector=None, **more):
    """Return a constraint as a pod writes it."""
    found = {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": action, **more}
    return found if selector is None else found | {"labelSelector": selector}


def random_constraint(random):
    """Return any constraint."""
    choices = {
        "minDomains": [1, 2, 3],
        "nodeAffinityPolicy": ["Honor", "Ignore"],
        "nodeTaintsPolicy": ["Honor"],
        "matchLabelKeys": [["ver"]],
    }
    return constraint(
        random.choice(KEYS),
        random.choice([HARD, SOFT]),
        random.choice([1, 1, 2]),
        smallclusters.selector(random),
        **smallclusters.some(random, choices, 0.4),
    )


def incoming(random):
    """Return a pod to be placed, with constraints of its own or with owners."""
    spec: dict[str, Any] = {}
    if random.random() < 0.3:
        spec["nodeSelector"] = {"disk": "ssd"}
    if random.random() < 0.5:
        spec["tolerations"] = [{"operator": "Exists"}]
    own = [random_constraint(random) for _ in range(random.choice([0, 1, 1, 2, 3]))]
    if own:
        spec["topologySpreadConstraints"] = own
    raw = pod("p", labels=smallclusters.labels(random), spec=spec)
    kind = random.choice([None, "ReplicaSet", "ReplicationController"])
    if kind:
        version = "apps/v1" if kind == "ReplicaSet" else "v1"
        owner = {"apiVersion": version, "kind": kind, "name": "o0", "controller": True}
        raw["metadata"]["ownerReferences"] = [owner]
    return raw


def moves(random):
    """Return a history without special placed pods."""
    return smallclusters.history(random, smallclusters.no_spec, smallclusters.owner_move)


def empty_cluster(random):
    """Return an empty cluster, with or without a list of defaults."""
    args = random.choice([None, LIST])
    return SmallCluster(PodTopologySpread, args), args


@given(seeds)
def test_it_says_what_the_slow_reference_says(random):
    """Filter and scores agree after every few changes, with counts kept in between."""
    cluster, args = empty_cluster(random)
    pods = [incoming(random) for _ in range(2)]
    assert_equal_after_moves(
        cluster, random, pods, moves(random), lambda raw: SlowSpread(cluster, raw, args)
    )


@given(seeds)
def test_a_hypothetical_pod_counts_like_a_real_one(random):
    """A state after `add_pod` and `remove_pod` equals a state computed on the changed cluster."""
    cluster, _ = empty_cluster(random)
    for move in moves(random):
        cluster.do(move)
    for _ in range(8):
        assert_hypotheticals_hold(
            cluster, incoming(random), smallclusters.other_pod_move(random, cluster)
        )


@given(seeds)
def test_a_pod_that_closes_nodes_to_another_affects_it(random):
    """The result is the same whichever pod carries the rule, and wherever it is placed."""
    cluster = SmallCluster(PodTopologySpread)
    for move in moves(random):
        cluster.do(move)
    for _ in range(24):
        move = smallclusters.other_pod_move(random, cluster)
        assert_affects_what_it_closes(cluster, incoming(random), move)


@given(seeds)
def test_whatever_lets_a_pod_pass_wakes_it(random):
    """Every change that turns a rejection into a fit wakes the pod."""
    cluster = SmallCluster(PodTopologySpread)
    pods = [incoming(random) for _ in range(2)]
    assert_wakes(cluster, pods, list(moves(random)))


def test_it_keeps_the_invariants():
    """The invariants of all plugins hold."""
    samples = [
        pod(
            f"{action}-{key[:4]}",
            labels={"app": "web"},
            spec={
                "topologySpreadConstraints": [
                    constraint(key, action, 1, {"matchLabels": {"app": "web"}})
                ]
            },
        )
        for action in (HARD, SOFT)
        for key in (ZONE, HOSTNAME)
    ]
    service = {
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"app": "web"}},
    }
    check_plugin(
        PodTopologySpread,
        nodes=[node(f"t{n}", labels={HOSTNAME: f"t{n}", ZONE: f"z{n % 2}"}) for n in range(4)],
        pods=samples,
        existing_pods=[pod(f"t{n}", node_name="t0", labels={"app": "web"}) for n in range(3)],
        objects=[service],
    )


X = {"matchLabels": {"app": "x"}}


def with_one_pod_too_many():
    """Return a cluster whose only node with a zone has one pod too many, and a pod that waits."""
    cluster = SmallCluster(PodTopologySpread)
    cluster.do(Move("node", "n0", node("n0", labels={ZONE: "z0", "free": "yes"})))
    cluster.do(Move("node", "n1", node("n1", labels={ZONE: "z1"})))
    cluster.do(Move("pod", "e0", pod("e0", node_name="n0", labels={"app": "x"})))
    spec = {"topologySpreadConstraints": [constraint(selector=X, nodeAffinityPolicy="Ignore")]}
    return cluster, pod(labels={"app": "x"}, spec=spec)


def test_a_pod_that_terminates_counts_no_more():
    """A matching pod that is being deleted frees a place at once, and that wakes waiting pods."""
    cluster, raw = with_one_pod_too_many()
    before = passing(cluster, raw)
    existing = pod("e0", node_name="n0", labels={"app": "x"})
    existing["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    change = cluster.do(Move("pod", "e0", existing))

    assert {"n1"} == before
    assert {"n0", "n1"} == passing(cluster, raw)
    assert is_woken(cluster, raw, change)


def test_the_other_domains_are_feasible_once_an_empty_one_is_gone():
    """Without the last node of the emptiest domain the others are even, and that wakes."""
    cluster, raw = with_one_pod_too_many()
    change = cluster.do(Move("node", "n1"))

    assert {"n0"} == passing(cluster, raw)
    assert is_woken(cluster, raw, change)


@pytest.mark.parametrize("empty_is_feasible", [True, False])
def test_a_missing_zone_and_an_empty_one_are_the_same_domain(empty_is_feasible):
    """With the built-in constraints a node without the label counts as one with an empty value."""
    nodes = [
        node("a", labels={ZONE: "z0"}),
        node("empty", labels={ZONE: ""}),
        node("bare"),
        node("other"),
    ]
    cluster = SmallCluster(PodTopologySpread)
    for one in nodes:
        cluster.do(Move("node", one["metadata"]["name"], one))
    existing = [("e0", "bare"), ("e2", "empty"), ("e4", "empty"), ("e6", "a")]
    for name, where in existing:
        cluster.do(Move("pod", name, pod(name, node_name=where, labels={"app": "x"})))
    meta = {"name": "o", "namespace": "default"}
    service = {"kind": "Service", "metadata": meta, "spec": {"selector": {"app": "x"}}}
    cluster.do(Move("object", "o", service))
    raw = pod("p", labels={"app": "x"})
    feasible = ["a", "bare", "other"] + ["empty"] * empty_is_feasible

    assert_equal_results(cluster, raw, SlowSpread(cluster, raw, None), feasible)


@pytest.mark.parametrize(
    ("action", "where"),
    [(HARD, "pre_filter"), (SOFT, "pre_score")],
)
def test_a_selector_that_does_not_parse_is_an_error(action, where):
    """The pod fails with the selector's fault; no other pod is affected."""
    bad = {"matchExpressions": [{"key": "app", "operator": "Near", "values": ["x"]}]}
    raw = pod(spec={"topologySpreadConstraints": [constraint(action=action, selector=bad)]})
    try:
        got = getattr(evaluate(PodTopologySpread, nodes=[node("a")], pod=raw), where)
        code, text = got.code, got.message
    except Exception as error:  # noqa: BLE001 - an error of pre-filter ends the attempt
        code, text = Code.ERROR, str(error)

    assert Code.ERROR == code
    assert '"Near" is not a valid label selector operator' in text
