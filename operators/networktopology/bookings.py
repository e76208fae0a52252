"""`Bookings`: what all applications book per link, counted anew from the pods that are there.

Nothing is added up from events, so a restart books the same. A group whose pods have not moved keeps
what it booked. The rule itself is in `allocated`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from operators.networktopology.allocated import Link, Place, booked_by
from operators.turns import in_turns
from scheduler.objects.groups import GROUP_LABEL, WORKLOAD_LABEL, AppGroup, Workload
from scheduler.state.view import ClusterView


class _Group(NamedTuple):
    """What a group booked, and for which workloads and pods."""

    workloads: Sequence[Workload]
    pods: Mapping[str, Counter[Place]]
    links: Mapping[Link, int]


class Bookings:
    """Counts pods when asked and remembers by group."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._groups: dict[str, _Group] = {}
        self.totals: Mapping[Link, int] = {}
        self.version = 0

    async def count(self, places: Mapping[str, Place]) -> None:
        """Bring `totals` up to date; `places` says where nodes are."""
        groups = self._booking()
        pods: dict[str, dict[str, Counter[Place]]] = defaultdict(lambda: defaultdict(Counter))
        async for handful in in_turns(list(self._view.pods()) if groups else ()):
            for placed in handful:
                labels = placed.pod.metadata.labels
                place = places.get(placed.node)
                if place is not None and (group := labels.get(GROUP_LABEL)) in groups:
                    pods[group][labels.get(WORKLOAD_LABEL, "")][place] += 1
        self._groups = {name: one for name, one in self._groups.items() if name in groups}
        totals: Counter[Link] = Counter()
        async for some in in_turns(groups.items(), 50):
            for name, workloads in some:
                totals.update(self._of(name, workloads, pods.get(name, {})))
        if totals != self.totals:
            self.totals = totals
            self.version += 1

    def _booking(self) -> dict[str, Sequence[Workload]]:
        """Return the workloads of the groups that ask for bandwidth: of one name, the first's."""
        first: dict[str, AppGroup] = {}
        for _, group in sorted(self._view.objects("AppGroup").items()):
            first.setdefault(group.metadata.name, group)
        return {
            name: group.spec.members
            for name, group in first.items()
            if any(on.min_bandwidth for one in group.spec.members for on in one.dependencies)
        }

    def _of(
        self, name: str, workloads: Sequence[Workload], pods: Mapping[str, Counter[Place]]
    ) -> Mapping[Link, int]:
        known = self._groups.get(name)
        if known is None or known.workloads != workloads or known.pods != pods:
            known = self._groups[name] = _Group(workloads, pods, booked_by(workloads, pods))
        return known.links
