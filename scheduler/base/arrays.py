"""Names for the column types, so that a signature says what a column holds.

A column has one entry per row of the node table. Rows are int32 indices into it.
"""

from __future__ import annotations

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
