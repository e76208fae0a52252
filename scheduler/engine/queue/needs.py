"""`Needs`: the minimum requests of waiting pods by kind, in columns, so that one comparison covers
all kinds.

A tenant can create a hundred thousand pending pods that all differ a little; to call a hint for
each of them whenever a pod ends took the engine a tenth of a second. Used by `engine.queue.hints`
alone; its plugins define what counts.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np

# Pods can name any number of resources; those above this limit are not compared here.
MOST_NAMES = 32
# No amount is larger, and no need is as large.
UNBOUNDED = 2**63 - 1
# (the minimum priority it applies to, the upper bound of each name's free amount; 0 for other
# names)
Chance = tuple[int, Mapping[str, int]]


class Needs:
    """One row per kind of pod: its priority and its needs by name; rows of absent kinds are
    reused.
    """

    def __init__(self) -> None:
        self._rows: dict[Hashable, int] = {}
        self._kinds: list[Hashable | None] = []
        self._free: list[int] = []
        self._names: dict[str, int] = {}
        self._priorities = np.zeros(0, dtype=np.int64)
        self._amounts = np.zeros((MOST_NAMES, 0), dtype=np.int64)

    @property
    def names(self) -> Iterable[str]:
        """Return the names of the compared amounts."""
        return self._names.keys()

    def add(self, kind: Hashable, priority: int, needed: Iterable[tuple[str, int]]) -> None:
        """Add a new kind; names beyond `MOST_NAMES` are left out."""
        row = self._free.pop() if self._free else self._another_row()
        self._rows[kind] = row
        self._kinds[row] = kind
        self._priorities[row] = priority
        for name, amount in needed:
            column = self._names.get(name)
            if column is None:
                if len(self._names) == MOST_NAMES:
                    continue
                column = self._names[name] = len(self._names)
            self._amounts[column, row] = min(amount, UNBOUNDED)

    def drop(self, kind: Hashable) -> None:
        """Remove a kind."""
        row = self._rows.pop(kind)
        self._kinds[row] = None
        self._amounts[:, row] = 0
        self._free.append(row)

    def within(self, chances: Sequence[Chance]) -> list[Hashable]:
        """Return the kinds of pods whose requests fit a chance that their priority may use."""
        size, columns = len(self._kinds), len(self._names)
        found = np.zeros(size, dtype=np.bool_)
        amounts = self._amounts[:columns, :size]
        for least, most in chances:
            bounds = [[min(most.get(name, 0), UNBOUNDED)] for name in self._names]
            fits = (amounts <= np.array(bounds, dtype=np.int64).reshape(columns, 1)).all(axis=0)
            found |= fits & (self._priorities[:size] >= least)
        kinds = (self._kinds[row] for row in np.flatnonzero(found).tolist())
        return [kind for kind in kinds if kind is not None]

    def _another_row(self) -> int:
        row = len(self._kinds)
        if row == len(self._priorities):
            more = max(64, row)
            self._priorities = np.concatenate((self._priorities, np.zeros(more, dtype=np.int64)))
            self._amounts = np.hstack((self._amounts, np.zeros((MOST_NAMES, more), dtype=np.int64)))
        self._kinds.append(None)
        return row
