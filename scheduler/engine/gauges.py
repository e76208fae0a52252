"""What is read from the engine's parts when metrics are scraped: how much of what there is now."""

from collections.abc import Mapping
from functools import partial

from scheduler.base.meters import Meters
from scheduler.base.release import Release
from scheduler.engine.binding.bindings import Bindings
from scheduler.engine.queue.hints import EXTENDER, UnschedulablePods
from scheduler.engine.queue.pod import Where
from scheduler.engine.queue.queues import Queues
from scheduler.framework.profile import Profile
from scheduler.state.cluster import Cluster
from scheduler.state.facts import event_name


def watch(
    meters: Meters,
    queues: Queues,
    unschedulable_pods: UnschedulablePods,
    profiles: Mapping[str, Profile],
    bindings: Bindings,
    cluster: Cluster,
    release: Release,
) -> None:
    """Let the gauges read the queues when they are scraped."""
    pending = meters.pending_pods
    pending.labels("active").read_from(partial(queues.count, Where.ACTIVE))
    pending.labels("unschedulable").read_from(partial(queues.count, Where.UNSCHEDULABLE))
    pending.labels("gated").read_from(partial(queues.count, Where.GATED))
    pending.labels("backoff").read_from(
        lambda: queues.count(Where.BACKOFF) + queues.count(Where.ERROR_BACKOFF)
    )
    meters.inflight_events.read_from(
        lambda: {
            (event_name(label, release),): number
            for label, number in queues.in_flight_changes().items()
        }
    )
    meters.goroutines.labels("binding").read_from(lambda: len(bindings))
    meters.pre_bind_pods.read_from(lambda: float(len(bindings.pre_bind)))
    cache = meters.cache_size
    cache.labels("nodes").read_from(lambda: len(cluster.table))
    cache.labels("pods").read_from(lambda: len(cluster.pods))
    cache.labels("assumed_pods").read_from(lambda: sum(placed.assumed for placed in cluster.pods))
    meters.store_objects.read_from(cluster.store.sizes)
    meters.overcommitted_nodes.read_from(cluster.table.overcommitted)
    meters.unschedulable_pods.read_from(
        lambda: {
            (plugin, name): unschedulable_pods.count(name, plugin)
            for name, profile in profiles.items()
            for plugin in (*profile.plugins, EXTENDER)
            if unschedulable_pods.count(name, plugin)
        }
    )
