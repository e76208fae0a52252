"""`PodsByImportance`: the pods of each row, the most important first.

A row is sorted when preemption first needs it, and again when a pod there has changed; `touched` is
the log of such rows. More important is a higher priority, then an earlier start. `terminating` are
the uids of the pods that are being deleted.
"""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from scheduler.framework import IntMatrix, Placed, Rows
from scheduler.state.counts.rowlists import NOT_STARTED, PRIORITY, START, RowLists
from scheduler.state.counts.rowtracker import RowTracker
from scheduler.state.counts.touched import Touched


class PodsByImportance(RowTracker):
    """Keep the pods of rows in order of importance."""

    def __init__(self) -> None:
        super().__init__()
        self.lists = RowLists(self._pods_of, by_importance)
        self.touched = Touched()
        self.terminating: set[str] = set()

    def hold(self, placed: Placed, row: int) -> None:
        """Drop the order of a row to which a pod was added."""
        if placed.pod.is_terminating:
            self.terminating.add(placed.pod.metadata.uid)
        self.lists.forget(row)
        self.touched.add(row)

    def release(self, placed: Placed, row: int) -> None:
        """Drop the order of a row from which a pod was removed."""
        self.terminating.discard(placed.pod.metadata.uid)
        self.lists.forget(row)
        self.touched.add(row)

    def is_same(self, before: Placed, after: Placed) -> bool:
        """Return False for every new version of a pod, since victims are these records."""
        return before is after

    def clear(self) -> None:
        """Drop everything."""
        self.lists.clear()
        self.touched = Touched()
        self.terminating = set()

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
    """Return the order that sorts pods by row, then by importance."""
    start, came = fields[START], np.arange(len(index))
    # kube-scheduler: of pods that have not started, the newest is evicted first.
    turn = np.where(start == NOT_STARTED, -came, came)
    order: Rows = np.lexsort((turn, start, -fields[PRIORITY], index))
    return order
