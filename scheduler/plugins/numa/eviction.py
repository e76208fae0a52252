"""The zones without evicted pods: the NUMA part of preemption's dry run.

This requires an agent that publishes the zone of each container. Exclusive amounts of victims
return to their zone; without such data, or for a victim outside it, the freed amounts are unknown.

A dry run evaluates many rows step by step: the amounts of each pod are computed once for all
removed pods, and a step adds up those removed. It starts with all of them removed, and the total of
all pods of a node is known in advance: single pods are evaluated only where the total suffices.
"""

from collections.abc import Iterable, Iterator, Mapping
from weakref import WeakKeyDictionary

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.framework import (
    BoolColumn,
    IntColumn,
    IntMatrix,
    Nodes,
    PerShape,
    Placed,
    Rows,
    is_any,
)
from scheduler.framework.hypothetical.rowpods import RowPods
from scheduler.plugins.numa.demand import Needs, ZoneDemand
from scheduler.plugins.numa.reservations import Shares, shares_of
from scheduler.plugins.numa.reserving import Reserving
from scheduler.plugins.numa.zoneview import ZoneView

NOT_POSSIBLE = "eviction simulation in NRT is not possible:"
NOTHING_TO_ADD = f"{NOT_POSSIBLE}no resources to add, cannot process eviction simulation"
TOO_MUCH = f"{NOT_POSSIBLE}a zone would have more than it can allocate"


class ChangedZones(msgspec.Struct, frozen=True):
    """The zones after the change, and the rows where they are unknown, by reason."""

    view: ZoneView
    refused: Mapping[str, BoolColumn]


class ZoneEvictions:
    """Compute the zones with pods removed or added.

    `frees` states whether victims return amounts; nominated pods use their share of every zone.
    """

    def __init__(self, reserving: Reserving, demand: PerShape[ZoneDemand], *, frees: bool) -> None:
        self._reserving = reserving
        self._demand = demand
        self._frees = frees
        self._known: WeakKeyDictionary[RowPods, _Holdings] = WeakKeyDictionary()

    def zones_after(self, view: ZoneView, nodes: Nodes) -> ChangedZones | None:
        """Return the zones of a view; None if no pod moves."""
        came: dict[int, list[Placed]] = {}
        for placed, row in nodes.arrivals():
            came.setdefault(row, []).append(placed)
        given = self._given(view, nodes) if self._frees else None
        if not came and given is None:
            return None
        matrices: dict[str, IntMatrix] = {}
        if came:
            places = _places(view)
            for row, nominated in came.items():
                if row in places:
                    demands = (self._demand.of(placed) for placed in nominated)
                    _take(view, matrices, places[row], demands)
        refused = {} if given is None else _give_back(view, matrices, given)
        return ChangedZones(view.over(matrices), refused)

    def _given(self, view: ZoneView, nodes: Nodes) -> "_Given | None":
        """Return the amounts of the removed pods; None if there are none."""
        found = nodes.leaving()
        if found is not None:
            leaving, gone = found
            if not is_any(gone):
                return None
            node_totals = self._by_everybody(view, nodes, leaving) if gone.all() else None
            if node_totals is not None:
                return node_totals
            used = self._known.get(leaving)
            if used is None:
                used = self._holdings(view, leaving.everybody(), leaving.index)
                self._known[leaving] = used
            return used.given(gone)
        moves = [(placed, row) for placed, row, sign in nodes.moves() if sign < 0]
        if not moves:
            return None
        places = _places(view)
        here = [(placed, places[row]) for placed, row in moves if row in places]
        index = np.array([place for _, place in here], dtype=np.intp)
        used = self._holdings(view, enumerate(placed for placed, _ in here), index)
        return used.given(np.ones(len(here), dtype=np.bool_))

    def _by_everybody(self, view: ZoneView, nodes: Nodes, leaving: RowPods) -> "_Given | None":
        """Return the amounts of removed pods if these are all pods with exclusive amounts on their
        rows; None otherwise.

        So the pods of a row need not be evaluated if the preemptor does not fit even without all of
        them.
        """
        if leaving.below is None:
            return None
        given = _nothing(view)
        for place in range(len(leaving.rows)):
            whole = self._reserving.node_totals(nodes.name(place))
            if whole is None or not whole.is_reported:
                continue
            if whole.highest >= leaving.below:
                return None
            given.reported[place] = True
            given.freed[place] = whole.holds
            for name, amounts in whole.used.items():
                if name not in given.amounts:
                    given.amounts[name] = np.zeros((view.size, view.slots), dtype=np.int64)
                given.amounts[name][place, : len(amounts)] = amounts
        return given

    def _holdings(
        self, view: ZoneView, pods: Iterable[tuple[int, Placed]], index: Rows
    ) -> "_Holdings":
        """Look up the zones in use by pods, each with its number; `index` has the row of a number.

        Those of a row follow one another. Several pods may have one number: they are removed
        together.

        There may be tens of thousands: a repeated pod costs no call.
        """
        holdings = _Holdings(view, index)
        reported, owners, cells, used = (
            holdings.reported,
            holdings.owners,
            holdings.cells,
            holdings.used,
        )
        node, reserved, first = "", None, 0
        known: Mapping[str, Shares] = {}
        slots: Mapping[int, int] = {}
        for number, placed in pods:
            if placed.node != node:
                node, reserved = placed.node, self._reserving.by_node.get(placed.node)
                known = {} if reserved is None else reserved.shares
                first, slots = holdings.row(int(index[number]))
            shares = known.get(placed.pod.metadata.uid)
            if shares is None:
                shares = None if reserved is None else shares_of(placed, reserved, self._demand)
                if shares is None:
                    continue
            reported.append(number)
            for zone, needs in shares:
                owners.append(number)
                cells.append(first + slots.get(zone, _NOWHERE))
                used.append(needs)
        return holdings


# Larger than the number of slots before any row.
_NOWHERE = -(2**48)
_Entries = tuple[Rows, Rows, IntColumn]


class _Given(msgspec.Struct, frozen=True):
    """Amounts of removed pods, [row, slot] by resource.

    `reported` are the rows where an agent reports the zones of a removed pod, `freed` those where
    one had amounts.
    """

    reported: BoolColumn
    freed: BoolColumn
    amounts: dict[str, IntMatrix]


def _nothing(view: ZoneView) -> _Given:
    reported, freed = np.zeros((2, view.size), dtype=np.bool_)
    return _Given(reported, freed, {})


def _give_back(
    view: ZoneView, matrices: dict[str, IntMatrix], given: _Given
) -> dict[str, BoolColumn]:
    """Add the returned amounts; return the rows where they are unknown, by reason."""
    too_much = given.freed & (view.layout_ids < 0)
    for name, amounts in given.amounts.items():
        offered = view.offered(name)
        matrix = _copied(view, matrices, name)
        if matrix is None or offered is None:
            continue
        amounts[matrix < 0] = 0
        matrix += amounts
        too_much |= ((amounts > 0) & (matrix > offered)).any(axis=1)
    return {NOTHING_TO_ADD: given.reported & ~given.freed, TOO_MUCH: too_much}


class _Holdings:
    """The exclusive amounts of some pods in the zones of their rows.

    `index` has the row of each pod. `reported` are the numbers of the pods whose zones an agent
    reports. `owners`, `cells` and `used` are the pods with amounts, where, and which; a cell is a
    slot of a row, or below 0 for an unknown zone.
    """

    def __init__(self, view: ZoneView, index: Rows) -> None:
        self.reported: list[int] = []
        self.owners: list[int] = []
        self.cells: list[int] = []
        self.used: list[Needs] = []
        self._index = index
        self._size = view.size
        self._width = view.slots
        self._view = view
        self._layouts: list[int] = view.layout_ids.tolist()
        # By layout, the slot of each zone.
        self._slots: dict[int, dict[int, int]] = {}
        self._entries: dict[str, _Entries] | None = None

    def row(self, row: int) -> tuple[int, Mapping[int, int]]:
        """Return the first cell of a row, and its zones' slots by their numbers."""
        layout = self._layouts[row]
        slots = self._slots.get(layout)
        if slots is None:
            ids = self._view.layout(layout).ids if layout >= 0 else ()
            slots = self._slots[layout] = {zone: slot for slot, zone in enumerate(ids)}
        return row * self._width, slots

    def given(self, gone: BoolColumn) -> _Given:
        """Return the amounts of the removed pods."""
        given = _Given(self._on_rows(self.reported, gone), self._on_rows(self.owners, gone), {})
        for name, (pods, cells, amounts) in self._arrays().items():
            now = gone[pods]
            flat = np.zeros(self._size * self._width, dtype=np.int64)
            np.add.at(flat, cells[now], amounts[now])
            given.amounts[name] = flat.reshape(self._size, self._width)
        return given

    def _arrays(self) -> dict[str, _Entries]:
        if self._entries is None:
            self._entries = dict(self._by_resource())
        return self._entries

    def _by_resource(self) -> Iterator[tuple[str, _Entries]]:
        """Yield by resource the pods, the cells where they use it, and the amounts."""
        pods, cells = np.array(self.owners, dtype=np.intp), np.array(self.cells, dtype=np.intp)
        # Pods with the same requests share one object, so that few need to be evaluated.
        kinds = {id(one): one for one in self.used}
        places = {number: place for place, number in enumerate(kinds)}
        kind = np.array([places[id(one)] for one in self.used], dtype=np.intp)
        amounts = [dict(one) for one in kinds.values()]
        for name in dict.fromkeys(name for one in amounts for name in one):
            each = np.array([one.get(name, 0) for one in amounts], dtype=np.int64)[kind]
            some = np.flatnonzero((each > 0) & (cells >= 0))
            yield name, (pods[some], cells[some], each[some])

    def _on_rows(self, pods: list[int], gone: BoolColumn) -> BoolColumn:
        """Return the rows on which some of the pods are removed."""
        rows = np.zeros(self._size, dtype=np.bool_)
        if pods:
            numbers = np.fromiter(pods, dtype=np.intp, count=len(pods))
            rows[self._index[numbers[gone[numbers]]]] = True
        return rows


def _places(view: ZoneView) -> dict[int, int]:
    """Return the row of the view by the row of the table."""
    return {row: place for place, row in enumerate(view.table_rows().tolist())}


def _take(
    view: ZoneView, matrices: dict[str, IntMatrix], place: int, demands: Iterable[ZoneDemand]
) -> None:
    """Deduct pods from every zone of a row."""
    for zone_demand in demands:
        for name, amount in zone_demand.whole:
            matrix = _copied(view, matrices, name) if amount else None
            if matrix is not None:
                cells = matrix[place]
                matrix[place] = np.where(cells >= 0, np.maximum(cells - amount, 0), cells)


def _copied(view: ZoneView, matrices: dict[str, IntMatrix], name: str) -> NDArray[np.int64] | None:
    """Return a writable copy of the free amounts of a resource."""
    if name not in matrices:
        free = view.free(name)
        if free is None:
            return None
        matrices[name] = free.copy()
    return matrices[name]
