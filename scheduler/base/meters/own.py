"""The metrics that only Trellis has, `trellis_*`.

No label has names of pods or nodes as values, so that the number of series stays bounded; network
topologies are as many as the configuration names. Read as a part of `Meters` (table.py).
"""

from scheduler.base.meters.values import (
    REQUEST_S,
    counter,
    counters,
    exp,
    gauge,
    gauges,
    histogram,
    histograms,
)


class OwnRows:
    """Metrics of the work that kube-scheduler does not do."""

    # -- watching
    watch_events = counters(
        "trellis_watch_events_total{kind,type}", "Changes received from watches."
    )
    watch_restarts = counters(
        "trellis_watch_restarts_total{kind,reason}",
        "Watches begun again: closed, expired (410, listed anew), silent, error, decode.",
    )
    watch_decode_errors = counters(
        "trellis_watch_decode_errors_total{kind}",
        "Objects that could not be read and were left out.",
    )
    watch_list_duration = histograms(
        "trellis_watch_list_duration_seconds{kind}",
        REQUEST_S,
        "How long listing a kind from first to last page took.",
    )
    watch_synced = gauges(
        "trellis_watch_synced{kind}",
        "1 while the kind is listed and watched; 0 while not, or while the API server has it not.",
    )
    decisions_paused = gauges(
        "trellis_decisions_paused{kind}",
        "1 while decisions are paused because the kind is listed again, or after a failover.",
    )
    store_objects = gauges(
        "trellis_store_objects{kind}", "Objects in memory, by kind; pods and nodes apart."
    )

    # -- the engine
    engine_run_duration = histogram(
        "trellis_engine_run_duration_seconds",
        exp(0.0001, 2, 14),
        "How long one turn of the engine took: a batch of events, then some cycles.",
    )
    plugin_errors = counters(
        "trellis_plugin_errors_total{plugin,extension_point}",
        "Exceptions out of plugins; each ended the cycle of one pod.",
    )
    missing_objects = counters(
        "trellis_missing_objects_total{plugin,kind}",
        "Decisions taken without an object that the plugin looked for.",
    )
    numa_nodes = gauges("trellis_numa_nodes{state}", "Nodes, by what is known of their zones.")
    numa_stale_since = gauge(
        "trellis_numa_stale_since_timestamp_seconds",
        "Start of the longest stale period of a node, seconds since the epoch; 0 without one.",
    )
    devices_published = gauges(
        "trellis_devices_published{driver}",
        "Devices in the newest resource slices, each partition of a device as one.",
    )
    devices_in_use = gauges(
        "trellis_devices_in_use{driver,use}",
        "Devices that claims have, or will have once it is written: as a whole, or shares of them "
        "(use is whole or shared).",
    )
    overcommitted_nodes = gauge(
        "trellis_overcommitted_nodes",
        "Nodes whose pods request more than is allocatable: another client has bound pods there.",
    )
    queue_wakeups = counters(
        "trellis_queue_wakeups_total{event,outcome}",
        "Attempts of pods that an event woke: useful when the pod was bound, else useless.",
    )
    pre_bind_pods = gauge(
        "trellis_pre_bind_pods",
        "Pods in pre-bind: their node is chosen, and they wait for volumes or claims to be ready.",
    )
    leading = gauge("trellis_leading", "1 while this process decides, 0 on a standby.")

    # -- groups of pods
    groups = gauges(
        "trellis_groups{status}", "Groups that have a description or a placed member, by status."
    )
    group_stages = counters(
        "trellis_group_stages_total{stage}",
        "Stages that groups came to: Started, Refused, Preempting, Assigned, Permitted, Bound, "
        "Released.",
    )
    group_wait = histogram(
        "trellis_group_wait_seconds",
        exp(0.01, 2, 20),
        "From the creation of a group's oldest member until all were bound.",
    )

    # -- packing
    devices_idle = gauge(
        "trellis_devices_idle",
        "Idle devices of all nodes and idle shares; with FragmentationAware.",
    )
    devices_unusable = gauges(
        "trellis_devices_unusable{size}",
        "Idle devices that no waiting pod of this size (devices per pod) can use; every: that no "
        "waiting pod can use. At most 15 sizes; none without waiting pods.",
    )

    # -- effects
    effects = counters(
        "trellis_effects_total{effect,result}",
        "Effects carried out: ok, conflict, gone, rejected, error.",
    )
    effect_duration = histograms(
        "trellis_effect_duration_seconds{effect}",
        exp(0.001, 2, 15),
        "From handing an effect out to its answer, retries included.",
    )
    effect_retries = counters(
        "trellis_effect_retries_total{effect,reason}", "Effects sent once more."
    )
    extender_duration = histograms(
        "trellis_extender_request_duration_seconds{extender,verb,result}",
        exp(0.001, 2, 15),
        "How long an extender took to answer; result is ok or error.",
    )
    solver_duration = histograms(
        "trellis_solver_duration_seconds{result}",
        exp(0.001, 2, 15),
        "Duration of a solver request, with its time in the queue; result is done, invalid, error, "
        "timeout, died, cancelled or closed.",
    )
    solver_solutions = counters(
        "trellis_solver_solutions_total{question,solver,status}",
        "Answers of the solver by status: optimal, feasible (not proven best), infeasible, unknown "
        "(nothing found in time).",
    )
    solver_search = histograms(
        "trellis_solver_search_seconds{question}",
        exp(0.001, 2, 15),
        "How long the solver itself searched for an answer.",
    )
    solver_gap = histograms(
        "trellis_solver_gap_ratio{question}",
        (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0),
        "Upper bound of the distance to the optimum: the largest gap of a stage, relative.",
    )
    effects_in_flight = gauges("trellis_effects_in_flight{effect}", "Effects being sent.")
    effects_waiting = gauges(
        "trellis_effects_waiting{effect}",
        "Effects that were refused for now (429, no connection) and wait for their next try.",
    )
    effects_queued = gauges("trellis_effects_queued{effect}", "Effects that wait to be sent.")
    bind_conflicts = counters(
        "trellis_bind_conflicts_total{reason}",
        "Bindings refused after a concurrent change: bound, gone, replaced; or not sent: outdated.",
    )
    event_writes = counters(
        "trellis_event_writes_total{result}",
        "Events written: created, series (counted up on an existing one), error.",
    )
    events_dropped = counter(
        "trellis_events_dropped_total", "Events thrown away unsent; must stay 0."
    )
    events_queued = gauge("trellis_events_queued", "Events that wait to be written.")
    refusals_untold = counters(
        "trellis_refusals_untold_total{effect}",
        "Reports on pending pods that were left out, because the namespace had too many.",
    )

    # -- the process
    build_info = gauges("trellis_build_info{version,python_version}", "Always 1; what is running.")
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
        "trellis_config_reloads_total{result}", "Attempts to reload: success, error."
    )
    lease_transitions = counters(
        "trellis_lease_transitions_total{name}", "Times this process gained the lease."
    )
    operator_healthy = gauges("trellis_operator_healthy{operator}", "1 while the operator runs.")
    operator_restarts = counters(
        "trellis_operator_restarts_total{operator}", "Times an operator was started again."
    )
    move_plans = gauges("trellis_move_plans{phase}", "MovePlans by their phase.")
    moves_done = counters(
        "trellis_moves_total{result}",
        "Steps of MovePlans: evicted, done, aborted (the plan ended early).",
    )

    # -- measured load and latency
    metric_source_age = gauges(
        "trellis_metric_source_age_seconds{source}", "Age of a source's newest answer."
    )
    metric_source_failures = counters(
        "trellis_metric_source_failures_total{source}", "Times a source gave no usable answer."
    )
    node_metric_age = gauges(
        "trellis_node_metric_age_seconds{which}",
        "Age of the nodes' load figures: newest, median and oldest; none without a time.",
    )
    node_metrics = gauges(
        "trellis_node_metrics{state}",
        "Nodes by their load figures: fresh, expired (too old to count), missing.",
    )

    # -- the network
    network_cost = gauge(
        "trellis_network_cost",
        "Network cost between dependent placed pods, sum of all pairs. "
        "A scrape looks again at up to 64 applications that have moved.",
    )
    network_weights_age = gauges(
        "trellis_network_weights_age_seconds{topology}",
        "Age of the calculated costs in use, by NetworkTopology; none for costs of users.",
    )

    # -- the endpoints
    capacity = gauges(
        "trellis_capacity_pods{shape}",
        "Pods or groups of a configured shape that still fit; 1000 means at least 1000.",
    )
    endpoint_requests = counters(
        "trellis_endpoint_requests_total{path,code}", "Requests served, by route and status."
    )
    access_reviews = counters(
        "trellis_access_reviews_total{review,result}",
        "TokenReviews and SubjectAccessReviews sent: allowed, denied, error.",
    )
    certificate_reloads = counters(
        "trellis_certificate_reloads_total{result}",
        "Times the serving certificate's files had changed: success, error.",
    )
    certificate_expiry = gauge(
        "trellis_certificate_expiry_timestamp_seconds",
        "When the serving certificate ends, seconds since the epoch.",
    )
    scrape_errors = counters(
        "trellis_scrape_errors_total{metric}",
        "Metrics left out of a scrape because their owner failed to answer.",
    )
