"""NodeMetric: resource usage of a node and its pods, reported by a node agent or our operator.

The load-aware plugin reads it, the NodeMetric operator writes its spec and, where no agent runs,
its status. Quantities and times stay as written; the reader handles invalid ones.
"""

from scheduler.objects.meta import AnnotatedMeta, Int64, Object
from scheduler.objects.pod import ResourceList


class ResourceMap(Object, frozen=True):
    """Amounts by resource."""

    resources: ResourceList = {}


class AggregatedUsage(Object, frozen=True):
    """Usage over one window; `usage` has avg, p50, p90, p95, p99, without amounts that are
    unknown.
    """

    duration: str = ""
    usage: dict[str, ResourceMap] = {}


class NodeMetricInfo(Object, frozen=True):
    """The usage of the node: on average, over windows, and the part outside all pods."""

    node_usage: ResourceMap = ResourceMap()
    aggregated_node_usages: tuple[AggregatedUsage, ...] = ()
    system_usage: ResourceMap = ResourceMap()
    aggregated_system_usages: tuple[AggregatedUsage, ...] = ()


class PodMetricInfo(Object, frozen=True):
    """The usage of a pod; `priority` is the priority class that the reporter read."""

    namespace: str = ""
    name: str = ""
    priority: str = ""
    qos: str = ""
    pod_usage: ResourceMap = ResourceMap()


class AggregatePolicy(Object, frozen=True):
    """The windows of the percentiles, as Go durations."""

    durations: tuple[str, ...] = ()


class NodeMetricCollectPolicy(Object, frozen=True):
    """How the node's agent measures."""

    aggregate_duration_seconds: Int64 | None = None
    report_interval_seconds: Int64 | None = None
    node_aggregate_policy: AggregatePolicy | None = None
    node_memory_collect_policy: str = ""


class NodeMetricSpec(Object, frozen=True):
    """The reporter's settings."""

    metric_collect_policy: NodeMetricCollectPolicy | None = None


class NodeMetricStatus(Object, frozen=True):
    """The last report; without `node_metric` there was none."""

    update_time: str | None = None
    node_metric: NodeMetricInfo | None = None
    pods_metric: tuple[PodMetricInfo, ...] = ()


class NodeMetric(Object, frozen=True):
    """The measurements of one node, named after it."""

    metadata: AnnotatedMeta = AnnotatedMeta()
    spec: NodeMetricSpec = NodeMetricSpec()
    status: NodeMetricStatus = NodeMetricStatus()
