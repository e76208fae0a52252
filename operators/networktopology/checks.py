"""What is doubtful about the costs that a user wrote: told in a condition, never a failure.

Pure. Each text begins with the field that it is about. What is listed twice is `status`'s business,
since there the cost itself is in doubt; here are values that mean something else than was probably meant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from scheduler.base.errors import ObjectError
from scheduler.base.text import did_you_mean
from scheduler.objects.network import (
    REGION_LABEL,
    ZONE_LABEL,
    Cost,
    NetworkTopologySpec,
    TopologyCosts,
)
from scheduler.objects.quantity import quantity

HIGHEST_COST = 1_000_000_000
READ_LEVELS = (REGION_LABEL, ZONE_LABEL, "topology.kubernetes.io/segment")

Values = Mapping[str, Collection[str]]


def doubts(spec: NetworkTopologySpec, values: Values | None = None) -> Iterator[str]:
    """Yield what is doubtful; `values` are those that nodes have, by label, as far as known."""
    known = values or {}
    for number, table in enumerate(spec.weights):
        for place, level in enumerate(table.levels):
            where = f"spec.weights[{number}].topologyList[{place}]"
            if level.topology_key not in READ_LEVELS:
                hint = did_you_mean(level.topology_key, READ_LEVELS)
                yield f'{where}.topologyKey: "{level.topology_key}" is looked at by nobody{hint}'
            yield from _of_level(level, where, known.get(level.topology_key))


def _of_level(level: TopologyCosts, where: str, values: Collection[str] | None) -> Iterator[str]:
    listed: dict[tuple[str, str], int | None] = {}
    for number, origin in enumerate(level.origins):
        at = f"{where}.originList[{number}]"
        if values is not None and origin.origin not in values:
            hint = did_you_mean(origin.origin, values)
            yield f'{at}.origin: no node has the value "{origin.origin}"{hint}'
        for place, way in enumerate(origin.ways):
            listed.setdefault((origin.origin, way.destination), way.network_cost)
            yield from _of_way(way, origin.origin, f"{at}.costList[{place}]", values)
    for (one, other), cost in listed.items():
        back = listed.get((other, one))
        if one < other and cost is not None and back is not None and cost != back:
            yield f'{where}: "{one}" to "{other}" costs {cost}, the way back {back}'


def _of_way(way: Cost, origin: str, at: str, values: Collection[str] | None) -> Iterator[str]:
    if way.destination == origin:
        yield f'{at}.destination: "{origin}" leads to itself, which is never looked at'
    elif values is not None and way.destination not in values:
        hint = did_you_mean(way.destination, values)
        yield f'{at}.destination: no node has the value "{way.destination}"{hint}'
    cost = way.network_cost
    if cost is None:
        yield f"{at}.networkCost: is missing; the way counts as not known"
    elif not 0 <= cost <= HIGHEST_COST:
        yield f"{at}.networkCost: {cost} is not between 0 and {HIGHEST_COST}"
    if way.bandwidth_capacity is None:
        return
    try:
        if quantity(way.bandwidth_capacity) < 0:
            yield f"{at}.bandwidthCapacity: {way.bandwidth_capacity} is negative"
    except ObjectError as error:
        yield f"{at}.bandwidthCapacity: {error.message}"
