"""TopologicalSort: the pods of an application in the order of its dependencies."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from scheduler.framework.args import Args
from scheduler.framework.handle import Handle
from scheduler.objects.groups import GROUP_LABEL, WORKLOAD_LABEL, AppGroup
from scheduler.objects.pod import Pod
from scheduler.plugins.groupsort import GroupSort, Key, Queued
from scheduler.state.change import Change

LAST = 2**31  # behind every index that the API allows


class Fallback(StrEnum):
    """How entities are ordered among one another."""

    QOS_SORT = "QOSSort"
    PRIORITY_SORT = "PrioritySort"


class TopologicalSortArgs(Args):
    """Where AppGroups are looked for, after the pod's own namespace; how entities are ordered."""

    namespaces: tuple[str, ...] = ("default",)
    fallback: Fallback = Fallback.QOS_SORT

    def __post_init__(self) -> None:
        if not self.namespaces:
            self.namespaces = ("default",)


class TopologicalSort(GroupSort[TopologicalSortArgs]):
    """Order the active pods of an AppGroup by its topology order; unknown workloads go last.

    A pod whose AppGroup is not there stands alone.
    """

    def __init__(self, args: TopologicalSortArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.counts_qos = args.fallback is Fallback.QOS_SORT
        self._indices: dict[str, tuple[AppGroup, dict[str, int]]] = {}

    def entity(self, queued: Queued) -> str:
        """Return namespace and name of the pod's AppGroup."""
        group = self._group(queued.pod)
        return "" if group is None else f"{group.metadata.namespace}/{group.metadata.name}"

    def place(self, queued: Queued) -> Key:
        """Order by index, then by priority, queue time and uid."""
        return self.index(queued.pod), *super().place(queued)

    def index(self, pod: Pod) -> int:
        """Return the place of the pod's workload in its group's order, from 1 on, or `LAST`."""
        group = self._group(pod)
        if group is None:
            return LAST
        name = f"{group.metadata.namespace}/{group.metadata.name}"
        known = self._indices.get(name)
        if known is None or known[0] is not group:
            known = self._indices[name] = (group, indices(group))
        return known[1].get(pod.metadata.labels.get(WORKLOAD_LABEL, ""), LAST)

    def resorted_by(self, change: Change) -> Callable[[Pod], bool] | None:
        """Return the pods of an AppGroup whose order changed, or which came or went."""
        if change.kind != "AppGroup":
            return None
        old, new = change.old, change.new
        if old is not None and new is not None and indices(old) == indices(new):
            return None
        name = (new if new is not None else old).metadata.name
        if new is None:
            self._indices.pop(f"{old.metadata.namespace}/{name}", None)
        return lambda pod: pod.metadata.labels.get(GROUP_LABEL) == name

    def _group(self, pod: Pod) -> AppGroup | None:
        name = pod.metadata.labels.get(GROUP_LABEL)
        if not name:
            return None
        known = self.handle.objects("AppGroup")
        for namespace in (pod.metadata.namespace, *self.args.namespaces):
            found: AppGroup | None = known.get(f"{namespace}/{name}")
            if found is not None:
                return found
        return None


def indices(group: AppGroup) -> dict[str, int]:
    """Return the index by selector; by workload name where no workload has that selector."""
    found: dict[str, int] = {}
    for entry in group.status.topology_order:
        if entry.workload.name:
            found.setdefault(entry.workload.name, entry.index)
    for entry in group.status.topology_order:
        if entry.workload.selector:
            found[entry.workload.selector] = entry.index
    return found
