"""`ZoneView`: zone columns in the rows of one view of the nodes.

The plugin makes one per call. Views of a few rows and hypothetical ones get their part of the
columns; the full view gets them without a copy.
"""

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduler.framework import BoolColumn, IdColumn, IntColumn, IntMatrix, Nodes, Rows
from scheduler.plugins.numa.amounts import Pair, any_zone, level_of
from scheduler.plugins.numa.tracker import Topologies
from scheduler.plugins.numa.zonecolumns import ZoneColumns
from scheduler.plugins.numa.zones import Layout
from scheduler.state.counts.touched import Touched

ScalarT = TypeVar("ScalarT", bound=np.generic)


class ZoneView:
    """Zone columns in the order of the rows of `nodes`; read-only.

    `changed` are matrices that replace the free amounts of some resources; `is_whole` states that
    these are all nodes unchanged.
    """

    def __init__(
        self,
        columns: ZoneColumns,
        topologies: Topologies,
        nodes: Nodes,
        changed: Mapping[str, IntMatrix] | None = None,
    ) -> None:
        self._columns = columns
        self._topologies = topologies
        self._nodes = nodes
        self._changed = changed or {}
        self.size = nodes.size
        self.is_whole = nodes.is_live

    def over(self, changed: Mapping[str, IntMatrix]) -> "ZoneView":
        """Return the same rows with other amounts of some resources."""
        both = {**self._changed, **changed}
        return ZoneView(self._columns, self._topologies, self._nodes, both)

    def only(self, rows: Rows) -> "ZoneView":
        """Return a view of these rows, in this order."""
        return ZoneView(self._columns, self._topologies, self._nodes.only(rows))

    @property
    def amounts_touched(self) -> Touched | None:
        """Return the log of rows whose zones changed; None for a part or a hypothetical view."""
        if self._changed or self._nodes.amounts_touched is None:
            return None
        return self._columns.touched

    @property
    def scratch(self) -> Pair:
        """Return two scratch matrices [row, slot] for use until the next call.

        Views of a part of the rows have none: the part may be small.
        """
        return self._columns.scratch.of(self.size, self.slots) if self.is_whole else (None, None)

    @property
    def known(self) -> BoolColumn:
        """Return the rows that have a topology."""
        return self._column(self._columns.known)

    def has_policy(self, policy: str) -> BoolColumn:
        """Return the rows whose kubelet aligns by `policy`."""
        rows = np.zeros(self.size, dtype=np.bool_)
        for by_pod in (True, False):
            aligned = self.aligned(policy, by_pod=by_pod)
            if aligned is not None:
                rows |= aligned
        return rows

    def aligned(self, policy: str, *, by_pod: bool) -> BoolColumn | None:
        """Return the rows whose kubelet aligns by `policy`, pods as a whole or each container.

        None if no kubelet does, inside or outside this view.
        """
        rows = self._columns.aligned(policy, by_pod=by_pod)
        return None if rows is None else self._column(rows)

    @property
    def pod_scope(self) -> BoolColumn:
        """Return the rows whose kubelet aligns pods as a whole."""
        return self._column(self._columns.pod_scope)

    @property
    def most_zones(self) -> IntColumn:
        """Return the number of NUMA nodes that each kubelet handles."""
        return self._column(self._columns.most_zones)

    @property
    def layout_ids(self) -> IdColumn:
        """Return the number of each row's layout, -1 without one."""
        return self._column(self._columns.layout_ids)

    @property
    def zone_counts(self) -> IntColumn:
        """Return how many zones each row has."""
        return self._column(self._columns.zone_counts)

    def layout(self, number: int) -> Layout:
        """Return a layout by its number."""
        return self._columns.layouts[number]

    @property
    def slots(self) -> int:
        """Return the largest number of zones that a node has."""
        return self._columns.slots

    def free(self, resource: str) -> IntMatrix | None:
        """Return the available amounts, [row, slot]; None if no node ever listed the resource."""
        if resource in self._changed:
            return self._changed[resource]
        return self._matrix(self._columns.free(resource))

    def at_least(
        self, resource: str, amount: int, out: BoolColumn | None = None
    ) -> BoolColumn | None:
        """Return the zones with at least `amount` free, [row, slot], in `out` if given.

        None if no node ever listed the resource. For an amount of 0, the zones that list the
        resource.
        """
        if resource in self._changed:
            return np.greater_equal(self._changed[resource], amount, out)
        columns = self._columns
        levels = columns.levels(resource, self.size if self.is_whole else columns.rows)
        if levels is None:
            return None
        if not self.is_whole:
            levels = self._column(levels)
        level, is_least = level_of(amount)
        good = np.greater_equal(levels, level, out)
        if not is_least:
            # Some of this level may have less.
            rows = np.flatnonzero(any_zone(levels == level))
            free = self.free(resource)
            if len(rows) and free is not None:
                good[rows] = free[rows] >= amount
        return good

    def offered(self, resource: str) -> IntMatrix | None:
        """Return the zones' total amounts, [row, slot]; None if no node ever listed it."""
        return self._matrix(self._columns.offered(resource))

    def unlisted(self, resource: str) -> BoolColumn | None:
        """Return the rows on which no zone lists the resource; None if every topology does."""
        column = self._columns.unlisted(resource)
        return None if column is None else self._column(column)

    def offers(self, resource: str) -> BoolColumn | None:
        """Return the rows whose node offers a resource; None for all rows."""
        column = self._topologies.offers(resource, self._columns.rows)
        return None if column is None else self._column(column)

    def of_table(self, column: NDArray[ScalarT]) -> NDArray[ScalarT]:
        """Return this view's entries of a column over the rows of the table."""
        return self._column(column)

    def table_rows(self) -> Rows:
        """Return the table's row of each row of the view."""
        return self._column(np.arange(self._columns.rows))

    def _column(self, column: NDArray[ScalarT]) -> NDArray[ScalarT]:
        part = column if self._nodes.is_live else self._nodes.part(column)
        return part if len(part) == self.size else part[: self.size]

    def _matrix(self, matrix: NDArray[ScalarT] | None) -> NDArray[ScalarT] | None:
        return None if matrix is None else self._column(matrix)
