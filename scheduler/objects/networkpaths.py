"""`PathTable`: the paths between regions and between zones in one table of a NetworkTopology.

A path listed in one direction serves both; listed in both, each direction has its own. Of
duplicates the first entry counts. The plugins and the operators use this one implementation.
"""

from __future__ import annotations

from typing import NamedTuple

from scheduler.base.errors import ObjectError
from scheduler.objects import network
from scheduler.objects.quantity import quantity

REGION, ZONE = "region", "zone"
DEAREST = 10**12  # above any real cost; keeps sums over many pods inside 64 bits
_LEVELS = {network.REGION_LABEL: REGION, network.ZONE_LABEL: ZONE}

Ends = tuple[str, str]


class Link(NamedTuple):
    """The path from one zone (region) to another; the first end is the dependent's."""

    level: str
    origin: str
    destination: str

    @property
    def back(self) -> Link:
        """Return the reverse path."""
        return Link(self.level, self.destination, self.origin)


class PathTable:
    """The costs and capacities (bit/s) of the table `weights_name`, from spec or else from
    status.
    """

    def __init__(self, topology: network.NetworkTopology, weights_name: str) -> None:
        self.costs: dict[str, dict[Ends, int]] = {REGION: {}, ZONE: {}}
        self.capacities: dict[Link, int] = {}
        self._listed: set[Link] = set()
        for weights in chosen(topology, weights_name):
            self._read(weights)

    def is_same(self, other: PathTable) -> bool:
        """Return whether another table lists the same costs and capacities."""
        return (
            self.costs == other.costs
            and self.capacities == other.capacities
            and self._listed == other._listed
        )

    def cost(self, level: str, origin: str, destination: str) -> int | None:
        """Return the cost of a path, None if it is unknown."""
        found = self.costs[level].get((origin, destination))
        return self.costs[level].get((destination, origin)) if found is None else found

    def is_shared(self, link: Link) -> bool:
        """Return whether both directions of a listed path share its capacity."""
        return link.back not in self._listed

    def _read(self, weights: network.Weights) -> None:
        for level_costs in weights.levels:
            level = _LEVELS.get(level_costs.topology_key)
            if level is None:
                continue
            costs = self.costs[level]
            for origin in level_costs.origins:
                for path in origin.paths:
                    ends = (origin.origin, path.destination)
                    self._listed.add(Link(level, *ends))
                    if path.network_cost is not None and path.network_cost >= 0:
                        costs.setdefault(ends, min(path.network_cost, DEAREST))
                    capacity = _bits(path.bandwidth_capacity)
                    if capacity is not None:
                        self.capacities.setdefault(Link(level, *ends), capacity)


def chosen(topology: network.NetworkTopology, name: str) -> list[network.Weights]:
    """Return the tables of that name in the user's spec, else the calculated ones."""
    in_spec = [weights for weights in topology.spec.weights if weights.name == name]
    return in_spec or [weights for weights in topology.status.weights if weights.name == name]


def _bits(capacity: network.Quantity | None) -> int | None:
    if capacity is None:
        return None
    try:
        return max(quantity(capacity), 0)
    except ObjectError:
        return None  # the NetworkTopology's condition names the field
