"""Aliases of column types for signatures, and helpers on columns.

A column has one entry per row of the node table. Rows are int32 indices into it.
"""

from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

BoolColumn: TypeAlias = NDArray[np.bool_]
IntColumn: TypeAlias = NDArray[np.int64]
IdColumn: TypeAlias = NDArray[np.int32]
FloatColumn: TypeAlias = NDArray[np.float64]
HashColumn: TypeAlias = NDArray[np.uint64]
ObjectColumn: TypeAlias = NDArray[np.object_]
Rows: TypeAlias = NDArray[np.intp]
IntMatrix: TypeAlias = NDArray[np.int64]
FloatMatrix: TypeAlias = NDArray[np.float64]


def is_any(rows: BoolColumn) -> bool:
    """Return whether any entry is set.

    Searching for a byte takes a third of the time of numpy's count.
    """
    return 1 in rows.tobytes()


@lru_cache(maxsize=64)
def no_rows(size: int) -> BoolColumn:
    """Return a read-only boolean column of `size` entries, all False."""
    column = np.zeros(size, dtype=np.bool_)
    column.flags.writeable = False
    return column


def lower_of(one: IntColumn, other: IntColumn) -> IntColumn:
    """Return the lower entry of each row of two columns.

    If one column is longer (it was made after nodes joined), the additional rows keep its entries.
    """
    short, long = sorted((one, other), key=len)
    return np.concatenate((np.minimum(short, long[: len(short)]), long[len(short) :]))
