"""Node labels as columns: per key an int32 id of the value on each row, -1 where it is missing.

A key gets its column at its first use. Selector masks are computed over the distinct values of a
key and cached until the column's generation moves.
"""

from collections.abc import Mapping

import numpy as np

from scheduler.base.arrays import BoolColumn, IdColumn, IntColumn
from scheduler.objects.pod import NodeSelectorRequirement
from scheduler.objects.selectors import parse_int, value_matches
from scheduler.state.columns import Column
from scheduler.state.domains import Domains, domains_of

MISSING = -1
_MOST_MASKS = 4096

_Key = tuple[str, str, tuple[str, ...]]


class LabelColumn:
    """The values of one label key; `values[id]` is the text of an id."""

    def __init__(self, key: str, size: int) -> None:
        self.key = key
        self.values: list[str] = []
        self._id_of: dict[str, int] = {}
        self._ids: Column[np.int32] = Column(np.int32, MISSING, size)

    @property
    def generation(self) -> int:
        """Return a number that moves with every change."""
        return self._ids.generation

    @property
    def ids(self) -> IdColumn:
        """Return the value id of each row, -1 where the label is missing."""
        return self._ids.values

    def id_of(self, value: str) -> int:
        """Return the id of a value, or -2 if no node ever had it."""
        return self._id_of.get(value, MISSING - 1)

    def set(self, row: int, value: str | None, size: int) -> None:
        """Write the value of one row."""
        self._ids.grow(size)
        if value is None:
            self._ids.set(row, MISSING)
            return
        identity = self._id_of.setdefault(value, len(self.values))
        if identity == len(self.values):
            self.values.append(value)
        self._ids.set(row, identity)


class LabelIndex:
    """The labels of all nodes; written by `NodeTable` alone."""

    def __init__(self) -> None:
        self._labels: list[Mapping[str, str]] = []
        self._columns: dict[str, LabelColumn] = {}
        self._masks: dict[_Key, tuple[int, BoolColumn]] = {}
        self._integers: dict[tuple[str, int], tuple[int, IntColumn]] = {}
        self._domains: dict[str, tuple[int, Domains]] = {}

    def set(self, row: int, labels: Mapping[str, str]) -> None:
        """Write the labels of one row; `{}` clears it."""
        while len(self._labels) <= row:
            self._labels.append({})
        size = len(self._labels)
        before, self._labels[row] = self._labels[row], labels
        for key, column in self._columns.items():
            if len(column.ids) != size or before.get(key) != labels.get(key):
                column.set(row, labels.get(key), size)

    def column(self, key: str) -> LabelColumn:
        """Return the column of a key, building it on first use."""
        column = self._columns.get(key)
        if column is None:
            size = len(self._labels)
            column = self._columns[key] = LabelColumn(key, size)
            for row, labels in enumerate(self._labels):
                if key in labels:
                    column.set(row, labels[key], size)
        return column

    def mask(self, requirement: NodeSelectorRequirement) -> BoolColumn:
        """Return the rows whose labels satisfy one expression (rows without a node included)."""
        column = self.column(requirement.key)
        key = (requirement.key, requirement.operator, requirement.values)
        cached = self._masks.get(key)
        if cached is not None and cached[0] == column.generation:
            return cached[1]
        operator, values = requirement.operator, requirement.values
        # One verdict per distinct value; the last entry is for a missing label (id -1).
        verdicts = [value_matches(operator, values, value) for value in column.values]
        verdicts.append(value_matches(operator, values, None))
        mask: BoolColumn = np.array(verdicts, dtype=np.bool_)[column.ids]
        mask.flags.writeable = False
        if len(self._masks) >= _MOST_MASKS:
            self._masks.pop(next(iter(self._masks)))
        self._masks[key] = (column.generation, mask)
        return mask

    def integers(self, key: str, default: int) -> IntColumn:
        """Return a label read as integers, `default` if it is missing or no integer."""
        column = self.column(key)
        cached = self._integers.get((key, default))
        if cached is not None and cached[0] == column.generation:
            return cached[1]
        parsed = [parse_int(value) for value in column.values]
        numbers = [default if number is None else number for number in parsed]
        result: IntColumn = np.array([*numbers, default], dtype=np.int64)[column.ids]
        result.flags.writeable = False
        self._integers[key, default] = (column.generation, result)
        return result

    def domains(self, key: str) -> Domains:
        """Return the rows by the value of a label."""
        column = self.column(key)
        cached = self._domains.get(key)
        if cached is None or cached[0] != column.generation:
            domains = domains_of(key, column.ids, len(column.values))
            cached = self._domains[key] = (column.generation, domains)
        return cached[1]
