"""A snapshot holds the inputs of load-aware placement, with names hidden or not."""

import json

import pytest

from scheduler.snapshot.anonymous.anonymize import Anonymizer
from scheduler.snapshot.export import exported
from scheduler.testing.builders import node
from tests.unit.plugins.loadaware.situation import annotated, big, pod_usage, report, window
from tests.unit.simulate.asking import HEAD, place, pod, setup

ARGS = "{allowCustomizeEstimation: true, aggregated: {scoreAggregationType: p95}}"
CONFIG = f"""{HEAD}profiles:
- plugins: {{multiPoint: {{enabled: [{{name: LoadAwareScheduling, weight: 50}}]}}}}
  pluginConfig: [{{name: LoadAwareScheduling, args: {ARGS}}}]
"""
CLUSTER = (
    big("a-own", thresholds='{"usageThresholds": {"cpu": 5}}'),
    node("b-hot", cpu="100", memory="100Gi"),
    node("c-fine", cpu="100", memory="100Gi"),
    node("d-busy", cpu="100", memory="100Gi"),
    report("a-own", cpu="10"),
    report("b-hot", cpu="90", pods=[pod_usage("bound", "1")]),
    report("c-fine", cpu="20", windows=[window("5m0s", "p95", "20")]),
    report("d-busy", cpu="20", windows=[window("5m0s", "p95", "60")]),
    pod("bound", node_name="b-hot", requests={"cpu": "1"}),
    annotated(
        pod("mine", requests={"cpu": "2"}, labels={"koordinator.sh/qosClass": "LS"}),
        load_estimated_scaling_factors='{"cpu": 100}',
    ),
)


@pytest.mark.parametrize("hides", [False, True])
def test_a_snapshot_decides_the_same(hides):
    """Thresholds of nodes, reports, windows and classes are all in the snapshot."""
    objects = [exported(one["kind"], one["apiVersion"], one) for one in CLUSTER]
    if hides:
        hider = Anonymizer()
        hider.learn(objects)
        objects = [hider.renamed(one) for one in objects]
    text = json.dumps(objects)
    assert ("bound" in text) is not hides
    (found,) = place(*objects, using=setup(config=CONFIG), details=True).pods
    totals = {one.name: one.scores.get("LoadAwareScheduling") for one in found.nodes}

    first, second, third, fourth = sorted(totals)
    assert totals[first] is None
    assert totals[second] is None
    scores = [totals[name].raw for name in (third, fourth)]
    assert scores == [88, 68]
