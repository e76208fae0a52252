"""The status of a table beside its costs: allocated bandwidth per link, statistics per origin.

Pure. Capacities are the user's; bookings follow the rule of the scheduler's plugin, from the pods
that are there: each pod of a workload books its `minBandwidth` once per dependency, split evenly
over that workload's pods; nothing inside a zone, the link between zones inside a region, else the
link between regions. Amounts are whole bit/s, rounded up per group and link.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import ceil
from typing import NamedTuple

import msgspec

from operators.appgroup.pods import Key
from scheduler.base.errors import ObjectError
from scheduler.objects import network
from scheduler.objects.groups.appgroup import Dependency, Workload
from scheduler.objects.groups.grouporder import finder
from scheduler.objects.quantity import quantity

Place = tuple[str, str]  # region, zone; "" for a label that is missing
Pods = Mapping[str, Counter[Place]]  # workload → its placed pods by place
_Change = Callable[[str, network.Origin], network.Origin]


class LabelLink(NamedTuple):
    """The link between two values of a topology label, from the dependent's end."""

    topology_key: str
    origin: str
    destination: str


def booked(
    groups: Mapping[Key, Sequence[Workload]], pods: Mapping[Key, Pods]
) -> dict[LabelLink, int]:
    """Return the bandwidth that all groups allocate per link in bit/s; links without any are left
    out.
    """
    totals: Counter[LabelLink] = Counter()
    for key, workloads in groups.items():
        totals.update(booked_by(workloads, pods.get(key, {})))
    return dict(totals)


def booked_by(workloads: Sequence[Workload], pods: Pods) -> dict[LabelLink, int]:
    """Return the bandwidth that one group allocates per link, in bit/s."""
    return {link: ceil(amount) for link, amount in _shares(workloads, pods).items()}


def has_capacities(table: network.Weights) -> bool:
    """Return whether a table limits any link."""
    return any(path.bandwidth_capacity is not None for _, _, path in _entries(table))


def with_capacities(table: network.Weights, listed: Sequence[network.Weights]) -> network.Weights:
    """Return a table whose paths have the capacities of the user's tables; the first entry of a
    path counts.

    If the user lists one direction only, it applies to each direction that was measured.
    """
    known: dict[LabelLink, network.Quantity] = {}
    reported = [entry for one in listed for entry in _entries(one)]
    for level, origin, path in reported:
        if path.bandwidth_capacity is not None:
            link = LabelLink(level.topology_key, origin.origin, path.destination)
            known.setdefault(link, path.bandwidth_capacity)
    if not known:
        return table
    own = {LabelLink(level.topology_key, o.origin, path.destination) for level, o, path in reported}
    for link, capacity in list(known.items()):
        back = LabelLink(link.topology_key, link.destination, link.origin)
        if back not in own:
            known[back] = capacity

    def limited(key: str, origin: network.Origin) -> network.Origin:
        paths = tuple(
            msgspec.structs.replace(
                path, bandwidth_capacity=known.get(LabelLink(key, origin.origin, path.destination))
            )
            for path in origin.paths
        )
        return msgspec.structs.replace(origin, cost_list=paths)

    return _with_origins(table, limited)


def links_of(table: network.Weights) -> network.Weights:
    """Return a table's paths with a capacity, without their costs, which stay where the user wrote
    them.
    """

    def limited(_key: str, origin: network.Origin) -> network.Origin:
        paths = tuple(
            msgspec.structs.replace(path, network_cost=None)
            for path in origin.paths
            if path.bandwidth_capacity is not None
        )
        return msgspec.structs.replace(origin, cost_list=paths, costs=())

    kept = _with_origins(table, limited)
    levels = tuple(
        msgspec.structs.replace(level, origin_list=origins)
        for level in kept.topology_list
        if (origins := tuple(origin for origin in level.origin_list if origin.cost_list))
    )
    return msgspec.structs.replace(kept, topology_list=levels)


def is_links_only(table: network.Weights) -> bool:
    """Return whether a table is one of `links_of`: it lists paths, and no cost."""
    paths = [path for _, _, path in _entries(table)]
    return bool(paths) and all(path.network_cost is None for path in paths)


def with_bookings(table: network.Weights, amounts: Mapping[LabelLink, int]) -> network.Weights:
    """Return a table with `bandwidthAllocated` at each link that has a capacity.

    A link listed in one direction carries both; listed in both, each direction has its own entry.
    """
    listed = {
        LabelLink(level.topology_key, origin.origin, path.destination)
        for level, origin, path in _entries(table)
    }

    def allocated(key: str, origin: network.Origin) -> tuple[network.Cost, ...]:
        found = []
        for path in origin.paths:
            link = LabelLink(key, origin.origin, path.destination)
            back = LabelLink(key, path.destination, origin.origin)
            amount = amounts.get(link, 0) + (0 if back in listed else amounts.get(back, 0))
            is_limited = path.bandwidth_capacity is not None
            found.append(
                msgspec.structs.replace(path, bandwidth_allocated=amount if is_limited else None)
            )
        return tuple(found)

    return _with_origins(
        table, lambda key, o: msgspec.structs.replace(o, cost_list=allocated(key, o), costs=())
    )


def with_statistics(table: network.Weights) -> network.Weights:
    """Return a table with minimum, mean and maximum cost and capacity of each origin's paths."""

    def stated(_key: str, origin: network.Origin) -> network.Origin:
        costs = [path.network_cost for path in origin.paths if path.network_cost is not None]
        bits = [b for path in origin.paths if (b := _bits(path.bandwidth_capacity)) is not None]
        if not costs and not bits:
            return origin
        return msgspec.structs.replace(
            origin,
            origin_inter_statistics=network.Statistics(
                *((min(bits), sum(bits) // len(bits), max(bits)) if bits else (None,) * 3),
                *((min(costs), sum(costs) // len(costs), max(costs)) if costs else (None,) * 3),
            ),
        )

    return _with_origins(table, stated)


def _shares(workloads: Sequence[Workload], pods: Pods) -> dict[LabelLink, Fraction]:
    find = finder(workloads)
    amounts: dict[LabelLink, Fraction] = defaultdict(Fraction)
    for entry in workloads:
        here = pods.get(entry.workload.label)
        for dependency in entry.dependencies if here else ():
            label = find(dependency.workload) or dependency.workload.label
            there = pods.get(label)
            bandwidth = _needed(dependency)
            if not here or not there or not bandwidth:
                continue
            share = Fraction(bandwidth, there.total())
            for one, count in here.items():
                for other, number in there.items():
                    link = _link(one, other)
                    if link is not None:
                        amounts[link] += share * count * number
    return amounts


def _link(one: Place, other: Place) -> LabelLink | None:
    """Return the link between two places, None inside a zone and if a name is missing."""
    if one[0] != other[0]:
        return LabelLink(network.REGION_LABEL, one[0], other[0]) if one[0] and other[0] else None
    if one[1] != other[1] and one[1] and other[1]:
        return LabelLink(network.ZONE_LABEL, one[1], other[1])
    return None


def _entries(
    table: network.Weights,
) -> Iterator[tuple[network.TopologyCosts, network.Origin, network.Cost]]:
    for level in table.levels:
        for origin in level.origins:
            for path in origin.paths:
                yield level, origin, path


def _with_origins(table: network.Weights, change: _Change) -> network.Weights:
    return msgspec.structs.replace(
        table,
        topology_list=tuple(
            msgspec.structs.replace(
                level,
                origin_list=tuple(change(level.topology_key, o) for o in level.origins),
                origin_costs=(),
            )
            for level in table.levels
        ),
        cost_list=(),
    )


def _needed(dependency: Dependency) -> int:
    return max(_bits(dependency.min_bandwidth) or 0, 0)


def _bits(amount: network.Quantity | None) -> int | None:
    try:
        return None if amount is None else quantity(amount)
    except ObjectError:
        return None
