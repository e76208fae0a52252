"""`LoadColumns`: the columns of a tracker as a few arrays that grow; a row is written with one
assignment per array.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.framework import BoolColumn, FloatColumn, IntMatrix
from scheduler.plugins.loadaware.limits import UNLIMITED
from scheduler.plugins.loadaware.nodeload import Weight
from scheduler.plugins.loadaware.report import NEVER
from scheduler.plugins.loadaware.scoring import Numbers

_FIRST_CAPACITY = 64
_GROUPS = 5  # node_room, prod_room, node_free, prod_free, divisors
_FLAGS = 5
# 100 * x / y in float64, rounded down, is exact while 101 * y stays below 2**53.
_LARGEST_EXACT = 2**53 // 101


class Headrooms(msgspec.Struct, frozen=True):
    """Headroom of one node for a pod of the node's own class or a production pod, by resource."""

    node: list[int]
    prod: list[int]
    updated: float

    def fits(self, weight: Weight) -> bool:
        """Return whether a pod breaks no threshold."""
        headrooms = self.prod if weight.is_prod else self.node
        return all(n < headroom for n, headroom in zip(weight.estimate, headrooms, strict=True))


class LoadColumns:
    """The load data of all nodes: amounts [group and resource, row], flags [flag, row], and the
    time of each row's report.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._empty = (UNLIMITED,) * (2 * width) + (-1,) * (2 * width) + (1,) * width
        self._size = 0
        self._is_exact = True
        self._allocate(_FIRST_CAPACITY)

    def _allocate(self, capacity: int) -> None:
        self._amounts: NDArray[np.int64] = np.empty(
            (_GROUPS * self._width, capacity), dtype=np.int64
        )
        self._amounts[:] = np.array(self._empty, dtype=np.int64)[:, None]
        self._flags: NDArray[np.bool_] = np.zeros((_FLAGS, capacity), dtype=np.bool_)
        self._updated: NDArray[np.float64] = np.full(capacity, NEVER)
        self._floats: NDArray[np.float64] = np.ones((self._width, capacity))
        self._view()

    def _view(self) -> None:
        size, width = self._size, self._width
        groups = [self._amounts[i * width : (i + 1) * width, :size] for i in range(_GROUPS)]
        self.node_headroom: IntMatrix
        self.prod_headroom: IntMatrix
        self.node_free: IntMatrix
        self.prod_free: IntMatrix
        divisors: IntMatrix
        self.node_headroom, self.prod_headroom, self.node_free, self.prod_free, divisors = groups
        # The amounts that percentages refer to, at least 1: floats, if dividing by them is exact.
        self.divisors: Numbers = divisors
        if self._is_exact:
            self.divisors = self._floats[:, :size]
        flags = [self._flags[i, :size] for i in range(_FLAGS)]
        self.node_checked: BoolColumn
        self.prod_checked: BoolColumn
        self.node_aggregated: BoolColumn
        self.prod_aggregated: BoolColumn
        self.measured: BoolColumn
        (
            self.node_checked,
            self.prod_checked,
            self.node_aggregated,
            self.prod_aggregated,
            self.measured,
        ) = flags
        self.updated: FloatColumn = self._updated[:size]

    def grow(self, size: int) -> None:
        """Allocate columns for `size` rows."""
        if size <= self._size:
            return
        capacity = self._amounts.shape[1]
        if size > capacity:
            before, old = (self._amounts, self._flags, self._updated, self._floats), self._size
            self._size = size
            self._allocate(max(size, 2 * capacity))
            self._amounts[:, :old] = before[0][:, :old]
            self._flags[:, :old] = before[1][:, :old]
            self._updated[:old] = before[2][:old]
            self._floats[:, :old] = before[3][:, :old]
        self._size = size
        self._view()

    def clear(self, row: int) -> None:
        """Put a row back to that of a node without report."""
        self._amounts[:, row] = self._empty
        self._floats[:, row] = 1
        self._flags[:, row] = False
        self._updated[row] = NEVER

    def write(
        self,
        row: int,
        headrooms: Headrooms,
        *,
        node_free: Sequence[int],
        prod_free: Sequence[int],
        flags: tuple[bool, ...],
    ) -> None:
        """Write a row except its divisors."""
        values = (*headrooms.node, *headrooms.prod, *node_free, *prod_free)
        self._amounts[: len(values), row] = values
        self._flags[:, row] = flags
        self._updated[row] = headrooms.updated

    def offer(self, row: int, amounts: Sequence[int]) -> None:
        """Write the amounts that a row's percentages refer to."""
        divisors = [max(amount, 1) for amount in amounts]
        self._amounts[-self._width :, row] = divisors
        self._floats[:, row] = divisors
        if self._is_exact and max(divisors, default=1) > _LARGEST_EXACT:
            self._is_exact = False
            self._view()

    def cells(self, row: int) -> list[Any]:
        """Return all cells of a row."""
        amounts: list[Any] = self._amounts[:, row].tolist()
        return [*amounts, *self._flags[:, row].tolist(), float(self._updated[row])]
