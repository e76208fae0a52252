"""Rules of LoadAwareScheduling that no test table of Koordinator covers, and rules of Trellis."""

import pytest

from tests.unit.plugins.loadaware.situation import (
    annotated,
    ask,
    big,
    condition,
    placed,
    pod_usage,
    reason,
    report,
    score,
    wants,
    window,
)

CPU = "node(s) cpu usage exceed threshold"
MEMORY = "node(s) memory usage exceed threshold"
EXPIRED = "node(s) nodeMetric expired"

# A pod that adds nothing: of class free, whose resources no node offers.
WEIGHTLESS = wants(spec={"priority": 3500})


@pytest.mark.parametrize(
    ("used", "expected"),
    [("65", ""), ("65400m", ""), ("65499m", ""), ("65500m", CPU), ("66", CPU)],
)
def test_only_a_rounded_percentage_above_the_threshold_rejects(used, expected):
    """Equal is fine, and 65.4 % of a threshold of 65 passes."""
    assert expected == reason(objects=[report(cpu=used)], pod=WEIGHTLESS)


def test_a_map_of_the_node_replaces_the_whole_map_of_the_arguments():
    """Naming only memory drops the check of cpu."""
    objects = [report(cpu="99", memory="50Gi")]

    assert reason(objects=objects, pod=WEIGHTLESS) == CPU
    only_memory = big(thresholds='{"usageThresholds": {"memory": 60}}')
    assert reason(objects=objects, pod=WEIGHTLESS, nodes=[only_memory]) == ""
    lower = big(thresholds='{"usageThresholds": {"memory": 40}}')
    assert reason(objects=objects, pod=WEIGHTLESS, nodes=[lower]) == MEMORY


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"usageThresholds": {"cpu": "x"}}', '{"usageThresholds": {}}']
)
def test_an_annotation_that_cannot_be_read_changes_nothing(text):
    """The thresholds of the arguments hold."""
    got = reason(objects=[report(cpu="70")], pod=WEIGHTLESS, nodes=[big(thresholds=text)])
    assert got == CPU


def test_weights_are_not_defaulted_beside_a_dominant_weight():
    """With the dominant weight alone the score is the lowest share."""
    objects = [report(cpu="60", memory="10Gi")]

    assert score({"dominantResourceWeight": 5}, objects=objects, pod=WEIGHTLESS) == 40
    assert score({}, objects=objects, pod=WEIGHTLESS) == 65


def test_the_lowest_share_runs_over_resources_without_weight():
    """A resource without weight counts; a resource that the node does not offer is worth 0."""
    weighted = {"resourceWeights": {"memory": 1}, "dominantResourceWeight": 1}
    objects = [report(cpu="80", memory="10Gi")]

    assert score(weighted, objects=objects, pod=WEIGHTLESS) == (90 + 20) // 2
    with_gpu = weighted | {"supportedResources": ["example.com/gpu"]}
    assert score(with_gpu, objects=objects, pod=WEIGHTLESS) == 90 // 2


def test_thresholds_of_zero_pass_before_age_is_looked_at():
    """A node whose thresholds are all zero passes even if its report has expired."""
    old = [report(cpu="99", age_s=999)]

    assert reason(objects=old) == EXPIRED
    assert reason({"usageThresholds": {"cpu": 0, "memory": 0}}, objects=old) == ""
    zeros = big(thresholds='{"usageThresholds": {"cpu": 0}}')
    assert reason(objects=old, nodes=[zeros]) == ""


def test_a_forced_window_counts_a_pod_that_reports_have_seen():
    """Until the window ends, the estimate counts where usage is still lower."""
    objects = [report(cpu="10", age_s=0, pods=[pod_usage("slow", "1")])]
    slow = placed("slow", "40", assigned_s=300)
    limit = {"usageThresholds": {"cpu": 40}}

    assert reason(limit, objects=objects, existing_pods=[slow], pod=WEIGHTLESS) == ""
    forced = limit | {"estimatedSecondsAfterPodScheduled": 600}
    assert reason(forced, objects=objects, existing_pods=[slow], pod=WEIGHTLESS) == CPU
    over = limit | {"estimatedSecondsAfterPodScheduled": 200}
    assert reason(over, objects=objects, existing_pods=[slow], pod=WEIGHTLESS) == ""


def test_the_window_after_initialisation_wins():
    """The end of the window after initialisation counts even if the other window is longer."""
    objects = [report(cpu="10", pods=[pod_usage("slow", "1")])]
    slow = placed("slow", "40", assigned_s=300)
    slow["status"]["conditions"].append(condition("Initialized", 200))
    args = {"usageThresholds": {"cpu": 40}, "estimatedSecondsAfterPodScheduled": 3000}
    short = args | {"estimatedSecondsAfterInitialized": 100}
    long = args | {"estimatedSecondsAfterInitialized": 300}

    assert reason(short, objects=objects, existing_pods=[slow], pod=WEIGHTLESS) == ""
    assert reason(long, objects=objects, existing_pods=[slow], pod=WEIGHTLESS) == CPU


def test_annotations_of_a_pod_count_only_when_allowed():
    """Factors and windows of the pod's own override the arguments if customising is on."""
    eager = annotated(wants(cpu="50"), load_estimated_scaling_factors='{"cpu": 100}')
    objects = [report(cpu="20")]

    assert reason(objects=objects, pod=eager) == ""  # 20 + 0.85 * 50
    assert reason({"allowCustomizeEstimation": True}, objects=objects, pod=eager) == CPU


@pytest.mark.parametrize("text", ["{", '{"cpu": 1e99}', '{"cpu": null}', '{"cpu": -5}', "[" * 5000])
def test_no_factors_of_a_pod_do_harm(text):
    """Every text of the annotation yields a result."""
    odd = annotated(wants(cpu="50"), load_estimated_scaling_factors=text)
    got = ask({"allowCustomizeEstimation": True}, objects=[report(cpu="20")], pod=odd)

    assert 0 <= got.raw["n"] <= 100


def test_a_daemon_goes_where_it_belongs():
    """Pods of a DaemonSet pass however hot or silent the node is."""
    daemon = wants()
    daemon["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "d", "uid": "1"}]

    assert reason(objects=[report(cpu="99")], pod=daemon) == ""
    assert reason(objects=[report(age_s=999)], pod=daemon) == ""


def test_production_pods_are_compared_with_production_thresholds_only():
    """The maps are alternatives: usage of other pods does not matter to a production pod."""
    args = {"prodUsageThresholds": {"cpu": 50}}
    objects = [report(cpu="90", pods=[pod_usage("p", "20")])]
    existing = [placed("p", "20", assigned_s=300)]
    prod, mid = wants(cpu="1", spec={"priority": 9500}), wants(spec={"priority": 7500})

    assert reason(args, objects=objects, existing_pods=existing, pod=prod) == ""
    assert reason(args, objects=objects, existing_pods=existing, pod=mid) == CPU
    tight = {"prodUsageThresholds": {"cpu": 20}}
    assert reason(tight, objects=objects, existing_pods=existing, pod=prod) == CPU


def test_system_usage_joins_production_when_asked():
    """prodUsageIncludeSys adds the usage outside of pods."""
    args = {"prodUsageThresholds": {"cpu": 50}}
    objects = [report(cpu="90", systemUsage={"resources": {"cpu": "60"}})]
    prod = wants(cpu="1", spec={"priority": 9500})

    assert reason(args, objects=objects, pod=prod) == ""
    assert reason(args | {"prodUsageIncludeSys": True}, objects=objects, pod=prod) == CPU


def test_a_percentile_that_is_not_reported_never_makes_a_node_look_idle():
    """Instead of a missing window the next longer one is used, then the average, never a shorter
    one. This differs from Koordinator (D17 in the vector tests).
    """
    by = {
        "usageThresholds": {"cpu": 60},
        "usageAggregationType": "p95",
        "usageAggregatedDuration": "10m",
    }
    args = {"aggregated": by}
    text = "node(s) cpu aggregated usage exceed threshold"

    longer = [window("5m", "p95", "1"), window("30m", "p95", "70")]
    assert reason(args, objects=[report(cpu="5", windows=longer)], pod=WEIGHTLESS) == text
    shorter = [window("5m", "p95", "1")]
    assert reason(args, objects=[report(cpu="70", windows=shorter)], pod=WEIGHTLESS) == text
    assert reason(args, objects=[report(cpu="70")], pod=WEIGHTLESS) == text
    assert reason(args, objects=[report(cpu="50")], pod=WEIGHTLESS) == ""


def test_estimates_can_be_left_out_of_the_filter():
    """D17: with estimateInFilter false only measurements count; scores count estimates."""
    objects = [report(cpu="60")]
    existing = [placed("fresh", "30", assigned_s=None)]
    measured = {"estimateInFilter": False}

    assert reason(objects=objects, existing_pods=existing, pod=wants(cpu="50")) == CPU
    assert reason(measured, objects=objects, existing_pods=existing, pod=wants(cpu="50")) == ""
    assert reason(measured, objects=[report(cpu="66")]) == CPU
    alone = score(measured, objects=objects)
    assert score(measured, objects=objects, existing_pods=existing) < alone


def test_packing_prefers_the_fuller_node_and_never_an_overfull_one():
    """scoringStrategy MostUsed turns the order round."""
    nodes = [big("idle"), big("half"), big("over")]
    objects = [report("idle"), report("half", cpu="50", memory="50Gi"), report("over", cpu="100")]
    got = ask(
        {"scoringStrategy": "MostUsed", "resourceWeights": {"cpu": 1}},
        nodes=nodes, objects=objects, pod=wants(cpu="10"),
    ).raw  # fmt: skip

    assert got == {"idle": 8, "half": 58, "over": 0}


def test_soft_thresholds_rank_hot_nodes_last_instead_of_rejecting_them():
    """Even the fullest node within its limits ranks above the emptiest beyond them."""
    nodes = [big("full"), big("hot"), big("hotter")]
    objects = [
        report("full", cpu="64", memory="94Gi"),
        report("hot", cpu="66"),
        report("hotter", cpu="99"),
    ]
    got = ask({"thresholds": "Soft"}, nodes=nodes, objects=objects, pod=WEIGHTLESS)

    assert all(status.is_success for status in got.filter.values())
    assert got.raw["full"] >= 50
    assert 10 >= got.raw["hot"] > got.raw["hotter"]


def test_soft_thresholds_do_not_soften_silence():
    """A node without reports is still rejected."""
    assert reason({"thresholds": "Soft"}, objects=[report(age_s=999)]) == EXPIRED


@pytest.mark.parametrize("bad", ["x", "-", "1.2.3", ""])
def test_a_usage_that_cannot_be_read_is_not_idleness(bad):
    """The node passes, as one without measurements, and scores 0."""
    objects = [report(cpu=bad)]

    assert reason(objects=objects) == ""
    assert score(objects=objects) == 0


@pytest.mark.parametrize("bad", ["yesterday", "2026-13-01T00:00:00Z", "9999999-01-01T00:00:00Z"])
def test_a_time_that_cannot_be_read_is_none(bad):
    """The report counts as expired."""
    metric = report()
    metric["status"]["updateTime"] = bad

    assert reason(objects=[metric]) == EXPIRED
    assert score(objects=[metric]) == 0


def test_amounts_before_amplification_are_the_divisor():
    """The annotation overrides allocatable key by key."""
    amplified = big(raw='{"cpu": 50}')

    assert reason(objects=[report(cpu="40")], pod=WEIGHTLESS, nodes=[amplified]) == CPU
    assert reason(objects=[report(cpu="40")], pod=WEIGHTLESS, nodes=[big(raw='{"cpu": "x"}')]) == ""


def test_a_pod_that_reserves_capacity_for_others_does_not_count():
    """Koordinator's reservations appear as pods; their load is that of the pods that use them."""
    reserving = annotated(placed("r", "90", assigned_s=None), reserve_pod="true")

    assert reason(objects=[report()], existing_pods=[reserving], pod=WEIGHTLESS) == ""


def test_missing_reports_treat_nodes_equally():
    """D2: without any NodeMetric no node is rejected or preferred."""
    got = ask(nodes=[big("a"), big("b")])

    assert all(status.is_success for status in got.filter.values())
    assert got.raw == {"a": 0, "b": 0}


def test_nothing_at_all_to_weigh_scores_nothing():
    """A percentage of zero raises no exception."""
    empty = big()
    empty["status"]["allocatable"] = {}

    assert score(objects=[report(cpu="5")], nodes=[empty]) == 0
    assert reason(objects=[report(cpu="5")], nodes=[empty]) == ""


@pytest.mark.parametrize(
    ("assigned_s", "age_s", "expected"),
    [(100, 40, ""), (99, 40, CPU), (61, 0, ""), (60, 0, ""), (59, 0, CPU)],
)
def test_a_report_has_seen_a_pod_that_is_older_than_its_interval(assigned_s, age_s, expected):
    """Assigned exactly one interval before the report is early enough."""
    objects = [report(cpu="10", age_s=age_s, pods=[pod_usage("p", "1")])]
    existing = [placed("p", "80", assigned_s=assigned_s)]

    assert expected == reason(objects=objects, existing_pods=existing, pod=WEIGHTLESS)


def test_a_pod_that_waits_for_figures_alone_says_so():
    """The reason names the age; the nodes have no other reason."""
    nodes = [big("a"), big("b")]
    got = ask(nodes=nodes, objects=[report("a", age_s=180), report("b", age_s=None)])

    assert {name: status.reasons for name, status in got.filter.items()} == {
        "a": (EXPIRED,),
        "b": (EXPIRED,),
    }
