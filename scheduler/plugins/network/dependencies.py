"""The dependencies between workloads of an AppGroup, by the pods' label.

Made once per version of an AppGroup. Names are resolved as the operators do: by selector, or by the
name of a workload.
"""

from collections.abc import Iterable, Mapping
from weakref import WeakValueDictionary

import msgspec

from scheduler.base.errors import ObjectError
from scheduler.objects.groups.appgroup import AppGroup, Workload, WorkloadRef
from scheduler.objects.network import Quantity
from scheduler.objects.quantity import quantity
from scheduler.plugins.network.grouppods import Numbering
from scheduler.plugins.network.need import Need

_MOST = 16_384
HIGHEST_LIMIT = 10**12
MOST_INDIRECT = 1000


class BandwidthEdge(msgspec.Struct, frozen=True):
    """Each pod of `origin` books `bandwidth` bit/s to the pods of `destination` together."""

    origin: str
    destination: str
    bandwidth: int


class GroupNeeds(msgspec.Struct, frozen=True, weakref=True):
    """The dependencies of each workload by label, and those with its dependents added.

    Groups with equal workloads and dependencies share one.
    """

    own: Mapping[str, tuple[Need, ...]]
    both: Mapping[str, tuple[Need, ...]]
    edges: tuple[BandwidthEdge, ...]
    bandwidths: Mapping[str, int]
    numbering: Numbering
    known_indirect: dict[str, tuple[Need, ...]] = msgspec.field(default_factory=dict)

    def of(self, workload: str, *, both: bool) -> tuple[Need, ...]:
        """Return a workload's needs, with `both` also those of its dependents; always the same
        tuple.
        """
        return (self.both if both else self.own).get(workload, ())

    def indirect(self, workload: str) -> tuple[Need, ...]:
        """Return dependencies, without limits, on all workloads that depend on the same workloads,
        replicas included.

        None if there are more than `MOST_INDIRECT` pairs; always the same tuple.
        """
        found = self.known_indirect.get(workload)
        if found is None:
            between = self.both.get(workload, ())
            pairs = sum(len(self.both.get(need.workload, ())) for need in between)
            others = (
                other.workload for need in between for other in self.both.get(need.workload, ())
            )
            names = dict.fromkeys(others) if pairs <= MOST_INDIRECT else ()
            found = tuple(Need(name, HIGHEST_LIMIT) for name in names)
            self.known_indirect[workload] = found
        return found


class Dependencies:
    """`GroupNeeds` by AppGroup, cached until the object changes."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[AppGroup, GroupNeeds]] = {}
        self._by_content: WeakValueDictionary[bytes, GroupNeeds] = WeakValueDictionary()

    def of(self, group: AppGroup) -> GroupNeeds:
        """Return the needs of a group's workloads."""
        key = (group.metadata.namespace, group.metadata.name)
        known = self._known.get(key)
        if known is not None and (known[0] is group or known[0].spec == group.spec):
            return known[1]
        if len(self._known) >= _MOST:
            self._known.pop(next(iter(self._known)))
        needs = needs_of(group.spec.members)
        content = msgspec.json.encode((needs.own, tuple(needs.numbering.numbers)))
        needs = self._by_content.setdefault(content, needs)
        self._known[key] = (group, needs)
        return needs


def needs_of(members: Iterable[Workload]) -> GroupNeeds:
    """Compute the dependencies; an unreadable or negative bandwidth counts as none."""
    entries = tuple(members)
    labels = {entry.workload.label for entry in entries}
    names: dict[str, str] = {}
    for entry in entries:
        names.setdefault(entry.workload.name, entry.workload.label)
    own: dict[str, list[Need]] = {}
    dependents: dict[str, list[Need]] = {}
    edges = []
    bandwidths: dict[str, int] = {}
    for entry in entries:
        label = entry.workload.label
        for dependency in entry.dependencies:
            other = _resolved(dependency.workload, labels, names)
            limit = min(max(dependency.max_network_cost or 0, 0), HIGHEST_LIMIT)
            bandwidth = _bits(dependency.min_bandwidth)
            own.setdefault(label, []).append(Need(other, limit, bandwidth))
            if other != label:  # with oneself, both ends are the same tie
                dependent = Need(label, limit, bandwidth, is_dependent=True)
                dependents.setdefault(other, []).append(dependent)
            if bandwidth:
                edges.append(BandwidthEdge(label, other, bandwidth))
                bandwidths[label] = bandwidths.get(label, 0) + bandwidth
    both = {
        label: own.get(label, []) + dependents.get(label, []) for label in {**own, **dependents}
    }
    return GroupNeeds(
        {label: tuple(needs) for label, needs in own.items()},
        {label: tuple(needs) for label, needs in both.items()},
        tuple(edges),
        bandwidths,
        Numbering(entry.workload.label for entry in entries),
    )


def _resolved(ref: WorkloadRef, labels: set[str], names: Mapping[str, str]) -> str:
    if ref.label in labels:
        return ref.label
    # The reference is used unchanged, since pods carry the selector as a label. Exception: it is no
    # workload's selector but the name of a workload.
    return names.get(ref.label) or ref.label


def _bits(amount: Quantity | None) -> int:
    if amount is None:
        return 0
    try:
        return max(quantity(amount), 0)
    except ObjectError:
        return 0  # the AppGroup's condition names the field
