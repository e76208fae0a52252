"""The rows that kube-scheduler has as well, and those of every Kubernetes component.

Names, labels and buckets are those of kube-scheduler 1.36 and 1.37, so that dashboards and alerts
carry over; a test holds them to that. Read as a part of `Meters` (table.py).
"""

from scheduler.base.meters.values import (
    REQUEST_S,
    counter,
    counters,
    exp,
    gauges,
    histogram,
    histograms,
)


class KubernetesRows:
    """The metrics that dashboards of Kubernetes read."""

    # -- attempts, as kube-scheduler counts them
    schedule_attempts = counters(
        "scheduler_schedule_attempts_total{result,profile}",
        "Attempts to schedule pods; result is scheduled, unschedulable or error.",
    )
    scheduling_attempt_duration = histograms(
        "scheduler_scheduling_attempt_duration_seconds{result,profile}",
        exp(0.001, 2, 15),
        "How long an attempt took, choosing and binding together.",
    )
    scheduling_algorithm_duration = histogram(
        "scheduler_scheduling_algorithm_duration_seconds",
        exp(0.001, 2, 15),
        "How long choosing a node took.",
    )
    pod_scheduling_sli_duration = histograms(
        "scheduler_pod_scheduling_sli_duration_seconds{attempts}",
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
        "scheduler_pending_pods{queue}",
        "Pods that wait, by queue: active, backoff, unschedulable, gated; in flight is in none."
        " Since Kubernetes 1.37 also incomplete (nothing describes the pod's group) and pending"
        " (others of its group are in flight).",
    )
    queue_incoming_pods = counters(
        "scheduler_queue_incoming_pods_total{queue,event}",
        "Pods added to a queue, by the event that moved them.",
    )
    queued_entities = gauges(
        "scheduler_queued_entities{queue,type}",
        "Entities that wait, by queue; type is pod for pods of no group, else podgroup. A group"
        " counts once, in the queue of its foremost member.",
    )
    queue_incoming_entities = counters(
        "scheduler_queue_incoming_entities_total{queue,event,type}",
        "Entities added to a queue, by the event that moved them; type is pod for pods of no group,"
        " else podgroup. A group counts with the first of its members.",
    )
    inflight_events = gauges(
        "scheduler_inflight_events{event}",
        "Events kept because a pod in flight may need them if it fails.",
    )
    unschedulable_pods = gauges(
        "scheduler_unschedulable_pods{plugin,profile}",
        "Pods that this plugin keeps from being scheduled.",
    )
    queueing_hint_execution_duration = histograms(
        "scheduler_queueing_hint_execution_duration_seconds{plugin,event,hint}",
        exp(0.00001, 1.5, 20),
        "How long a plugin took to say whether an event helps a pod.",
    )
    event_handling_duration = histograms(
        "scheduler_event_handling_duration_seconds{event}",
        exp(0.0001, 2, 12),
        "How long taking in one change of the cluster took.",
    )

    # -- plugins
    plugin_evaluation = counters(
        "scheduler_plugin_evaluation_total{plugin,extension_point,profile}",
        "Calls of a plugin at PreFilter, Filter, PreScore and Score; skipped ones do not count.",
    )
    framework_extension_point_duration = histograms(
        "scheduler_framework_extension_point_duration_seconds{extension_point,status,profile}",
        exp(0.0001, 2, 12),
        "How long all plugins of an extension point took together.",
    )
    plugin_execution_duration = histograms(
        "scheduler_plugin_execution_duration_seconds{plugin,extension_point,status}",
        exp(0.00001, 1.5, 20),
        "How long one plugin took at one extension point; one cycle in ten is measured.",
    )
    permit_wait_duration = histograms(
        "scheduler_permit_wait_duration_seconds{result}",
        exp(0.001, 2, 15),
        "How long pods waited at Permit.",
    )
    goroutines = gauges(
        "scheduler_goroutines{operation}",
        "Work in flight, by operation; tasks and effects in place of goroutines.",
    )

    # -- preemption
    preemption_attempts = counter(
        "scheduler_preemption_attempts_total",
        "Attempts to free capacity by preemption for a single pod.",
    )
    preemption_victims = histogram(
        "scheduler_preemption_victims",
        exp(1, 2, 7),
        "Pods chosen as victims per preemption by a single pod.",
    )
    workload_preemption_attempts = counters(
        "scheduler_workload_preemption_attempts_total{result}",
        "Attempts to free capacity for a group by preemption; result is Success or Unschedulable.",
    )
    workload_preemption_victims = histogram(
        "scheduler_workload_preemption_victims",
        exp(1, 2, 11),
        "Pods chosen as victims per preemption by a group.",
    )
    preemption_workload_disruptions = histograms(
        "scheduler_preemption_workload_disruptions{preemptor}",
        exp(1, 2, 11),
        "Groups evicted as a whole per preemption by a group; preemptions without any are left"
        " out.",
    )
    preemption_pdb_violations = counters(
        "scheduler_preemption_pdb_violations_total{preemptor}",
        "Victims whose eviction violates a disruption budget; preemptor is pod, podgroup or"
        " compositepodgroup.",
    )
    preemption_evaluation_duration = histograms(
        "scheduler_preemption_evaluation_duration_seconds{preemptor,result}",
        exp(0.001, 2, 16),
        "How long the search for victims took; preemptor is pod or podgroup, which includes"
        " groups of groups. For groups the wait for the solver is included.",
    )
    preemption_execution_duration = histograms(
        "scheduler_preemption_execution_duration_seconds{preemptor,result}",
        exp(0.001, 2, 16),
        "How long carrying out the evictions of one preemption took; preemptor is pod, podgroup"
        " or compositepodgroup.",
    )
    preemption_goroutines_duration = histograms(
        "scheduler_preemption_goroutines_duration_seconds{result}",
        exp(0.01, 2, 20),
        "How long carrying out the evictions of one preemption took.",
    )
    preemption_goroutines_execution = counters(
        "scheduler_preemption_goroutines_execution_total{result}",
        "Preemptions whose evictions were carried out.",
    )

    # -- groups of pods
    podgroup_schedule_attempts = counters(
        "scheduler_podgroup_schedule_attempts_total{result,profile}",
        "Attempts to place groups of pods; result is scheduled, unschedulable or error.",
    )
    podgroup_scheduling_attempt_duration = histograms(
        "scheduler_podgroup_scheduling_attempt_duration_seconds{result,profile}",
        exp(0.001, 2, 15),
        "How long an attempt took, from the first member's turn to the last binding.",
    )
    podgroup_scheduling_algorithm_duration = histogram(
        "scheduler_podgroup_scheduling_algorithm_duration_seconds",
        exp(0.001, 2, 15),
        "How long deciding where a group goes took, the wait for the solver included.",
    )

    # -- devices
    resourceclaim_creates = counters(
        "scheduler_resourceclaim_creates_total{status}",
        "Claims that the scheduler made for extended resources; status is success or failure.",
    )
    binding_conditions_allocations = counters(
        "scheduler_dra_bindingconditions_allocations_total{profile,driver,status}",
        "Devices prepared before a pod was bound, by outcome: success, timeout, failed.",
    )
    binding_conditions_wait = histograms(
        "scheduler_dra_bindingconditions_wait_duration_seconds{profile,driver,status}",
        exp(0.1, 2, 14),
        "How long a pod waited for its devices to be made ready.",
    )

    # -- memory
    cache_size = gauges(
        "scheduler_cache_size{type}", "Objects in memory: nodes, pods, assumed_pods."
    )

    # -- what every component of Kubernetes has
    leader_election_master_status = gauges(
        "leader_election_master_status{name}", "1 while this process holds the lease."
    )
    kubernetes_build_info = gauges(
        "kubernetes_build_info{git_version,platform}",
        "Always 1; the version of Trellis, where dashboards of Kubernetes look for one.",
    )
    rest_client_requests = counters(
        "rest_client_requests_total{code,method,host}",
        "Requests to the API server; code is <error> when no answer arrived.",
    )
    rest_client_request_duration = histograms(
        "rest_client_request_duration_seconds{verb,host}",
        REQUEST_S,
        "How long a request to the API server took; watches are left out.",
    )
