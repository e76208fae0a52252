"""The invariants of plugins hold for load-aware placement in each of its modes."""

import pytest

from scheduler.plugins.loadaware import LoadAwareScheduling
from scheduler.testing import check_plugin
from tests.unit.plugins.loadaware.situation import annotated, big, pod_usage, report, wants

NODES = [
    big("hot"),
    big("silent"),
    big("idle"),
    big("own", thresholds='{"usageThresholds": {"cpu": 10}}'),
]
OBJECTS = [
    report("hot", cpu="70", memory="99Gi", pods=[pod_usage("e4", "2")]),
    report("silent", cpu="1", age_s=500),
    report("idle", cpu="1"),
    report("own", cpu="20"),
    report("busy", cpu="1500m", memory="1Gi", pods=[pod_usage("e0", "1", "1Gi")]),
]
PODS = [
    wants("prod", "30", "1Gi", spec={"priority": 9999}),
    wants("mid", spec={"priority": 7000}),
    annotated(wants("own-factor", "30"), load_estimated_scaling_factors='{"cpu": 200}'),
]


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"prodUsageThresholds": {"cpu": 20}, "scoreAccordingProdUsage": True},
        {"thresholds": "Soft", "scoringStrategy": "MostUsed", "dominantResourceWeight": 3},
        {"estimateInFilter": False, "allowCustomizeEstimation": True},
    ],
)
def test_invariants(args):
    """Shapes, repeatability, locality, waking and bookkeeping."""
    check_plugin(LoadAwareScheduling, args=args, nodes=NODES, objects=OBJECTS, pods=PODS)
