"""`Amounts`: what the zones of all nodes hold, as arrays [resource, row, slot] of thousandths.

`UNLISTED` stands where there is no such zone or it does not list the resource. Beside the exact
amounts available stand the same rounded down to the digits of a float32: they take a third of the time
to compare, and lie on the same side of every number that has no more digits. Whole CPUs, devices
and nearly all sizes that people write are such numbers; for the others there are the exact ones.
The slots of a row lie side by side, 2, 4, 8 or a multiple of 8 of them: eight flags are one machine
word, and whether any of them is set is one comparison.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduler.base.arrays import BoolColumn, IntMatrix
from scheduler.plugins.numa.zones import UNLISTED

ScalarT = TypeVar("ScalarT", np.int64, np.float32)

# zone number → resource → thousandths
Freed = Mapping[int, Mapping[str, int]]

_DIGITS = 24
# Up to here a float64 holds every whole number; its last 29 digits are those that a float32 lacks.
_LARGEST = 2**53
_KEPT_BITS = -(2**29)
_WORDS = {2: np.uint16, 4: np.uint32}


# The zones of all rows that serve a purpose, [row, slot], with all slots that there is room for.
ZoneFlags = NDArray[np.bool_]


def any_zone(zones: ZoneFlags) -> BoolColumn:
    """Return the rows on which a zone is set."""
    first, *others = zones.view(_WORDS.get(zones.shape[1], np.uint64)).T
    found: BoolColumn = first != 0
    for more in others:
        found |= more != 0
    return found


class Amounts:
    """The amounts by resource; one row per node.

    With `deducts`, what is available can be less than what was `given`.
    """

    def __init__(self, *, deducts: bool) -> None:
        self.slots = 2
        self.given = _unlisted(0, 64, self.slots)
        self.available = self.given.copy() if deducts else self.given
        self.allocatable = self.given.copy()
        self._rounded = self.given.astype(np.float32)
        self._listed = np.zeros((0, 64), dtype=np.bool_)
        self._counts: list[int] = []
        self._places: dict[str, int] = {}

    # Reading: matrices [row, slot] over all rows that there is room for, None if nobody ever listed.

    @property
    def names(self) -> Sequence[str]:
        """Return the resources that were ever listed, in the order of the arrays."""
        return tuple(self._places)

    def of(self, cells: IntMatrix, resource: str) -> IntMatrix | None:
        """Return the part of `given`, `available` or `allocatable` that is about one resource."""
        place = self._places.get(resource)
        matrix: IntMatrix | None = None if place is None else cells[place]
        return matrix

    def comparable(self, resource: str, amount: int) -> NDArray[np.float32] | IntMatrix | None:
        """Return what compares with `amount` as what is available does, in the quickest form."""
        place = self._places.get(resource)
        if place is None:
            return None
        cells: NDArray[np.float32] | IntMatrix
        cells = self._rounded[place] if _is_short(amount) else self.available[place]
        return cells

    def listed(self, resource: str) -> tuple[BoolColumn, int] | None:
        """Return the rows on which some zone lists the resource, and their number."""
        place = self._places.get(resource)
        return None if place is None else (self._listed[place], self._counts[place])

    # Writing.

    def put(
        self, row: int, available: Mapping[str, Sequence[int]], most: Mapping[str, Sequence[int]]
    ) -> None:
        """Write what a node's zones hold now, and at most."""
        for name in available:
            if name not in self._places:
                self._places[name] = len(self._places)
                self._counts.append(0)
        self.make_room(row + 1, max((len(one) for one in available.values()), default=0))
        self._list(row, available)
        for cells, amounts in ((self.given, available), (self.allocatable, most)):
            cells[:, row] = UNLISTED
            for name, values in amounts.items():
                cells[self._places[name], row, : len(values)] = values
        self._show(row, self.given[:, row])

    def clear(self, row: int) -> None:
        """Forget the amounts of a row."""
        self._list(row, ())
        self.given[:, row] = UNLISTED
        self.allocatable[:, row] = UNLISTED
        self._show(row, self.given[:, row])

    def deduct(
        self, row: int, taken: Mapping[str, int], freed: Freed | None, ids: Sequence[int]
    ) -> None:
        """Show what is left when every zone has given `taken` away, at least 0.

        `freed` is added before, zone by zone (`ids` are their numbers), as far as the zone can
        allocate it.
        """
        cells = self.given[:, row]
        if freed:
            cells = cells.copy()
            for slot, number in enumerate(ids):
                for name, more in freed.get(number, {}).items():
                    self._add(cells, name, slot, row, more)
        less = np.zeros((len(cells), 1), dtype=np.int64)
        for name, amount in taken.items():
            place = self._places.get(name)
            if place is not None:
                less[place] = amount
        self._show(row, np.where(cells >= 0, np.maximum(cells - less, 0), UNLISTED))

    def make_room(self, rows: int, slots: int = 0) -> None:
        """Make room for the resources known, and for `rows` rows of `slots` zones."""
        held, capacity, _ = self.given.shape
        if len(self._places) <= held and slots <= self.slots and rows <= capacity:
            return
        while self.slots < slots:
            self.slots += min(self.slots, 8)
        if rows > capacity:
            rows = max(rows, 2 * capacity)
        shape = (len(self._places), max(rows, capacity), self.slots)
        deducts = self.available is not self.given
        self.given = _grown(self.given, shape)
        self.available = _grown(self.available, shape) if deducts else self.given
        self.allocatable = _grown(self.allocatable, shape)
        self._rounded = _grown(self._rounded, shape)
        listed = np.zeros(shape[:2], dtype=np.bool_)
        listed[:held, :capacity] = self._listed
        self._listed = listed

    def _add(self, cells: IntMatrix, name: str, slot: int, row: int, more: int) -> None:
        place = self._places.get(name)
        if place is None or cells[place, slot] < 0:
            return
        most = self.allocatable[place, row, slot]
        cells[place, slot] = max(cells[place, slot], min(cells[place, slot] + more, most))

    def _list(self, row: int, names: Collection[str]) -> None:
        for name, place in self._places.items():
            is_listed = name in names
            self._counts[place] += is_listed - int(self._listed[place, row])
            self._listed[place, row] = is_listed

    def _show(self, row: int, cells: IntMatrix) -> None:
        if self.available is not self.given:
            self.available[:, row] = cells
        self._rounded[:, row] = _rounded_down(cells)


def _is_short(amount: int) -> bool:
    """Whether an amount that is not negative has no more digits than a float32."""
    lowest_digit = amount & -amount
    return amount == 0 or (amount <= _LARGEST and lowest_digit << _DIGITS > amount)


def _rounded_down(cells: IntMatrix) -> NDArray[np.float64]:
    """Cut amounts to the digits of a float32; beyond `_LARGEST` they may be rounded up, to a float64."""
    bits = cells.astype(np.float64).view(np.int64) & _KEPT_BITS
    return bits.view(np.float64)


def _grown(cells: NDArray[ScalarT], shape: tuple[int, int, int]) -> NDArray[ScalarT]:
    bigger = np.full(shape, UNLISTED, dtype=cells.dtype)
    resources, rows, slots = cells.shape
    bigger[:resources, :rows, :slots] = cells
    return bigger


def _unlisted(resources: int, rows: int, slots: int) -> IntMatrix:
    return np.full((resources, rows, slots), UNLISTED, dtype=np.int64)
