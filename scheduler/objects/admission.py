"""Objects that admission plugins and controllers read, for type checks.

Never watched: a scheduler receives objects after admission. `simulate`, `capacity` and `explain`
read them from files and clusters, and work on the plain data.
"""

from scheduler.objects.meta import Int32, Object, ObjectMeta
from scheduler.objects.pod import ResourceList, Toleration


class PriorityClass(Object, frozen=True):
    """A priority class."""

    metadata: ObjectMeta = ObjectMeta()
    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str = ""


class RuntimeOverhead(Object, frozen=True):
    """The resources that a runtime needs in addition to the containers."""

    pod_fixed: ResourceList = {}


class RuntimeScheduling(Object, frozen=True):
    """The nodes that have a runtime."""

    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()


class RuntimeClass(Object, frozen=True):
    """A runtime class."""

    metadata: ObjectMeta = ObjectMeta()
    overhead: RuntimeOverhead | None = None
    scheduling: RuntimeScheduling | None = None


class LimitRangeItem(Object, frozen=True):
    """The limits of one type of objects."""

    type: str = ""
    max: ResourceList = {}
    min: ResourceList = {}
    default: ResourceList = {}
    default_request: ResourceList = {}


class LimitRangeSpec(Object, frozen=True):
    """Limits by type."""

    limits: tuple[LimitRangeItem, ...] = ()


class LimitRange(Object, frozen=True):
    """A namespace's limits and defaults for containers."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LimitRangeSpec = LimitRangeSpec()


class QuotaSpec(Object, frozen=True):
    """The most that a namespace may use."""

    hard: ResourceList = {}


class ResourceQuota(Object, frozen=True):
    """A namespace's quota, and its current usage."""

    metadata: ObjectMeta = ObjectMeta()
    spec: QuotaSpec = QuotaSpec()


class DaemonSet(Object, frozen=True):
    """A DaemonSet; `workloads` reads the other fields."""

    metadata: ObjectMeta = ObjectMeta()
