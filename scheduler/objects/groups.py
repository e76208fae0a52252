"""AppGroup: the workloads of one application and what each of them depends on.

The operator keeps its status, the network plugins read its dependencies, the queue its order. Pods
belong to a group by two labels. Older spellings of the same facts are read as well: `spec.Pods`, and
workloads without a selector, which their name then stands for.
"""

from collections.abc import Container, Iterable
from typing import Any

import msgspec

from scheduler.objects.meta import Condition, Object, ObjectMeta
from scheduler.objects.network import Quantity, Statistics

GROUP_LABEL = "appgroup.diktyo.x-k8s.io"
WORKLOAD_LABEL = "appgroup.diktyo.x-k8s.io.workload"


class WorkloadRef(Object, frozen=True):
    """Which workload is meant; pods name it by their label, whose value is the selector."""

    kind: str = ""
    name: str = ""
    selector: str = ""
    api_version: str = ""
    namespace: str = ""

    @property
    def label(self) -> str:
        """Return the value that the pods of the workload carry in their label."""
        return self.selector or self.name


class Dependency(Object, frozen=True):
    """What a workload talks to; an absent cost limit counts as 0, an absent bandwidth as none."""

    workload: WorkloadRef = WorkloadRef()
    min_bandwidth: Quantity | None = None
    max_network_cost: int | None = None


class Workload(Object, frozen=True):
    """A workload of the group; `dependencies` in listed order. A gang needs `min_members` pods of it, else one."""

    workload: WorkloadRef = WorkloadRef()
    dependencies: tuple[Dependency, ...] = ()
    min_members: int | None = None


class OlderMember(Object, frozen=True):
    """A member in the words of the early design; what it depends on came in several forms."""

    name: str = ""
    dependencies: Any = None


class AppGroupSpec(Object, frozen=True):
    """What the user lays down; look at the workloads through `members`.

    The pods of a `gang` are placed together, or not at all.
    """

    num_members: int = 0
    gang: bool = False
    topology_sorting_algorithm: str = ""
    workloads: tuple[Workload, ...] = ()
    pods: tuple[OlderMember, ...] = msgspec.field(name="Pods", default=())

    @property
    def members(self) -> tuple[Workload, ...]:
        """Return the workloads, from `spec.Pods` when there are no others."""
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
    """A pod of the group that has a node: workload, pod, node."""

    name: str = ""
    replica_id: str = msgspec.field(name="replicaID", default="")
    hostname: str = ""


class GangStatus(Object, frozen=True):
    """How far the scheduler is with a gang: `phase` Pending or Scheduled, why it waits, and since when it was whole."""

    phase: str = ""
    message: str = ""
    schedule_time: str | None = None


class AppGroupStatus(Object, frozen=True):
    """What was observed and calculated; None is what nobody has written yet.

    `gang` is the scheduler's, all else the operator's.
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
    """Return the namespace of the AppGroup that a pod of namespace `own` means by its label.

    `there` are the namespaces with an AppGroup of that name: the pod's own comes first, then `others`,
    those of the plugin's arguments, in their order. None when there is no such group.
    """
    return next((one for one in (own, *others) if one in there), None)


def _named(raw: Any) -> tuple[str, ...]:
    """Read what a member of the early design depends on: a name, a mapping, or a list of either."""
    if isinstance(raw, str):
        return (raw,) if raw else ()
    if isinstance(raw, dict):
        return _named(raw.get("name") or raw.get("podAffinity"))
    if isinstance(raw, list | tuple):
        return tuple(name for one in raw for name in _named(one))
    return ()
