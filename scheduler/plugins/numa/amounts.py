"""`ZoneAmounts`: the amounts in the zones of all nodes, as arrays [resource, row, slot] of
thousandths.

`UNLISTED` marks a missing zone or one that does not list the resource. Beside the exact available
amounts there are levels in 16 bits, 1,024 for each power of two, which take a quarter of the time
to compare. A higher level means a larger amount, so only cells with the same level as an amount may
need an exact comparison, and not even these if no smaller amount has that level. That is the case
for whole CPUs, devices and nearly all common sizes; of any other amount few cells share the level.
The slots of a row are adjacent, 2, 4, 8 or a multiple of 8 of them: eight flags are one machine
word, and one comparison finds whether any of them is set.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from math import frexp
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduler.framework import BoolColumn, IntMatrix
from scheduler.plugins.numa.zones import UNLISTED

ScalarT = TypeVar("ScalarT", np.int64, np.uint16)
Levels = NDArray[np.uint16]

# zone number → resource → thousandths
Freed = Mapping[int, Mapping[str, int]]

# A level is the exponent and the first ten of the other 52 binary digits of a float64, minus that
# of the smallest amount, a thousandth; the levels of 0 and of UNLISTED are below it.
_DIGITS = 10
_DROPPED_BITS = 52 - _DIGITS
_ZERO_LEVEL = 1
_BELOW = int(np.float64(0.001).view(np.int64) >> _DROPPED_BITS) - _ZERO_LEVEL - 1
_FIRST = (1021 << _DIGITS) - _BELOW
_FULL = float(2 << _DIGITS)
# Up to here the quotients of an amount and of the next differ by more than the rounding error.
_LARGEST = 2**50
_WORDS = {2: np.uint16, 4: np.uint32}


# The zones of all rows that satisfy a condition, [row, slot], with all allocated slots.
ZoneFlags = NDArray[np.bool_]
Pair = tuple[ZoneFlags | None, ZoneFlags | None]


def any_zone(zones: ZoneFlags) -> BoolColumn:
    """Return the rows on which a zone is set."""
    return ~no_zone(zones)


def no_zone(zones: ZoneFlags) -> BoolColumn:
    """Return the rows on which no zone is set."""
    size, slots = zones.shape
    words = zones.reshape(-1).view(_WORDS.get(slots, np.uint64))
    if len(words) == size:
        alone: BoolColumn = words == 0
        return alone
    first, *others = words.reshape(size, -1).T
    none: BoolColumn = first == 0
    for more in others:
        none &= more == 0
    return none


class Scratch:
    """Two scratch matrices [row, slot]: allocating new ones takes longer than computing their
    values.
    """

    def __init__(self) -> None:
        self._shape = (0, 0)
        self._pair: Pair = (None, None)

    def of(self, rows: int, slots: int) -> Pair:
        """Return the two matrices, uninitialised."""
        if self._shape != (rows, slots):
            self._shape = (rows, slots)
            self._pair = np.zeros(self._shape, np.bool_), np.zeros(self._shape, np.bool_)
        return self._pair


class _Flags:
    """A flag for each resource and row, and on how many rows it is set."""

    def __init__(self) -> None:
        self._flags = np.zeros((0, 64), dtype=np.bool_)
        self._counts: list[int] = []

    def of(self, place: int) -> tuple[BoolColumn, int]:
        """Return the rows of a resource on which the flag is set, and their number."""
        return self._flags[place], self._counts[place]

    def write(self, row: int, places: Collection[int]) -> None:
        """Set the flag on one row for the resources at these positions, and clear all others."""
        for place, is_set in enumerate(self._flags[:, row].tolist()):
            if (place in places) != is_set:
                self._counts[place] += -1 if is_set else 1
                self._flags[place, row] = not is_set

    def grow(self, resources: int, rows: int) -> None:
        """Grow the arrays."""
        bigger = np.zeros((resources, rows), dtype=np.bool_)
        used, capacity = self._flags.shape
        bigger[:used, :capacity] = self._flags
        self._flags = bigger
        self._counts += [0] * (resources - used)


class ZoneAmounts:
    """The amounts by resource; one row per node.

    With `deducts`, available amounts can be less than `given`, and are set by `deduct`.
    """

    def __init__(self, *, deducts: bool) -> None:
        self.slots = 2
        self.given = _unlisted(0, 64, self.slots)
        self.available = self.given.copy() if deducts else self.given
        self.allocatable = self.given.copy()
        self._levels = levels_of(self.given)
        # Where some zone lists a resource, and where every zone does.
        self._listed, self._complete = _Flags(), _Flags()
        self._places: dict[str, int] = {}

    # Reading: matrices [row, slot] over all allocated rows, None if the resource was never listed.

    @property
    def names(self) -> Sequence[str]:
        """Return the resources that were ever listed, in the order of the arrays."""
        return tuple(self._places)

    def of(self, cells: IntMatrix, resource: str) -> IntMatrix | None:
        """Return the part of `given`, `available` or `allocatable` for one resource."""
        place = self._places.get(resource)
        matrix: IntMatrix | None = None if place is None else cells[place]
        return matrix

    def levels(self, resource: str, rows: int) -> Levels | None:
        """Return the levels of the available amounts of one resource, for this number of rows."""
        place = self._places.get(resource)
        return None if place is None else self._levels[place, :rows]

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
        """Write the available and allocatable amounts of a node's zones."""
        for name in available:
            if name not in self._places:
                self._places[name] = len(self._places)
        self.reserve_space(row + 1, max((len(one) for one in available.values()), default=0))
        listed = {self._places[name]: UNLISTED not in one for name, one in available.items()}
        self._listed.write(row, listed)
        self._complete.write(row, [place for place, is_complete in listed.items() if is_complete])
        for cells, amounts in ((self.given, available), (self.allocatable, most)):
            cells[:, row] = UNLISTED
            for name, values in amounts.items():
                cells[self._places[name], row, : len(values)] = values
        if self.available is self.given:
            self._show(row, self.given[:, row])

    def clear(self, row: int) -> None:
        """Clear the amounts of a row."""
        self._listed.write(row, ())
        self._complete.write(row, ())
        self.given[:, row] = UNLISTED
        self.allocatable[:, row] = UNLISTED
        self._show(row, self.given[:, row])

    def deduct(
        self,
        rows: Sequence[int],
        taken: Sequence[Mapping[str, int]],
        freed: Mapping[int, tuple[Freed, Sequence[int]]],
    ) -> None:
        """Deduct `taken`, one mapping per row, from every zone of the rows, but not below 0.

        Amounts in `freed` are added first, up to the zone's allocatable. Its keys are indexes into
        `rows`, its values the freed amounts and the numbers of the row's zones.
        """
        # Usually it is one row, and a number is faster than a list.
        some = rows if len(rows) > 1 else rows[0]
        cells: IntMatrix = self.given[:, some]
        if freed:
            cells = np.array(cells)
        for at, (back, ids) in freed.items():
            there = cells if len(rows) == 1 else cells[:, at]
            for slot, number in enumerate(ids):
                for name, more in back.get(number, {}).items():
                    self._add(there, name, slot, rows[at], more)
        less = np.array(
            [one.get(name, 0) for name in self._places for one in taken], dtype=np.int64
        )
        # Unlisted amounts are below 0, and stay so.
        left = cells - less.reshape(*cells.shape[:-1], 1)
        self._show(some, np.maximum(left, np.minimum(cells, 0)))

    def reserve_space(self, rows: int, slots: int = 0) -> None:
        """Grow for the known resources, and to `rows` rows of `slots` zones."""
        used, capacity, _ = self.given.shape
        if len(self._places) <= used and slots <= self.slots and rows <= capacity:
            return
        while self.slots < slots:
            self.slots += min(self.slots, 8)
        if rows > capacity:
            rows = max(rows, 2 * capacity)
        shape = (len(self._places), max(rows, capacity), self.slots)
        deducts = self.available is not self.given
        self.given = _grown(self.given, shape, UNLISTED)
        self.available = _grown(self.available, shape, UNLISTED) if deducts else self.given
        self.allocatable = _grown(self.allocatable, shape, UNLISTED)
        self._levels = _grown(self._levels, shape, 0)
        self._listed.grow(*shape[:2])
        self._complete.grow(*shape[:2])

    def _add(self, cells: IntMatrix, name: str, slot: int, row: int, more: int) -> None:
        place = self._places.get(name)
        if place is None or cells[place, slot] < 0:
            return
        most = self.allocatable[place, row, slot]
        cells[place, slot] = max(cells[place, slot], min(cells[place, slot] + more, most))

    def _show(self, rows: Sequence[int] | int, cells: IntMatrix) -> None:
        if self.available is not self.given:
            self.available[:, rows] = cells
        self._levels[:, rows] = levels_of(cells)


@lru_cache(maxsize=4096)
def level_of(amount: int) -> tuple[int, bool]:
    """Return the level of one amount, and whether no smaller amount has the same level."""
    if amount <= 0:
        return amount + _ZERO_LEVEL, True
    part, exponent = frexp(amount / 1000.0)
    # Eleven digits before the point; the first is always 1, and is not stored.
    digits = part * _FULL
    whole = int(digits)
    return (exponent << _DIGITS) + whole + _FIRST, whole == digits and amount < _LARGEST


def levels_of(cells: IntMatrix) -> Levels:
    """Return the levels of amounts."""
    bits = (cells / 1000.0).view(np.int64) >> _DROPPED_BITS
    low = np.minimum(cells, 0) + _ZERO_LEVEL
    levels: Levels = np.maximum(bits - _BELOW, low).astype(np.uint16)
    return levels


def _grown(cells: NDArray[ScalarT], shape: tuple[int, int, int], fill: int) -> NDArray[ScalarT]:
    bigger = np.full(shape, fill, dtype=cells.dtype)
    resources, rows, slots = cells.shape
    bigger[:resources, :rows, :slots] = cells
    return bigger


def _unlisted(resources: int, rows: int, slots: int) -> IntMatrix:
    return np.full((resources, rows, slots), UNLISTED, dtype=np.int64)
