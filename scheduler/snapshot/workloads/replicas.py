"""Deployments, ReplicaSets and ReplicationControllers: pods that differ in their names alone.
LeaderWorkerSets: replicated groups of one leader and its workers.

A Deployment that was given apart and whose template differs from the cluster's is simulated after
the first step of its rolling update: maxSurge and maxUnavailable limit the new pods, and the
reduction of old ones.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import msgspec

from scheduler.base.errors import ObjectError
from scheduler.controlplane import rollout
from scheduler.controlplane.defaults import DEFAULTS
from scheduler.controlplane.objects import labels_of
from scheduler.controlplane.replicasets import removal_rank, replica_set
from scheduler.controlplane.templates import (
    POD_TEMPLATE_HASH,
    pod_maker,
    same_revision,
    template_hash,
)
from scheduler.objects.pod import Pod
from scheduler.objects.selectors import selector_matches
from scheduler.snapshot.workloads.exclusive import group_annotations, in_group
from scheduler.snapshot.workloads.found import (
    FoundWorkload,
    Plain,
    SnapshotSurroundings,
    count_of,
    named,
    part_of,
    template_of,
)
from scheduler.snapshot.workloads.owned import as_selector, same_template

_LWS: Final = "leaderworkerset.sigs.k8s.io"


def replicas(workload: FoundWorkload, around: SnapshotSurroundings) -> Iterator[Plain]:
    """Yield the pods that a ReplicaSet or a ReplicationController lacks."""
    spec = workload.spec
    wanted = count_of(spec, "replicas", "spec", 1)
    selector = checked_selector(workload)
    own = around.pods.of(workload.kind, workload.owner)
    own += around.pods.adoptable(workload.namespace, selector)
    template = template_of(spec, "spec")
    if workload.is_given and len(own) > wanted:
        around.removed += surplus(own, len(own) - wanted)
    yield from _pods(workload, around, template, workload.reference(), wanted - len(own))


def _pods(
    workload: FoundWorkload,
    around: SnapshotSurroundings,
    template: Plain,
    reference: Plain,
    missing: int,
) -> Iterator[Plain]:
    if missing <= 0:
        return
    make = pod_maker(template, reference)
    for name in islice(around.numbered(workload.namespace, workload.name), missing):
        yield named(make(), workload.namespace, name)


def surplus(pods: list[Pod], count: int) -> list[Pod]:
    """Return the pods that a ReplicaSet deletes first."""
    on_node = Counter(pod.spec.node_name for pod in pods)
    plain: dict[str, Plain] = {pod.metadata.uid: msgspec.to_builtins(pod) for pod in pods}
    ranked = sorted(
        pods,
        key=lambda pod: removal_rank(plain[pod.metadata.uid], on_node[pod.spec.node_name]),
    )
    return ranked[:count]


class _Set(msgspec.Struct):
    """A ReplicaSet of a Deployment: its pods, and its desired size."""

    name: str
    template: Plain | None
    reference: Plain
    pods: list[Pod]
    size: int

    def sized(self) -> rollout.Size:
        """Return the ReplicaSet's size; a bound pod is available if Ready is True or missing."""
        return rollout.Size(self.name, self.size, sum(map(_is_available, self.pods)))


def _is_available(pod: Pod) -> bool:
    ready = pod.condition("Ready")
    return bool(pod.spec.node_name) and (ready is None or ready.status == "True")


def deployment(workload: FoundWorkload, around: SnapshotSurroundings) -> Iterator[Plain]:
    """Yield the ReplicaSet and the pods that a Deployment lacks."""
    spec = workload.spec
    wanted = count_of(spec, "replicas", "spec", 1)
    checked_selector(workload)
    template = template_of(spec, "spec")
    sets = _sets(workload, around)
    current = next((one for one in sets if _is_current(one, template, workload, around)), None)
    if current is None and not (sets and spec.get("paused")):
        made = _new_set(workload)
        current = _as_set(made, [])
        current.size = 0
        yield made
    old = [one for one in sets if one is not current]
    if current is not None and (workload.is_given or not sets):
        _resize(spec, current, old, wanted)
    for one in sets if current in sets or current is None else [*sets, current]:
        if workload.is_given and len(one.pods) > one.size:
            around.removed += surplus(one.pods, len(one.pods) - one.size)
        if one.template is not None:
            missing = one.size - len(one.pods)
            yield from _pods(workload, around, one.template, one.reference, missing)
    if workload.is_given and current is not None and (left := sum(one.size for one in old)):
        around.notices.append(
            f"{workload.title}: first step of a rolling update: {current.size} of {wanted} pods "
            f"have the new template; {left} of the old one stay until new pods are available"
        )


def _resize(spec: Plain, current: _Set, old: list[_Set], wanted: int) -> None:
    """Set the sizes of the ReplicaSets that the controller reaches before any new pod is
    available.
    """
    if (spec.get("strategy") or {}).get("type") == "Recreate":
        for one in old:
            one.size = 0
        current.size = wanted
        return
    surge, unavailable = rollout.limits(spec)
    while True:
        before = [one.size for one in (current, *old)]
        total = sum(before)
        current.size = rollout.grown(current.size, total, wanted, surge)
        sizes = [one.sized() for one in old]
        smaller = rollout.shrunk(sizes, current.sized(), wanted, unavailable)
        for one in old:
            one.size = smaller.get(one.name, one.size)
        if before == [one.size for one in (current, *old)]:
            return


def _sets(workload: FoundWorkload, around: SnapshotSurroundings) -> list[_Set]:
    """Return the ReplicaSets of a Deployment: those in the snapshot, and those that pods name."""
    found: dict[str, _Set] = {}
    for (kind, namespace, name), one in around.workloads.items():
        if kind == "ReplicaSet" and namespace == workload.namespace and _owns(workload, one):
            raw = defaulted("replicasets.apps", one.raw)
            found[name] = _as_set(raw, around.pods.of(kind, one.owner))
    hashed = around.pods.sets_of(workload.namespace, workload.name, POD_TEMPLATE_HASH)
    for name, pods in hashed.items():
        if name not in found and ("ReplicaSet", workload.namespace, name) not in around.workloads:
            reference = msgspec.to_builtins(pods[0].metadata.owner_references[0])
            found[name] = _Set(name, None, reference, pods, len(pods))
    return list(found.values())


def _owns(workload: FoundWorkload, one: FoundWorkload) -> bool:
    uid = workload.meta.get("uid")
    return any(
        owner.get("controller")
        and owner.get("kind") == "Deployment"
        and owner.get("name") == workload.name
        and (not uid or owner.get("uid") in (None, "", uid))
        for owner in one.meta.get("ownerReferences") or ()
    )


def _as_set(raw: Plain, pods: list[Pod]) -> _Set:
    name = raw["metadata"]["name"]
    uid = raw["metadata"].get("uid") or f"ReplicaSet/{raw['metadata'].get('namespace')}/{name}"
    reference = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return _Set(name, raw["spec"]["template"], reference, pods, raw["spec"].get("replicas", 1))


def _is_current(
    one: _Set, template: Plain, workload: FoundWorkload, around: SnapshotSurroundings
) -> bool:
    """Return whether a set has the Deployment's template; without the set its pods are compared."""
    if one.template is not None:
        return same_revision(one.template, template)
    made = named(pod_maker(template, one.reference)(), workload.namespace, "compared")
    if not same_template(around.admit(made), one.pods[0]):
        return False
    label = {POD_TEMPLATE_HASH: one.pods[0].metadata.labels[POD_TEMPLATE_HASH]}
    meta = template.get("metadata") or {}
    one.template = {**template, "metadata": {**meta, "labels": {**labels_of(template), **label}}}
    return True


def _new_set(workload: FoundWorkload) -> Plain:
    spec = workload.spec
    label = template_hash(spec["template"], 0)
    deployment = {**workload.raw, "metadata": {**workload.owner["metadata"]}}
    made = replica_set(deployment, label, count_of(spec, "replicas", "spec", 1))
    made["metadata"] |= {
        "namespace": workload.namespace,
        "ownerReferences": [workload.reference()],
    }
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", **made}


def defaulted(storage: str, raw: Plain) -> Plain:
    """Return a copy of a workload with the API server's defaults."""
    copy: Plain = msgspec.json.decode(msgspec.json.encode(raw))
    copy.setdefault("metadata", {})
    DEFAULTS[storage](copy)
    return copy


def checked_selector(workload: FoundWorkload) -> Any:
    """Return a workload's selector; ObjectError when it does not match its own template."""
    spec = workload.spec
    template = template_of(spec, "spec")
    selector = spec.get("selector")
    if workload.kind == "ReplicationController":
        selector = {"matchLabels": selector or labels_of(template)}
    if not selector:
        raise ObjectError("spec.selector is missing")
    if not selector_matches(as_selector(selector), labels_of(template)):
        raise ObjectError("spec.selector does not match the labels of spec.template")
    return selector


def leader_workers(workload: FoundWorkload, around: SnapshotSurroundings) -> Iterator[Plain]:
    """Yield the missing leaders and workers of all groups."""
    spec = workload.spec
    inner = part_of(spec, "leaderWorkerTemplate", "spec")
    field = "spec.leaderWorkerTemplate"
    size = count_of(inner, "size", field, 1)
    workers = template_of(inner, field, "workerTemplate")
    leader = template_of(inner, field, "leaderTemplate") if inner.get("leaderTemplate") else workers
    annotations = part_of(workload.meta, "annotations", "metadata")
    annotations = group_annotations(spec, annotations)
    exclusive = {k: v for k, v in annotations.items() if k.startswith(f"{_LWS}/")}
    taken = around.pods.names.get(workload.namespace, set())
    reference = workload.reference()
    for group in range(count_of(spec, "replicas", "spec", 1)):
        for worker in range(size):
            name = f"{workload.name}-{group}" + (f"-{worker}" if worker else "")
            if name in taken:
                continue
            made = named(
                pod_maker(workers if worker else leader, reference)(), workload.namespace, name
            )
            made["metadata"]["labels"] |= {
                f"{_LWS}/name": workload.name,
                f"{_LWS}/group-index": str(group),
                f"{_LWS}/worker-index": str(worker),
            }
            made["metadata"]["annotations"] |= exclusive | {f"{_LWS}/size": str(size)}
            in_group(made, f"{workload.name}-{group}", worker, size, inner, exclusive)
            yield made
