"""Growing arrays: the raw material of the node table.

Rows are appended by doubling, never moved; unused rows hold the fill value.
"""

from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

ScalarT = TypeVar("ScalarT", bound=np.generic)

FIRST_CAPACITY = 64


class Column(Generic[ScalarT]):
    """One growing column; `generation` moves with every write.

    `values` are all rows as a view; readers must not write to it.
    """

    __slots__ = ("_data", "_fill", "_size", "generation", "values")

    def __init__(self, dtype: DTypeLike, fill: object = 0, size: int = 0) -> None:
        capacity = FIRST_CAPACITY
        while capacity < size:
            capacity *= 2
        self._data: NDArray[ScalarT] = _filled(capacity, fill, dtype)
        self._fill = fill
        self._size = size
        self.values: NDArray[ScalarT] = self._data[:size]
        self.generation = 0

    def grow(self, size: int) -> None:
        """Allocate capacity for `size` rows."""
        if size > len(self._data):
            bigger = _filled(max(size, 2 * len(self._data)), self._fill, self._data.dtype)
            bigger[: self._size] = self._data[: self._size]
            self._data = bigger
        if size > self._size:
            self._size = size
            self.values = self._data[:size]

    def set(self, row: int, value: Any) -> None:
        """Write one cell."""
        self._data[row] = value
        self.generation += 1

    def add(self, row: int, amount: int) -> None:
        """Add to one cell."""
        self._data[row] += amount
        self.generation += 1

    def clear(self, row: int) -> None:
        """Reset one cell to the fill value."""
        self.set(row, self._fill)

    def copy(self) -> "Column[ScalarT]":
        """Return an independent copy."""
        twin: Column[ScalarT] = Column(self._data.dtype, self._fill, 0)
        twin._data = self._data.copy()
        twin._size = self._size
        twin.values = twin._data[: self._size]
        twin.generation = self.generation
        return twin


def _filled(size: int, fill: object, dtype: DTypeLike) -> NDArray[Any]:
    # A small simulation makes some thirty columns, nearly all of zeros.
    return np.full(size, fill, dtype=dtype) if fill else np.zeros(size, dtype=dtype)
