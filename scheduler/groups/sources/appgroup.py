"""AppGroups with `gang: true`: the pods of a whole application, placed in one step to minimise
network cost.

A label names the AppGroup, in the pod's own namespace; only one with `gang: true` makes a group of
its pods. Workloads are roles, dependencies are the traffic between them;
`framework.together.AreaPaths` has its cost. `maxNetworkCost` is a hard limit here for each pair of
pods.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from scheduler.base.errors import ObjectError
from scheduler.framework.calls import ApiCall
from scheduler.groups.description.classes import (
    ClassesSpec,
    ClassSpec,
    FlowSpec,
    LimitSpec,
    TrafficSpec,
)
from scheduler.groups.description.spec import LARGEST_GROUP, GroupSpec
from scheduler.groups.sources.inputs import check_between, check_count
from scheduler.groups.sources.served import changed, renamed
from scheduler.objects.groups.appgroup import (
    GROUP_LABEL,
    WORKLOAD_LABEL,
    AppGroup,
    AppGroupStatus,
    GangStatus,
    Workload,
)
from scheduler.objects.groups.grouporder import finder
from scheduler.objects.pod import Pod
from scheduler.objects.quantity import quantity

KIND = "AppGroup"
PREFIX = "appgroup:"
MERGE_PATCH = "application/merge-patch+json"
PENDING, SCHEDULED = "Pending", "Scheduled"
MOST_WORKLOADS = 32
MOST_DEPENDENCIES = 256


class AppGroups:
    """The source of AppGroups."""

    kind = KIND
    served_as = "AppGroup"
    api_version = "appgroup.diktyo.x-k8s.io/v1alpha1"
    label = "AppGroup"

    def key(self, obj: AppGroup) -> str:
        """Return `namespace/name` behind the prefix of applications; nothing for an application
        that is no gang.
        """
        return f"{PREFIX}{obj.metadata.namespace}/{obj.metadata.name}" if obj.spec.gang else ""

    def read(self, obj: AppGroup) -> GroupSpec:
        """Return the group that the AppGroup describes; ObjectError names the invalid field."""
        meta, entries = obj.metadata, obj.spec.members
        check_count(entries, MOST_WORKLOADS, "spec.workloads", "workloads of a gang")
        least: Counter[str] = Counter()
        for at, entry in enumerate(entries):
            least[_label(entry, at)] += _least(entry, at)
        if not 1 <= len(least) <= MOST_WORKLOADS:
            text = (
                f"spec.workloads: a gang has from 1 to {MOST_WORKLOADS} workloads, not {len(least)}"
            )
            raise ObjectError(text)
        if least.total() > LARGEST_GROUP:
            text = (
                f"spec.workloads: minMembers are {least.total()} in all, {LARGEST_GROUP} "
                "are the most"
            )
            raise ObjectError(text)
        dependencies = [one for entry in entries for one in entry.dependencies]
        check_count(dependencies, MOST_DEPENDENCIES, "spec.workloads", "dependencies of a gang")
        ties = list(_ties(entries))
        weights = Counter((one.first, one.second) for one in ties)
        classes = ClassesSpec(
            tuple(ClassSpec(name, number) for name, number in least.items()),
            traffic=tuple(TrafficSpec(*ends, weight) for ends, weight in weights.items()),
            label=WORKLOAD_LABEL,
            limits=tuple(dict.fromkeys(ties)),
            flows=_flows(entries),
        )
        return GroupSpec(
            meta.namespace,
            meta.name,
            least.total(),
            None,
            source=f"AppGroup {meta.namespace}/{meta.name}",
            is_minimum=True,
            is_evicted_together=False,
            has_classes=True,
            classes=classes,
            by_network=True,
        )

    def was_placed(self, obj: AppGroup) -> bool:
        """Return whether the status states that all required members were bound at one time."""
        return obj.status.gang is not None and obj.status.gang.schedule_time is not None

    def renamed(self, obj: AppGroup, name: str) -> AppGroup:
        """Return a copy of the AppGroup under another name."""
        return renamed(obj, name, status=AppGroupStatus())

    def status(self, obj: AppGroup, **values: Any) -> list[ApiCall]:
        """Return the request that sets fields of `status.gang`, if any differs."""
        fields = changed(obj.status.gang or GangStatus(), values)
        if not fields:
            return []
        meta = obj.metadata
        path = f"/apis/{self.api_version}/namespaces/{meta.namespace}/appgroups/{meta.name}/status"
        body = {"metadata": {"uid": meta.uid}, "status": {"gang": fields}}
        return [ApiCall("PATCH", path, body, MERGE_PATCH)]


def key_of(pod: Pod) -> str:
    """Return the key of the gang that a pod's label names, if it is one; '' without the label."""
    name = pod.metadata.labels.get(GROUP_LABEL)
    return f"{PREFIX}{pod.metadata.namespace}/{name}" if name else ""


def _label(entry: Workload, at: int) -> str:
    if not entry.workload.label:
        raise ObjectError(f"spec.workloads[{at}].workload.selector is missing")
    return entry.workload.label


def _least(entry: Workload, at: int) -> int:
    least = 1 if entry.min_members is None else entry.min_members
    check_between(least, 0, LARGEST_GROUP, f"spec.workloads[{at}].minMembers")
    return least


def _ties(entries: Iterable[Workload]) -> Iterable[LimitSpec]:
    """Yield the dependencies with their cost limits; ObjectError on a workload that is
    not listed.
    """
    listed = tuple(entries)
    find = finder(listed)
    for at, entry in enumerate(listed):
        for place, dependency in enumerate(entry.dependencies):
            where = f"spec.workloads[{at}].dependencies[{place}]"
            other = find(dependency.workload)
            if other is None:
                text = f'"{dependency.workload.label:.60}" is no workload of the group'
                raise ObjectError(f"{where}.workload: {text}")
            limit = dependency.max_network_cost or 0
            if limit < 0:
                raise ObjectError(f"{where}.maxNetworkCost: {limit} is below 0")
            yield LimitSpec(entry.workload.label, other, limit)


def _flows(entries: Iterable[Workload]) -> tuple[FlowSpec, ...]:
    """Return the flows between workloads; ObjectError for an invalid or negative amount."""
    listed = tuple(entries)
    find = finder(listed)
    found: Counter[tuple[str, str]] = Counter()
    for at, entry in enumerate(listed):
        for place, dependency in enumerate(entry.dependencies):
            if dependency.min_bandwidth is None:
                continue
            where = f"spec.workloads[{at}].dependencies[{place}].minBandwidth"
            try:
                amount = quantity(dependency.min_bandwidth)
            except ObjectError as error:
                raise ObjectError(f"{where}: {error.message}") from error
            if amount < 0:
                raise ObjectError(f"{where}: {dependency.min_bandwidth} is below 0")
            other = find(dependency.workload)
            if amount and other is not None:
                found[entry.workload.label, other] += amount
    return tuple(FlowSpec(*ends, amount) for ends, amount in found.items())


SOURCE = AppGroups()
