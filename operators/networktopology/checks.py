"""Doubtful values in a user's NetworkTopology: reported in a condition, never a failure. Pure.

Each text begins with the name of its field. Duplicate entries are checked by `status`, since they
make the cost itself doubtful. These checks find values that are valid and probably unintended.
"""

from collections.abc import Collection, Iterator, Mapping

from scheduler.base.errors import ObjectError
from scheduler.base.text import did_you_mean
from scheduler.objects import network
from scheduler.objects.quantity import quantity

HIGHEST_COST = 1_000_000_000
ALGORITHMS = ("Dijkstra",)
PROVIDERS = ("Prometheus", "ConfigMap")
PERCENTILES = (50, 90, 99)
MOST_HINTS = 20  # a hint is expensive if there are many names
READ_LEVELS = (network.REGION_LABEL, network.ZONE_LABEL, "topology.kubernetes.io/segment")

Values = Mapping[str, Collection[str]]


def doubts(spec: network.NetworkTopologySpec, values: Values | None = None) -> Iterator[str]:
    """Yield doubtful entries; `values` are the nodes' values by label, if known."""
    yield from _of_measuring(spec)
    known = values or {}
    unknown = _Unknown()
    for number, table in enumerate(spec.weights):
        for place, level in enumerate(table.levels):
            where = f"spec.weights[{number}].topologyList[{place}]"
            if level.topology_key not in READ_LEVELS:
                hint = did_you_mean(level.topology_key, READ_LEVELS)
                yield f'{where}.topologyKey: "{level.topology_key}" is not used by any plugin{hint}'
            yield from _of_level(level, where, known.get(level.topology_key), unknown)


def _of_measuring(spec: network.NetworkTopologySpec) -> Iterator[str]:
    if spec.topology_algorithm and spec.topology_algorithm not in ALGORITHMS:
        hint = did_you_mean(spec.topology_algorithm, ALGORITHMS)
        yield (
            f'spec.topologyAlgorithm: "{spec.topology_algorithm}" is not known{hint}; '
            f"{ALGORITHMS[0]} is used"
        )
    provider = spec.metric_provider
    if provider is None:
        return
    if provider.type not in PROVIDERS:
        hint = did_you_mean(provider.type, PROVIDERS)
        yield f'spec.metricProvider.type: "{provider.type}" is not known{hint}'
    elif provider.type == PROVIDERS[0] and not provider.address:
        yield "spec.metricProvider.address: is required to query Prometheus"
    elif provider.type == PROVIDERS[1] and not spec.measurements:
        yield "spec.configmapName: is missing, so that nothing can be read"
    if provider.percentile not in (None, *PERCENTILES):
        yield f"spec.metricProvider.percentile: {provider.percentile} is not one of {PERCENTILES}"


class _Unknown:
    """Messages about values that no node has; the first MOST_HINTS suggest similar values."""

    def __init__(self) -> None:
        self._hints = 0

    def text(self, value: str, values: Collection[str]) -> str:
        self._hints += 1
        hint = did_you_mean(value, values) if self._hints <= MOST_HINTS else ""
        return f'no node has the value "{value}"{hint}'


def _of_level(
    level: network.TopologyCosts, where: str, values: Collection[str] | None, unknown: _Unknown
) -> Iterator[str]:
    listed: dict[tuple[str, str], int | None] = {}
    origins: dict[str, int] = {}
    for number, origin in enumerate(level.origins):
        at = f"{where}.originList[{number}]"
        first = origins.setdefault(origin.origin, number)
        if first != number:
            yield (
                f'{at}.origin: "{origin.origin}" is in originList[{first}] as well; '
                "both are read as one"
            )
        if values is not None and origin.origin not in values:
            yield f"{at}.origin: {unknown.text(origin.origin, values)}"
        for place, path in enumerate(origin.paths):
            here = f"{at}.costList[{place}]"
            listed.setdefault((origin.origin, path.destination), path.network_cost)
            if path.destination == origin.origin:
                yield (
                    f'{here}.destination: "{path.destination}" leads to itself, which is never read'
                )
            elif values is not None and path.destination not in values:
                yield f"{here}.destination: {unknown.text(path.destination, values)}"
            yield from _of_path(path, here)
    for (one, other), cost in listed.items():
        back = listed.get((other, one))
        if one < other and cost is not None and back is not None and cost != back:
            yield f'{where}: "{one}" to "{other}" costs {cost}, the reverse direction {back}'


def _of_path(path: network.Cost, at: str) -> Iterator[str]:
    cost = path.network_cost
    if cost is None:
        yield f"{at}.networkCost: is missing; the cost of the link counts as unknown"
    elif not 0 <= cost <= HIGHEST_COST:
        yield f"{at}.networkCost: {cost} is not between 0 and {HIGHEST_COST}"
    if path.bandwidth_capacity is None:
        return
    try:
        if quantity(path.bandwidth_capacity) < 0:
            yield f"{at}.bandwidthCapacity: {path.bandwidth_capacity} is negative"
    except ObjectError as error:
        yield f"{at}.bandwidthCapacity: {error.message}"
