"""`PodBookings`: the bandwidth that all applications allocate per link, computed from current pods.

Sums do not depend on the history of events, so a restart books the same. A group whose pods have
not moved keeps its bookings. The rule itself is in `allocated`.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from operators.appgroup.pods import Key
from operators.cooperative import in_turns
from operators.networktopology.allocated import LabelLink, Place, booked_by
from scheduler.objects.groups import GROUP_LABEL, WORKLOAD_LABEL, Workload, namespace_of
from scheduler.state.view import ClusterView


class _Group(NamedTuple):
    """The allocations of a group, with the workloads and pods that they were computed from."""

    workloads: Sequence[Workload]
    pods: Mapping[str, Counter[Place]]
    links: Mapping[LabelLink, int]


class PodBookings:
    """Computes the bandwidth allocated by pods on demand, cached by group.

    `namespaces` are those where the plugins look up AppGroups besides the pod's own.
    """

    def __init__(self, view: ClusterView, namespaces: Sequence[str]) -> None:
        self._view = view
        self._namespaces = namespaces
        self._groups: dict[Key, _Group] = {}
        self.totals: Mapping[LabelLink, int] = {}
        self.version = 0

    async def count(self, places: Mapping[str, Place]) -> None:
        """Update `totals`; `places` has the locations of nodes."""
        there, groups = self._booking()
        pods: dict[Key, dict[str, Counter[Place]]] = defaultdict(lambda: defaultdict(Counter))
        async for handful in in_turns(list(self._view.pods()) if groups else ()):
            for placed in handful:
                meta, place = placed.pod.metadata, places.get(placed.node)
                name = meta.labels.get(GROUP_LABEL, "")
                if place is None or name not in there:
                    continue
                namespace = namespace_of(there[name], meta.namespace, self._namespaces)
                if namespace is not None and (namespace, name) in groups:
                    pods[namespace, name][meta.labels.get(WORKLOAD_LABEL, "")][place] += 1
        self._groups = {key: one for key, one in self._groups.items() if key in groups}
        totals: Counter[LabelLink] = Counter()
        async for some in in_turns(groups.items(), 50):
            for key, workloads in some:
                totals.update(self._of(key, workloads, pods.get(key, {})))
        if totals != self.totals:
            self.totals = totals
            self.version += 1

    def _booking(self) -> tuple[Mapping[str, set[str]], Mapping[Key, Sequence[Workload]]]:
        """Return the namespaces of all groups by name, and the workloads that request bandwidth."""
        there: dict[str, set[str]] = defaultdict(set)
        asking: dict[Key, Sequence[Workload]] = {}
        for group in self._view.objects("AppGroup").values():
            meta, members = group.metadata, group.spec.members
            there[meta.name].add(meta.namespace)
            if any(on.min_bandwidth for one in members for on in one.dependencies):
                asking[meta.namespace, meta.name] = members
        return there, asking

    def _of(
        self, key: Key, workloads: Sequence[Workload], pods: Mapping[str, Counter[Place]]
    ) -> Mapping[LabelLink, int]:
        known = self._groups.get(key)
        if known is None or known.workloads != workloads or known.pods != pods:
            known = self._groups[key] = _Group(workloads, pods, booked_by(workloads, pods))
        return known.links
