"""Sets of names that nodes report, such as declared features: each distinct set is checked once."""

import numpy as np

from scheduler.base.arrays import BoolColumn
from scheduler.state.columns import Column


class FeatureIndex:
    """The declared features, or conditions, of each node; written by `NodeTable` alone."""

    def __init__(self) -> None:
        self._sets: list[frozenset[str]] = [frozenset()]
        self._id_of: dict[frozenset[str], int] = {frozenset(): 0}
        self._ids: Column[np.int32] = Column(np.int32)

    def set(self, row: int, features: tuple[str, ...]) -> None:
        """Write the features of one row; `()` clears it."""
        wanted = frozenset(features)
        identity = self._id_of.setdefault(wanted, len(self._sets))
        if identity == len(self._sets):
            self._sets.append(wanted)
        if row >= len(self._ids.values) or self._ids.values[row] != identity:
            self._ids.grow(row + 1)
            self._ids.set(row, identity)

    def declared(self, features: frozenset[str]) -> BoolColumn:
        """Return the rows that declare all of `features`."""
        verdicts = np.array([features <= own for own in self._sets], dtype=np.bool_)
        rows: BoolColumn = verdicts[self._ids.values]
        return rows

    def reported(self, words: frozenset[str]) -> BoolColumn:
        """Return the rows that report any of `words`."""
        verdicts = np.array([not words.isdisjoint(own) for own in self._sets], dtype=np.bool_)
        rows: BoolColumn = verdicts[self._ids.values]
        return rows
