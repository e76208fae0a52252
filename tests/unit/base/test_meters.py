"""The table of metrics: kube-scheduler's names, labels and buckets, and values that are
inexpensive.
"""

import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.base.meters import Counter, Family, Gauge, Histogram, Meters, Spec
from scheduler.base.meters.values import MAX_CHILDREN


def exp(start: float, factor: float, count: int) -> list[float]:
    """Return the bounds that kube-scheduler's documentation gives as exp(start, factor, count)."""
    return [start * factor**step for step in range(count)]


# The metrics of kube-scheduler 1.36 and 1.37: name -> type, labels, bounds. Left out are those
# without a counterpart in Trellis: batching, dynamic resources, volumes, and those that its gates
# disable, except pod groups.
KUBE_SCHEDULER = {
    "schedule_attempts_total": ("counter", "result profile", []),
    "scheduling_attempt_duration_seconds": ("histogram", "result profile", exp(0.001, 2, 15)),
    "scheduling_algorithm_duration_seconds": ("histogram", "", exp(0.001, 2, 15)),
    "pod_scheduling_sli_duration_seconds": ("histogram", "attempts", exp(0.01, 2, 20)),
    "pod_scheduling_attempts": ("histogram", "", exp(1, 2, 5)),
    "pod_scheduled_after_flush_total": ("counter", "", []),
    "pending_pods": ("gauge", "queue", []),
    "queue_incoming_pods_total": ("counter", "queue event", []),
    "queued_entities": ("gauge", "queue type", []),
    "queue_incoming_entities_total": ("counter", "queue event type", []),
    "inflight_events": ("gauge", "event", []),
    "unschedulable_pods": ("gauge", "plugin profile", []),
    "plugin_evaluation_total": ("counter", "plugin extension_point profile", []),
    "framework_extension_point_duration_seconds": (
        "histogram",
        "extension_point status profile",
        exp(0.0001, 2, 12),
    ),
    "plugin_execution_duration_seconds": (
        "histogram",
        "plugin extension_point status",
        exp(0.00001, 1.5, 20),
    ),
    "queueing_hint_execution_duration_seconds": (
        "histogram",
        "plugin event hint",
        exp(0.00001, 1.5, 20),
    ),
    "event_handling_duration_seconds": ("histogram", "event", exp(0.0001, 2, 12)),
    "permit_wait_duration_seconds": ("histogram", "result", exp(0.001, 2, 15)),
    "preemption_attempts_total": ("counter", "", []),
    "preemption_victims": ("histogram", "", exp(1, 2, 7)),
    "workload_preemption_attempts_total": ("counter", "result", []),
    "workload_preemption_victims": ("histogram", "", exp(1, 2, 11)),
    "preemption_workload_disruptions": ("histogram", "preemptor", exp(1, 2, 11)),
    "preemption_pdb_violations_total": ("counter", "preemptor", []),
    "preemption_evaluation_duration_seconds": (
        "histogram",
        "preemptor result",
        exp(0.001, 2, 16),
    ),
    "preemption_execution_duration_seconds": (
        "histogram",
        "preemptor result",
        exp(0.001, 2, 16),
    ),
    "preemption_goroutines_duration_seconds": ("histogram", "result", exp(0.01, 2, 20)),
    "preemption_goroutines_execution_total": ("counter", "result", []),
    "cache_size": ("gauge", "type", []),
    "goroutines": ("gauge", "operation", []),
    "podgroup_schedule_attempts_total": ("counter", "result profile", []),
    "podgroup_scheduling_attempt_duration_seconds": (
        "histogram",
        "result profile",
        exp(0.001, 2, 15),
    ),
    "podgroup_scheduling_algorithm_duration_seconds": ("histogram", "", exp(0.001, 2, 15)),
    "resourceclaim_creates_total": ("counter", "status", []),
    "dra_bindingconditions_allocations_total": ("counter", "profile driver status", []),
    "dra_bindingconditions_wait_duration_seconds": (
        "histogram",
        "profile driver status",
        exp(0.1, 2, 14),
    ),
}
BY_NAME = {spec.name: spec for spec in Meters.table().values()}


@pytest.mark.parametrize("name", KUBE_SCHEDULER)
def test_scheduler_metrics_are_those_of_kube_scheduler(name: str):
    """Dashboards and alerts written for kube-scheduler find the same series."""
    kind, labels, bounds = KUBE_SCHEDULER[name]
    spec = BY_NAME[f"scheduler_{name}"]

    assert (kind, tuple(labels.split())) == (spec.kind, spec.labels)
    assert pytest.approx(bounds) == list(spec.buckets)


def test_nothing_else_bears_the_prefix_of_kube_scheduler():
    """`scheduler_` is for metrics that kube-scheduler has under that name; others begin with
    `trellis_`.
    """
    others = {"leader_election_", "kubernetes_", "rest_client_"}
    for name in BY_NAME:
        if name.startswith("scheduler_"):
            assert name.removeprefix("scheduler_") in KUBE_SCHEDULER
        else:
            assert name.startswith(("trellis_", *others)), name


def test_rows_keep_the_rules_of_prometheus():
    """Counters end in _total, histograms of time in _seconds; names are unique, helps sentences."""
    assert len(Meters.table()) == len(BY_NAME)
    for name, spec in BY_NAME.items():
        assert (spec.kind == "counter") == name.endswith("_total"), name
        assert spec.help.endswith("."), name
        assert bool(spec.buckets) == (spec.kind == "histogram"), name
        assert sorted(set(spec.buckets)) == list(spec.buckets), name
        assert "le" not in spec.labels, name
        if "duration" in name and spec.kind == "histogram":
            assert name.endswith("_seconds"), name


def test_unlabelled_rows_are_values_and_labelled_rows_families():
    """The attribute of each row follows from its labels and type."""
    meters = Meters()
    kinds = {"counter": Counter, "gauge": Gauge, "histogram": Histogram}
    for attribute, spec in Meters.table().items():
        row = getattr(meters, attribute)
        if spec.labels:
            assert isinstance(row, Family)
            row = row.labels(*spec.labels)
        assert isinstance(row, kinds[spec.kind])


def test_two_tables_share_nothing():
    """Each engine of a process (simulate, tests) counts for itself."""
    first, second = Meters(), Meters()
    first.preemption_attempts.inc()
    first.schedule_attempts.labels("scheduled", "trellis").inc()

    assert 0 == second.preemption_attempts.value
    assert [] == second.schedule_attempts.samples()


def test_same_labels_are_the_same_value():
    """A stored child and one of a second lookup count together."""
    family = Meters().schedule_attempts
    kept = family.labels("error", "trellis")
    kept.inc()
    family.labels("error", "trellis").inc(2)

    assert 3 == kept.value
    with pytest.raises(ValueError, match="has labels"):
        family.labels("error")


def test_foreign_labels_cannot_fill_the_memory():
    """Beyond the maximum number of children all new labels share one."""
    family = Meters().inflight_events
    for number in range(MAX_CHILDREN + 10):
        family.labels(f"event-{number}").inc()

    samples = {sample.labels: sample.value for sample in family.samples()}
    assert MAX_CHILDREN + 1 == len(samples)
    assert 10 == samples[("overflow",)]


def test_gauges_ask_their_owner_when_read():
    """A gauge may be answered by its owner at each scrape instead of being kept up to date."""
    meters = Meters()
    sizes = {"active": 3}
    meters.pending_pods.read_from(lambda: sizes)
    meters.unschedulable_pods.read_from(lambda: {("NodeName", "trellis"): 1})
    meters.events_queued.read_from(lambda: 7)
    sizes["active"] = 4

    collected = {spec.name: samples for spec, samples in meters.collect()}
    assert [(("active",), 4)] == collected["scheduler_pending_pods"]
    assert [(("NodeName", "trellis"), 1)] == collected["scheduler_unschedulable_pods"]
    assert [((), 7)] == collected["trellis_events_queued"]


def test_what_never_happened_is_not_shown():
    """Labelled metrics without values are left out; unlabelled ones begin at 0."""
    shown = {spec.name: samples for spec, samples in Meters().collect()}

    assert "scheduler_schedule_attempts_total" not in shown
    assert [((), 0)] == shown["trellis_events_dropped_total"]


@given(st.lists(st.floats(min_value=0, max_value=1e6)))
def test_histogram_counts_by_inclusive_upper_bound(values: list[float]):
    """Each observation is in exactly one bucket, the first whose bound is not below it."""
    bounds = tuple(exp(0.001, 2, 15))
    histogram = Histogram(bounds)
    for value in (*values, *bounds):
        histogram.observe(value)

    for index, bound in enumerate((*bounds, math.inf)):
        below = (-math.inf, *bounds)[index]
        expected = sum(below < value <= bound for value in (*values, *bounds))
        assert expected == histogram.counts[index]
    assert len(values) + len(bounds) == histogram.count
    assert math.isclose(sum((*values, *bounds)), histogram.sum, abs_tol=1e-6)


def test_labels_of_a_spec_must_fit_the_answer_of_its_owner():
    """A callback with keys of another shape fails when it is read."""
    family = Family(Spec("x", "gauge", ("a", "b"), (), "X."), Gauge)
    family.read_from(lambda: {"one": 1})

    with pytest.raises(ValueError, match="has labels"):
        family.samples()


def test_importing_the_table_is_cheap():
    """The command line stays quick: the metrics library is for serve alone."""
    import subprocess

    code = "import sys, scheduler.base.meters; sys.exit('prometheus_client' in sys.modules)"
    assert 0 == subprocess.run([sys.executable, "-c", code], check=False).returncode


@pytest.mark.perf
def test_hot_path_costs():
    """A counter takes under 0.3 and a histogram under 0.8 microseconds."""
    import timeit

    meters = Meters()
    counter = meters.plugin_evaluation.labels("a", "Filter", "trellis")
    histogram = meters.framework_extension_point_duration.labels("Filter", "Success", "trellis")
    rounds = 100_000
    for name, limit_us, call in (
        ("counter", 0.3, counter.inc),
        ("histogram", 0.8, lambda: histogram.observe(0.0003)),
    ):
        best_us = min(timeit.repeat(call, number=rounds, repeat=7)) / rounds * 1e6
        print(f"{name}: {best_us:.3f} us")
        assert best_us < limit_us
