"""WatcherMetrics: how busy nodes are, as load-watcher tells it.

The answer of `GET /watcher` under a name of ours: a metric provider feeds it to the engine like any
object of the API server, a snapshot may carry it. All values are percentages, except that bandwidth
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
    """The time that the figures cover; seconds since the epoch."""

    duration: str = ""
    start: int = 0
    end: int = 0


class WatcherMetrics(Object, frozen=True):
    """One answer; `timestamp` is when it was made, in seconds since the epoch."""

    metadata: ObjectMeta = ObjectMeta()
    timestamp: int = 0
    source: str = ""
    window: WatcherWindow = WatcherWindow()
    data: WatcherData = WatcherData()
