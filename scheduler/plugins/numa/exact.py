"""Whether the containers of a rejected pod could be split over the zones after all.

The kubelet takes for each container the first zone that fits and never looks back, so a split that
it misses is of no use to a scheduler. It is of use to whoever wonders why a pod is pending: another
order of the containers, or pod scope, would let it in.
"""

import numpy as np

from scheduler.framework import Reason, Rejected, is_any
from scheduler.plugins.numa.demand import Demand, Needs, held_by_zones
from scheduler.plugins.numa.filtering import fit
from scheduler.plugins.numa.zoneview import ZoneView

MISSED = " (they would fit in other zones, which the kubelet does not try)"

# Searching every row of a large cluster would take long, and the first ones tell the story.
_MOST_ROWS = 64
_MOST_STEPS = 4096


def hidden_splits(sight: ZoneView, demand: Demand, rejected: Rejected) -> Rejected:
    """Return the rejection with a reason of its own for rows where a split exists."""
    rows = np.flatnonzero(rejected.rows)[:_MOST_ROWS]
    split = np.zeros_like(rejected.rows)
    for row in rows.tolist():
        split[row] = _Search(sight, demand, row).succeeds()
    if not is_any(split):
        return rejected
    reasons: list[Reason] = []
    for reason in rejected.reasons:
        if is_any(reason.rows & ~split):
            reasons.append(Reason(reason.rows & ~split, reason.text))
        if is_any(reason.rows & split):
            reasons.append(Reason(reason.rows & split, reason.text + MISSED))
    return Rejected(rejected.rows, rejected.final, tuple(reasons))


class _Search:
    """Tries zone after zone for container after container on one row."""

    def __init__(self, sight: ZoneView, demand: Demand, row: int) -> None:
        self._demand = demand
        self._steps = 0
        # Which zones suit a container in an empty moment; amounts are followed from there.
        self._suits: list[list[int]] = []
        self._staying: list[Needs] = []
        self._free: dict[str, list[int]] = {}
        self._is_possible = True
        for part in demand.parts:
            found = fit(sight, part.needs, is_guaranteed=demand.is_guaranteed)
            lost = found.lost is not None and bool(found.lost[row])
            zones = None if found.zones is None else np.flatnonzero(found.zones[row]).tolist()
            self._is_possible = self._is_possible and not lost and zones != []
            if part.stays and zones is not None:
                self._suits.append(zones)
                self._staying.append(tuple(held_by_zones(demand, part.needs)))
            for name, _ in part.needs:
                free = sight.free(name)
                if free is not None:
                    self._free[name] = free[row].tolist()

    def succeeds(self) -> bool:
        """Whether all containers fit somehow."""
        return self._is_possible and self._place(0)

    def _place(self, number: int) -> bool:
        if number == len(self._suits):
            return True
        self._steps += 1
        if self._steps > _MOST_STEPS:
            return False
        for zone in self._suits[number]:
            taken = [
                (self._free[name], amount)
                for name, amount in self._staying[number]
                if name in self._free and self._free[name][zone] >= 0
            ]
            if any(free[zone] < amount for free, amount in taken):
                continue
            for free, amount in taken:
                free[zone] -= amount
            if self._place(number + 1):
                return True
            for free, amount in taken:
                free[zone] += amount
        return False
