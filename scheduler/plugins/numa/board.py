"""`Board`: the zones of all nodes as columns, one entry per row of the node table.

Amounts are matrices [slot, row] of thousandths, `UNLISTED` where there is no such zone or it does not
list the resource. Only the tracker writes here; readers get views that they must not write to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from scheduler.base.arrays import BoolColumn, IdColumn, IntColumn, IntMatrix
from scheduler.plugins.numa.settings import POD, POLICIES, KubeletSettings
from scheduler.plugins.numa.zones import UNLISTED, Layout, Zones
from scheduler.state.columns import Column
from scheduler.state.touched import Touched

# zone number → resource → thousandths
Freed = Mapping[int, Mapping[str, int]]


class Board:
    """Topologies as columns; a row without one is not `known`.

    With `deducts`, what is available can be lowered by `deduct`, and `given` is kept beside it.
    """

    def __init__(self, *, deducts: bool = False) -> None:
        self.count = 0
        self.touched = Touched()
        self.layouts: list[Layout] = []
        self._layout_ids: dict[Layout, int] = {}
        self.slots = 2
        self._rows = 64
        self._given: dict[str, IntMatrix] = {}
        self._available: dict[str, IntMatrix] = {} if deducts else self._given
        self._allocatable: dict[str, IntMatrix] = {}
        self._listed: dict[str, Column[np.bool_]] = {}
        self._known: Column[np.bool_] = Column(np.bool_, fill=False)
        self._policy: Column[np.int32] = Column(np.int32)
        self._pod_scope: Column[np.bool_] = Column(np.bool_, fill=False)
        self._most: Column[np.int64] = Column(np.int64, fill=8)
        self._layout: Column[np.int32] = Column(np.int32, fill=-1)

    # Reading: columns over all rows that there is room for.

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return len(self._known.values)

    @property
    def known(self) -> BoolColumn:
        """Return the rows that have a topology."""
        return self._known.values

    def has_policy(self, policy: str) -> BoolColumn:
        """Return the rows whose kubelet aligns by `policy`."""
        rows: BoolColumn = self._policy.values == POLICIES.index(policy)
        return rows & self.known

    @property
    def pod_scope(self) -> BoolColumn:
        """Return the rows whose kubelet aligns pods as a whole."""
        return self._pod_scope.values

    @property
    def most_zones(self) -> IntColumn:
        """Return the number of NUMA nodes that each kubelet handles."""
        return self._most.values

    @property
    def layout_ids(self) -> IdColumn:
        """Return the place of each row's layout in `layouts`, -1 without one."""
        return self._layout.values

    def free(self, resource: str) -> IntMatrix | None:
        """Return what is available, [slot, row]; None if no node ever listed the resource."""
        matrix = self._available.get(resource)
        return None if matrix is None else matrix[:, : self.rows]

    def offered(self, resource: str) -> IntMatrix | None:
        """Return what the zones have in all, [slot, row]; None if no node ever listed it."""
        matrix = self._allocatable.get(resource)
        return None if matrix is None else matrix[:, : self.rows]

    def listed(self, resource: str) -> BoolColumn | None:
        """Return the rows on which some zone lists the resource; None if no node ever did."""
        column = self._listed.get(resource)
        return None if column is None else column.values

    def resources_of(self, row: int) -> Iterator[str]:
        """Yield the resources that the zones of a row list."""
        return (name for name, column in self._listed.items() if column.values[row])

    def columns(self, prefix: str) -> Iterator[tuple[str, object]]:
        """Yield what is shown, by name, without what is the same as nothing."""
        for name, amounts in (("available", self._available), ("allocatable", self._allocatable)):
            for resource, matrix in amounts.items():
                for slot in range(self.slots):
                    column = matrix[slot, : len(self._known.values)]
                    if (column != UNLISTED).any():
                        yield f"{prefix} {name} {resource} {slot}", column.copy()
        if self.count:
            yield f"{prefix} known", self._known.values.copy()
            yield f"{prefix} policy", self._policy.values * self._known.values
            yield f"{prefix} pod scope", self._pod_scope.values & self._known.values
            yield f"{prefix} most zones", self._most.values * self._known.values

    # Writing.

    def put(self, row: int, zones: Zones, settings: KubeletSettings) -> None:
        """Show a topology in a row."""
        self.grow(row + 1, len(zones.layout.ids))
        self.count += not self._known.values[row]
        self._known.set(row, value=True)
        self._policy.set(row, POLICIES.index(settings.policy))
        self._pod_scope.set(row, settings.scope == POD)
        self._most.set(row, settings.most_zones)
        self._layout.set(row, self._layout_id(zones.layout))
        self._write(self._given, row, zones.available)
        self._write(self._allocatable, row, zones.allocatable)
        if self._available is not self._given:
            self._write(self._available, row, zones.available)
        for resource in dict.fromkeys((*self._listed, *zones.available)):
            if resource not in self._listed:
                self._listed[resource] = Column(np.bool_, fill=False)
                self._listed[resource].grow(len(self._known.values))
            self._listed[resource].set(row, resource in zones.available)
        self.touched.add(row)

    def clear(self, row: int) -> None:
        """Forget the topology of a row."""
        if row >= len(self._known.values) or not self._known.values[row]:
            return
        self.count -= 1
        for amounts in (self._given, self._available, self._allocatable):
            for matrix in amounts.values():
                matrix[:, row] = UNLISTED
        for column in self._listed.values():
            column.clear(row)
        self._known.clear(row)
        self._layout.clear(row)
        self.touched.add(row)

    def deduct(self, row: int, taken: Mapping[str, int], freed: Freed | None = None) -> None:
        """Show what is left when every zone has given `taken` away, at least 0.

        `freed` is added before, zone by zone, as far as the zone can allocate it.
        """
        ids = self.layouts[self._layout.values[row]].ids
        for resource, matrix in self._given.items():
            given = matrix[:, row]
            if freed:
                given = given.copy()
                most = self._allocatable[resource][:, row]
                for slot, number in enumerate(ids):
                    more = freed.get(number, {}).get(resource, 0)
                    if more and given[slot] >= 0:
                        given[slot] = max(given[slot], min(given[slot] + more, most[slot]))
            left = np.where(given >= 0, np.maximum(given - taken.get(resource, 0), 0), UNLISTED)
            self._available[resource][:, row] = left
        self.touched.add(row)

    def grow(self, rows: int, slots: int = 0) -> None:
        """Make room for `rows` rows of `slots` zones."""
        for column in (self._known, self._policy, self._pod_scope, self._most, self._layout):
            column.grow(rows)
        for listed in self._listed.values():
            listed.grow(rows)
        if rows <= self._rows and slots <= self.slots:
            return
        capacity = max(rows, 2 * self._rows) if rows > self._rows else self._rows
        slots = max(slots, self.slots)
        tables = [self._given, self._allocatable]
        if self._available is not self._given:
            tables.append(self._available)
        for amounts in tables:
            for resource, matrix in amounts.items():
                amounts[resource] = np.full((slots, capacity), UNLISTED, dtype=np.int64)
                amounts[resource][: self.slots, : self._rows] = matrix
        self._rows, self.slots = capacity, slots

    def _write(
        self, amounts: dict[str, IntMatrix], row: int, given: Mapping[str, list[int]]
    ) -> None:
        for resource in given:
            if resource not in amounts:
                amounts[resource] = np.full((self.slots, self._rows), UNLISTED, dtype=np.int64)
        for resource, matrix in amounts.items():
            values = given.get(resource, ())
            matrix[: len(values), row] = values
            matrix[len(values) :, row] = UNLISTED

    def _layout_id(self, layout: Layout) -> int:
        found = self._layout_ids.get(layout)
        if found is None:
            found = self._layout_ids[layout] = len(self.layouts)
            self.layouts.append(layout)
        return found
