"""The rules of the NodeMetric operator: policies, steps and figures."""

import json

import pytest

from operators.metricproviders import CPU, MEMORY, Figure, FigureName, FigureSnapshot
from operators.nodemetric.figures import status_of
from operators.nodemetric.policy import (
    DEFAULT_POLICY,
    SECTION,
    Create,
    Policies,
    PolicyError,
    SetPolicy,
    policy_document,
    read_policies,
    steps,
)
from scheduler.base.clock import rfc3339
from scheduler.objects.plain import read_node, read_object, read_pod
from scheduler.objects.reports.nodemetric import NodeMetric, NodeMetricSpec
from scheduler.testing.builders import node, pod

STRATEGY = {"enable": True, "metricReportIntervalSeconds": 30}


def policies(section: object) -> Policies:
    """Return the policies of a section."""
    return read_policies({SECTION: json.dumps(section)})


@pytest.mark.parametrize("data", [None, {}, {SECTION: ""}, {"other": "x"}])
def test_without_a_section_the_defaults_hold(data):
    """A missing ConfigMap is no mistake."""
    assert read_policies(data).of({}) == DEFAULT_POLICY
    assert policy_document(DEFAULT_POLICY) == {
        "aggregateDurationSeconds": 300,
        "reportIntervalSeconds": 60,
        "nodeAggregatePolicy": {"durations": ["5m0s", "10m0s", "30m0s"]},
        "nodeMemoryCollectPolicy": "usageWithoutPageCache",
    }


def test_the_first_selector_that_matches_overrides_single_fields():
    """Missing fields come from the section, and then from the defaults."""
    found = policies(
        STRATEGY
        | {
            "metricAggregateDurationSeconds": 120,
            "nodeConfigs": [
                {"name": "none", "metricReportIntervalSeconds": 5},
                {
                    "nodeSelector": {"matchLabels": {"pool": "fast"}},
                    "metricReportIntervalSeconds": 10,
                    "metricAggregatePolicy": {"durations": ["1m"]},
                },
                {
                    "nodeSelector": {"matchExpressions": [{"key": "pool", "operator": "Exists"}]},
                    "metricReportIntervalSeconds": 20,
                },
            ],
        }
    )

    assert found.of({}).report_interval_seconds == 30
    fast = found.of({"pool": "fast"})
    assert fast.report_interval_seconds == 10
    assert fast.aggregate_duration_seconds == 120
    assert policy_document(fast)["nodeAggregatePolicy"] == {"durations": ["1m"]}
    assert found.of({"pool": "slow"}).report_interval_seconds == 20


def test_a_strategy_that_is_not_enabled_leaves_the_defaults():
    """A strategy may be disabled for all nodes, or for those of one selector."""
    assert policies(STRATEGY | {"enable": False}).of({}) == DEFAULT_POLICY
    off = {"nodeSelector": {"matchLabels": {"a": "b"}}, "enable": False}
    some = policies(STRATEGY | {"nodeConfigs": [off]})
    assert some.of({"a": "b"}) == DEFAULT_POLICY
    assert some.of({}).report_interval_seconds == 30


@pytest.mark.parametrize(
    ("section", "field"),
    [
        ({"metricReportIntervalSeconds": 0}, "metricReportIntervalSeconds"),
        ({"metricAggregateDurationSeconds": -1}, "metricAggregateDurationSeconds"),
        ({"metricReportIntervalSeconds": "60"}, "metricReportIntervalSeconds"),
        ({"metricAggregatePolicy": {"durations": ["soon"]}}, "durations"),
        ({"metricMemoryCollectPolicy": "all"}, "metricMemoryCollectPolicy"),
        ({"nodeConfigs": [{"metricReportIntervalSeconds": 0}]}, "nodeConfigs[0]"),
        ([], "object"),
    ],
)
def test_a_section_that_cannot_be_used_names_the_field(section, field):
    """No part of it is used then."""
    with pytest.raises(PolicyError) as reported:
        policies(section)
    assert field in str(reported.value)


def metric(name: str, **policy: int) -> NodeMetric:
    """Return an object with a policy."""
    raw = {"kind": "NodeMetric", "metadata": {"name": name}}
    _, read = read_object(raw | {"spec": {"metricCollectPolicy": policy}})
    assert isinstance(read, NodeMetric)
    return read


def test_every_node_gets_one_object_with_its_policy():
    """Missing ones are created, differing ones are updated."""
    right = NodeMetric(metric("right").metadata, NodeMetricSpec(DEFAULT_POLICY))
    known = {"right": right, "wrong": metric("wrong", reportIntervalSeconds=5), "lost": right}
    nodes = [read_node(node(name)) for name in ("right", "wrong", "new")]
    found = steps(nodes, known, Policies())

    assert found == [
        SetPolicy("wrong", DEFAULT_POLICY),
        Create(nodes[2], DEFAULT_POLICY),
    ]
    made = found[1].document() if isinstance(found[1], Create) else {}
    assert made["metadata"]["name"] == "new"
    assert made["metadata"]["ownerReferences"][0]["kind"] == "Node"


def test_before_any_policy_was_readable_nothing_is_made():
    """A first configuration that is wrong must not spread defaults."""
    assert steps([read_node(node("new"))], {"lost": metric("lost")}, None) == []


def snapshot(**nodes: dict[FigureName, Figure]) -> FigureSnapshot:
    """Return a snapshot with one pod."""
    used = {FigureName(CPU): Figure(0.5, 990.0), FigureName(MEMORY): Figure(2**30, 990.0)}
    return FigureSnapshot("test", 1000.0, nodes=nodes, pods={"default/p": used})


WHOLE = {FigureName(CPU): Figure(2.0, 980.0), FigureName(MEMORY): Figure(4 * 2**30, 990.0)}


def test_a_status_holds_node_system_and_pods():
    """The status' time is that of the oldest figure; usage of no pod is the system's."""
    found = status_of("n", [read_pod(pod("p")), read_pod(pod("silent"))], snapshot(n=WHOLE))
    assert found is not None
    status, measured = found

    assert measured == 980.0
    assert status["updateTime"] == rfc3339(980.0)
    assert status["nodeMetric"]["nodeUsage"]["resources"] == {"cpu": "2000m", "memory": "4194304Ki"}
    assert status["nodeMetric"]["systemUsage"]["resources"] == {
        "cpu": "1500m",
        "memory": "3145728Ki",
    }
    (one,) = status["podsMetric"]
    assert (one["name"], one["priority"], one["qos"]) == ("p", "koord-batch", "BE")


def test_half_a_report_is_none():
    """A node without memory figures would look idle in memory."""
    half = {FigureName(CPU): Figure(2.0, 980.0)}

    assert status_of("n", [], snapshot(n=half)) is None
    assert status_of("other", [], snapshot(n=WHOLE)) is None


def test_percentiles_are_passed_on_by_window():
    """Only percentiles of both resources are passed on."""
    figures = WHOLE | {
        FigureName(CPU, "p95"): Figure(3.0, 980.0, 300),
        FigureName(MEMORY, "p95"): Figure(2**30, 980.0, 300),
        FigureName(CPU, "p50"): Figure(1.0, 980.0, 300),
    }
    found = status_of("n", [], snapshot(n=figures))
    assert found is not None

    assert found[0]["nodeMetric"]["aggregatedNodeUsages"] == [
        {
            "duration": "5m0s",
            "usage": {"p95": {"resources": {"cpu": "3000m", "memory": "1048576Ki"}}},
        }
    ]
