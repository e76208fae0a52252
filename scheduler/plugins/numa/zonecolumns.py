"""`ZoneColumns`: the topologies of all nodes as columns, one entry per row of the node table.

Only the tracker writes here; readers get read-only views.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from scheduler.framework import BoolColumn, IdColumn, IntColumn, IntMatrix
from scheduler.plugins.numa.amounts import Freed, Scratch, ZoneAmounts
from scheduler.plugins.numa.demand import is_affine, may_be_host_level
from scheduler.plugins.numa.zones import POD, POLICIES, UNLISTED, KubeletSettings, Layout, Zones
from scheduler.state.columns import Column
from scheduler.state.counts.touched import Touched

_KINDS = 2 * len(POLICIES) + 2
# In addition to the kinds: every one that aligns pods as a whole.
_BY_POD = -1


class ZoneColumns:
    """Topologies as columns; a row without one is not `known`.

    With `deducts`, free amounts are set by `deduct`, which must follow each `put`.
    """

    def __init__(self, *, deducts: bool = False) -> None:
        self.count = 0
        self.touched = Touched()
        self.scratch = Scratch()
        self.layouts: list[Layout] = []
        self._layout_ids: dict[Layout, int] = {}
        self._amounts = ZoneAmounts(deducts=deducts)
        self.levels = self._amounts.levels
        # The kubelet's behaviour, as `_kind` numbers it; 0 without a topology.
        self._kinds: Column[np.uint8] = Column(np.uint8)
        # The number of rows of each kind, and the rows: computed on demand.
        self._numbers = [0] * _KINDS
        self._aligned: dict[int, BoolColumn] = {}
        self._most: Column[np.int64] = Column(np.int64, fill=8)
        self._layout: Column[np.int32] = Column(np.int32, fill=-1)
        self._zones: Column[np.int64] = Column(np.int64)
        # Results of `suits_all` since the last report.
        self._suited: dict[tuple[str, ...], bool] = {}

    # Reading: columns over all rows, matrices over the whole allocated size.

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return len(self._kinds.values)

    @property
    def slots(self) -> int:
        """Return the largest number of zones of a node, or more."""
        return self._amounts.slots

    @property
    def known(self) -> BoolColumn:
        """Return the rows that have a topology."""
        return self._kinds.values > 0

    def aligned(self, policy: str, *, by_pod: bool) -> BoolColumn | None:
        """Return the rows whose kubelet aligns by `policy`, pods as a whole or each container.

        None if no kubelet does.
        """
        kind = _kind(policy, by_pod=by_pod)
        if not self._numbers[kind]:
            return None
        rows = self._aligned.get(kind)
        if rows is None:
            rows = self._aligned[kind] = self._kinds.values == kind
        return rows

    @property
    def pod_scope(self) -> BoolColumn:
        """Return the rows whose kubelet aligns pods as a whole."""
        rows = self._aligned.get(_BY_POD)
        if rows is None:
            rows = self._aligned[_BY_POD] = self._kinds.values % 2 > 0
        return rows

    @property
    def most_zones(self) -> IntColumn:
        """Return the number of NUMA nodes that each kubelet handles."""
        return self._most.values

    @property
    def layout_ids(self) -> IdColumn:
        """Return the place of each row's layout in `layouts`, -1 without one."""
        return self._layout.values

    @property
    def zone_counts(self) -> IntColumn:
        """Return how many zones each row has."""
        return self._zones.values

    def free(self, resource: str) -> IntMatrix | None:
        """Return the available amounts, [row, slot]; None if no node ever listed the resource."""
        return self._amounts.of(self._amounts.available, resource)

    def offered(self, resource: str) -> IntMatrix | None:
        """Return the zones' total amounts, [row, slot]; None if no node ever listed it."""
        return self._amounts.of(self._amounts.allocatable, resource)

    def unlisted(self, resource: str) -> BoolColumn | None:
        """Return the rows on which no zone lists the resource; None if every topology does."""
        found = self._amounts.listed(resource)
        if found is None:
            return np.ones(self.rows, dtype=np.bool_)
        listed, number = found
        return None if number == self.count else ~listed[: self.rows]

    def resources_of(self, row: int) -> Iterator[str]:
        """Yield the resources that the zones of a row list."""
        for name in self._amounts.names:
            found = self._amounts.listed(name)
            if found is not None and found[0][row]:
                yield name

    def suits_all(self, resources: tuple[str, ...]) -> bool:
        """Return whether all topologies fit pods with shared requests of these: zones list all or
        none.
        """
        found = self._suited.get(resources)
        if found is None:
            found = self._suited[resources] = all(map(self._suits_all, resources))
        return found

    def _suits_all(self, resource: str) -> bool:
        if is_affine(resource):
            return self._amounts.complete(resource) == self.count
        return may_be_host_level(resource) and self._amounts.listed(resource) is None

    def columns(self, prefix: str) -> Iterator[tuple[str, object]]:
        """Yield the columns by name, without empty ones."""
        used = self._amounts
        for resource in used.names:
            for name, cells in (("available", used.available), ("allocatable", used.allocatable)):
                matrix = used.of(cells, resource)
                for slot, column in enumerate([] if matrix is None else matrix[: self.rows].T):
                    if (column != UNLISTED).any():
                        yield f"{prefix} {name} {resource} {slot}", column.copy()
        if self.count:
            yield f"{prefix} kinds", self._kinds.values.copy()
            yield f"{prefix} most zones", self._most.values * self.known

    # Writing.

    def put(self, row: int, zones: Zones, settings: KubeletSettings) -> None:
        """Write a topology into a row."""
        self.grow(row + 1)
        self._classify(row, _kind(settings.policy, by_pod=settings.scope == POD))
        self._most.set(row, settings.most_zones)
        self._layout.set(row, self._layout_id(zones.layout))
        self._zones.set(row, len(zones.layout.ids))
        self._amounts.put(row, zones.available, zones.allocatable)
        self._suited.clear()
        self.touched.add(row)

    def clear(self, row: int) -> None:
        """Remove the topology of a row."""
        if row >= self.rows or not self._kinds.values[row]:
            return
        self._classify(row, 0)
        self._amounts.clear(row)
        self._suited.clear()
        self._layout.clear(row)
        self._zones.clear(row)
        self.touched.add(row)

    def deduct(self, changed: Sequence[tuple[int, Mapping[str, int], Freed | None]]) -> None:
        """Write the free amounts of rows after deductions from every zone, at least 0.

        Freed amounts are added before, zone by zone, up to the zone's allocatable.
        """
        freed = {}
        for at, (row, _, back) in enumerate(changed):
            self.touched.add(row)
            if back:
                freed[at] = (back, self.layouts[self._layout.values[row]].ids)
        if changed:
            rows, taken, _ = zip(*changed, strict=True)
            self._amounts.deduct(rows, taken, freed)

    def grow(self, rows: int) -> None:
        """Grow to `rows` rows."""
        if rows > self.rows:
            self._aligned.clear()
        for column in (self._kinds, self._most, self._layout, self._zones):
            column.grow(rows)
        self._amounts.reserve_space(rows)

    def _classify(self, row: int, kind: int) -> None:
        before = int(self._kinds.values[row])
        if kind == before:
            return
        self._kinds.set(row, kind)
        self._numbers[before] -= 1
        self._numbers[kind] += 1
        self.count += (kind > 0) - (before > 0)
        self._aligned.clear()

    def _layout_id(self, layout: Layout) -> int:
        found = self._layout_ids.get(layout)
        if found is None:
            found = self._layout_ids[layout] = len(self.layouts)
            self.layouts.append(layout)
        return found


def _kind(policy: str, *, by_pod: bool) -> int:
    """Return a number for a kubelet's behaviour, from 2; an odd one aligns pods as a whole."""
    return 2 * POLICIES.index(policy) + 2 + by_pod
