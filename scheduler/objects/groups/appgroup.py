"""AppGroup: the workloads of one application and their dependencies.

The operator writes its status, the network plugins read its dependencies, the queue its order. Pods
belong to a group by two labels. Older spellings are read as well: `spec.Pods`, and workloads
without a selector, for which the name is used.
"""

from collections.abc import Container, Iterable
from typing import Any

import msgspec

from scheduler.objects.meta import Condition, Object, ObjectMeta
from scheduler.objects.network import Quantity, Statistics

GROUP_LABEL = "appgroup.diktyo.x-k8s.io"
WORKLOAD_LABEL = "appgroup.diktyo.x-k8s.io.workload"


class WorkloadRef(Object, frozen=True):
    """A reference to a workload; pods name it by their label, whose value is the selector."""

    kind: str = ""
    name: str = ""
    selector: str = ""
    api_version: str = ""
    namespace: str = ""

    @property
    def label(self) -> str:
        """Return the value of the label on the workload's pods."""
        return self.selector or self.name


class Dependency(Object, frozen=True):
    """A dependency of a workload; a missing cost limit is 0, a missing bandwidth is none."""

    workload: WorkloadRef = WorkloadRef()
    min_bandwidth: Quantity | None = None
    max_network_cost: int | None = None


class Workload(Object, frozen=True):
    """A workload of the group; `dependencies` in listed order.

    A gang needs `min_members` pods of it, by default one.
    """

    workload: WorkloadRef = WorkloadRef()
    dependencies: tuple[Dependency, ...] = ()
    min_members: int | None = None


class OlderMember(Object, frozen=True):
    """A member in the early design's format, whose dependencies have several forms."""

    name: str = ""
    dependencies: Any = None


class AppGroupSpec(Object, frozen=True):
    """The user's spec; read the workloads through `members`.

    The pods of a `gang` are placed all together or not at all.
    """

    num_members: int = 0
    gang: bool = False
    topology_sorting_algorithm: str = ""
    workloads: tuple[Workload, ...] = ()
    pods: tuple[OlderMember, ...] = msgspec.field(name="Pods", default=())

    @property
    def members(self) -> tuple[Workload, ...]:
        """Return the workloads; those of `spec.Pods` if there are no others."""
        if self.workloads or not self.pods:
            return self.workloads
        return tuple(
            Workload(
                WorkloadRef(name=pod.name),
                tuple(Dependency(WorkloadRef(name=name)) for name in _named(pod.dependencies)),
            )
            for pod in self.pods
        )


class OrderEntry(Object, frozen=True):
    """A workload's place in the order, from 1 on."""

    workload: WorkloadRef = WorkloadRef()
    index: int = 0
    workload_statistics: Statistics | None = None


class ScheduledPod(Object, frozen=True):
    """A pod of the group that is bound: workload, pod, node."""

    name: str = ""
    replica_id: str = msgspec.field(name="replicaID", default="")
    hostname: str = ""


class GangStatus(Object, frozen=True):
    """The gang's progress: `phase` Pending or Scheduled, the reason, and when it was last
    complete.
    """

    phase: str = ""
    message: str = ""
    schedule_time: str | None = None


class AppGroupStatus(Object, frozen=True):
    """Observed and calculated values; None is a field that was never written.

    The scheduler writes `gang`, the operator all other fields.
    """

    observed_generation: int | None = None
    running_workloads: int | None = None
    running_pods: int | None = None
    pods_scheduled: tuple[ScheduledPod, ...] = ()
    schedule_start_time: str | None = None
    topology_calculation_time: str | None = None
    topology_order: tuple[OrderEntry, ...] = ()
    app_group_statistics: Statistics | None = None
    gang: GangStatus | None = None
    conditions: tuple[Condition, ...] = ()


class AppGroup(Object, frozen=True):
    """An application group."""

    metadata: ObjectMeta = ObjectMeta()
    spec: AppGroupSpec = AppGroupSpec()
    status: AppGroupStatus = AppGroupStatus()


def namespace_of(there: Container[str], own: str, others: Iterable[str]) -> str | None:
    """Return the namespace of the AppGroup that a pod of namespace `own` names by its label.

    `there` are the namespaces with an AppGroup of that name: the pod's own comes first, then
    `others`, those of the plugin's arguments, in their order. None if there is no such group.
    """
    return next((one for one in (own, *others) if one in there), None)


def _named(raw: Any) -> tuple[str, ...]:
    """Return the dependencies in the early design's format: a name, a mapping, or a list of
    either.
    """
    if isinstance(raw, str):
        return (raw,) if raw else ()
    if isinstance(raw, dict):
        return _named(raw.get("name") or raw.get("podAffinity"))
    if isinstance(raw, list | tuple):
        return tuple(name for one in raw for name in _named(one))
    return ()
