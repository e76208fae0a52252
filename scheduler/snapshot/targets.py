"""Resolve `TYPE/NAME` in a snapshot: the pods of a workload or a group. Pure.

Types are spelled as kubectl takes them: singular, plural, short, in any case, with or without the
API group. The pods of a workload are found by controller reference or by its controller's label.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from scheduler.base.errors import InputError, MissingError
from scheduler.base.text import did_you_mean
from scheduler.groups.sources import registry as sources
from scheduler.objects.pod import Pod
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads.owned import controller_of

POD: Final = "Pod"
GROUP: Final = "PodGroup"
_HASH: Final = "pod-template-hash"


class WorkloadType(NamedTuple):
    """A workload's API path and the label that its controller writes on pods, '' for references."""

    group: str
    version: str
    plural: str
    label: str = ""
    short: tuple[str, ...] = ()


WORKLOADS: Final[Mapping[str, WorkloadType]] = {
    "Deployment": WorkloadType("apps", "v1", "deployments", short=("deploy",)),
    "ReplicaSet": WorkloadType("apps", "v1", "replicasets", short=("rs",)),
    "StatefulSet": WorkloadType("apps", "v1", "statefulsets", short=("sts",)),
    "DaemonSet": WorkloadType("apps", "v1", "daemonsets", short=("ds",)),
    "ReplicationController": WorkloadType("", "v1", "replicationcontrollers", short=("rc",)),
    "Job": WorkloadType("batch", "v1", "jobs"),
    "CronJob": WorkloadType("batch", "v1", "cronjobs", short=("cj",)),
    "JobSet": WorkloadType(
        "jobset.x-k8s.io", "v1alpha2", "jobsets", "jobset.sigs.k8s.io/jobset-name"
    ),
    "LeaderWorkerSet": WorkloadType(
        "leaderworkerset.x-k8s.io",
        "v1",
        "leaderworkersets",
        "leaderworkerset.sigs.k8s.io/name",
        ("lws",),
    ),
    "RayCluster": WorkloadType("ray.io", "v1", "rayclusters", "ray.io/cluster"),
    "MPIJob": WorkloadType("kubeflow.org", "v2beta1", "mpijobs", "training.kubeflow.org/job-name"),
    "PyTorchJob": WorkloadType(
        "kubeflow.org", "v1", "pytorchjobs", "training.kubeflow.org/job-name"
    ),
}
_ALIASES: Final = {
    **dict.fromkeys(("pod", "pods", "po"), POD),
    **dict.fromkeys(("podgroup", "podgroups", "pg", "group", "groups", "configmap", "cm"), GROUP),
    **dict.fromkeys(("configmaps", "appgroup", "appgroups", "compositepodgroups"), GROUP),
    **dict.fromkeys(("compositepodgroup", "workload", "workloads", "podgang", "podgangs"), GROUP),
    **{
        name: kind
        for kind, one in WORKLOADS.items()
        for name in (kind.lower(), one.plural, *one.short)
    },
}


class Target(NamedTuple):
    """The target of a command; `kind` is '' for a name alone, `namespace` '' for the default."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind or 'pod, workload or group'} {self.name}"


def target_of(words: Sequence[str], namespace: str = "") -> Target:
    """Read `NAME`, `NAMESPACE/NAME`, `TYPE/NAME` or `TYPE NAME`; InputError for anything else.

    A first word that is a type is read as a type: a namespace of such a name needs `-n`.
    """
    if len(words) == 1:
        first, slash, name = words[0].partition("/")
        if slash and (kind := kind_called(first)):
            words = (first, name)
        elif slash:
            return Target("", first, _one(name, words[0]))
        else:
            return Target("", namespace, _one(first, words[0]))
    if len(words) != 2:
        raise InputError("name one object: NAME, TYPE/NAME or TYPE NAME")
    kind = kind_called(words[0])
    if not kind:
        known = did_you_mean(words[0].lower(), _ALIASES)
        hint = known or f"; types are {', '.join(('pod', 'podgroup', *map(str.lower, WORKLOADS)))}"
        raise InputError(f'"{words[0]:.80}" is not a type of object with pods{hint}')
    space, slash, name = words[1].rpartition("/")
    return Target(kind, space or namespace, _one(name, words[1]))


def kind_called(word: str) -> str:
    """Return the kind that a word names, '' for none: `pods`, `deploy`, `jobs.batch`."""
    return _ALIASES.get(word.lower().partition(".")[0], "")


def _one(name: str, text: str) -> str:
    if not name or "/" in name:
        raise InputError(f'"{text:.200}" is not the name of an object: NAME or TYPE/NAME')
    return name


def pods_of(snapshot: Snapshot, target: Target) -> list[Pod]:
    """Return the pods of a target, pending ones first; an empty list for none."""
    every = [*snapshot.unbound, *snapshot.bound, *snapshot.ended]
    own = [pod for pod in every if pod.metadata.namespace == target.namespace]
    if target.kind in ("", POD):
        named = [pod for pod in own if pod.metadata.name == target.name]
        if named or target.kind:
            return named[:1]
    if target.kind in ("", GROUP):
        key = f"{target.namespace}/{target.name}"
        found = [pod for pod in own if sources.title_of(pod) == key]
        if found or target.kind:
            return found
    kinds = (target.kind,) if target.kind else tuple(WORKLOADS)
    for kind in kinds:
        found = [pod for pod in own if _is_of(pod, kind, target.name)]
        if found:
            return found
    return []


def _is_of(pod: Pod, kind: str, name: str) -> bool:
    label = WORKLOADS[kind].label
    if label:
        return pod.metadata.labels.get(label) == name
    owner = controller_of(pod)
    if owner is None:
        return False
    if kind == "Deployment":
        hashed = pod.metadata.labels.get(_HASH, "")
        return owner.kind == "ReplicaSet" and bool(hashed) and owner.name == f"{name}-{hashed}"
    if kind == "CronJob":
        base, _, number = owner.name.rpartition("-")
        return owner.kind == "Job" and base == name and number.isdigit()
    return owner.kind == kind and owner.name == name


def missing(snapshot: Snapshot, target: Target) -> MissingError:
    """Return the error for a target without pods, with similar names and other namespaces."""
    every = [*snapshot.unbound, *snapshot.bound, *snapshot.ended]
    spaces = sorted({pod.metadata.namespace for pod in every} - {target.namespace})
    elsewhere = [one for one in spaces if pods_of(snapshot, target._replace(namespace=one))]
    where = f"{target.namespace}/{target.name}"
    if elsewhere:
        text = f"not in namespace {target.namespace}, but in {', '.join(elsewhere[:5])}: use -n"
        return MissingError(text, where=where)
    own = [pod for pod in every if pod.metadata.namespace == target.namespace]
    names = {pod.metadata.name for pod in own}
    names |= {name for pod in own if (name := sources.title_of(pod).partition("/")[2])}
    what = "pod" if target.kind in ("", POD) else f"pod of a {target.kind} of this name"
    hint = did_you_mean(where, (f"{target.namespace}/{name}" for name in names))
    return MissingError(f"no such {what} is bound or waiting{hint}", where=where)
