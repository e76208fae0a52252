"""Every metric of the process, one row each: name, labels, buckets, help.

Names, labels and buckets of `scheduler_*` are kube-scheduler's, so that dashboards carry over;
`trellis_*` is what it does not have. The attribute of an unlabelled row is the value itself; of a
labelled one it is the family: take `meters.x.labels(...)` once and keep it where speed matters.
docs/reference/metrics.md is generated from here. Nothing is computed or rendered in this file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from scheduler.base.meters.values import (
    Family,
    Row,
    Sample,
    Spec,
    counter,
    counters,
    exp,
    gauge,
    gauges,
    histogram,
    histograms,
)

# Requests over the network: kube's client-go bounds.
_REQUEST_S = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)


class Meters:
    """All metrics of one process; every attribute is a row of the table."""

    # -- attempts, as kube-scheduler counts them
    schedule_attempts = counters(
        "scheduler_schedule_attempts_total",
        "result profile",
        "Attempts to schedule pods; result is scheduled, unschedulable or error.",
    )
    scheduling_attempt_duration = histograms(
        "scheduler_scheduling_attempt_duration_seconds",
        "result profile",
        exp(0.001, 2, 15),
        "How long an attempt took, choosing and binding together.",
    )
    scheduling_algorithm_duration = histogram(
        "scheduler_scheduling_algorithm_duration_seconds",
        exp(0.001, 2, 15),
        "How long choosing a node took.",
    )
    pod_scheduling_sli_duration = histograms(
        "scheduler_pod_scheduling_sli_duration_seconds",
        "attempts",
        exp(0.01, 2, 20),
        "From a pod's first entry into the active queue to its binding, gated time left out.",
    )
    pod_scheduling_attempts = histogram(
        "scheduler_pod_scheduling_attempts",
        exp(1, 2, 5),
        "Attempts that a pod needed until it was scheduled.",
    )
    pod_scheduled_after_flush = counter(
        "scheduler_pod_scheduled_after_flush_total",
        "Pods scheduled after the timed flush of unschedulable pods: a requeue event was missed.",
    )

    # -- queues
    pending_pods = gauges(
        "scheduler_pending_pods",
        "queue",
        "Pods that wait, by queue: active, backoff, unschedulable, gated; in flight is in none.",
    )
    queue_incoming_pods = counters(
        "scheduler_queue_incoming_pods_total",
        "queue event",
        "Pods added to a queue, by the event that moved them.",
    )
    inflight_events = gauges(
        "scheduler_inflight_events",
        "event",
        "Events kept because a pod in flight may need them if it fails.",
    )
    unschedulable_pods = gauges(
        "scheduler_unschedulable_pods",
        "plugin profile",
        "Pods that this plugin keeps from being scheduled.",
    )
    queueing_hint_execution_duration = histograms(
        "scheduler_queueing_hint_execution_duration_seconds",
        "plugin event hint",
        exp(0.00001, 1.5, 20),
        "How long a plugin took to say whether an event helps a pod.",
    )
    event_handling_duration = histograms(
        "scheduler_event_handling_duration_seconds",
        "event",
        exp(0.0001, 2, 12),
        "How long taking in one change of the cluster took.",
    )

    # -- plugins
    plugin_evaluation = counters(
        "scheduler_plugin_evaluation_total",
        "plugin extension_point profile",
        "Calls of a plugin at PreFilter, Filter, PreScore and Score; skipped ones do not count.",
    )
    framework_extension_point_duration = histograms(
        "scheduler_framework_extension_point_duration_seconds",
        "extension_point status profile",
        exp(0.0001, 2, 12),
        "How long all plugins of an extension point took together.",
    )
    plugin_execution_duration = histograms(
        "scheduler_plugin_execution_duration_seconds",
        "plugin extension_point status",
        exp(0.00001, 1.5, 20),
        "How long one plugin took at one extension point; one cycle in ten is measured.",
    )
    permit_wait_duration = histograms(
        "scheduler_permit_wait_duration_seconds",
        "result",
        exp(0.001, 2, 15),
        "How long pods waited at Permit.",
    )
    goroutines = gauges(
        "scheduler_goroutines",
        "operation",
        "Work under way, by operation; what are goroutines there are tasks and effects here.",
    )

    # -- preemption
    preemption_attempts = counter(
        "scheduler_preemption_attempts_total",
        "Attempts to make room by preemption.",
    )
    preemption_victims = histogram(
        "scheduler_preemption_victims",
        exp(1, 2, 7),
        "Pods chosen as victims per preemption.",
    )
    preemption_goroutines_duration = histograms(
        "scheduler_preemption_goroutines_duration_seconds",
        "result",
        exp(0.01, 2, 20),
        "How long carrying out the evictions of one preemption took.",
    )
    preemption_goroutines_execution = counters(
        "scheduler_preemption_goroutines_execution_total",
        "result",
        "Preemptions whose evictions were carried out.",
    )

    # -- memory and writes
    cache_size = gauges(
        "scheduler_cache_size",
        "type",
        "Objects in memory: nodes, pods, assumed_pods.",
    )
    async_api_call_execution = counters(
        "scheduler_async_api_call_execution_total",
        "call_type result",
        "Writes carried out beside the scheduling cycle.",
    )
    async_api_call_execution_duration = histograms(
        "scheduler_async_api_call_execution_duration_seconds",
        "call_type result",
        exp(0.001, 2, 15),
        "How long such a write took.",
    )
    pending_async_api_calls = gauges(
        "scheduler_pending_async_api_calls",
        "call_type",
        "Writes queued and not yet sent.",
    )

    # -- what every component of Kubernetes has
    leader_election_master_status = gauges(
        "leader_election_master_status",
        "name",
        "1 while this process holds the lease.",
    )
    kubernetes_build_info = gauges(
        "kubernetes_build_info",
        "git_version platform",
        "Always 1; the version of Trellis, where dashboards of Kubernetes look for one.",
    )
    rest_client_requests = counters(
        "rest_client_requests_total",
        "code method host",
        "Requests to the API server; code is <error> when no answer arrived.",
    )
    rest_client_request_duration = histograms(
        "rest_client_request_duration_seconds",
        "verb host",
        _REQUEST_S,
        "How long a request to the API server took; watches are left out.",
    )

    # -- watching
    watch_events = counters(
        "trellis_watch_events_total",
        "kind type",
        "Changes received from watches.",
    )
    watch_restarts = counters(
        "trellis_watch_restarts_total",
        "kind reason",
        "Watches begun again: closed, expired (410, listed anew), silent, error, decode.",
    )
    watch_decode_errors = counters(
        "trellis_watch_decode_errors_total",
        "kind",
        "Objects that could not be read and were left out.",
    )
    watch_list_duration = histograms(
        "trellis_watch_list_duration_seconds",
        "kind",
        _REQUEST_S,
        "How long listing a kind from first to last page took.",
    )
    watch_synced = gauges(
        "trellis_watch_synced",
        "kind",
        "1 while the kind is listed and watched; 0 while not, or while the API server has it not.",
    )
    store_objects = gauges("trellis_store_objects", "kind", "Objects in memory, by kind.")

    # -- the engine
    engine_run_duration = histogram(
        "trellis_engine_run_duration_seconds",
        exp(0.0001, 2, 14),
        "How long one turn of the engine took: a batch of events, then some cycles.",
    )
    plugin_errors = counters(
        "trellis_plugin_errors_total",
        "plugin extension_point",
        "Exceptions out of plugins; each ended the cycle of one pod.",
    )
    missing_objects = counters(
        "trellis_missing_objects_total",
        "plugin kind",
        "Decisions taken without an object that the plugin looked for.",
    )
    numa_nodes = gauges("trellis_numa_nodes", "state", "Nodes, by what is known of their zones.")
    numa_stale_since = gauges(
        "trellis_numa_stale_since_timestamp_seconds",
        "node",
        "Since when a node's figures are invalid because a foreign pod took an unknown zone.",
    )
    overcommitted_nodes = counter(
        "trellis_overcommitted_nodes_total",
        "Nodes seen with more requested than allocatable: a foreign binding won a race.",
    )

    # -- effects
    effects = counters(
        "trellis_effects_total",
        "effect result",
        "Effects carried out: ok, conflict, gone, rejected, error.",
    )
    effect_duration = histograms(
        "trellis_effect_duration_seconds",
        "effect",
        exp(0.001, 2, 15),
        "From handing an effect out to its answer, retries included.",
    )
    effect_retries = counters(
        "trellis_effect_retries_total",
        "effect reason",
        "Effects sent once more.",
    )
    extender_duration = histograms(
        "trellis_extender_request_duration_seconds",
        "extender verb result",
        exp(0.001, 2, 15),
        "How long an extender took to answer; result is ok or error.",
    )
    solver_duration = histograms(
        "trellis_solver_duration_seconds",
        "result",
        exp(0.001, 2, 15),
        "How long a question to the solver took, waiting for earlier ones included; result is done, "
        "invalid, error, timeout, died, cancelled or closed.",
    )
    effects_in_flight = gauges("trellis_effects_in_flight", "effect", "Effects being sent.")
    effects_queued = gauges("trellis_effects_queued", "effect", "Effects that wait to be sent.")
    bind_conflicts = counters(
        "trellis_bind_conflicts_total",
        "reason",
        "Bindings refused because somebody was faster: bound, gone, replaced.",
    )
    event_writes = counters(
        "trellis_event_writes_total",
        "result",
        "Events written: created, series (counted up on an existing one), error.",
    )
    events_dropped = counter(
        "trellis_events_dropped_total",
        "Events thrown away unsent; must stay 0.",
    )
    events_queued = gauge("trellis_events_queued", "Events that wait to be written.")

    # -- the process
    build_info = gauges(
        "trellis_build_info",
        "version python_version",
        "Always 1; what is running.",
    )
    loop_lag = histogram(
        "trellis_event_loop_lag_seconds",
        exp(0.001, 2, 13),
        "How late the event loop woke a timer: the time that one step kept it busy.",
    )
    config_last_reload_successful = gauge(
        "trellis_config_last_reload_successful",
        "1 when the configuration file as it is now is in use, 0 when the last good one is.",
    )
    config_last_reload_success_timestamp = gauge(
        "trellis_config_last_reload_success_timestamp_seconds",
        "When a configuration was last taken into use, seconds since the epoch.",
    )
    config_reloads = counters(
        "trellis_config_reloads_total", "result", "Attempts to reload: success, error."
    )
    lease_transitions = counters(
        "trellis_lease_transitions_total", "name", "Times this process gained the lease."
    )
    operator_healthy = gauges("trellis_operator_healthy", "operator", "1 while the operator runs.")
    operator_restarts = counters(
        "trellis_operator_restarts_total", "operator", "Times an operator was started again."
    )

    # -- measured load
    node_metric_age = gauges(
        "trellis_node_metric_age_seconds",
        "which",
        "Age of the nodes' load figures: the newest, the median and the oldest; none without a time.",
    )
    node_metrics = gauges(
        "trellis_node_metrics",
        "state",
        "Nodes by their load figures: fresh, expired (too old to count), missing.",
    )

    # -- the endpoints
    endpoint_requests = counters(
        "trellis_endpoint_requests_total", "path code", "Requests served, by route and status."
    )
    access_reviews = counters(
        "trellis_access_reviews_total",
        "review result",
        "TokenReviews and SubjectAccessReviews sent: allowed, denied, error.",
    )
    certificate_reloads = counters(
        "trellis_certificate_reloads_total",
        "result",
        "Times the serving certificate's files had changed: success, error.",
    )
    certificate_expiry = gauge(
        "trellis_certificate_expiry_timestamp_seconds",
        "When the serving certificate ends, seconds since the epoch.",
    )
    scrape_errors = counters(
        "trellis_scrape_errors_total",
        "metric",
        "Metrics left out of a scrape because their owner failed to answer.",
    )

    ROWS: ClassVar[dict[str, Row[Any]]]

    def __init__(self) -> None:
        self._families: list[Family[Any]] = []
        for attribute, row in self.ROWS.items():
            family: Family[Any] = Family(row.spec, row.make)
            self._families.append(family)
            # The instance's attribute hides the row: from here on reading it is a plain look-up.
            self.__dict__[attribute] = family if row.spec.labels else family.labels()

    @classmethod
    def table(cls) -> dict[str, Spec]:
        """Return the rows by attribute name, in the order they are written here."""
        return {attribute: row.spec for attribute, row in cls.ROWS.items()}

    def collect(self) -> Iterator[tuple[Spec, list[Sample]]]:
        """Yield each metric that has values; one whose owner fails is left out and counted."""
        for family in self._families:
            try:
                samples = family.samples()
            except Exception:  # noqa: BLE001 - one broken owner must not blind the monitoring
                self.scrape_errors.labels(family.spec.name).inc()
                continue
            if samples:
                yield family.spec, samples


Meters.ROWS = {name: row for name, row in vars(Meters).items() if isinstance(row, Row)}
