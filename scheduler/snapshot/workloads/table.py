"""The supported workloads, by kind; `missing_objects` yields the objects that one lacks."""

from collections.abc import Callable, Iterator
from typing import Final

from msgspec.structs import replace

from scheduler.base.errors import ObjectError
from scheduler.snapshot.admission import MALFORMED
from scheduler.snapshot.spelling import check_spelling
from scheduler.snapshot.workloads import jobs, ordered, replicas
from scheduler.snapshot.workloads.found import (
    FoundWorkload,
    Plain,
    SnapshotSurroundings,
    count_of,
    list_of,
    part_of,
    template_of,
)
from scheduler.snapshot.workloads.replicas import defaulted

Maker = Callable[[FoundWorkload, SnapshotSurroundings], Iterator[Plain]]
_MAKERS: Final[dict[str, Maker]] = {
    "Deployment": replicas.deployment,
    "ReplicaSet": replicas.replicas,
    "ReplicationController": replicas.replicas,
    "StatefulSet": ordered.stateful,
    "DaemonSet": ordered.daemons,
    "Job": jobs.jobs,
    "CronJob": jobs.cron_jobs,
    "JobSet": jobs.job_sets,
    "LeaderWorkerSet": replicas.leader_workers,
}
# The supported workloads: kind → API group.
KINDS: Final = {
    "Deployment": "apps",
    "ReplicaSet": "apps",
    "ReplicationController": "",
    "StatefulSet": "apps",
    "DaemonSet": "apps",
    "Job": "batch",
    "CronJob": "batch",
    "JobSet": "jobset.x-k8s.io",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io",
}
# Kinds that have defaults: kind → their entry in the table of defaults.
_DEFAULTED: Final = {
    "Deployment": "deployments.apps",
    "ReplicaSet": "replicasets.apps",
    "ReplicationController": "replicationcontrollers",
    "StatefulSet": "statefulsets.apps",
    "DaemonSet": "daemonsets.apps",
    "Job": "jobs.batch",
    "CronJob": "cronjobs.batch",
}
# Plugins read the selectors of these kinds; some snapshots have only those.
_READ_ANYWAY: Final = ("ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet")
_NUMBERS: Final = ("replicas", "parallelism", "completions", "minReadySeconds", "backoffLimit")
_PARTS: Final = ("strategy", "updateStrategy", "ordinals", "scheduling")


def missing_objects(workload: FoundWorkload, around: SnapshotSurroundings) -> Iterator[Plain]:
    """Yield the missing objects of a workload: pods, claims of their volumes, ReplicaSets.

    ObjectError names the invalid field. A workload that another one of the snapshot controls yields
    nothing: its owner does.
    """
    for owner in list_of(workload.meta, "ownerReferences", "metadata"):
        key = str(owner.get("kind")), workload.namespace, str(owner.get("name"))
        if owner.get("controller") and key in around.workloads:
            return
    if workload.kind in _READ_ANYWAY and "template" not in workload.spec:
        return
    try:
        yield from _MAKERS[workload.kind](with_defaults(workload), around)
    except MALFORMED as error:
        raise ObjectError(f"cannot be read: {error!r}") from error


def with_defaults(workload: FoundWorkload) -> FoundWorkload:
    """Return a checked workload with the API server's defaults."""
    storage = _DEFAULTED.get(workload.kind)
    if storage is None:
        return workload
    spec, field = workload.spec, "spec"
    if workload.kind == "CronJob":
        spec = part_of(part_of(spec, "jobTemplate", "spec"), "spec", "spec.jobTemplate")
        field = "spec.jobTemplate.spec"
    for name in _NUMBERS:
        count_of(spec, name, field, 0)
    for name in _PARTS:
        part_of(spec, name, field)
    for claim in list_of(spec, "volumeClaimTemplates", field):
        part_of(claim, "spec", f"{field}.volumeClaimTemplates[]")
        if not part_of(claim, "metadata", f"{field}.volumeClaimTemplates[]").get("name"):
            raise ObjectError(f"{field}.volumeClaimTemplates[].metadata.name is missing")
    template = template_of(spec, field)
    check_spelling({name: template[name] for name in ("metadata", "spec") if name in template})
    raw = defaulted(storage, workload.raw)
    return replace(workload, raw=raw)
