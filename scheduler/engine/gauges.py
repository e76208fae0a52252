"""Gauges: counts of the engine's current contents, read when metrics are scraped."""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

from scheduler.base.meters import Meters
from scheduler.base.release import V1_37, Release
from scheduler.engine.binding.bindings import Bindings
from scheduler.engine.queue.hints import EXTENDER, UnschedulablePods
from scheduler.engine.queue.membership import GroupMembership
from scheduler.engine.queue.pod import QueuedPod, Where
from scheduler.engine.queue.queues import Queues
from scheduler.framework.groups import GroupPlanner
from scheduler.framework.profile import Profile
from scheduler.objects.pod import Pod
from scheduler.state.cluster import Cluster
from scheduler.state.facts import event_name

# A group is in the first of these queues that has one of its members; one in flight is in none.
_FOREMOST = (
    Where.IN_FLIGHT,
    Where.ACTIVE,
    Where.BACKOFF,
    Where.ERROR_BACKOFF,
    Where.UNSCHEDULABLE,
    Where.GATED,
)
_QUEUES = {
    Where.ACTIVE: "active",
    Where.BACKOFF: "backoff",
    Where.ERROR_BACKOFF: "backoff",
    Where.UNSCHEDULABLE: "unschedulable",
    Where.GATED: "gated",
}


GroupOf: TypeAlias = Callable[[Pod], str]
Planners: TypeAlias = Mapping[str, GroupPlanner]


def brings_group(
    members: GroupMembership, group_of: GroupOf, planners: Planners, queued: QueuedPod, queue: str
) -> bool:
    """Return whether a group enters a queue with this member.

    kube-scheduler: a group counts once per queue that it enters, and not before it is described.
    """
    key = group_of(queued.pod)
    return members.enters(key, queue) and not planners[queued.profile].group_is_missing(key)


def _pending(queues: Queues, group_of: GroupOf, planners: Planners) -> dict[tuple[str, ...], float]:
    """Return the pods that wait by queue, as kube-scheduler 1.37 counts them."""
    found = Counter(dict.fromkeys((*_QUEUES.values(), "incomplete", "pending"), 0))
    in_flight = {
        group_of(queued.pod)
        for queued in queues
        if queued.is_member and queued.where is Where.IN_FLIGHT
    }
    for queued in queues:
        if queued.where not in _QUEUES:
            continue
        key = group_of(queued.pod) if queued.is_member else ""
        if key in in_flight:
            found["pending"] += 1
        elif key and planners[queued.profile].group_is_missing(key):
            found["incomplete"] += 1
        else:
            found[_QUEUES[queued.where]] += 1
    return {(queue,): float(count) for queue, count in found.items()}


def _entities(queues: Queues, group_of: GroupOf, planners: Planners) -> dict[tuple[str, str], int]:
    """Return the entities that wait, by queue and type; a group without a description does not
    count.
    """
    pods = {where: queues.count(where) for where in _QUEUES}
    groups: dict[str, int] = {}
    for queued in queues:
        if queued.is_member:
            if queued.where in pods:
                pods[queued.where] -= 1
            key = group_of(queued.pod)
            if planners[queued.profile].group_is_missing(key):
                continue
            rank = _FOREMOST.index(queued.where)
            groups[key] = min(groups.get(key, rank), rank)
    found = dict.fromkeys(((queue, "pod") for queue in _QUEUES.values()), 0)
    found |= dict.fromkeys(((queue, "podgroup") for queue in _QUEUES.values()), 0)
    for where, count in pods.items():
        found[_QUEUES[where], "pod"] += count
    for rank in groups.values():
        if rank:
            found[_QUEUES[_FOREMOST[rank]], "podgroup"] += 1
    return found


def watch(
    meters: Meters,
    queues: Queues,
    group_of: GroupOf,
    planners: Planners,
    unschedulable_pods: UnschedulablePods,
    profiles: Mapping[str, Profile],
    bindings: Bindings,
    cluster: Cluster,
    release: Release,
) -> None:
    """Let the gauges read the queues when they are scraped."""
    pending = meters.pending_pods
    if release >= V1_37:
        pending.read_from(partial(_pending, queues, group_of, planners))
    else:
        pending.labels("active").read_from(partial(queues.count, Where.ACTIVE))
        pending.labels("unschedulable").read_from(partial(queues.count, Where.UNSCHEDULABLE))
        pending.labels("gated").read_from(partial(queues.count, Where.GATED))
        pending.labels("backoff").read_from(
            lambda: queues.count(Where.BACKOFF) + queues.count(Where.ERROR_BACKOFF)
        )
    meters.queued_entities.read_from(partial(_entities, queues, group_of, planners))
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
