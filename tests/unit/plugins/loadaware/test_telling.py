"""`explain` shows the age of the figures of load-aware placement, and the estimates added to
them.
"""

import pytest

from scheduler.explain.explain import explain
from scheduler.explain.report import explanation_tables
from scheduler.simulate.stage import AnswerOptions
from scheduler.testing.builders import node
from scheduler.testing.scene import NOW
from tests.unit.plugins.loadaware.situation import pod_usage, report, wants, window
from tests.unit.simulate.asking import HEAD, pod, setup, snapshot

ARGS = "{aggregated: {scoreAggregationType: p95, scoreAggregatedDuration: 10m}}"
CONFIG = f"""{HEAD}profiles:
- plugins: {{multiPoint: {{enabled: [{{name: LoadAwareScheduling, weight: 5}}]}}}}
  pluginConfig: [{{name: LoadAwareScheduling, args: {ARGS}}}]
"""


def figures(*objects):
    """Return the figures of the plugin for node `n`, and its line of the table."""
    cluster = snapshot(node("n", cpu="10", memory="64Gi"), wants("p", "1", "1Gi"), *objects)
    using = setup(config=CONFIG)
    got = explain(cluster, using, "default/p", AnswerOptions(now=NOW), node="n").explanation
    (table,) = explanation_tables(got, wide=False, one_node=True)
    (line,) = (row for row in table.rows if row[0] == "LoadAwareScheduling")
    return got.nodes[0].plugins["LoadAwareScheduling"].figures, line[-1]


def test_age_source_and_what_is_not_seen_yet():
    """Every figure has its age; pods that no report includes are listed apart."""
    metric = report("n", cpu="2", memory="16Gi", age_s=45, pods=[pod_usage("seen", "1")])
    metric["metadata"]["annotations"] = {"trellis.dev/load-source": "Prometheus"}
    fresh = pod("fresh", node_name="n", requests={"cpu": "2", "memory": "2Gi"})
    found, line = figures(metric, fresh)

    assert found == (
        "figures 45s old by Prometheus",
        "uses cpu 2 of 10 (20 %), memory 16.0Gi of 64.0Gi (25 %)",
        "not seen yet: 1 pod with cpu 1.7 of 10 (17 %), memory 1.4Gi of 64.0Gi (2 %)",
        "p95 over 10m0s is not reported: a longer window or the average stands in",
    )
    assert "figures 45s old by Prometheus" in line


def test_a_window_that_is_reported_needs_no_word():
    """Only a substituted window is mentioned."""
    found, _ = figures(report("n", cpu="2", windows=[window("10m0s", "p95", "3")]))

    assert found == ("figures 0s old", "uses cpu 2 of 10 (20 %), memory 0.0Gi of 64.0Gi (0 %)")


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ([], "no NodeMetric"),
        ([report("n", age_s=None)], "figures without a time"),
        ([report("n", age_s=-90)], "figures from 1m30s ahead of our clock"),
        ([report("n", cpu=None, age_s=400)], "figures 6m40s old"),
    ],
)
def test_missing_figures_are_reported(metric, expected):
    """The output has a text for missing reports."""
    found, line = figures(*metric)

    assert found[0] == expected
    assert expected in line


def test_a_rejection_for_age_stands_beside_the_age():
    """The reason and the figure are in one line."""
    _, line = figures(report("n", age_s=600))

    assert line == (
        "node(s) nodeMetric expired; figures 10m0s old; "
        "uses cpu 0 of 10 (0 %), memory 0.0Gi of 64.0Gi (0 %); "
        "p95 over 10m0s is not reported: a longer window or the average stands in"
    )
