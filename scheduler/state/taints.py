"""Node taints: distinct sets of taints get an id, so that tolerations are checked once per set."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduler.base.arrays import BoolColumn, IdColumn, IntColumn
from scheduler.objects.node import Taint
from scheduler.objects.pod import Toleration
from scheduler.objects.selectors import value_matches
from scheduler.state.columns import Column

TaintSet = tuple[Taint, ...]

_MOST_COLUMNS = 256


def tolerates(toleration: Toleration, taint: Taint, *, compares: bool = False) -> bool:
    """Return whether one toleration matches one taint (operators Exists and Equal).

    `compares` enables Gt and Lt, which compare the taint's value with the toleration's as integers.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    if compares and toleration.operator in ("Gt", "Lt"):
        return value_matches(toleration.operator, (toleration.value,), taint.value)
    return toleration.operator in ("", "Equal") and (
        bool(toleration.key) and toleration.value == taint.value
    )


def is_tolerated(
    tolerations: Sequence[Toleration], taint: Taint, *, compares: bool = False
) -> bool:
    """Return whether any toleration matches the taint; `compares` as for `tolerates`."""
    return any(tolerates(toleration, taint, compares=compares) for toleration in tolerations)


class TaintIndex:
    """The taint set of each node; written by `NodeTable` alone."""

    def __init__(self) -> None:
        self.sets: list[TaintSet] = [()]
        self._id_of: dict[TaintSet, int] = {(): 0}
        self._ids: Column[np.int32] = Column(np.int32)
        self._columns: dict[tuple[str, tuple[int, ...]], tuple[int, NDArray[Any]]] = {}

    @property
    def ids(self) -> IdColumn:
        """Return the taint-set id of each row; 0 is "no taints"."""
        return self._ids.values

    @property
    def generation(self) -> int:
        """Return a number that moves with every change."""
        return self._ids.generation

    def set(self, row: int, taints: TaintSet) -> None:
        """Write the taints of one row."""
        identity = self._id_of.setdefault(taints, len(self.sets))
        if identity == len(self.sets):
            self.sets.append(taints)
        # Nodes are written again with every heartbeat; unchanged taints keep their cached columns.
        if row >= len(self.ids) or self.ids[row] != identity:
            self._ids.grow(row + 1)
            self._ids.set(row, identity)

    def flags(self, per_set: tuple[bool, ...]) -> BoolColumn:
        """Return each row's entry of `per_set` (one flag per known set), read-only and cached."""
        return self._column("?", per_set)

    def numbers(self, per_set: tuple[int, ...]) -> IntColumn:
        """Return each row's entry of `per_set` (one number per known set), read-only and cached."""
        return self._column("q", per_set)

    def _column(self, dtype: str, per_set: tuple[int, ...]) -> NDArray[Any]:
        key = (dtype, per_set)
        cached = self._columns.get(key)
        if cached is not None and cached[0] == self.generation:
            return cached[1]
        column = np.array(per_set, dtype=dtype).take(self.ids)
        column.flags.writeable = False
        if cached is None and len(self._columns) >= _MOST_COLUMNS:
            self._columns.pop(next(iter(self._columns)))
        self._columns[key] = (self.generation, column)
        return column
