"""`PodsByImportance`: the pods of each row, the most important first.

A row is put in order when preemption first asks about it, and again when a pod there has changed;
`touched` is the log of such rows.
More important is who has the higher priority, then who started earlier.
"""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from scheduler.framework import IntMatrix, Placed, Rows
from scheduler.state.rowlists import NOT_STARTED, PRIORITY, START, RowLists
from scheduler.state.rowtracker import RowTracker
from scheduler.state.touched import Touched


class PodsByImportance(RowTracker):
    """Keeps the pods of rows in order of importance."""

    def __init__(self) -> None:
        super().__init__()
        self.lists = RowLists(self._pods_of, by_importance)
        self.touched = Touched()

    def hold(self, placed: Placed, row: int) -> None:
        """Forget the order of a row that a pod came to."""
        del placed
        self.lists.forget(row)
        self.touched.add(row)

    def release(self, placed: Placed, row: int) -> None:
        """Forget the order of a row that a pod left."""
        del placed
        self.lists.forget(row)
        self.touched.add(row)

    def is_same(self, before: Placed, after: Placed) -> bool:
        """Take every new version of a pod in: victims are these records."""
        return before is after

    def clear(self) -> None:
        """Forget everything."""
        self.lists.clear()
        self.touched = Touched()

    def columns(self) -> Mapping[str, Any]:
        """Return the names of the pods per node."""
        return {
            name: [placed.pod.key for placed in self.lists.pods_on(row)]
            for name, row in sorted(self._rows.items())
        }

    def _pods_of(self, row: int) -> Collection[Placed]:
        cluster = self._cluster
        return () if cluster is None else cluster.pods.on(cluster.table.name(row)).values()


def by_importance(index: Rows, fields: IntMatrix) -> Rows:
    """Return the order of importance of pods row by row."""
    start, came = fields[START], np.arange(len(index))
    # kube-scheduler: of pods that have not started, the one that came last goes first.
    turn = np.where(start == NOT_STARTED, -came, came)
    order: Rows = np.lexsort((turn, start, -fields[PRIORITY], index))
    return order
