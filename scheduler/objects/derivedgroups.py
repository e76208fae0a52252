"""Groups derived from workload objects: which there are, and of which a pod is by its controllers'
labels.

Opt-in by kind. A pod that another source names a group for is never of a derived one; of two kinds
that could derive it the outer one counts (a JobSet, not its Jobs). Workloads whose pods come one
after the other (ordered start) make no group: the later ones would be waited for in vain. Pure.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from scheduler.objects.jobs import Job, JobSet, JobSpec, LeaderWorkerSet, MPIJob, RayCluster
from scheduler.objects.meta import Object, ObjectMeta
from scheduler.objects.pod import Pod

KIND: Final = "DerivedGroup"
# Words of the argument `derive` → the kind whose object is read; a RayJob makes a RayCluster, a
# TrainJob a JobSet.
OBJECT_OF: Final[Mapping[str, str]] = {
    "JobSet": "JobSet",
    "TrainJob": "JobSet",
    "LeaderWorkerSet": "LeaderWorkerSet",
    "RayCluster": "RayCluster",
    "RayJob": "RayCluster",
    "MPIJob": "MPIJob",
    "Job": "Job",
}
MOST_GROUPS: Final = 10_000
_JOBSET: Final = "jobset.sigs.k8s.io/jobset-name"
_LWS, _LWS_INDEX = "leaderworkerset.sigs.k8s.io/name", "leaderworkerset.sigs.k8s.io/group-index"
_RAY: Final = "ray.io/cluster"
_JOB, _JOB_INDEX = "batch.kubernetes.io/job-name", "batch.kubernetes.io/job-completion-index"
_MPI, _OPERATOR = "training.kubeflow.org/job-name", "training.kubeflow.org/operator-name"

# The labels by which pods of a workload that nothing here makes pods for name it.
OWNER_LABELS: Final[Mapping[str, str]] = {"RayCluster": _RAY, "MPIJob": _MPI}


class DerivedGroup(Object, frozen=True):
    """A group of at least `size` pods of the object `owner` of kind `of`."""

    metadata: ObjectMeta = ObjectMeta()
    of: str = ""
    owner: str = ""
    size: int = 1


def kinds_of(words: Collection[str]) -> frozenset[str]:
    """Return the kinds whose objects the words of `derive` need."""
    return frozenset(OBJECT_OF[word] for word in words)


def group_named(pod: Pod, kinds: Collection[str]) -> str:
    """Return the name of the group that a pod would be of by its labels, '' for none."""
    labels = pod.metadata.labels
    for kind, name in (
        ("JobSet", labels.get(_JOBSET, "")),
        ("LeaderWorkerSet", _of_group(labels)),
        ("RayCluster", labels.get(_RAY, "")),
        ("MPIJob", labels.get(_MPI, "") if labels.get(_OPERATOR) == "mpi-operator" else ""),
        ("Job", labels.get(_JOB, "") if _JOB_INDEX in labels else ""),
    ):
        if name and kind in kinds:
            return f"{kind.lower()}-{name}"
    return ""


def _of_group(labels: Mapping[str, str]) -> str:
    name, index = labels.get(_LWS, ""), labels.get(_LWS_INDEX, "")
    return f"{name}-{index}" if name and index else ""


def derived(kind: str, obj: Any) -> dict[str, DerivedGroup]:
    """Return the groups of an object by name; none of an object whose pods are no group."""
    meta = obj.metadata
    found: dict[str, DerivedGroup] = {}
    for name, size in _SIZES[kind](obj):
        if size > 1 and len(found) < MOST_GROUPS:
            key = f"{kind.lower()}-{name}"
            made = ObjectMeta(name=key, namespace=meta.namespace, uid=f"{meta.uid}/{name}")
            found[key] = DerivedGroup(made, kind, meta.name, size)
    return found


def _pods(spec: JobSpec) -> int:
    """Return how many pods of a Job run at once."""
    most = spec.parallelism if spec.completions is None else spec.completions
    return max(0, min(spec.parallelism, most))


def _job(obj: Job) -> Iterator[tuple[str, int]]:
    if obj.spec.completion_mode == "Indexed":
        yield obj.metadata.name, _pods(obj.spec)


def _jobset(obj: JobSet) -> Iterator[tuple[str, int]]:
    jobs = obj.spec.replicated_jobs
    is_ordered = obj.spec.startup_policy.startup_policy_order == "InOrder"
    if not is_ordered and not any(one.depends_on for one in jobs):
        size = sum(max(0, one.replicas) * _pods(one.template.spec) for one in jobs)
        yield obj.metadata.name, size


def _leader_worker_set(obj: LeaderWorkerSet) -> Iterator[tuple[str, int]]:
    if obj.spec.startup_policy != "LeaderReady":
        for index in range(min(obj.spec.replicas, MOST_GROUPS)):
            yield f"{obj.metadata.name}-{index}", obj.spec.leader_worker_template.size


def _ray_cluster(obj: RayCluster) -> Iterator[tuple[str, int]]:
    size = 1
    for one in obj.spec.worker_group_specs:
        is_open = obj.spec.enable_in_tree_autoscaling or one.replicas is None
        replicas = one.min_replicas if is_open else one.replicas
        size += max(0, replicas or 0) * max(1, one.num_of_hosts)
    yield obj.metadata.name, size


def _mpi_job(obj: MPIJob) -> Iterator[tuple[str, int]]:
    # A launcher that waits for its workers is made when these run.
    waits = obj.spec.launcher_creation_policy == "WaitForWorkersReady"
    specs = obj.spec.mpi_replica_specs
    if not waits:
        yield obj.metadata.name, sum(max(0, one.replicas) for one in specs.values())


_SIZES: Final[Mapping[str, Callable[[Any], Iterator[tuple[str, int]]]]] = {
    "JobSet": _jobset,
    "LeaderWorkerSet": _leader_worker_set,
    "RayCluster": _ray_cluster,
    "MPIJob": _mpi_job,
    "Job": _job,
}
