"""What a kubelet with the `restricted` policy admits.

Each resource would like the smallest number of zones that could hold it if they were empty. A pod is
admitted only if all resources agree on one set of zones of that size which also has the room now.
"""

from collections.abc import Iterator

import numpy as np

from scheduler.framework import BoolColumn, IntColumn, IntMatrix, is_any
from scheduler.plugins.numa.demand import (
    Demand,
    Needs,
    assigned_needs,
    held_by_zones,
    is_affine,
    may_be_host_level,
)
from scheduler.plugins.numa.filtering import CANNOT
from scheduler.plugins.numa.zones import sets_of
from scheduler.plugins.numa.zoneview import ZoneView


def unfit(
    sight: ZoneView, demand: Demand, rows: BoolColumn, *, by_pod: BoolColumn
) -> Iterator[tuple[BoolColumn, str]]:
    """Yield (rows, reason) for the rows among `rows` that are not admitted; `by_pod` tells the scope."""
    whole = rows & by_pod
    if is_any(whole):
        found = _unfit_rows(sight, demand.assigned, demand, np.flatnonzero(whole))
        yield _column(sight.size, found[0]), f"{CANNOT} pod"
    left = np.flatnonzero(rows & ~by_pod)
    taken: dict[str, IntMatrix] = {}
    for part in demand.parts:
        if not len(left):
            return
        needs = assigned_needs(part.needs)
        misfits, masks = _unfit_rows(sight.over(taken), needs, demand, left)
        if len(misfits):
            yield _column(sight.size, misfits), f"{CANNOT} {part.kind}"
            left = np.setdiff1d(left, misfits)
        if part.stays:
            _take(sight, taken, demand, needs, masks)


def _unfit_rows(
    sight: ZoneView, needs: Needs, demand: Demand, rows: IntColumn
) -> tuple[IntColumn, dict[int, tuple[int, ...]]]:
    """Return the rows not admitted, and for the others the zones that they would give."""
    wanted: list[tuple[IntMatrix, IntMatrix, int, str]] = []
    bad = np.zeros(len(rows), dtype=np.bool_)
    for name, amount in needs:
        if amount <= 0:
            continue
        offers = sight.offers(name)
        if offers is not None:
            bad |= ~offers[rows]
        if is_affine(name) and not demand.is_guaranteed:
            continue
        free, total = sight.free(name), sight.offered(name)
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
    """Return the slots that all resources agree on for one row; () if none of them cares."""
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
    """Return how many zones could hold an amount if they were empty; too many if all cannot."""
    total = 0
    for number, value in enumerate(sorted((v for v in most if v > 0), reverse=True), start=1):
        total += value
        if total >= amount:
            return number
    return len(most) + 1


def _take(
    sight: ZoneView,
    taken: dict[str, IntMatrix],
    demand: Demand,
    needs: Needs,
    masks: dict[int, tuple[int, ...]],
) -> None:
    """Deduct a container from its zones, lowest first."""
    for name, amount in held_by_zones(demand, needs):
        if name not in taken:
            free = sight.free(name)
            if free is None:
                continue
            taken[name] = free.copy()
        matrix = taken[name]
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
