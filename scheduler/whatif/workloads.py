"""Workloads of a snapshot → the pods that their controllers would still make.

A Deployment in a file stands for its replicas: nobody simulates a cluster to learn about zero pods.
Called by `snapshot` once all objects are known; what a workload has already is not made again. Makes
plain objects, as a controller would write them; reading, defaulting and checking them is the
snapshot's business, as is what to do with a kind that is not in `KINDS`.
"""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any, Final, TypeAlias

import msgspec

from scheduler.base.errors import ObjectError
from scheduler.objects.meta import LabelSelector
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.objects.selectors import selector_matches
from scheduler.whatif.exclusive import asked_of_groups, in_group, in_job

Plain: TypeAlias = dict[str, Any]
# A workload that asks for more pods is refused: the simulation would be about nothing else.
MAX_PODS: Final = 100_000

_JOB_NAME: Final = "batch.kubernetes.io/job-name"
_JOB_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_JOBSET: Final = "jobset.sigs.k8s.io"
_LWS: Final = "leaderworkerset.sigs.k8s.io"


class FoundWorkload(msgspec.Struct, frozen=True):
    """A workload as found: `raw` is plain data, `is_given` says that it was named apart."""

    where: str
    kind: str
    raw: Plain
    is_given: bool

    @property
    def namespace(self) -> str:
        """Return its namespace, `default` where it names none."""
        return str(_part(self.raw, "metadata", "").get("namespace") or "default")

    @property
    def name(self) -> str:
        """Return its name; ObjectError when it has none."""
        name = _part(self.raw, "metadata", "").get("name")
        if not isinstance(name, str) or not name:
            raise ObjectError("metadata.name is missing", where=self.kind)
        return name

    @property
    def key(self) -> tuple[str, str, str]:
        """Return kind, namespace and name."""
        return self.kind, self.namespace, self.name


class SnapshotSurroundings(msgspec.Struct, frozen=True):
    """What else a snapshot holds: unfinished pods by namespace, nodes, keys of its workloads."""

    pods: Mapping[str, list[Pod]]
    nodes: tuple[Node, ...]
    workloads: frozenset[tuple[str, str, str]]


def missing_objects(workload: FoundWorkload, around: SnapshotSurroundings) -> Iterator[Plain]:
    """Yield what a workload lacks: its pods, and the claims for volumes that they name.

    ObjectError names the field that cannot be understood. What another workload of the snapshot owns
    yields nothing: its owner does.
    """
    for owner in _list(_part(workload.raw, "metadata", ""), "ownerReferences", "metadata"):
        key = str(owner.get("kind")), workload.namespace, str(owner.get("name"))
        if owner.get("controller") and key in around.workloads:
            return
    # Of these kinds plugins read the selector, which is all that some snapshots tell of them.
    if workload.kind in _READ_ANYWAY and "template" not in _part(workload.raw, "spec", ""):
        return
    yield from _MAKERS[workload.kind](workload, around)


def _replicas(workload: FoundWorkload, around: SnapshotSurroundings) -> Iterator[Plain]:
    spec = _part(workload.raw, "spec", "")
    missing = _count(spec, "replicas", "spec", 1) - len(_own(workload, around))
    yield from _numbered(workload, around, _template(spec, "spec"), missing)


def _daemons(workload: FoundWorkload, around: SnapshotSurroundings) -> Iterator[Plain]:
    """One pod for each node, held to it by name as the controller does; the filters do the rest."""
    template = _template(_part(workload.raw, "spec", ""), "spec")
    own = _own(workload, around)
    served = {pod.spec.node_name for pod in own} | {pod.metadata.name for pod in own}
    for node in around.nodes:
        name = f"{workload.name}-{node.metadata.name}"
        if node.metadata.name in served or name in served:
            continue
        made = _pod(workload, name, template)
        here = {"key": "metadata.name", "operator": "In", "values": [node.metadata.name]}
        affinity = made["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
        rule = affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
        terms = rule.get("nodeSelectorTerms") or [{}]
        rule["nodeSelectorTerms"] = [{**term, "matchFields": [here]} for term in terms]
        yield made


def _stateful(workload: FoundWorkload, around: SnapshotSurroundings) -> Iterator[Plain]:
    spec = _part(workload.raw, "spec", "")
    template = _template(spec, "spec")
    claims = _list(spec, "volumeClaimTemplates", "spec")
    first = _count(_part(spec, "ordinals", "spec"), "start", "spec.ordinals", 0)
    taken = {pod.metadata.name for pod in around.pods.get(workload.namespace, ())}
    for ordinal in range(first, first + _count(spec, "replicas", "spec", 1)):
        name = f"{workload.name}-{ordinal}"
        if name in taken:
            continue
        own = {
            "statefulset.kubernetes.io/pod-name": name,
            "apps.kubernetes.io/pod-index": str(ordinal),
        }
        made = _pod(workload, name, template, own)
        for claim in claims:
            volume = str(_part(claim, "metadata", "spec.volumeClaimTemplates[]").get("name"))
            _mount(made, volume, f"{volume}-{name}")
            yield {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": f"{volume}-{name}", "namespace": workload.namespace},
                "spec": claim.get("spec") or {},
            }
        yield made


def _jobs(workload: FoundWorkload, around: SnapshotSurroundings) -> Iterator[Plain]:
    """Yield a Job's missing pods, and the PodGroup that they name where the Job says how it is scheduled."""
    group = _group_asked(workload)
    if group is None:
        yield from _job(workload, around, workload.name, workload.raw, "", {}, {})
        return
    pods = around.pods.get(workload.namespace, ())
    active = (pod for pod in pods if pod.metadata.labels.get(_JOB_NAME) == workload.name)
    running = (pod.spec.scheduling_group for pod in active)
    name = next((one.pod_group_name for one in running if one is not None), "")
    if not name:
        name = group["metadata"]["name"]
        yield group
    for made in _job(workload, around, workload.name, workload.raw, "", {}, {}):
        made["spec"]["schedulingGroup"] = {"podGroupName": name}
        yield made


def _group_asked(workload: FoundWorkload) -> Plain | None:
    """Return the PodGroup that a Job of Kubernetes 1.37 asks for, as its controller makes it; None for none.

    A gang without a number needs all pods that run at a time.
    """
    spec = _part(workload.raw, "spec", "")
    said = _part(spec, "scheduling", "spec")
    policy = _part(said, "schedulingPolicy", "spec.scheduling")
    if not policy or _part(_template(spec, "spec"), "spec", "template").get("schedulingGroup"):
        return None
    if "gang" in policy:
        gang = _part(policy, "gang", "spec.scheduling.schedulingPolicy")
        policy = {
            "gang": {"minCount": gang.get("minCount") or _count(spec, "parallelism", "spec", 1)}
        }
    alike = ("schedulingConstraints", "disruptionMode", "resourceClaims")
    asked = {key: said[key] for key in alike if said.get(key)}
    if named := _part(_template(spec, "spec"), "spec", "template").get("priorityClassName"):
        asked["priorityClassName"] = named
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": workload.name, "namespace": workload.namespace},
        "spec": {"schedulingPolicy": policy, **asked},
    }


def _job_sets(workload: FoundWorkload, around: SnapshotSurroundings) -> Iterator[Plain]:
    spec = _part(workload.raw, "spec", "")
    if spec.get("suspend"):
        return
    annotations = _part(_part(workload.raw, "metadata", ""), "annotations", "metadata")
    exclusive = {k: v for k, v in annotations.items() if k.startswith("alpha.jobset.sigs.k8s.io/")}
    for index, replicated in enumerate(_list(spec, "replicatedJobs", "spec")):
        field = f"spec.replicatedJobs[{index}]"
        group = str(replicated.get("name"))
        job = _part(replicated, "template", field)
        for number in range(_count(replicated, "replicas", field, 1)):
            labels = {
                f"{_JOBSET}/jobset-name": workload.name,
                f"{_JOBSET}/replicatedjob-name": group,
                f"{_JOBSET}/job-index": str(number),
            }
            name = f"{workload.name}-{group}-{number}"
            own = _part(_part(job, "metadata", field), "annotations", f"{field}.metadata")
            asked = {k: v for k, v in own.items() if k.startswith("alpha.jobset.sigs.k8s.io/")}
            asked = exclusive | asked
            for made in _job(workload, around, name, job, f"{field}.template.", labels, asked):
                in_job(made, name, asked)
                yield made


def _job(
    workload: FoundWorkload,
    around: SnapshotSurroundings,
    name: str,
    job: Plain,
    field: str,
    labels: dict[str, str],
    annotations: dict[str, str],
) -> Iterator[Plain]:
    """Yield the pods that a Job would have active now and has not; `field` is where it stands."""
    spec = _part(job, "spec", field.rstrip("."))
    if spec.get("suspend"):
        return
    template = _template(spec, f"{field}spec")
    wanted = _count(spec, "parallelism", f"{field}spec", 1)
    if spec.get("completions") is not None:
        done = _count(_part(job, "status", field.rstrip(".")), "succeeded", "status", 0)
        wanted = min(wanted, _count(spec, "completions", f"{field}spec", 1) - done)
    pods = around.pods.get(workload.namespace, ())
    active = [pod for pod in pods if pod.metadata.labels.get(_JOB_NAME) == name]
    indexes = {pod.metadata.labels.get(_JOB_INDEX, "") for pod in active}
    free = (str(index) for index in range(wanted + len(active)) if str(index) not in indexes)
    is_indexed = spec.get("completionMode") == "Indexed"
    for _, index in zip(range(wanted - len(active)), free, strict=False):
        own = {_JOB_NAME: name, "job-name": name} | ({_JOB_INDEX: index} if is_indexed else {})
        made = _pod(workload, f"{name}-{index}", template, labels | own)
        made["metadata"]["annotations"] |= annotations
        yield made


def _leader_workers(workload: FoundWorkload, around: SnapshotSurroundings) -> Iterator[Plain]:
    spec = _part(workload.raw, "spec", "")
    inner = _part(spec, "leaderWorkerTemplate", "spec")
    field = "spec.leaderWorkerTemplate"
    size = _count(inner, "size", field, 1)
    workers = _template(inner, field, "workerTemplate")
    leader = _template(inner, field, "leaderTemplate") if inner.get("leaderTemplate") else workers
    annotations = _part(_part(workload.raw, "metadata", ""), "annotations", "metadata")
    annotations = asked_of_groups(spec, annotations)
    exclusive = {k: v for k, v in annotations.items() if k.startswith(f"{_LWS}/")}
    taken = {pod.metadata.name for pod in around.pods.get(workload.namespace, ())}
    for group in range(_count(spec, "replicas", "spec", 1)):
        for worker in range(size):
            name = f"{workload.name}-{group}" + (f"-{worker}" if worker else "")
            if name in taken:
                continue
            labels = {
                f"{_LWS}/name": workload.name,
                f"{_LWS}/group-index": str(group),
                f"{_LWS}/worker-index": str(worker),
            }
            made = _pod(workload, name, workers if worker else leader, labels)
            made["metadata"]["annotations"] |= exclusive | {f"{_LWS}/size": str(size)}
            in_group(made, f"{workload.name}-{group}", worker, size, inner, exclusive)
            yield made


_MAKERS: Final[dict[str, Callable[[FoundWorkload, SnapshotSurroundings], Iterator[Plain]]]] = {
    "Deployment": _replicas,
    "ReplicaSet": _replicas,
    "ReplicationController": _replicas,
    "StatefulSet": _stateful,
    "DaemonSet": _daemons,
    "Job": _jobs,
    "JobSet": _job_sets,
    "LeaderWorkerSet": _leader_workers,
}
# The workloads understood: kind → API group.
KINDS: Final = {
    "Deployment": "apps",
    "ReplicaSet": "apps",
    "ReplicationController": "",
    "StatefulSet": "apps",
    "DaemonSet": "apps",
    "Job": "batch",
    "JobSet": "jobset.x-k8s.io",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io",
}


_READ_ANYWAY: Final = ("ReplicaSet", "ReplicationController", "StatefulSet")


def _own(workload: FoundWorkload, around: SnapshotSurroundings) -> list[Pod]:
    """Return the pods that the workload's selector matches."""
    selector = _part(workload.raw, "spec", "").get("selector")
    if workload.kind == "ReplicationController":
        selector = {"matchLabels": selector or _labels_of_template(workload)}
    if not selector:
        raise ObjectError("spec.selector is missing")
    try:
        wanted = msgspec.convert(selector, LabelSelector)
    except msgspec.ValidationError as error:
        raise ObjectError(f"spec.selector: {error}") from error
    if not selector_matches(wanted, _labels_of_template(workload)):
        raise ObjectError("spec.selector does not match the labels of spec.template")
    pods = around.pods.get(workload.namespace, ())
    return [pod for pod in pods if selector_matches(wanted, pod.metadata.labels)]


def _labels_of_template(workload: FoundWorkload) -> dict[str, str]:
    template = _template(_part(workload.raw, "spec", ""), "spec")
    return _part(_part(template, "metadata", "spec.template"), "labels", "spec.template.metadata")


def _numbered(
    workload: FoundWorkload, around: SnapshotSurroundings, template: Plain, missing: int
) -> Iterator[Plain]:
    """Yield `missing` pods, numbered past the names that are taken."""
    taken = {pod.metadata.name for pod in around.pods.get(workload.namespace, ())}
    number = 0
    while missing > 0:
        name, number = f"{workload.name}-{number}", number + 1
        if name not in taken:
            missing -= 1
            yield _pod(workload, name, template)


def _pod(
    workload: FoundWorkload, name: str, template: Plain, labels: Mapping[str, str] = {}
) -> Plain:
    meta = _part(template, "metadata", "template")
    owner = {"apiVersion": workload.raw.get("apiVersion") or "", "kind": workload.kind}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": workload.namespace,
            "labels": {**_part(meta, "labels", "template.metadata"), **labels},
            "annotations": {**_part(meta, "annotations", "template.metadata")},
            "ownerReferences": [{**owner, "name": workload.name, "uid": "", "controller": True}],
        },
        "spec": deepcopy(_part(template, "spec", "template")),
    }


def _mount(pod: Plain, volume: str, claim: str) -> None:
    """Let a pod's volume stand for a claim, whatever it said before."""
    volumes = [one for one in pod["spec"].get("volumes") or () if one.get("name") != volume]
    volumes.append({"name": volume, "persistentVolumeClaim": {"claimName": claim}})
    pod["spec"]["volumes"] = volumes


def _template(spec: Plain, field: str, name: str = "template") -> Plain:
    found = _part(spec, name, field)
    if not _part(found, "spec", f"{field}.{name}").get("containers"):
        raise ObjectError(f"{field}.{name}.spec.containers is missing")
    return found


def _part(raw: Plain, name: str, field: str) -> Plain:
    """Return the object at `name`, empty when it is not there; ObjectError for another type."""
    found = raw.get(name)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ObjectError(f"{_path(field, name)}: expected an object")
    return found


def _list(raw: Plain, name: str, field: str) -> list[Plain]:
    found = raw.get(name) or []
    if not isinstance(found, list | tuple) or not all(isinstance(one, dict) for one in found):
        raise ObjectError(f"{_path(field, name)}: expected a list of objects")
    return list(found)


def _count(raw: Plain, name: str, field: str, default: int) -> int:
    found = raw.get(name)
    if found is None:
        return default
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= MAX_PODS:
        raise ObjectError(f"{_path(field, name)}: expected a number from 0 to {MAX_PODS}")
    return found


def _path(field: str, name: str) -> str:
    return f"{field}.{name}" if field else name
