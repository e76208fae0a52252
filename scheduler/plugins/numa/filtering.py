"""The nodes where a pod, or each of its containers, fits one NUMA zone, or its permitted zones.

Column arithmetic over a `ZoneView`, the zones of one view. The kubelet is assumed to use the zone
with the lowest number of those that fit, as it does.
"""

from collections.abc import Iterator

import msgspec
import numpy as np

from scheduler.framework import (
    BoolColumn,
    IntColumn,
    IntMatrix,
    Reason,
    Rejected,
    Rows,
    is_any,
    no_rows,
)
from scheduler.plugins.numa.amounts import Pair, ZoneFlags, any_zone, no_zone
from scheduler.plugins.numa.demand import (
    ALWAYS_OFFERED,
    Needs,
    ZoneDemand,
    assigned_needs,
    is_affine,
    may_be_host_level,
    zone_usage,
)
from scheduler.plugins.numa.zones import sets_of
from scheduler.plugins.numa.zoneview import ZoneView

CANNOT = "cannot align"


class Fit(msgspec.Struct, frozen=True):
    """Where a request fits: `zones` is [row, slot], None where zones do not matter on any row.

    `lost` are rows where it cannot fit with any zones, None for no row.
    """

    zones: ZoneFlags | None
    lost: BoolColumn | None

    def infeasible(self, size: int) -> BoolColumn:
        """Return the rows where the request fits no zones."""
        if self.zones is None:
            return np.zeros(size, dtype=np.bool_) if self.lost is None else self.lost
        none = no_zone(self.zones)
        return none if self.lost is None else none | self.lost


def fit(view: ZoneView, needs: Needs, *, is_guaranteed: bool, scratch: Pair = (None, None)) -> Fit:
    """Return the zones with all of `needs` free; the result is written into `scratch`, if given."""
    zones: ZoneFlags | None = None
    lost: BoolColumn | None = None
    first, other = scratch
    for name, amount in needs:
        if amount <= 0:
            continue
        shares = not is_guaranteed and is_affine(name)
        good = view.at_least(name, 0 if shares else amount, first if zones is None else other)
        offers = None if name in ALWAYS_OFFERED else view.offers(name)
        if offers is not None:
            lost = ~offers if lost is None else lost | ~offers
        is_host_level = may_be_host_level(name)
        if good is None:
            if is_host_level:
                continue
            return Fit(zones, np.ones(view.size, dtype=np.bool_))
        unlisted = view.unlisted(name) if is_host_level else None
        if unlisted is not None:
            good |= unlisted[:, None]
        zones = good if zones is None else np.logical_and(zones, good, zones)
    return Fit(zones, lost)


def unfit_by_container(view: ZoneView, demand: ZoneDemand, rows: BoolColumn) -> Rejected | None:
    """Return the rows where some container fits no zone, with the first such container's reason.

    Init containers release their amounts; all others keep those of their zone.
    """
    taken: dict[str, IntMatrix] = {}
    left = rows
    reasons: list[Reason] = []
    last = len(demand.parts) - 1
    for place, part in enumerate(demand.parts):
        found = fit(view.over(taken), part.needs, is_guaranteed=demand.is_guaranteed)
        infeasible = found.infeasible(view.size) & left
        if is_any(infeasible):
            reasons.append(Reason(infeasible, f"{CANNOT} {part.kind}"))
            left = left & ~infeasible
        if part.stays and place < last and found.zones is not None:
            _take(view, taken, found.zones, demand, part.needs)
    if not reasons:
        return None
    return Rejected(rows & ~left, no_rows(len(rows)), tuple(reasons))


def _take(
    view: ZoneView, taken: dict[str, IntMatrix], zones: ZoneFlags, demand: ZoneDemand, needs: Needs
) -> None:
    """Deduct a container from the lowest zone that fits, on every row at once."""
    rows, slots = lowest(zones)
    for matrix, amount in _free_and_request(view, taken, demand, needs):
        cells = matrix[rows, slots]
        matrix[rows, slots] = np.where(cells >= 0, np.maximum(cells - amount, 0), cells)


def _free_and_request(
    view: ZoneView, taken: dict[str, IntMatrix], demand: ZoneDemand, needs: Needs
) -> Iterator[tuple[IntMatrix, int]]:
    """Yield for each resource in zones the free amounts, and a container's request."""
    for name, amount in zone_usage(demand, needs):
        if name not in taken:
            free = view.free(name)
            if free is None:
                continue
            taken[name] = free.copy()
        yield taken[name], amount


def lowest(zones: ZoneFlags) -> tuple[Rows, Rows]:
    """Return (rows, slots): the rows that have a slot set, and the lowest one."""
    rows = np.flatnonzero(any_zone(zones))
    return rows, zones[rows].argmax(axis=1)


# A kubelet with the `restricted` policy: each resource prefers the smallest number of zones that
# could fit it if they were empty, and a pod is admitted only if all agree on one set of that size
# with enough free.


def unfit_restricted(
    view: ZoneView, demand: ZoneDemand, rows: BoolColumn, *, by_pod: BoolColumn
) -> Iterator[tuple[BoolColumn, str]]:
    """Yield (rows, reason) for the rows among `rows` that are not admitted.

    `by_pod` is the scope.
    """
    whole = rows & by_pod
    if is_any(whole):
        found = _unfit_rows(view, demand.assigned, demand, np.flatnonzero(whole))
        yield _column(view.size, found[0]), f"{CANNOT} pod"
    left = np.flatnonzero(rows & ~by_pod)
    taken: dict[str, IntMatrix] = {}
    for part in demand.parts:
        if not len(left):
            return
        needs = assigned_needs(part.needs)
        infeasible, masks = _unfit_rows(view.over(taken), needs, demand, left)
        if len(infeasible):
            yield _column(view.size, infeasible), f"{CANNOT} {part.kind}"
            left = np.setdiff1d(left, infeasible)
        if part.stays:
            _take_shares(view, taken, demand, needs, masks)


def _unfit_rows(
    view: ZoneView, needs: Needs, demand: ZoneDemand, rows: IntColumn
) -> tuple[IntColumn, dict[int, tuple[int, ...]]]:
    """Return the rows not admitted, and for the others the zones that would be assigned."""
    wanted: list[tuple[IntMatrix, IntMatrix, int, str]] = []
    bad = np.zeros(len(rows), dtype=np.bool_)
    for name, amount in needs:
        if amount <= 0:
            continue
        offers = view.offers(name)
        if offers is not None:
            bad |= ~offers[rows]
        if is_affine(name) and not demand.is_guaranteed:
            continue
        free, total = view.free(name), view.offered(name)
        if free is None or total is None:
            bad |= not may_be_host_level(name)
            continue
        wanted.append((free[rows], total[rows], amount, name))
    masks: dict[int, tuple[int, ...]] = {}
    for place, row in enumerate(rows.tolist()):
        if bad[place]:
            continue
        found = _mask(wanted, place)
        if found is None:
            bad[place] = True
        else:
            masks[row] = found
    return rows[bad], masks


def _mask(
    wanted: list[tuple[IntMatrix, IntMatrix, int, str]], place: int
) -> tuple[int, ...] | None:
    """Return the slots that all resources agree on for one row; () if none has a preference."""
    columns = []
    for free, total, amount, name in wanted:
        now, most = free[place].tolist(), total[place].tolist()
        slots = [slot for slot, value in enumerate(most) if value >= 0]
        if not slots:
            if not may_be_host_level(name):
                return None
            continue
        columns.append((now, most, amount, slots))
    if not columns:
        return ()
    everywhere = sorted({slot for *_, slots in columns for slot in slots})
    sizes = {_fewest(most, amount) for _, most, amount, _ in columns}
    if len(sizes) != 1:
        return None
    (size,) = sizes
    if size > len(everywhere):
        return None
    for mask in sets_of(everywhere, size):
        if all(sum(max(now[slot], 0) for slot in mask) >= amount for now, _, amount, _ in columns):
            return mask
    return None


def _fewest(most: list[int], amount: int) -> int:
    """Return the number of empty zones that would fit an amount; too many if all cannot."""
    total = 0
    for number, value in enumerate(sorted((v for v in most if v > 0), reverse=True), start=1):
        total += value
        if total >= amount:
            return number
    return len(most) + 1


def _take_shares(
    view: ZoneView,
    taken: dict[str, IntMatrix],
    demand: ZoneDemand,
    needs: Needs,
    masks: dict[int, tuple[int, ...]],
) -> None:
    """Deduct a container from its zones, lowest first."""
    for matrix, amount in _free_and_request(view, taken, demand, needs):
        for row, mask in masks.items():
            rest = amount
            for slot in mask:
                part = min(rest, max(int(matrix[row, slot]), 0))
                if part:
                    matrix[row, slot] -= part
                    rest -= part


def _column(size: int, rows: IntColumn) -> BoolColumn:
    column = np.zeros(size, dtype=np.bool_)
    column[rows] = True
    return column


# Splits that the kubelet misses, since it uses for each container the first zone that fits and
# never backtracks. The scheduler cannot use them, but they explain why a pod is pending: another
# order of the containers, or pod scope, would admit it.

MISSED = " (they would fit in other zones, which the kubelet does not try)"

# Searching every row of a large cluster would take long, and a few rows suffice for the message.
_MOST_ROWS = 64
_MOST_STEPS = 4096


def hidden_splits(view: ZoneView, demand: ZoneDemand, rejected: Rejected) -> Rejected:
    """Return the rejection with a reason of its own for rows where a split exists."""
    rows = np.flatnonzero(rejected.rows)[:_MOST_ROWS]
    split = np.zeros_like(rejected.rows)
    for row in rows.tolist():
        split[row] = _Search(view, demand, row).succeeds()
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
    """Try zone after zone for container after container on one row."""

    def __init__(self, view: ZoneView, demand: ZoneDemand, row: int) -> None:
        self._demand = demand
        self._steps = 0
        # The zones that fit each container on an empty node; amounts are deducted from there.
        self._suits: list[list[int]] = []
        self._staying: list[Needs] = []
        self._free: dict[str, list[int]] = {}
        self._is_possible = True
        for part in demand.parts:
            found = fit(view, part.needs, is_guaranteed=demand.is_guaranteed)
            lost = found.lost is not None and bool(found.lost[row])
            zones = None if found.zones is None else np.flatnonzero(found.zones[row]).tolist()
            self._is_possible = self._is_possible and not lost and zones != []
            if part.stays and zones is not None:
                self._suits.append(zones)
                self._staying.append(tuple(zone_usage(demand, part.needs)))
            for name, _ in part.needs:
                free = view.free(name)
                if free is not None:
                    self._free[name] = free[row].tolist()

    def succeeds(self) -> bool:
        """Return whether some assignment of all containers fits."""
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
