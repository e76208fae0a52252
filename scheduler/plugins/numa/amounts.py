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


class _Flags:
    """A flag for each resource and row, and on how many rows it is set."""

    def __init__(self) -> None:
        self._flags = np.zeros((0, 64), dtype=np.bool_)
        self._counts: list[int] = []

    def of(self, place: int) -> tuple[BoolColumn, int]:
        """Return the rows of a resource on which the flag is set, and their number."""
        return self._flags[place], self._counts[place]

    def write(self, row: int, places: Collection[int]) -> None:
        """Set the flag on one row for the resources at these places, and for no others."""
        for place, is_set in enumerate(self._flags[:, row].tolist()):
            if (place in places) != is_set:
                self._counts[place] += -1 if is_set else 1
                self._flags[place, row] = not is_set

    def grow(self, resources: int, rows: int) -> None:
        """Make room."""
        bigger = np.zeros((resources, rows), dtype=np.bool_)
        held, capacity = self._flags.shape
        bigger[:held, :capacity] = self._flags
        self._flags = bigger
        self._counts += [0] * (resources - held)


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
        # Where some zone lists a resource, and where every zone does.
        self._listed, self._complete = _Flags(), _Flags()
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
        return None if place is None else self._listed.of(place)

    def complete(self, resource: str) -> int:
        """Return on how many rows there are zones that all list the resource."""
        place = self._places.get(resource)
        return 0 if place is None else self._complete.of(place)[1]

    # Writing.

    def put(
        self, row: int, available: Mapping[str, Sequence[int]], most: Mapping[str, Sequence[int]]
    ) -> None:
        """Write what a node's zones hold now, and at most."""
        for name in available:
            if name not in self._places:
                self._places[name] = len(self._places)
        self.make_room(row + 1, max((len(one) for one in available.values()), default=0))
        listed = {self._places[name]: UNLISTED not in one for name, one in available.items()}
        self._listed.write(row, listed)
        self._complete.write(row, [place for place, is_complete in listed.items() if is_complete])
        for cells, amounts in ((self.given, available), (self.allocatable, most)):
            cells[:, row] = UNLISTED
            for name, values in amounts.items():
                cells[self._places[name], row, : len(values)] = values
        self._show([row], self.given[:, [row]])

    def clear(self, row: int) -> None:
        """Forget the amounts of a row."""
        self._listed.write(row, ())
        self._complete.write(row, ())
        self.given[:, row] = UNLISTED
        self.allocatable[:, row] = UNLISTED
        self._show([row], self.given[:, [row]])

    def deduct(
        self,
        rows: Sequence[int],
        taken: Sequence[Mapping[str, int]],
        freed: Mapping[int, tuple[Freed, Sequence[int]]],
    ) -> None:
        """Show what is left when every zone of each of `rows` has given its `taken` away, at least 0.

        `freed` is added before: by place in `rows` the amounts, as far as a zone can allocate them,
        and the numbers of the row's zones.
        """
        cells = self.given[:, rows]
        for at, (back, ids) in freed.items():
            for slot, number in enumerate(ids):
                for name, more in back.get(number, {}).items():
                    self._add(cells[:, at], name, slot, rows[at], more)
        less = np.array(
            [one.get(name, 0) for name in self._places for one in taken], dtype=np.int64
        )
        left = np.maximum(cells - less.reshape(len(cells), len(rows), 1), 0)
        self._show(rows, np.where(cells >= 0, left, UNLISTED))

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
        self._listed.grow(*shape[:2])
        self._complete.grow(*shape[:2])

    def _add(self, cells: IntMatrix, name: str, slot: int, row: int, more: int) -> None:
        place = self._places.get(name)
        if place is None or cells[place, slot] < 0:
            return
        most = self.allocatable[place, row, slot]
        cells[place, slot] = max(cells[place, slot], min(cells[place, slot] + more, most))

    def _show(self, rows: Sequence[int], cells: IntMatrix) -> None:
        if self.available is not self.given:
            self.available[:, rows] = cells
        self._rounded[:, rows] = _rounded_down(cells)


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
