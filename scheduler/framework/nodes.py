"""`Nodes`: the cluster's nodes as read-only columns, for plugins.

One interface over the live table, a copy of it, a few of its rows, or a hypothetical state with
pods removed or added. Every column has `size` entries. `feasible` marks the rows that passed so
far; rows without a node are never feasible. Filters compute on full columns and the framework masks
them; columns are read-only.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from scheduler.base.arrays import BoolColumn, HashColumn, IdColumn, IntColumn, IntMatrix, Rows
from scheduler.base.errors import StateError
from scheduler.framework.hypothetical.overlay import Overlay
from scheduler.framework.hypothetical.rowpods import RowPods, row_pods
from scheduler.objects.node import Node
from scheduler.objects.pod import ContainerPort, NodeSelectorRequirement, NodeSelectorTerm
from scheduler.state.domains import Domains
from scheduler.state.podindex import Placed, PodIndex
from scheduler.state.table import NodeTable
from scheduler.state.taints import TaintSet

ScalarT = TypeVar("ScalarT", bound=np.generic)


class Nodes:
    """Read-only columns over the rows of a node table, or over a few of them.

    A view is made for one attempt: `size` is the number of rows and does not grow with the table.
    """

    def __init__(
        self,
        table: NodeTable,
        pods: PodIndex,
        feasible: BoolColumn | None = None,
        *,
        rows: Rows | None = None,
        overlay: Overlay | None = None,
    ) -> None:
        self._table = table
        self._pods = pods
        self._rows = rows
        self._overlay = overlay
        if overlay is not None:
            self._offers: dict[tuple[str, ...], IntMatrix] = {}
        # Whether the view shows all nodes unchanged. Then there are logs of the rows whose amounts,
        # and whose nodes, changed (None for a part or a hypothetical view).
        self.is_live = rows is None and overlay is None
        self.amounts_touched = table.amounts_touched if self.is_live else None
        self.facts_touched = table.facts_touched if self.is_live else None
        self.size = table.size if rows is None else len(rows)
        self.exists = table.exists if rows is None else table.exists[rows]
        self.feasible = self.exists if feasible is None else feasible

    @property
    def count(self) -> int:
        """Return the number of nodes in the cluster, without unused rows."""
        return len(self._table.rows)

    def name(self, row: int) -> str:
        """Return the node name of a row."""
        return self._table.name(self._table_row(row))

    def names(self, mask: BoolColumn) -> tuple[str, ...]:
        """Return the node names of the rows in `mask`, in order."""
        return tuple(self._cut(self._table.names)[mask].tolist())

    def node(self, row: int) -> Node | None:
        """Return the node of a row, or None for an unused row."""
        return self._table.nodes[self._table_row(row)]

    def row(self, name: str) -> int | None:
        """Return the row of a node, or None if this view does not contain it."""
        row = self._table.rows.get(name)
        if row is None or self._rows is None:
            return row
        found = np.flatnonzero(self._rows == row)
        return int(found[0]) if len(found) else None

    def rows_named(self, names: Iterable[str]) -> BoolColumn:
        """Return the rows of the nodes with these names; unknown names are ignored."""
        mask = np.zeros(self.size, dtype=np.bool_)
        mask[self.rows_of(names)] = True
        return mask

    def rows_of(self, names: Iterable[str]) -> list[int]:
        """Return the rows of the nodes with these names in their order.

        Unknown names are ignored.
        """
        known = self._table.rows
        if self._rows is None:
            return [known[name] for name in names if name in known]
        return [row for name in names if (row := self.row(name)) is not None]

    def row_numbers(self, names: Iterable[str]) -> IntColumn:
        """Return the row of the node of each name, -1 where this view has no such node."""
        known = self._table.rows
        if self._rows is None:
            return np.array([known.get(name, -1) for name in names], dtype=np.intp)
        found = (self.row(name) for name in names)
        return np.array([-1 if row is None else row for row in found], dtype=np.intp)

    def pods_on(self, row: int) -> Mapping[str, Placed]:
        """Return the pods on a row by uid, assumed ones included."""
        table_row = self._table_row(row)
        pods = self._pods.on(self._table.name(table_row))
        return pods if self._overlay is None else self._overlay.pods_on(table_row, pods)

    def constant(self, value: int) -> IntColumn:
        """Return a read-only column of one value; the framework adds such columns without cost."""
        return _constant(self.size, value)

    # Amounts: CPU in milli, everything else in whole units.

    def allocatable(self, resource: str) -> IntColumn:
        """Return each node's allocatable amount of a resource."""
        return self._cut(self._table.allocatable(resource))

    def requested(self, resource: str) -> IntColumn:
        """Return the requests of the pods on each node; for `pods` their number."""
        column = self._table.requested(resource)
        if self._overlay is not None:
            return self._overlay.requested(resource, column, self._rows)
        return self._cut(column)

    def scored(self, resource: str) -> IntColumn:
        """Return requests of cpu or memory, with assumed amounts for containers without a
        request.
        """
        column = self._table.scored(resource)
        if self._overlay is not None:
            return self._overlay.requested(resource, column, self._rows, scored=True)
        return self._cut(column)

    def ports_taken(self, ports: Sequence[ContainerPort]) -> BoolColumn:
        """Return the rows on which any of these host ports is in use."""
        used = self._table.ports
        taken = used.conflicts(ports, self._table.size)
        if self._overlay is not None:
            return self._overlay.ports_taken(taken, used, ports, self._rows)
        return self._cut(taken)

    def offers(self, resources: Sequence[str]) -> IntMatrix:
        """Return `allocatable` of several resources, [resource, row]."""
        if self._overlay is None:
            return np.array([self.allocatable(resource) for resource in resources], dtype=np.int64)
        # A hypothetical view is short-lived, and its columns are requested repeatedly.
        names = tuple(resources)
        found = self._offers.get(names)
        if found is None:
            found = np.array([self.allocatable(name) for name in names], dtype=np.int64)
            self._offers[names] = found
        return found

    def requests(self, resources: Sequence[str]) -> IntMatrix:
        """Return `requested` of several resources, [resource, row]."""
        return np.array([self.requested(resource) for resource in resources], dtype=np.int64)

    @property
    def layout(self) -> tuple[int, int]:
        """Return a value that changes when the arrays of amounts are replaced."""
        return self.size, len(self._table.resources)

    # Facts of the nodes themselves.

    @property
    def unschedulable(self) -> BoolColumn:
        """Return the rows with spec.unschedulable."""
        return self._cut(self._table.unschedulable)

    @property
    def name_hash(self) -> HashColumn:
        """Return a stable 64-bit hash of each node's name."""
        return self._cut(self._table.name_hash)

    @property
    def name_ranks(self) -> IntColumn:
        """Return ranks in the order of the nodes' names."""
        return self._cut(self._table.name_ranks)

    def label_ids(self, key: str) -> IdColumn:
        """Return the value id of a label per row, -1 where it is missing."""
        return self._cut(self._table.labels.column(key).ids)

    def label_values(self, key: str) -> Sequence[str]:
        """Return the texts of the ids in `label_ids`."""
        return self._table.labels.column(key).values

    def domains(self, key: str) -> Domains:
        """Return the rows by the value of a label; its ids are those of all rows of the table."""
        domains = self._table.labels.domains(key)
        if self._rows is None:
            return domains
        return replace(domains, slots=domains.slots[self._rows])

    def label_id(self, key: str, value: str) -> int:
        """Return the id of a label's value, or -2 if no node ever had it."""
        return self._table.labels.column(key).id_of(value)

    def label_int(self, key: str, default: int = 0) -> IntColumn:
        """Return a label as integers, `default` where it is missing or no integer."""
        return self._cut(self._table.labels.integers(key, default))

    def label_mask(self, requirement: NodeSelectorRequirement) -> BoolColumn:
        """Return the rows whose labels satisfy one expression."""
        return self._cut(self._table.labels.mask(requirement))

    def labels_mask(self, labels: Mapping[str, str]) -> BoolColumn:
        """Return the rows that carry all these labels."""
        parts = [
            self.label_mask(NodeSelectorRequirement(key, "In", (value,)))
            for key, value in labels.items()
        ]
        return self._all(parts) if parts else self.exists

    def term_mask(self, term: NodeSelectorTerm) -> BoolColumn:
        """Return the rows that match a node selector term; an empty term matches none."""
        parts = [self.label_mask(r) for r in term.match_expressions]
        parts += [self._field_mask(r) for r in term.match_fields]
        return self._all(parts) if parts else np.zeros(self.size, dtype=np.bool_)

    @property
    def taint_sets(self) -> Sequence[TaintSet]:
        """Return the distinct sets of taints that nodes have or had; grows only."""
        return self._table.taints.sets

    def taint_flags(self, per_set: tuple[bool, ...]) -> BoolColumn:
        """Return for each row the flag of its taint set; `per_set` is indexed like `taint_sets`."""
        return self._cut(self._table.taints.flags(per_set))

    def taint_numbers(self, per_set: tuple[int, ...]) -> IntColumn:
        """Return for each row the number of its taint set.

        `per_set` is indexed like `taint_sets`.
        """
        return self._cut(self._table.taints.numbers(per_set))

    def declares(self, features: frozenset[str]) -> BoolColumn:
        """Return the rows whose node declares all these features."""
        return self._cut(self._table.features.declared(features))

    def in_condition(self, conditions: frozenset[str]) -> BoolColumn:
        """Return the rows whose node has one of these conditions, each as `Type=Status`."""
        return self._cut(self._table.conditions.reported(conditions))

    def image_present(self, name: str) -> BoolColumn | None:
        """Return the rows that have the image; None if no node has it."""
        column = self._table.images.present(name, self._table.size)
        return None if column is None else self._cut(column)

    def image_spread_bytes(self, name: str) -> int:
        """Return the image's size in bytes times the share of all nodes that hold it."""
        return self._table.images.spread_bytes(name, self.count)

    # Other views.

    def part(self, column: NDArray[ScalarT]) -> NDArray[ScalarT]:
        """Return this view's entries of a column with one entry per row of the table, such as a
        tracker's.
        """
        return self._cut(column)

    def moves(self) -> Iterator[tuple[Placed, int, int]]:
        """Yield the pods that a hypothetical view removes (-1) or adds (1), with their rows.

        The rows are those of the table, also in a view of a few.
        """
        if self._overlay is not None:
            yield from self._overlay.moves()

    def arrivals(self) -> Iterator[tuple[Placed, int]]:
        """Yield the pods that a hypothetical view adds, with their rows of the table."""
        if self._overlay is not None:
            yield from self._overlay.arrivals()

    def leaving(self) -> tuple[RowPods, BoolColumn] | None:
        """Return the pods on these rows and which of them are removed.

        None if `moves` has all changes. All views of one dry run return the same `RowPods`, so that
        derived sums can be cached with it.
        """
        overlay = self._overlay
        if overlay is None or overlay.rows is not self._rows:
            return None
        return overlay.leaving, overlay.gone

    def among(self, feasible: BoolColumn) -> "Nodes":
        """Return the same columns with another `feasible` mask."""
        return Nodes(self._table, self._pods, feasible, rows=self._rows, overlay=self._overlay)

    def only(self, rows: Rows) -> "Nodes":
        """Return a view of these rows, in this order."""
        kept = rows if self._rows is None else self._rows[rows]
        return Nodes(self._table, self._pods, self.feasible[rows], rows=kept, overlay=self._overlay)

    def hypothetical(
        self,
        removed: Iterable[Placed] = (),
        added: Iterable[tuple[Placed, int]] = (),
    ) -> "Nodes":
        """Return the nodes without `removed` pods and with `added` ones on their rows.

        The changes of different rows are independent: one pass over the columns evaluates each node
        without its own victims. Requires a view that is not hypothetical.
        """
        self._must_be_real()
        rows = self._table.rows
        gone = [(placed, rows[placed.node]) for placed in removed if placed.node in rows]
        more = [(placed, self._table_row(row)) for placed, row in added]
        moved: Rows = np.array(sorted({row for _, row in (*gone, *more)}), dtype=np.intp)
        overlay = Overlay(row_pods(moved, gone), row_pods(moved, more))
        return Nodes(self._table, self._pods, self.feasible, rows=self._rows, overlay=overlay)

    def over(self, overlay: Overlay) -> "Nodes":
        """Return the rows of an overlay on a view of all nodes, with its changes applied."""
        self._must_be_real()
        rows = overlay.rows
        return Nodes(self._table, self._pods, self.exists[rows], rows=rows, overlay=overlay)

    def _must_be_real(self) -> None:
        if self._overlay is not None:
            raise StateError("a hypothetical view cannot be changed again")

    def _cut(self, column: NDArray[ScalarT]) -> NDArray[ScalarT]:
        return column if self._rows is None else column[self._rows]

    def _table_row(self, row: int) -> int:
        return row if self._rows is None else int(self._rows[row])

    def _all(self, parts: Sequence[BoolColumn]) -> BoolColumn:
        mask = parts[0]
        for part in parts[1:]:
            mask = mask & part
        return mask

    def _field_mask(self, requirement: NodeSelectorRequirement) -> BoolColumn:
        """Return the rows that match a field selector.

        Metadata.name is the only field the API allows.
        """
        if requirement.key != "metadata.name":
            return np.zeros(self.size, dtype=np.bool_)
        if requirement.operator == "In":
            return self.rows_named(requirement.values)
        if requirement.operator == "NotIn":
            return ~self.rows_named(requirement.values)
        return np.zeros(self.size, dtype=np.bool_)


@lru_cache(maxsize=256)
def _constant(size: int, value: int) -> IntColumn:
    return np.broadcast_to(np.int64(value), size)
