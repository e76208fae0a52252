"""On which nodes a pod, or each of its containers, fits into one NUMA zone.

Column arithmetic over a `ZoneView`, the zones as one view sees them. The kubelet is assumed to
take the zone with the lowest number of those that fit, as it does.
"""

import msgspec
import numpy as np

from scheduler.framework import BoolColumn, IntMatrix, Reason, Rejected, Rows, is_any, no_rows
from scheduler.plugins.numa.amounts import Pair, ZoneFlags, any_zone, no_zone
from scheduler.plugins.numa.demand import (
    ALWAYS_OFFERED,
    Demand,
    Needs,
    held_by_zones,
    is_affine,
    may_be_host_level,
)
from scheduler.plugins.numa.zoneview import ZoneView

CANNOT = "cannot align"


class Fit(msgspec.Struct, frozen=True):
    """Where a request fits: `zones` is [row, slot], None where no zone matters on any row.

    `lost` are rows where it cannot fit whatever the zones hold, None for no row.
    """

    zones: ZoneFlags | None
    lost: BoolColumn | None

    def misfits(self, size: int) -> BoolColumn:
        """Return the rows where nothing fits."""
        if self.zones is None:
            return np.zeros(size, dtype=np.bool_) if self.lost is None else self.lost
        none = no_zone(self.zones)
        return none if self.lost is None else none | self.lost


def fit(sight: ZoneView, needs: Needs, *, is_guaranteed: bool, room: Pair = (None, None)) -> Fit:
    """Return the zones that hold all of `needs` alone; they lie in `room`, if there is any."""
    zones: ZoneFlags | None = None
    lost: BoolColumn | None = None
    first, other = room
    for name, amount in needs:
        if amount <= 0:
            continue
        shares = not is_guaranteed and is_affine(name)
        good = sight.at_least(name, 0 if shares else amount, first if zones is None else other)
        offers = None if name in ALWAYS_OFFERED else sight.offers(name)
        if offers is not None:
            lost = ~offers if lost is None else lost | ~offers
        is_host_level = may_be_host_level(name)
        if good is None:
            if is_host_level:
                continue
            return Fit(zones, np.ones(sight.size, dtype=np.bool_))
        unlisted = sight.unlisted(name) if is_host_level else None
        if unlisted is not None:
            good |= unlisted[:, None]
        zones = good if zones is None else np.logical_and(zones, good, zones)
    return Fit(zones, lost)


def unfit_by_container(sight: ZoneView, demand: Demand, rows: BoolColumn) -> Rejected | None:
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
        if is_any(misfits):
            reasons.append(Reason(misfits, f"{CANNOT} {part.kind}"))
            left = left & ~misfits
        if part.stays and place < last and found.zones is not None:
            _take(sight, taken, found.zones, demand, part.needs)
    if not reasons:
        return None
    return Rejected(rows & ~left, no_rows(len(rows)), tuple(reasons))


def _take(
    sight: ZoneView, taken: dict[str, IntMatrix], zones: ZoneFlags, demand: Demand, needs: Needs
) -> None:
    """Deduct a container from the lowest zone that fits, on every row at once."""
    rows, slots = lowest(zones)
    for name, amount in held_by_zones(demand, needs):
        if name not in taken:
            free = sight.free(name)
            if free is None:
                continue
            taken[name] = free.copy()
        cells = taken[name][rows, slots]
        taken[name][rows, slots] = np.where(cells >= 0, np.maximum(cells - amount, 0), cells)


def lowest(zones: ZoneFlags) -> tuple[Rows, Rows]:
    """Return (rows, slots): the rows that have a slot set, and the lowest one."""
    rows = np.flatnonzero(any_zone(zones))
    return rows, zones[rows].argmax(axis=1)
