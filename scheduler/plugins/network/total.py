"""The network cost of placed applications: of one, and of all, cached until pods move.

Costs are those of NetworkOverhead: 0 on one node, 1 inside a zone, the listed cost beyond, 100 if
it is unknown. Every pair of dependent pods counts once.
"""

import numpy as np

from scheduler.plugins.network.dependencies import GroupNeeds
from scheduler.plugins.network.grouppods import GroupPods
from scheduler.plugins.network.lookup import Lookup
from scheduler.plugins.network.places import NOWHERE, RowPlaces
from scheduler.plugins.network.prices import SAME_PLACE_COST, UNKNOWN_COST, Prices

AT_A_TIME = 64
_EDGES_AT_ONCE = 1024
# An application's pods with their version, its needs, prices, and places with their version.
_Inputs = tuple[GroupPods, int, GroupNeeds, Prices, RowPlaces, int]


def group_cost(pods: GroupPods, needs: GroupNeeds, prices: Prices, places: RowPlaces) -> int:
    """Return the total cost between the pods of one application."""
    edges = [
        (number, pods.numbers[need.workload])
        for workload, number in pods.numbers.items()
        for need in needs.of(workload, both=False)
        if pods.totals[number] and pods.total(need.workload)
    ]
    if not edges:
        return 0
    used, bins = np.unique(places.rows[pods.rows], return_inverse=True)
    numbers = pods.by_workload(bins, len(used))
    cost = prices.columns(used)[1][used]
    total = 0.0
    for first in range(0, len(edges), _EDGES_AT_ONCE):
        origins, destinations = np.array(edges[first : first + _EDGES_AT_ONCE]).T
        total += float(((numbers[origins] @ cost) * numbers[destinations]).sum())
    for row, pairs in pods.beside(edges):
        # Traffic between pods on one node is free.
        total -= pairs * (UNKNOWN_COST if places.of(row) == NOWHERE else SAME_PLACE_COST)
    return round(total)


class TotalCost:
    """The cost of all applications, by the table of one plugin; recomputed for moved pods only."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._known: dict[str, tuple[_Inputs, int]] = {}

    def now(self, most: int = AT_A_TIME) -> int:
        """Return the total cost; 0 without a table of costs.

        At most `most` of the applications whose pods moved are recomputed (some 0.2 ms each); the
        others keep their last cost until the next call.
        """
        tracker, table = self._lookup.tracker, self._lookup.table()
        if table is None:
            return 0
        places, membership = tracker.places, self._lookup.membership
        prices = table.matrices(places)
        before, self._known = self._known, {}
        for name in membership.groups():
            pods, needs = membership.pods(name), membership.needs_of(name)
            if needs is None:
                continue
            stand = (pods, pods.version, needs, prices, places, places.version)
            known = before.get(name)
            if (known is None or known[0] != stand) and most > 0:
                known, most = (stand, group_cost(pods, needs, prices, places)), most - 1
            if known is not None:
                self._known[name] = known
        return sum(cost for _, cost in self._known.values())
