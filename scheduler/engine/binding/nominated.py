"""`Promises`: the nominations by row, as columns, for attempts that must leave them room.

Thousands of preemptors may wait for their victims at once, and every attempt has to respect them all;
so they are gathered with numpy, and only rows whose nominations changed are looked at again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduler.base.arrays import BoolColumn, IntColumn, IntMatrix, Rows
from scheduler.engine.binding.nominations import Nominations
from scheduler.framework.crowd import Crowd, ListedCrowd
from scheduler.framework.promised import Promised
from scheduler.objects.pod import Pod
from scheduler.state.cluster import Cluster
from scheduler.state.podindex import Placed, place
from scheduler.state.rowlists import PRIORITY, RowLists
from scheduler.state.touched import Touched

_NO_ROWS: Rows = np.zeros(0, dtype=np.intp)
# The highest priority of a row without nominations.
_NOBODY = np.iinfo(np.int64).min


class Promises:
    """Knows which nominations an attempt must respect."""

    def __init__(self, cluster: Cluster, nominations: Nominations) -> None:
        self._cluster = cluster
        self._nominations = nominations
        self._lists = RowLists(self._nominated)
        # The highest priority of the pods nominated to each row.
        self._highest: IntColumn = np.zeros(0, dtype=np.int64)
        self._generation = -1
        self._touched = Touched()

    def for_pod(self, pod: Pod) -> Promised:
        """Return the nominated pods that `pod` must leave room for: none of lower priority."""
        self._catch_up()
        if not len(self._nominations):
            return _Respected(self._lists, _NO_ROWS, pod.priority, -1, self._touched)
        rows = np.flatnonzero(self._highest >= pod.priority)
        own = self._number_of(pod.metadata.uid)
        if own < 0:
            return _Respected(self._lists, rows, pod.priority, -1, self._touched)
        return _Respected(self._lists, self._without_own(rows, pod, own), pod.priority, own)

    def _catch_up(self) -> None:
        changed = self._nominations.take_changed()
        table = self._cluster.table
        if self._generation != table.generation:
            self._generation = table.generation
            self._touched = Touched()
            self._lists.clear()
            self._highest = np.full(table.size, _NOBODY)
            changed = set(self._nominations.nodes())
        for node in changed:
            row = table.rows.get(node)
            if row is not None:
                self._lists.forget(row)
                self._touched.add(row)
                pods = self._nominations.on(node).values()
                self._highest[row] = max((pod.priority for pod in pods), default=_NOBODY)

    def _without_own(self, rows: Rows, pod: Pod, own: int) -> Rows:
        """Return `rows` without that of the pod's own nomination if nobody else is promised it."""
        row = self._cluster.table.rows[self._nominations.node_of(pod.metadata.uid)]
        here = np.array([row], dtype=np.intp)
        if len(_Respected(self._lists, here, pod.priority, own).crowd(here)):
            return rows
        others: Rows = rows[rows != row]
        return others

    def _number_of(self, uid: str) -> int:
        """Return the number of a pod's own nomination in the lists, -1 without one."""
        row = self._cluster.table.rows.get(self._nominations.node_of(uid))
        if row is None:
            return -1
        numbers, _, _ = self._lists.on(np.array([row], dtype=np.intp))
        pods = self._lists.pods
        return next((n for n in numbers.tolist() if pods[n].pod.metadata.uid == uid), -1)

    def _nominated(self, row: int) -> Sequence[Placed]:
        node, shapes = self._cluster.table.name(row), self._cluster.shapes
        pods = self._nominations.on(node).values()
        return [place(pod, shapes.of(pod), node) for pod in pods]


class _Respected:
    """The nominations of at least a priority on `rows`, but for the one with the number `own`."""

    def __init__(
        self,
        lists: RowLists,
        rows: Rows,
        priority: int,
        own: int,
        touched: Touched | None = None,
    ) -> None:
        self._lists = lists
        self._priority = priority
        self._own = own
        self._rows = rows
        self.touched = touched

    def rows(self) -> Rows:
        """Return the rows with such nominations, in order."""
        return self._rows

    def crowd(self, rows: Rows) -> Crowd:
        """Return these pods on the given rows."""
        return ListedCrowd(self._lists, rows, self._keeps)

    def _keeps(self, numbers: Rows, fields: IntMatrix) -> BoolColumn:
        kept: BoolColumn = fields[PRIORITY] >= self._priority
        return kept & (numbers != self._own) if self._own >= 0 else kept
