"""`LoadTracker`: the usage of every node as columns, updated with every change.

One tracker per `Settings`, which are its argument. All values for filtering are computed when a
report, a node or a pod changes, one row at a time; the plugin only compares columns. It has no
clock: the plugin checks the age of reports.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import msgspec

from scheduler.framework import BoolColumn, Change, FloatColumn, IntColumn, Placed, Pod
from scheduler.objects.pod import PodAnnotations
from scheduler.objects.reports.nodemetric import NodeMetric
from scheduler.plugins.loadaware.grid import Headrooms, LoadColumns
from scheduler.plugins.loadaware.limits import UNLIMITED, NodeLimits, node_limits
from scheduler.plugins.loadaware.nodeload import NodeLoad, Weight, entry_of, weigh
from scheduler.plugins.loadaware.report import LoadReport, read_report
from scheduler.plugins.loadaware.scoring import Numbers
from scheduler.plugins.loadaware.settings import Settings, Vector
from scheduler.state.counts.touched import Touched
from scheduler.state.shapes import Shape

if TYPE_CHECKING:
    from scheduler.state.cluster import Cluster

KIND = "NodeMetric"
_MOST_WEIGHTS = 256


class LastReport(msgspec.Struct, frozen=True):
    """The effect of the last report on its node, for queueing hints."""

    node: str = ""
    before: Headrooms | None = None
    after: Headrooms | None = None
    is_gone: bool = False

    def may_help(self, weight: Weight, silence_s: float) -> bool:
        """Return whether a pod may pass the node now and did not before.

        It did not if headroom was too small, or if the last report was older than `silence_s`: then
        it may have expired in between.
        """
        before, after = self.before, self.after
        if before is None:
            return False
        if self.is_gone:
            return True
        if after is None or not after.fits(weight):
            return False
        return after.updated - before.updated >= silence_s or not before.fits(weight)


class LoadTracker:
    """Follows nodes, NodeMetrics and placed pods; without NodeMetrics its cost is negligible."""

    kinds: tuple[str, ...] = (KIND,)

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.touched = Touched()
        self._cluster: Cluster | None = None
        self._weights: WeakKeyDictionary[Shape, dict[tuple[PodAnnotations, str], Weight]]
        self._weights = WeakKeyDictionary()
        self._clear()

    def _clear(self) -> None:
        self._grid = LoadColumns(len(self.settings.resources))
        self._rows: dict[str, int] = {}
        self._loads: dict[str, NodeLoad] = {}
        self._limits: dict[str, NodeLimits] = {}
        self._headrooms: dict[str, Headrooms] = {}
        self.touched = Touched()
        # Nodes on which another figure replaces a missing percentile.
        self.substitutes: set[str] = set()
        self.last_report = LastReport()

    # Columns over all rows, read by the plugin; `index` is a position in `settings.resources`.

    def headroom(self, index: int, *, prod: bool) -> IntColumn:
        """Return the least further usage that breaks a threshold of a resource."""
        column: IntColumn = (self._grid.prod_headroom if prod else self._grid.node_headroom)[index]
        return column

    def free(self, index: int, *, prod: bool) -> IntColumn:
        """Return allocatable minus usage, as scoring uses it; -1 for a node without the resource.

        The column of production pods is filled only if the settings score by it.
        """
        column: IntColumn = (self._grid.prod_free if prod else self._grid.node_free)[index]
        return column

    def divisor(self, index: int) -> Numbers:
        """Return the amounts that percentages refer to, at least 1; floats where these divide
        exactly.
        """
        column: Numbers = self._grid.divisors[index]
        return column

    def checked(self, *, prod: bool) -> BoolColumn:
        """Return the nodes with a report and some threshold."""
        return self._grid.prod_checked if prod else self._grid.node_checked

    def aggregated(self, *, prod: bool) -> BoolColumn:
        """Return the nodes whose thresholds apply to a percentile."""
        return self._grid.prod_aggregated if prod else self._grid.node_aggregated

    @property
    def measured(self) -> BoolColumn:
        """Return the nodes whose report holds measurements."""
        return self._grid.measured

    @property
    def updated(self) -> FloatColumn:
        """Return the time of each node's report in seconds since the epoch; minus infinity for
        none.
        """
        return self._grid.updated

    def fits(self, node: str, weight: Weight) -> bool:
        """Return whether a pod exceeds no threshold of a node; True for a node without a report."""
        headrooms = self._headrooms.get(node)
        return headrooms is None or headrooms.fits(weight)

    @property
    def reports(self) -> int:
        """Return how many nodes have a report."""
        return len(self._loads)

    def load(self, node: str) -> NodeLoad | None:
        """Return the load of a node that has a report."""
        return self._loads.get(node)

    def limits(self, node: str) -> NodeLimits | None:
        """Return the limits of a node that has a report."""
        return self._limits.get(node)

    def rows(self) -> Iterator[tuple[str, int]]:
        """Yield the nodes that have a report, with their rows."""
        yield from self._rows.items()

    def weight(self, shape: Shape, pod: Pod) -> Weight:
        """Return estimate and class of a pod; replicas share them."""
        by_rest = self._weights.get(shape)
        if by_rest is None:
            by_rest = self._weights[shape] = {}
        key = (pod.metadata.annotations, pod.status.qos_class)
        found = by_rest.get(key)
        if found is None:
            if len(by_rest) >= _MOST_WEIGHTS:
                by_rest.clear()
            found = by_rest[key] = weigh(pod, self.settings)
        return found

    # The tracker.

    def rebuild(self, cluster: "Cluster") -> None:
        """Rebuild all state from `cluster`."""
        self._clear()
        self._cluster = cluster
        self._grid.grow(cluster.table.size)
        for name, metric in cluster.store.of(KIND).items():
            self._open(name, metric)

    def apply(self, change: Change) -> None:
        """Apply one change."""
        if change.kind == "Pod":
            self._pod(change.before, change.after)
        elif change.kind == KIND:
            name = change.old.metadata.name if change.new is None else change.new.metadata.name
            self._report(name, change.new)
        elif change.kind == "Node":
            self._node(change)

    def columns(self) -> Mapping[str, Any]:
        """Return all columns and sums by name, for invariants and dumps, without unused rows."""
        found: dict[str, Any] = {}
        for name, load in sorted(self._loads.items()):
            sums = (load.node_delta, load.prod_delta, load.prod_usage)
            found[f"sums {name}"] = [list(one) for one in sums]
        if self._cluster is not None:
            for name, row in self._cluster.table.rows.items():
                found[f"cells {name}"] = self._grid.cells(row)
        found["substitutes"] = sorted(self.substitutes)
        return found

    # Following.

    def _node(self, change: Change) -> None:
        name, cluster = change.node.metadata.name, self._cluster
        if cluster is None:
            return
        if change.verb == "delete":
            self._close(name)
        elif change.verb == "add":
            self._grid.grow(cluster.table.size)
            metric = cluster.store.of(KIND).get(name)
            if metric is not None:
                self._open(name, metric)
        elif name in self._loads:
            limits = node_limits(change.node, self.settings)
            if limits != self._limits[name]:
                self._limit(name, limits)
                self._loads[name].count_prod(counts=self._counts_prod(limits))
                self._write(name)

    def _open(self, name: str, metric: NodeMetric) -> None:
        """Start to count the load of a known node; nodes without a report need no entry."""
        cluster = self._cluster
        row = None if cluster is None else cluster.table.rows.get(name)
        if cluster is None or row is None:
            return
        node = cluster.table.nodes[row]
        if node is None:
            return
        self._rows[name] = row
        limits = self._limit(name, node_limits(node, self.settings))
        load = self._loads[name] = NodeLoad(len(self.settings.resources))
        load.count_prod(counts=self._counts_prod(limits))
        load.report = read_report(metric, self.settings)
        for uid, placed in cluster.pods.on(name).items():
            self._hold(load, uid, placed)
        self._write(name)

    def _limit(self, name: str, limits: NodeLimits) -> NodeLimits:
        self._limits[name] = limits
        self._grid.offer(self._rows[name], limits.allocatable)
        return limits

    def _close(self, name: str) -> None:
        """Drop the load of a node that was deleted, or whose report was."""
        row = self._rows.pop(name, None)
        if row is not None:
            del self._loads[name]
            del self._limits[name]
            del self._headrooms[name]
            self.substitutes.discard(name)
            self._grid.clear(row)
            self.touched.add(row)

    def _counts_prod(self, limits: NodeLimits) -> bool:
        return self.settings.scores_prod or limits.prod_breaks is not None

    def _report(self, name: str, metric: NodeMetric | None) -> None:
        load, before = self._loads.get(name), self._headrooms.get(name)
        if metric is None:
            self._close(name)
        elif load is None:
            self._open(name, metric)
        else:
            load.take(read_report(metric, self.settings))
            self._write(name)
        self.last_report = LastReport(
            name, before, self._headrooms.get(name), is_gone=metric is None
        )

    def _pod(self, before: Placed | None, after: Placed | None) -> None:
        if before is not None and (after is None or before.node != after.node):
            load = self._loads.get(before.node)
            if load is not None and load.drop(before.pod.metadata.uid):
                self._write(before.node)
        if after is not None:
            load = self._loads.get(after.node)
            if load is not None:
                uid = after.pod.metadata.uid
                entry = load.entries.get(uid)
                self._hold(load, uid, after)
                if load.entries.get(uid) is not entry:
                    self._write(after.node)

    def _hold(self, load: NodeLoad, uid: str, placed: Placed) -> None:
        pod = placed.pod
        weight = self.weight(placed.shape, pod)
        entry = entry_of(pod, weight, self.settings)
        if entry is None:
            load.drop(uid)
        else:
            load.put(uid, entry)

    def _write(self, name: str) -> None:
        """Recompute the row of a node."""
        row, limits, load = self._rows[name], self._limits[name], self._loads[name]
        report = load.report
        if report is None:
            return
        self.touched.add(row)
        self.substitutes.discard(name)
        checked_by = report.choose(limits.percentile)
        scored_by = report.choose(self.settings.score_percentile)
        if report.usage is not None and (checked_by.is_substitute or scored_by.is_substitute):
            self.substitutes.add(name)
        nothing, counts = self.settings.nothing, self.settings.estimates_in_filter
        node_delta = load.node_delta if counts else nothing
        node_headroom = _headroom(limits.node_breaks, report, checked_by.usage, node_delta)
        node_free = _free(limits.allocatable, report, scored_by.usage, load.node_delta)
        prod_headroom, prod_free = node_headroom, node_free
        if load.counts_prod:
            production = load.production()
            prod_used = _sum(production, load.prod_delta)
            prod_free = _free(limits.allocatable, report, prod_used, nothing)
            if limits.prod_breaks is not None:
                filtered_by = prod_used if counts else production
                prod_headroom = _headroom(limits.prod_breaks, report, filtered_by, nothing)
        has_node, has_prod = limits.node_breaks is not None, limits.prod_breaks is not None
        has_percentile = limits.percentile is not None
        self._headrooms[name] = headrooms = Headrooms(node_headroom, prod_headroom, report.updated)
        self._grid.write(
            row,
            headrooms,
            node_free=node_free,
            prod_free=prod_free,
            flags=(
                has_node,
                has_prod or has_node,
                has_percentile,
                has_percentile and not has_prod,
                report.usage is not None,
            ),
        )


def _sum(one: Vector | list[int], other: Vector | list[int]) -> list[int]:
    return [a + b for a, b in zip(one, other, strict=True)]


def _headroom(
    breaks: Vector | None, report: LoadReport, used: Vector | list[int], more: Vector | list[int]
) -> list[int]:
    if breaks is None or report.usage is None:
        return [UNLIMITED] * len(more)
    return [b - u - m for b, u, m in zip(breaks, used, more, strict=True)]


def _free(
    offered: Vector, report: LoadReport, used: Vector | list[int], more: Vector | list[int]
) -> list[int]:
    if report.usage is None:
        return [-1] * len(offered)
    return [o - u - m if o > 0 else -1 for o, u, m in zip(offered, used, more, strict=True)]
