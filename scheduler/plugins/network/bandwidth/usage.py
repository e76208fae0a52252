"""`UsageTracker`: load-watcher's figures as columns over the rows of the node table.

One `WatcherMetrics` object holds one answer for all nodes, so a decision sees one state of figures.
Columns are computed at the first use after a change of figures or nodes; NaN is "not known".
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from scheduler.framework import Change, FloatColumn
from scheduler.objects.reports.watchermetrics import WatcherMetric, WatcherMetrics

if TYPE_CHECKING:
    from scheduler.state.cluster import Cluster

CPU, MEMORY, TRANSMIT, RECEIVE = "cpu", "memory", "transmit", "receive"
AVERAGE, DEVIATION = "average", "deviation"
PERCENT = 100.0

Figure = tuple[str, str]  # the subject, and AVERAGE or DEVIATION


class UsageTracker:
    """The newest figures of all nodes."""

    kinds: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._cluster: Cluster | None = None
        self._columns: dict[Figure, FloatColumn] | None = None

    def rebuild(self, cluster: "Cluster") -> None:
        """Rebuild all state from `cluster`."""
        self._cluster, self._columns = cluster, None

    def apply(self, change: Change) -> None:
        """Apply one change."""
        if change.kind == "WatcherMetrics" or (
            change.kind == "Node" and change.verb in ("add", "delete")
        ):
            self._columns = None

    def columns(self) -> Mapping[str, Any]:
        """Return the figures by name."""
        return {
            " ".join(key): np.nan_to_num(column, nan=-1.0) for key, column in self.figures().items()
        }

    def figure(self, what: str, kind: str) -> FloatColumn:
        """Return percent of capacity (CPU, memory), 100 times bytes per second, or NaN for not
        known.
        """
        found = self.figures().get((what, kind))
        if found is None:
            size = self._cluster.table.size if self._cluster is not None else 0
            found = np.full(size, np.nan)
        return found

    def figures(self) -> Mapping[Figure, FloatColumn]:
        """Return all columns that some node has a figure for."""
        if self._columns is None:
            self._columns = self._read()
        return self._columns

    def _read(self) -> dict[Figure, FloatColumn]:
        columns: dict[Figure, FloatColumn] = {}
        if self._cluster is None:
            return columns
        table = self._cluster.table
        answers: Iterable[WatcherMetrics] = self._cluster.store.of("WatcherMetrics").values()
        newest = max(answers, key=lambda answer: answer.timestamp, default=None)
        if newest is None:
            return columns
        for name, node in newest.data.node_metrics_map.items():
            row = table.rows.get(name)
            if row is None:
                continue
            for figure, value in _figures(node.metrics).items():
                column = columns.get(figure)
                if column is None:
                    column = columns[figure] = np.full(table.size, np.nan)
                column[row] = value
        return columns


def _figures(metrics: Iterable[WatcherMetric]) -> dict[Figure, float]:
    """Return a node's figures in percent; an average takes precedence over the latest value."""
    found: dict[Figure, tuple[bool, float]] = {}
    for metric in metrics:
        what = _what(metric)
        if not what:
            continue
        if metric.operator == "STD":
            found[what, DEVIATION] = (True, metric.value)
        elif metric.operator == "AVG":
            found[what, AVERAGE] = (True, metric.value)
        elif metric.operator in ("", "Latest") and not found.get((what, AVERAGE), (False, 0))[0]:
            found[what, AVERAGE] = (False, metric.value)
    return {figure: value for figure, (_, value) in found.items()}


def _what(metric: WatcherMetric) -> str:
    """Return the subject of a figure: transmit, receive and drops share one type."""
    if metric.type == "CPU":
        return CPU
    if metric.type == "Memory":
        return MEMORY
    if metric.type != "Bandwidth" or "drop" in metric.name:
        return ""
    for direction in (TRANSMIT, RECEIVE):
        if direction in metric.name:
            return direction
    return ""
