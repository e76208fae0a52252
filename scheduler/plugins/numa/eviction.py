"""What the zones would hold if pods left: the NUMA half of preemption's dry run.

Only an agent that publishes in which zone each container runs makes this possible. What victims hold
of their own is given back to the zone it came from; without such data, or when a victim is not in it,
nobody can say what its eviction would free.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from scheduler.base.arrays import BoolColumn, IntMatrix
from scheduler.framework.nodes import Nodes
from scheduler.framework.pershape import PerShape
from scheduler.plugins.numa.demand import Demand
from scheduler.plugins.numa.reserving import Reserving
from scheduler.plugins.numa.sight import Sight
from scheduler.plugins.numa.whereabouts import Freed, freed_by
from scheduler.state.podindex import Placed

NOT_POSSIBLE = "eviction simulation in NRT is not possible:"
NOTHING_TO_ADD = f"{NOT_POSSIBLE}no resources to add, cannot process eviction simulation"
TOO_MUCH = f"{NOT_POSSIBLE}a zone would have more than it can allocate"


class Rehearsed(msgspec.Struct, frozen=True):
    """The zones after the change, and the rows where it cannot be told, by reason."""

    sight: Sight
    refused: Mapping[str, BoolColumn]


def rehearse(
    sight: Sight, nodes: Nodes, reserving: Reserving, demand: PerShape[Demand], *, frees: bool
) -> Rehearsed | None:
    """Return what pods that leave or come make of the zones; None if no pod moves.

    `frees` says whether victims give anything back; promised pods take their share of every zone.
    """
    left: dict[int, list[Placed]] = {}
    came: dict[int, list[Placed]] = {}
    for placed, row in nodes.arrivals():
        came.setdefault(row, []).append(placed)
    if frees:
        for placed, row, sign in nodes.moves():
            if sign < 0:
                left.setdefault(row, []).append(placed)
    if not left and not came:
        return None
    changing = _Changing(sight)
    places = {row: place for place, row in enumerate(sight.table_rows().tolist())}
    for row, promised in came.items():
        if row in places:
            changing.take(places[row], (demand.of(placed) for placed in promised))
    refused = {text: np.zeros(sight.size, dtype=np.bool_) for text in (NOTHING_TO_ADD, TOO_MUCH)}
    for row, victims in left.items():
        book = reserving.books.get(victims[0].node)
        if row not in places or book is None:
            continue
        freed = freed_by(victims, book, demand)
        if freed is None:
            continue
        place = places[row]
        if not freed:
            refused[NOTHING_TO_ADD][place] = True
        else:
            changing.give(place, freed)
    refused[TOO_MUCH][changing.too_full()] = True
    return Rehearsed(sight.over(changing.matrices), refused)


class _Changing:
    """Copies of the matrices that a change touches."""

    def __init__(self, sight: Sight) -> None:
        self.matrices: dict[str, IntMatrix] = {}
        self._sight = sight
        self._ids = sight.layout_ids
        # By layout, the slot of each zone; by resource, (row, slot, amount) to be given.
        self._slots: dict[int, dict[int, int]] = {}
        self._given: dict[str, list[tuple[int, int, int]]] = {}
        # Rows whose zones nobody knows any more.
        self._unknown: list[int] = []

    def take(self, place: int, demands: Iterable[Demand]) -> None:
        """Deduct pods from every zone of a row."""
        for asked in demands:
            for name, amount in asked.whole:
                matrix = self._matrix(name) if amount else None
                if matrix is not None:
                    cells = matrix[place]
                    matrix[place] = np.where(cells >= 0, np.maximum(cells - amount, 0), cells)

    def give(self, place: int, freed: Freed) -> None:
        """Add amounts to zones of a row, once per row; `too_full` works out what comes of it."""
        number = int(self._ids[place])
        if number < 0:
            self._unknown.append(place)
            return
        slots = self._slots.get(number)
        if slots is None:
            ids = self._sight.layout(number).ids
            slots = self._slots[number] = {zone: slot for slot, zone in enumerate(ids)}
        for zone, amounts in freed.items():
            if zone in slots:
                slot = slots[zone]
                for name, amount in amounts.items():
                    self._given.setdefault(name, []).append((place, slot, amount))

    def too_full(self) -> list[int]:
        """Give what there is to give; return the rows where a zone would exceed what it can allocate."""
        rows = self._unknown
        for name, given in self._given.items():
            matrix, offered = self._matrix(name), self._sight.offered(name)
            if matrix is None or offered is None:
                continue
            places, slots, amounts = np.array(given, dtype=np.int64).T
            held = matrix[places, slots]
            more = np.where(held < 0, held, held + amounts)
            rows += places[more > offered[places, slots]].tolist()
            matrix[places, slots] = more
        return rows

    def _matrix(self, name: str) -> IntMatrix | None:
        if name not in self.matrices:
            free = self._sight.free(name)
            if free is None:
                return None
            self.matrices[name] = free.copy()
        return self.matrices[name]
