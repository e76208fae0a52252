"""Node taints: distinct sets of taints get an id, so that tolerations are checked once per set."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from scheduler.base.arrays import IdColumn, IntColumn
from scheduler.objects.node import Taint
from scheduler.objects.pod import Toleration
from scheduler.state.columns import Column

TaintSet = tuple[Taint, ...]


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether one toleration matches one taint (operators Exists and Equal)."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and (
        bool(toleration.key) and toleration.value == taint.value
    )


def is_tolerated(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    """Whether any toleration matches the taint."""
    return any(tolerates(toleration, taint) for toleration in tolerations)


class TaintIndex:
    """The taint set of each node; written by `NodeTable` alone."""

    def __init__(self) -> None:
        self.sets: list[TaintSet] = [()]
        self._id_of: dict[TaintSet, int] = {(): 0}
        self._ids: Column[np.int32] = Column(np.int32)

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
        self._ids.grow(row + 1)
        identity = self._id_of.setdefault(taints, len(self.sets))
        if identity == len(self.sets):
            self.sets.append(taints)
        self._ids.set(row, identity)

    def count(self, measure: Callable[[TaintSet], int]) -> IntColumn:
        """Return `measure` of each row's taint set, called once per distinct set."""
        return np.array([measure(s) for s in self.sets], dtype=np.int64)[self.ids]

    def copy(self) -> TaintIndex:
        """Return an independent copy."""
        twin = TaintIndex()
        twin.sets, twin._id_of = list(self.sets), dict(self._id_of)
        twin._ids = self._ids.copy()
        return twin
