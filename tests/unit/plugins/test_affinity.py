"""InterPodAffinity against a slow reference, while pods, nodes and namespaces change."""

import numpy as np
import pytest
from hypothesis import given

from scheduler.base.errors import ConfigError
from scheduler.framework.nodes import Nodes
from scheduler.framework.status import Code
from scheduler.plugins.affinity import InterPodAffinity
from scheduler.plugins.affinity.scoring import normalized
from scheduler.state.podindex import PodIndex
from scheduler.state.table import NodeTable
from scheduler.testing import check_plugin, evaluate, node, pod
from tests.unit.plugins import smallclusters
from tests.unit.plugins.comparing import (
    assert_affects_what_it_closes,
    assert_equal_after_moves,
    assert_hypotheticals_hold,
    assert_wakes,
    seeds,
)
from tests.unit.plugins.slowaffinity import (
    AFFINITY,
    ANTI,
    EXISTING,
    PREFERRED,
    REQUIRED,
    SlowAffinity,
)
from tests.unit.plugins.smallclusters import KEYS, ZONE, SmallCluster

WEB = {"matchLabels": {"app": "web"}}
ARGUMENTS = [None, {"hardPodAffinityWeight": 0}, {"ignorePreferredTermsOfExistingPods": True}]


def term(key=ZONE, selector=None, **more):
    """Return a term as a pod writes it."""
    found = {"topologyKey": key, **more}
    return found if selector is None else found | {"labelSelector": selector}


def near(*terms, kind="podAffinity"):
    """Return a spec with required terms."""
    return {"affinity": {kind: {REQUIRED: list(terms)}}}


def far(*terms):
    """Return a spec with required anti-affinity."""
    return near(*terms, kind="podAntiAffinity")


def random_term(random):
    """Return any term."""
    choices = {
        "namespaces": [["other"], ["default", "other"], []],
        "namespaceSelector": [
            {},
            {"matchLabels": {"team": "a"}},
            {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]},
            {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
        ],
        "matchLabelKeys": [["ver"]],
        "mismatchLabelKeys": [["app"]],
    }
    return term(
        random.choice(KEYS), smallclusters.selector(random), **smallclusters.some(random, choices)
    )


def random_terms(random):
    """Return up to two terms, required and preferred."""
    required = [random_term(random) for _ in range(random.choice([0, 1, 1, 2]))]
    preferred = [
        {"weight": random.randint(1, 50), "podAffinityTerm": random_term(random)}
        for _ in range(random.choice([0, 1, 1, 2]))
    ]
    found = {REQUIRED: required, PREFERRED: preferred}
    return {name: terms for name, terms in found.items() if terms}


def spec(random):
    """Return a spec with any kinds of terms; many pods have none."""
    kinds = ("podAffinity", "podAntiAffinity")
    affinity = {kind: random_terms(random) for kind in kinds if random.random() < 0.35}
    return {"affinity": affinity} if affinity else {}


def incoming(random):
    """Return a pod to be placed."""
    return pod("p", labels=smallclusters.labels(random), spec=spec(random))


def moves(random):
    """Return a history of placed pods with terms and of namespaces."""
    return smallclusters.history(random, spec, smallclusters.namespace_move)


@given(seeds)
def test_it_says_what_the_slow_reference_says(random):
    """Filter and scores agree after every few changes, with counts kept in between."""
    args = random.choice(ARGUMENTS)
    cluster = SmallCluster(InterPodAffinity, args)
    pods = [incoming(random) for _ in range(2)]
    assert_equal_after_moves(
        cluster, random, pods, moves(random), lambda raw: SlowAffinity(cluster, raw, args)
    )


@given(seeds)
def test_a_hypothetical_pod_counts_like_a_real_one(random):
    """A state after `add_pod` and `remove_pod` equals a state computed on the changed cluster."""
    cluster = SmallCluster(InterPodAffinity)
    for move in moves(random):
        cluster.do(move)
    for _ in range(8):
        assert_hypotheticals_hold(
            cluster, incoming(random), smallclusters.other_pod_move(random, cluster, spec)
        )


@given(seeds)
def test_a_pod_that_closes_nodes_to_another_affects_it(random):
    """The result is the same whichever pod carries the rule, and wherever it is placed."""
    cluster = SmallCluster(InterPodAffinity)
    for move in moves(random):
        cluster.do(move)
    for _ in range(24):
        move = smallclusters.other_pod_move(random, cluster, spec)
        assert_affects_what_it_closes(cluster, incoming(random), move)


@given(seeds)
def test_whatever_lets_a_pod_pass_wakes_it(random):
    """Every change that turns a rejection into a fit wakes the pod."""
    cluster = SmallCluster(InterPodAffinity)
    pods = [incoming(random) for _ in range(2)]
    assert_wakes(cluster, pods, list(moves(random)))


def test_it_keeps_the_invariants():
    """The invariants of all plugins hold."""
    check_plugin(
        InterPodAffinity,
        nodes=[node(f"t{n}", labels={ZONE: f"z{n % 2}"}) for n in range(4)],
        pods=[
            pod("near", spec=near(term(selector=WEB))),
            pod("far", spec=far(term(selector=WEB))),
            pod("meant", labels={"app": "shy"}),
        ],
        existing_pods=[
            pod("t0", node_name="t0", labels={"app": "web"}),
            pod(
                "t1",
                node_name="t1",
                spec=far(term(selector={"matchLabels": {"app": "shy"}})),
            ),
        ],
    )


def test_each_rule_has_its_words_and_affinity_comes_first():
    """A missing required pod is a final rejection; the presence of an excluded pod is not."""
    nodes = [node("a", labels={ZONE: "z0"}), node("b", labels={ZONE: "z1"})]
    web = pod("web", node_name="a", labels={"app": "web"})
    shy = pod("shy", node_name="a", spec=far(term(selector=WEB)))
    wants = evaluate(
        InterPodAffinity, nodes=nodes, existing_pods=[web], pod=pod(spec=near(term(selector=WEB)))
    )
    avoids = evaluate(
        InterPodAffinity, nodes=nodes, existing_pods=[web], pod=pod(spec=far(term(selector=WEB)))
    )
    avoided = evaluate(
        InterPodAffinity, nodes=nodes, existing_pods=[shy], pod=pod(labels={"app": "web"})
    )

    assert (Code.UNRESOLVABLE, (AFFINITY,)) == (wants.filter["b"].code, wants.filter["b"].reasons)
    assert (Code.UNSCHEDULABLE, (ANTI,)) == (avoids.filter["a"].code, avoids.filter["a"].reasons)
    assert (Code.UNSCHEDULABLE, (EXISTING,)) == (
        avoided.filter["a"].code,
        avoided.filter["a"].reasons,
    )


def test_the_first_of_a_group_may_go_where_the_keys_are():
    """A pod with affinity to its own kind does not wait for the first of them."""
    nodes = [node("a", labels={ZONE: "z0"}), node("bare")]
    got = evaluate(
        InterPodAffinity, nodes=nodes, pod=pod(labels={"app": "web"}, spec=near(term(selector=WEB)))
    )

    assert got.filter["a"].is_success
    assert (AFFINITY,) == got.filter["bare"].reasons


def test_label_keys_that_the_api_server_merged_are_not_added_again():
    """A label that changed after creation does not make the pod's term contradict itself."""
    merged = {"matchExpressions": [{"key": "ver", "operator": "In", "values": ["1"]}]}
    spec = near(term(selector=merged, matchLabelKeys=["ver"]))
    got = evaluate(
        InterPodAffinity,
        nodes=[node("a", labels={ZONE: "z0"})],
        existing_pods=[pod("old", node_name="a", labels={"ver": "1"})],
        pod=pod(labels={"ver": "2"}, spec=spec),
    )

    assert got.filter["a"].is_success


RED: dict[str, str] = {"team": "red"}
BARE: dict[str, str] = {}
EXCLUDING = (
    {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["red"]}]},
    {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
)


@pytest.mark.parametrize("selector", EXCLUDING)
@pytest.mark.parametrize("labels", [RED, BARE])
def test_a_selector_that_excludes_a_namespace_excludes_its_pods(selector, labels):
    """Affinity, anti-affinity and preferred terms match the namespaces that the selector
    matches.
    """
    written = term(selector=WEB, namespaceSelector=selector)
    preferred = {
        "affinity": {"podAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": written}]}}
    }

    def got(spec):
        return evaluate(
            InterPodAffinity,
            nodes=[node("a", labels={ZONE: "z0"}), node("b", labels={ZONE: "z1"})],
            existing_pods=[pod("web", namespace="other", node_name="a", labels={"app": "web"})],
            namespaces=[{"metadata": {"name": "other", "labels": labels}}],
            pod=pod(spec=spec),
        )

    is_meant = labels is BARE
    assert is_meant == got(near(written)).filter["a"].is_success
    assert is_meant != got(far(written)).filter["a"].is_success
    assert is_meant == (got(preferred).normalized.get("a", 0) > 0)


def test_terms_that_do_not_parse():
    """The pod with such a term is rejected for good; on a placed pod the term is ignored."""
    bad = {"matchExpressions": [{"key": "app", "operator": "Near", "values": ["x"]}]}
    nodes = [node("a", labels={ZONE: "z0"})]
    own = evaluate(InterPodAffinity, nodes=nodes, pod=pod(spec=far(term(selector=bad))))
    others = evaluate(
        InterPodAffinity,
        nodes=nodes,
        existing_pods=[pod("e", node_name="a", spec=far(term(selector=bad)))],
        pod=pod(),
    )

    assert Code.UNRESOLVABLE == own.pre_filter.code
    assert own.pre_filter.message.startswith("parsing pod: requiredAntiAffinityTerms: ")
    assert Code.SKIP == others.pre_filter.code


def test_the_weight_has_its_range():
    """hardPodAffinityWeight must be in 0..100."""
    with pytest.raises(ConfigError, match=r"hardPodAffinityWeight: .*not in valid range \[0-100\]"):
        evaluate(InterPodAffinity, args={"hardPodAffinityWeight": 101}, nodes=[], pod=pod())


@pytest.mark.parametrize("span", [1, 3, 7, 100, 4096, 4097, 10**12])
@pytest.mark.parametrize("least", [-50, 0, 3])
def test_scores_are_stretched_as_kube_schedulers_floats_do(span, least):
    """Table and division agree; rejected rows may hold any value."""
    scores = [
        least,
        least + span // 3,
        least + span // 2,
        least + span,
        least - 9,
        least + 2 * span,
    ]
    feasible = np.array([True] * 4 + [False] * 2)
    nodes = Nodes(NodeTable(), PodIndex(), feasible)
    got = normalized(nodes, np.array(scores, dtype=np.int64)).tolist()

    assert [int((one - least) / span * 100) for one in scores[:4]] == got[:4]
    assert all(0 <= one <= 100 for one in got)
