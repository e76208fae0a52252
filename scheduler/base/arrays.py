"""Names for the column types, so that a signature says what a column holds; `is_any` and `no_rows`.

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


def is_any(rows: BoolColumn) -> bool:
    """Whether any entry is set; to look for a byte takes a third of the time that numpy takes to count."""
    return 1 in rows.tobytes()


@lru_cache(maxsize=64)
def no_rows(size: int) -> BoolColumn:
    """Return a read-only column in which nothing is set."""
    column = np.zeros(size, dtype=np.bool_)
    column.flags.writeable = False
    return column
