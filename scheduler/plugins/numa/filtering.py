"""On which nodes a pod, or each of its containers, fits into one NUMA zone.

Column arithmetic over a `Sight`, the zones as one view sees them. The kubelet is assumed to
take the zone with the lowest number of those that fit, as it does.
"""

from __future__ import annotations

import msgspec
import numpy as np

from scheduler.base.arrays import BoolColumn, IntMatrix, Rows
from scheduler.framework.status import Reason, Rejected
from scheduler.plugins.numa.demand import Demand, Needs, held_by_zones, is_affine, may_be_host_level
from scheduler.plugins.numa.sight import Sight

CANNOT = "cannot align"

BoolMatrix = BoolColumn


class Fit(msgspec.Struct, frozen=True):
    """Where a request fits: `zones` is [slot, row], None where no zone matters on any row.

    `lost` are rows where it cannot fit whatever the zones hold, None for no row.
    """

    zones: BoolMatrix | None
    lost: BoolColumn | None

    def misfits(self, size: int) -> BoolColumn:
        """Return the rows where nothing fits."""
        if self.zones is None:
            return np.zeros(size, dtype=np.bool_) if self.lost is None else self.lost
        none: BoolColumn = ~np.logical_or.reduce(self.zones, axis=0)
        return none if self.lost is None else none | self.lost


class Room:
    """Two matrices [slot, row] to work in; to write to fresh ones takes longer than to work out what."""

    def __init__(self) -> None:
        self._pair = np.zeros((2, 0, 0), dtype=np.bool_)

    def of(self, sight: Sight) -> BoolColumn:
        """Return the two matrices for a view, with whatever the last user left in them."""
        _, slots, size = self._pair.shape
        if slots < sight.slots or size < sight.size:
            self._pair = np.zeros((2, sight.slots, sight.size), dtype=np.bool_)
        return self._pair[:, : sight.slots, : sight.size]


def fit(sight: Sight, needs: Needs, *, is_guaranteed: bool, room: BoolMatrix | None = None) -> Fit:
    """Return the zones that hold all of `needs` alone; they lie in `room`, if that is given."""
    zones: BoolMatrix | None = None
    lost: BoolColumn | None = None
    for name, amount in needs:
        if amount <= 0:
            continue
        offers = sight.offers(name)
        if offers is not None:
            lost = ~offers if lost is None else lost | ~offers
        shares = is_affine(name) and not is_guaranteed
        out = None if room is None else room[int(zones is not None)]
        good = sight.at_least(name, 0 if shares else amount, out)
        if good is None:
            if not may_be_host_level(name):
                return Fit(zones, np.ones(sight.size, dtype=np.bool_))
            continue
        if may_be_host_level(name):
            unlisted = sight.unlisted(name)
            if unlisted is not None:
                good |= unlisted
        zones = good if zones is None else np.logical_and(zones, good, out=zones)
    return Fit(zones, lost)


def unfit_by_container(sight: Sight, demand: Demand, rows: BoolColumn) -> Rejected | None:
    """Return the rows where some container finds no zone, with the first such container's reason.

    Init containers leave no trace; all others take their amounts from the zone they are given.
    """
    taken: dict[str, IntMatrix] = {}
    left = rows
    reasons: list[Reason] = []
    last = len(demand.parts) - 1
    for place, part in enumerate(demand.parts):
        found = fit(sight.over(taken), part.needs, is_guaranteed=demand.is_guaranteed)
        misfits = found.misfits(sight.size) & left
        if np.count_nonzero(misfits):
            reasons.append(Reason(misfits, f"{CANNOT} {part.kind}"))
            left = left & ~misfits
        if part.stays and place < last and found.zones is not None:
            _take(sight, taken, found.zones, demand, part.needs)
    if not reasons:
        return None
    return Rejected(rows & ~left, np.zeros_like(rows), tuple(reasons))


def _take(
    sight: Sight, taken: dict[str, IntMatrix], zones: BoolMatrix, demand: Demand, needs: Needs
) -> None:
    """Deduct a container from the lowest zone that fits, on every row at once."""
    slots, columns = lowest(zones)
    for name, amount in held_by_zones(demand, needs):
        if name not in taken:
            free = sight.free(name)
            if free is None:
                continue
            taken[name] = free.copy()
        cells = taken[name][slots, columns]
        taken[name][slots, columns] = np.where(cells >= 0, np.maximum(cells - amount, 0), cells)


def lowest(zones: BoolMatrix) -> tuple[Rows, Rows]:
    """Return (slots, rows): the lowest slot that is set, for the rows that have one."""
    rows = np.flatnonzero(np.logical_or.reduce(zones, axis=0))
    return zones.argmax(axis=0)[rows], rows
