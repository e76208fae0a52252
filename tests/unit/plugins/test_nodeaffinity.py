"""NodeAffinity: selector, required and preferred terms, and the affinity of the profile."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.base.errors import ConfigError
from scheduler.framework.status import SKIP, Code
from scheduler.plugins.nodeaffinity import REASON_ADDED, REASON_POD, NodeAffinity
from scheduler.testing import check_plugin, evaluate, node, pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def affinity(required=None, preferred=None):
    """Return a pod spec with node affinity."""
    found = {}
    if required is not None:
        found[REQUIRED] = {"nodeSelectorTerms": required}
    if preferred is not None:
        found[PREFERRED] = preferred
    return {"affinity": {"nodeAffinity": found}}


def expression(key, operator, *values):
    """Return a requirement."""
    return {"key": key, "operator": operator, "values": list(values)}


def test_it_keeps_the_invariants():
    """The invariants of all plugins hold, with and without affinity of the profile's own."""
    added = {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [expression("x", "Exists")]}]}}
    labelled = node("labelled", labels={"x": ""})

    check_plugin(NodeAffinity)
    check_plugin(NodeAffinity, args={"addedAffinity": added}, nodes=[labelled])


def test_a_pod_that_says_nothing_is_skipped():
    """Without node affinity or selector, filter and score return Skip."""
    got = evaluate(NodeAffinity, nodes=[node("n")], pod=pod())

    assert (SKIP, SKIP) == (got.pre_filter, got.pre_score)


def test_the_profile_s_own_affinity_is_asked_first():
    """A node rejected by both the profile and the pod has the profile's reason alone."""
    term = {"matchExpressions": [expression("pool", "In", "blue")]}
    got = evaluate(
        NodeAffinity,
        args={"addedAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}},
        nodes=[
            node("neither"),
            node("pool", labels={"pool": "blue"}),
            node("both", labels={"pool": "blue", "disk": "ssd"}),
        ],
        pod=pod(spec={"nodeSelector": {"disk": "ssd"}}),
    )

    assert (REASON_ADDED,) == got.filter["neither"].reasons
    assert (REASON_POD,) == got.filter["pool"].reasons
    assert got.filter["both"].is_success


def test_terms_by_name_narrow_the_search_and_conflicts_end_it():
    """Names are united over terms, intersected inside one; an empty result is a conflict."""

    def field(name):
        return expression("metadata.name", "In", name)

    nodes = [node("a"), node("b"), node("c")]
    one = evaluate(
        NodeAffinity,
        nodes=nodes,
        pod=pod(spec=affinity([{"matchFields": [field("a")]}, {"matchFields": [field("b")]}])),
    )
    none = evaluate(
        NodeAffinity,
        nodes=nodes,
        pod=pod(spec=affinity([{"matchFields": [field("a"), field("b")]}])),
    )

    assert frozenset("ab") == one.node_names
    assert (Code.UNRESOLVABLE, ("pod affinity terms conflict",)) == (
        none.pre_filter.code,
        none.pre_filter.reasons,
    )


def test_a_preferred_term_that_does_not_parse_is_an_error_a_required_one_never_matches():
    """The API server accepts both, as a live server showed."""
    bad = {"matchExpressions": [expression("gpu", "Gt", "x")]}
    nodes = [node("a", labels={"gpu": "4"}), node("b")]
    required = evaluate(NodeAffinity, nodes=nodes, pod=pod(spec=affinity([bad])))
    preferred = evaluate(
        NodeAffinity,
        nodes=nodes,
        pod=pod(spec=affinity(preferred=[{"weight": 1, "preference": bad}])),
    )
    twice = evaluate(
        NodeAffinity,
        nodes=nodes,
        pod=pod(
            spec=affinity(
                preferred=[{"weight": 0, "preference": bad}]
                + [{"weight": 1, "preference": bad}] * 2
            )
        ),
    )

    text = (
        "[{}].matchExpressions[0].values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the "
        "value must be an integer"
    )
    assert [(REASON_POD,)] * 2 == [status.reasons for status in required.filter.values()]
    assert (Code.ERROR, (text.format(0),)) == (
        preferred.pre_score.code,
        preferred.pre_score.reasons,
    )
    assert (f"[{text.format(1)}, {text.format(2)}]",) == twice.pre_score.reasons


@pytest.mark.parametrize(
    ("added", "message"),
    [
        (
            {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [expression("a", "Gt", "x")]}]}},
            r"nodeSelectorTerms\[0\]\.matchExpressions\[0\]\.values\[0\]: Invalid value: \"x\"",
        ),
        ({REQUIRED: {"nodeSelectorTerm": []}}, "unknown field `nodeSelectorTerm`"),
    ],
)
def test_added_affinity_that_does_not_parse_is_refused(added, message):
    """A profile does not start with affinity that cannot be read."""
    with pytest.raises(ConfigError, match=message):
        evaluate(NodeAffinity, args={"addedAffinity": added}, nodes=[], pod=pod())


_labels = st.dictionaries(st.sampled_from("xyz"), st.sampled_from(["", "a", "1", "7"]))
_requirements = st.one_of(
    st.builds(
        lambda key, op, values: expression(key, op, *values),
        st.sampled_from("xyz"),
        st.sampled_from(["In", "NotIn"]),
        st.lists(st.sampled_from(["", "a", "1", "b"]), min_size=1, max_size=3),
    ),
    st.builds(expression, st.sampled_from("xyz"), st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(
        expression,
        st.sampled_from("xyz"),
        st.sampled_from(["Gt", "Lt"]),
        st.sampled_from(["0", "3", "a"]),
    ),
)
_terms = st.lists(st.lists(_requirements, max_size=2), max_size=3)


@given(
    labels=st.lists(_labels, min_size=1, max_size=5),
    selector=_labels,
    required=st.none() | _terms,
    preferred=st.lists(st.tuples(st.integers(1, 100), st.lists(_requirements, max_size=2))),
)
def test_masks_equal_a_slow_reference(labels, selector, required, preferred):
    """Computed per distinct label value, the verdicts equal those of a scan of each node."""
    kept = [(w, term) for w, term in preferred if all(_parses(r) for r in term)]
    spec = affinity(
        None if required is None else [{"matchExpressions": term} for term in required],
        [{"weight": w, "preference": {"matchExpressions": term}} for w, term in kept],
    )
    got = evaluate(
        NodeAffinity,
        nodes=[node(f"n{i}", labels=carried) for i, carried in enumerate(labels)],
        pod=pod(spec=spec | {"nodeSelector": selector}),
    )

    for i, carried in enumerate(labels):
        fits = all(carried.get(k) == v for k, v in selector.items()) and (
            required is None or any(_matches(term, carried) for term in required)
        )
        assert fits == got.filter[f"n{i}"].is_success
        if kept:
            score = sum(w for w, term in kept if _matches(term, carried))
            assert score == got.raw[f"n{i}"]
    if kept:
        top = max(got.raw.values())
        for name, raw in got.raw.items():
            assert (100 * raw // top if top else 0) == got.normalized[name]


def _parses(requirement):
    return requirement["operator"] not in ("Gt", "Lt") or requirement["values"] != ["a"]


def _matches(term, carried):
    return bool(term) and all(_parses(r) and _holds(r, carried.get(r["key"])) for r in term)


def _holds(requirement, value):
    operator, values = requirement["operator"], requirement["values"]
    match operator:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists" | "DoesNotExist":
            return (value is not None) == (operator == "Exists")
    if value is None or not value.isdigit():
        return False
    return int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])
