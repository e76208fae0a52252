"""Placed pods by AppGroup, and their bandwidth allocations.

A pod's label names its group without a namespace. It refers to the group in the pod's own
namespace, or else to the first of that name in the namespaces of the plugin's arguments: so there
is one `Membership` per list of namespaces. `NetworkTracker` creates them and passes every change to
them; the plugins read them.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from scheduler.framework import Pod
from scheduler.objects.groups.appgroup import GROUP_LABEL, WORKLOAD_LABEL, AppGroup, namespace_of
from scheduler.plugins.network.bandwidth.bookings import Bookings
from scheduler.plugins.network.dependencies import Dependencies, GroupNeeds
from scheduler.plugins.network.grouppods import GroupPods, Numbering
from scheduler.plugins.network.places import RowPlaces

AppGroups = dict[str, dict[str, AppGroup]]  # AppGroups of one name by namespace


class Named(NamedTuple):
    """The group that a pod's label names: its namespace and the label's value."""

    namespace: str
    label: str


class Labelled:
    """Placed pods by label and AppGroups, under any list of namespaces."""

    def __init__(self, dependencies: Dependencies, app_groups: AppGroups) -> None:
        self.pods: dict[Named, GroupPods] = {}
        self.app_groups = app_groups
        self._dependencies = dependencies
        self._by_label: dict[str, dict[Named, None]] = {}

    def add(self, named: Named, workload: str, row: int, number: int) -> None:
        """Count pods (positive), or remove them from the count (negative)."""
        pods = self.pods.get(named)
        if pods is None:
            pods = self.pods[named] = GroupPods(self._numbering(named))
            self._by_label.setdefault(named.label, {})[named] = None
        pods.add(workload, row, number)
        if not pods:
            del self.pods[named], self._by_label[named.label][named]
            if not self._by_label[named.label]:
                del self._by_label[named.label]

    def of_label(self, label: str) -> tuple[Named, ...]:
        """Return the AppGroups with placed pods of a label value."""
        return tuple(self._by_label.get(label, ()))

    def renumber(self, label: str) -> None:
        """Update the workload numbers of a label's pods to those of their groups."""
        for named in self.of_label(label):
            numbering = self._numbering(named)
            if numbering is not None:
                self.pods[named] = self.pods[named].renumbered(numbering)

    def _numbering(self, named: Named) -> Numbering | None:
        """Return the numbers of the group that most likely has these pods; any numbers work, shared
        ones are faster.
        """
        there = self.app_groups.get(named.label)
        if not there:
            return None
        return self._dependencies.of(there.get(named.namespace) or there[min(there)]).numbering


class Membership:
    """The groups of placed pods for one list of namespaces; keys are `namespace/name` of an
    AppGroup.
    """

    def __init__(
        self,
        namespaces: tuple[str, ...],
        labelled: Labelled,
        dependencies: Dependencies,
        places: RowPlaces,
    ) -> None:
        self._namespaces = namespaces
        self._labelled = labelled
        self._dependencies = dependencies
        # Group → the labels whose pods belong to it, and their pods combined if there are several
        # labels.
        self._parts: dict[str, dict[Named, None]] = {}
        self._joined: dict[str, GroupPods] = {}
        self._groups: dict[Named, str] = {}
        self.bookings = Bookings(self.pods, self.needs_of, places)
        for named in labelled.pods:
            self._enter(named)

    def key_of(self, pod: Pod) -> str:
        """Return the key of a pod's AppGroup, '' for a pod without one."""
        meta = pod.metadata
        label = meta.labels.get(GROUP_LABEL, "")
        return self._key(Named(meta.namespace, label)) if label else ""

    def key_and_workload(self, pod: Pod) -> tuple[str, str]:
        """Return a pod's AppGroup and workload; two empty texts for a pod of no group."""
        key = self.key_of(pod)
        return (key, pod.metadata.labels.get(WORKLOAD_LABEL, "")) if key else ("", "")

    def group(self, key: str) -> AppGroup | None:
        """Return an AppGroup."""
        namespace, _, name = key.partition("/")
        return self._labelled.app_groups.get(name, {}).get(namespace)

    def needs_of(self, key: str) -> GroupNeeds | None:
        """Return the dependencies between a group's workloads; None if the group was deleted."""
        group = self.group(key)
        return self._dependencies.of(group) if group is not None else None

    def pods(self, key: str) -> GroupPods:
        """Return the placed pods of a group; not to be written to."""
        joined = self._joined.get(key)
        if joined is not None:
            return joined
        parts = self._parts.get(key)
        if not parts:
            return GroupPods()
        if len(parts) == 1:
            return self._labelled.pods[next(iter(parts))]
        needs = self.needs_of(key)
        joined = self._joined[key] = GroupPods(needs.numbering if needs is not None else None)
        for named in parts:
            for workload, row, count in self._labelled.pods[named].cells():
                joined.add(workload, row, count)
        return joined

    def groups(self) -> Iterable[str]:
        """Return the groups that have placed pods."""
        return self._parts

    def columns(self) -> Mapping[str, object]:
        """Return each group's pods and allocations, for comparison."""
        found: dict[str, object] = {key: sorted(self.pods(key).cells()) for key in self._parts}
        found["bookings"] = sorted(self.bookings.totals().items())
        return found

    def moved(self, named: Named, workload: str, row: int, number: int) -> None:
        """Update the group of a pod that was counted in `labelled` (1) or removed there (-1)."""
        if named not in self._groups:
            self._enter(named)
        elif (joined := self._joined.get(self._groups[named])) is not None:
            joined.add(workload, row, number)
        key = self._groups.get(named)
        if named not in self._labelled.pods:
            self._leave(named)
        if key is not None:
            self.bookings.moved(key, workload, number)

    def touch(self, named: Named) -> None:
        """Mark the groups of pods whose nodes changed their place."""
        if named in self._groups:
            self.bookings.touch(self._groups[named])

    def follow(self, group: AppGroup) -> None:
        """Apply a change of an AppGroup, after which pods may belong to another one."""
        self.bookings.touch(f"{group.metadata.namespace}/{group.metadata.name}")
        for named in self._labelled.of_label(group.metadata.name):
            self._leave(named)
            self._enter(named)

    def _key(self, named: Named) -> str:
        there = self._labelled.app_groups.get(named.label)
        found = namespace_of(there, named.namespace, self._namespaces) if there else None
        return f"{found}/{named.label}" if found is not None else ""

    def _enter(self, named: Named) -> None:
        key = self._key(named)
        if key:
            self._groups[named] = key
            self._parts.setdefault(key, {})[named] = None
            self._joined.pop(key, None)
            self.bookings.touch(key)

    def _leave(self, named: Named) -> None:
        key = self._groups.pop(named, None)
        if key is not None:
            parts = self._parts[key]
            del parts[named]
            if not parts:
                del self._parts[key]
            self._joined.pop(key, None)
            self.bookings.touch(key)
