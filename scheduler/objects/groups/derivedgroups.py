"""Groups derived from workload objects: which exist, and which one a pod belongs to by the labels
that its controller writes.

Opt-in by kind, for all namespaces or for those whose annotation requests it. A pod that another
source names a group for is never a member of a derived one. A Job counts only without an outer
workload (a JobSet, not its Jobs); of two other workloads none has precedence. Workloads whose pods
start in order make no group: the later pods exist only when the first ones run. Pure.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from scheduler.objects.groups.jobs import Job, JobSet, JobSpec, LeaderWorkerSet, MPIJob, RayCluster
from scheduler.objects.meta import Object, ObjectMeta
from scheduler.objects.pod import Pod
from scheduler.objects.workloads import Namespace

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
ANNOTATION: Final = "trellis.dev/derive-groups"
_JOBSET: Final = "jobset.sigs.k8s.io/jobset-name"
_LWS, _LWS_INDEX = "leaderworkerset.sigs.k8s.io/name", "leaderworkerset.sigs.k8s.io/group-index"
_RAY: Final = "ray.io/cluster"
_JOB, _JOB_INDEX = "batch.kubernetes.io/job-name", "batch.kubernetes.io/job-completion-index"
_MPI, _OPERATOR = "training.kubeflow.org/job-name", "training.kubeflow.org/operator-name"

# Labels that name a pod's workload, for kinds whose pods no code here creates.
OWNER_LABELS: Final[Mapping[str, str]] = {"RayCluster": _RAY, "MPIJob": _MPI}


class DerivedGroup(Object, frozen=True):
    """A group of at least `size` pods of the object `owner` of kind `of`.

    A size below 2 states that the object's pods are no group and are scheduled one by one.
    """

    metadata: ObjectMeta = ObjectMeta()
    of: str = ""
    owner: str = ""
    size: int = 1

    @property
    def is_group(self) -> bool:
        """Return whether the pods are scheduled together."""
        return self.size > 1


class DeriveKinds(Object, frozen=True):
    """The kinds that a profile derives groups from: `always`, and where a namespace requests it."""

    always: frozenset[str] = frozenset()
    on_request: frozenset[str] = frozenset()


def kinds_of(words: Collection[str]) -> frozenset[str]:
    """Return the kinds whose objects the words of `derive` need."""
    return frozenset(OBJECT_OF[word] for word in words)


def requested(namespace: Namespace) -> tuple[str, ...]:
    """Return the words of a namespace's annotation, as written."""
    text = namespace.metadata.annotations.derive_groups
    return tuple(word for word in map(str.strip, text.split(",")) if word)


def group_named(pod: Pod, kinds: Collection[str]) -> str:
    """Return the name of the group that a pod would be of by its labels, '' for none.

    Several names, separated by spaces, if workloads of different kinds claim the pod.
    """
    labels = pod.metadata.labels
    claims = [
        f"{kind.lower()}-{name}"
        for kind, name in (
            ("JobSet", labels.get(_JOBSET, "")),
            ("LeaderWorkerSet", _of_group(labels)),
            ("RayCluster", labels.get(_RAY, "")),
            ("MPIJob", labels.get(_MPI, "") if labels.get(_OPERATOR) == "mpi-operator" else ""),
        )
        if name and kind in kinds
    ]
    if not claims and "Job" in kinds and _JOB_INDEX in labels and labels.get(_JOB):
        return f"job-{labels[_JOB]}"
    return " ".join(claims)


def kind_named(name: str) -> str:
    """Return the kind of the workload that a group's name starts with."""
    first = name.partition("-")[0]
    return next(kind for kind in _SIZES if kind.lower() == first)


def labels_naming(name: str) -> dict[str, str]:
    """Return the labels by which a pod names a derived group: the inverse of `group_named`."""
    kind, rest = kind_named(name), name.partition("-")[2]
    if kind == "LeaderWorkerSet":
        owner, _, index = rest.rpartition("-")
        return {_LWS: owner, _LWS_INDEX: index}
    return {{"JobSet": _JOBSET, "RayCluster": _RAY, "MPIJob": _MPI, "Job": _JOB}[kind]: rest}


def _of_group(labels: Mapping[str, str]) -> str:
    name, index = labels.get(_LWS, ""), labels.get(_LWS_INDEX, "")
    return f"{name}-{index}" if name and index else ""


def derived(kind: str, obj: Any) -> dict[str, DerivedGroup]:
    """Return the groups of an object's pods, by name."""
    meta = obj.metadata
    found: dict[str, DerivedGroup] = {}
    for name, size in _SIZES[kind](obj):
        if len(found) < MOST_GROUPS:
            key = f"{kind.lower()}-{name}"
            made = ObjectMeta(name=key, namespace=meta.namespace, uid=f"{meta.uid}/{name}")
            found[key] = DerivedGroup(made, kind, meta.name, size)
    return found


def _pods(spec: JobSpec) -> int:
    """Return how many pods of a Job run at once."""
    most = spec.parallelism if spec.completions is None else spec.completions
    return max(0, min(spec.parallelism, most))


def _job(obj: Job) -> Iterator[tuple[str, int]]:
    yield obj.metadata.name, _pods(obj.spec) if obj.spec.completion_mode == "Indexed" else 0


def _jobset(obj: JobSet) -> Iterator[tuple[str, int]]:
    jobs = obj.spec.replicated_jobs
    is_ordered = obj.spec.startup_policy.startup_policy_order == "InOrder"
    is_ordered = is_ordered or any(one.depends_on for one in jobs)
    size = sum(max(0, one.replicas) * _pods(one.template.spec) for one in jobs)
    yield obj.metadata.name, 0 if is_ordered else size


def _leader_worker_set(obj: LeaderWorkerSet) -> Iterator[tuple[str, int]]:
    spec = obj.spec
    size = 0 if spec.startup_policy == "LeaderReady" else spec.leader_worker_template.size
    for index in range(min(max(0, spec.replicas) + spec.surge, MOST_GROUPS)):
        yield f"{obj.metadata.name}-{index}", size


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
    yield obj.metadata.name, 0 if waits else sum(max(0, one.replicas) for one in specs.values())


_SIZES: Final[Mapping[str, Callable[[Any], Iterator[tuple[str, int]]]]] = {
    "JobSet": _jobset,
    "LeaderWorkerSet": _leader_worker_set,
    "RayCluster": _ray_cluster,
    "MPIJob": _mpi_job,
    "Job": _job,
}
