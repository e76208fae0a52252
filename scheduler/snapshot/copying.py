"""Copies of given objects whose names exist in the cluster: manifests under new names. Pure.

Simulations may add objects to a cluster. A manifest that was applied before, or exported from the
cluster, adds one more copy: without node, status and uid, under an unused name.
"""

from collections.abc import Callable, Container, Iterable
from functools import partial
from typing import Any

from msgspec.structs import replace

from scheduler.groups.sources import registry as sources
from scheduler.objects.pod import Pod
from scheduler.snapshot.workloads.found import FoundWorkload

_OF_THE_CLUSTER = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")


def free_name(name: str, is_taken: Callable[[str], bool]) -> str:
    """Return `name-copy`, or the first free one of `name-copy-2`, `name-copy-3` …"""
    chosen, number = f"{name}-copy", 1
    while is_taken(chosen):
        number += 1
        chosen = f"{name}-copy-{number}"
    return chosen


def pod_copy(plain: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a Pod manifest under a name, as it was before an API server and a scheduler saw it."""
    spec = {key: value for key, value in (plain.get("spec") or {}).items() if key != "nodeName"}
    return {**_anew(plain, name), "spec": spec}


def workload_copy(workload: FoundWorkload, name: str) -> FoundWorkload:
    """Return a workload under a name, as new: neither suspended nor scaled to zero."""
    spec = {key: value for key, value in workload.spec.items() if key != "suspend"}
    for field in ("replicas", "parallelism"):
        if spec.get(field) == 0:
            spec[field] = 1
    return replace(workload, raw={**_anew(workload.raw, name), "spec": spec})


def _anew(plain: dict[str, Any], name: str) -> dict[str, Any]:
    meta = {k: v for k, v in (plain.get("metadata") or {}).items() if k not in _OF_THE_CLUSTER}
    kept = {key: value for key, value in plain.items() if key != "status"}
    return {**kept, "metadata": {**meta, "name": name}}


def copies_of(pods: Iterable[Pod], taken: Container[str]) -> tuple[Pod, ...]:
    """Return pods of a cluster as new ones, unbound; `taken` are names `namespace/name` in use."""
    return tuple(_fresh(pod, taken) for pod in pods)


def _fresh(pod: Pod, taken: Container[str]) -> Pod:
    meta = pod.metadata
    name = free_name(meta.name, lambda chosen: f"{meta.namespace}/{chosen}" in taken)
    new = replace(meta, name=name, uid=f"{meta.uid}-copy", deletion_timestamp=None)
    status = replace(
        pod.status, nominated_node_name="", conditions=(), phase="Pending", start_time=None
    )
    return replace(pod, metadata=new, spec=replace(pod.spec, node_name=""), status=status)


def regrouped(
    objects: list[tuple[str, Any]],
    pods: list[Pod],
    given: Container[str],
    clashing: Iterable[tuple[str, str]],
) -> tuple[list[tuple[str, Any]], list[Pod]]:
    """Move the `given` pods (by uid) out of groups that the cluster has into copies of those.

    `clashing` are (kind, namespace/name) of given objects that describe such a group.
    """
    known = {
        (kind, f"{obj.metadata.namespace}/{obj.metadata.name}"): obj
        for kind, obj in objects
        if kind in sources.BY_KIND
    }
    for kind, name in clashing:
        obj = known.get((kind, name))
        if obj is None:
            continue
        source, space = sources.BY_KIND[kind], obj.metadata.namespace
        key = source.key(obj)
        own = {p.metadata.uid for p in pods if p.metadata.uid in given and _group(p) == key}
        if own:
            new = free_name(obj.metadata.name, partial(_is_known, known, kind, space))
            objects = [*objects, (kind, source.renamed(obj, new))]
            pods = [sources.moved(pod, new) if pod.metadata.uid in own else pod for pod in pods]
    return objects, pods


def _is_known(known: Container[tuple[str, str]], kind: str, namespace: str, name: str) -> bool:
    return (kind, f"{namespace}/{name}") in known


def _group(pod: Pod) -> str:
    return sources.group_of(pod)
