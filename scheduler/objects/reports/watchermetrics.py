"""WatcherMetrics: the load of nodes as reported by load-watcher.

The answer of `GET /watcher` as an object: a metric provider passes it to the engine like an object
of the API server, and a snapshot may contain it. All values are percentages, except that bandwidth
is 100 times bytes per second.
"""

import msgspec

from scheduler.objects.meta import Object, ObjectMeta

WATCHER_METRICS_NAME = "load-watcher"


class WatcherMetric(Object, frozen=True):
    """One figure: type CPU, Memory, Bandwidth …; operator AVG, STD, Latest or none."""

    type: str = ""
    name: str = ""
    operator: str = ""
    rollup: str = ""
    value: float = 0.0


class WatcherNode(Object, frozen=True):
    """The figures of one node."""

    metrics: tuple[WatcherMetric, ...] = ()


class WatcherData(Object, frozen=True):
    """The figures by node name."""

    node_metrics_map: dict[str, WatcherNode] = msgspec.field(name="NodeMetricsMap", default={})


class WatcherWindow(Object, frozen=True):
    """The time window of the figures; seconds since the epoch."""

    duration: str = ""
    start: int = 0
    end: int = 0


class WatcherMetrics(Object, frozen=True):
    """One answer; `timestamp` is its creation time, in seconds since the epoch."""

    metadata: ObjectMeta = ObjectMeta()
    timestamp: int = 0
    source: str = ""
    window: WatcherWindow = WatcherWindow()
    data: WatcherData = WatcherData()
