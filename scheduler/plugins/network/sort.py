"""TopologicalSort: the pods of an application in the order of its dependencies."""

from collections.abc import Callable
from enum import StrEnum

from scheduler.framework import Args, Change, Handle, Pod
from scheduler.objects.groups.appgroup import GROUP_LABEL, WORKLOAD_LABEL, AppGroup
from scheduler.objects.groups.grouporder import MOST_WORKLOADS, order_of
from scheduler.plugins.groupsort import GroupSort, Key, QueuedMember
from scheduler.plugins.network.tracker import NetworkTracker

LAST = 2**31  # behind every index that the API allows


class Fallback(StrEnum):
    """The order between pods or groups that no application orders."""

    QOS_SORT = "QOSSort"
    PRIORITY_SORT = "PrioritySort"


class TopologicalSortArgs(Args):
    """The namespaces of AppGroups after the pod's own, and the order of entities."""

    namespaces: tuple[str, ...] = ("default",)
    fallback: Fallback = Fallback.QOS_SORT

    def __post_init__(self) -> None:
        if not self.namespaces:
            self.namespaces = ("default",)


class TopologicalSort(GroupSort[TopologicalSortArgs]):
    """Order the active pods of an AppGroup by its topology order; unknown workloads go last.

    A pod without an existing AppGroup is an entity of its own.
    """

    def __init__(self, args: TopologicalSortArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.counts_qos = args.fallback is Fallback.QOS_SORT
        self._tracker = handle.tracker(NetworkTracker)
        self._version = -1
        # (namespace, group label) → name of the group and its indices; None without an AppGroup.
        self._known: dict[tuple[str, str], tuple[str, dict[str, int]] | None] = {}

    def group_and_key(self, queued: QueuedMember) -> tuple[str, Key]:
        """Return the pod's AppGroup, and index, priority, queue time and uid."""
        meta = queued.pod.metadata
        labels = meta.labels
        label = labels.get(GROUP_LABEL)
        group = self._group(meta.namespace, label) if label else None
        if group is None:
            return "", ()
        index = group[1].get(labels.get(WORKLOAD_LABEL, ""), LAST)
        return group[0], (index, -queued.priority, queued.queued_at, meta.uid)

    def resorted_by(self, change: Change) -> Callable[[Pod], bool] | None:
        """Return a predicate for the pods of an AppGroup whose order changed, or that was created
        or deleted; None for no pod.
        """
        if change.kind != "AppGroup":
            return None
        old, new = change.old, change.new
        if old is not None and new is not None and indices(old) == indices(new):
            return None
        name = (new if new is not None else old).metadata.name
        return lambda pod: pod.metadata.labels.get(GROUP_LABEL) == name

    def _group(self, namespace: str, label: str) -> tuple[str, dict[str, int]] | None:
        if self._version != self._tracker.groups_version:
            self._version = self._tracker.groups_version
            self._known.clear()
        key = (namespace, label)
        if key not in self._known:
            self._known[key] = self._found(namespace, label)
        return self._known[key]

    def _found(self, namespace: str, label: str) -> tuple[str, dict[str, int]] | None:
        objects = self.handle.objects("AppGroup")
        for one in (namespace, *self.args.namespaces):
            name = f"{one}/{label}"
            found: AppGroup | None = objects.get(name)
            if found is not None:
                return name, indices(found)
        return None


def indices(group: AppGroup) -> dict[str, int]:
    """Return the index by selector; by workload name where no workload has that selector.

    Without an order in the status, the order is calculated from the spec.
    """
    entries = [(entry.workload, entry.index) for entry in group.status.topology_order]
    if not entries:
        members = group.spec.members[:MOST_WORKLOADS]
        labels = order_of(members, group.spec.topology_sorting_algorithm).labels
        places = {label: place for place, label in enumerate(labels, 1)}
        refs = [entry.workload for entry in members if entry.workload.label]
        entries = [(ref, places[ref.label]) for ref in refs]
    found: dict[str, int] = {}
    for workload, index in entries:
        if workload.name:
            found.setdefault(workload.name, index)
    for workload, index in entries:
        if workload.selector:
            found[workload.selector] = index
    return found
