"""Objects for autoscalers: only the pods that the offered nodes are needed for.

A ProvisioningRequest (autoscaling.x-k8s.io/v1) names PodTemplates with a count each; Cluster
Autoscaler adds nodes until all of these pods fit, or none. One request per namespace, as its
templates must be in it. A CapacityBuffer (autoscaling.x-k8s.io/v1alpha1) names one template with a
count; Cluster Autoscaler and Karpenter keep capacity free for that number of pods. Plain objects
for `kubectl apply`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any, Final

import msgspec

from scheduler.base.errors import InputError
from scheduler.groups.description.indexes import INDEX_LABELS
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.simulate.simulate import simulate
from scheduler.simulate.stage import AnswerOptions, Setup
from scheduler.snapshot.changes import with_nodes
from scheduler.snapshot.snapshot import Snapshot

Plain = dict[str, Any]
CLASS: Final = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
STRATEGY: Final = "buffer.x-k8s.io/active-capacity"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
# The most entries of spec.podSets that the API accepts.
MOST_SETS: Final = 32
# Set by admission, by the controller of each pod, or by the scheduler.
_NOT_OF_TEMPLATES: Final = ("nodeName", "priority", "preemptionPolicy", "schedulingGates")
_OF_ONE_POD: Final = frozenset((*INDEX_LABELS, "statefulset.kubernetes.io/pod-name"))


def provisioning_requests(
    snapshot: Snapshot,
    model: Node,
    number: int,
    setup: Setup,
    options: AnswerOptions | None,
    *,
    as_buffers: bool = False,
) -> list[Plain]:
    """Return PodTemplates and requests for the pods that are placed on `number` new nodes.

    With `as_buffers` a CapacityBuffer follows each template, instead of the requests.
    Deterministic: names follow from the content. InputError if a namespace needs more templates
    than a request may name.
    """
    known = {node.metadata.name for node in snapshot.nodes}
    placed = simulate(with_nodes(snapshot, model, number), setup, options).pods
    on_new = {pod.key for pod in placed if pod.node is not None and pod.node not in known}
    pods = [pod for pod in snapshot.unbound if pod.key in on_new]
    kind = model.metadata.labels.get(INSTANCE_TYPE, "")
    found: list[Plain] = []
    for namespace in sorted({pod.metadata.namespace for pod in pods}):
        own = (pod for pod in pods if pod.metadata.namespace == namespace)
        found += _request(namespace, own, kind, as_buffers=as_buffers)
    return found


def _request(
    namespace: str, pods: Iterable[Pod], instance_type: str, *, as_buffers: bool
) -> Iterator[Plain]:
    """Yield the templates of a namespace's pods, then the request; with buffers, each template's
    buffer after it instead.
    """
    counts: dict[str, int] = {}
    for pod in pods:
        text = json.dumps(_template(pod, instance_type), sort_keys=True)
        counts[text] = counts.get(text, 0) + 1
    if len(counts) > MOST_SETS and not as_buffers:
        text = f"{len(counts)} different pods of namespace {namespace} need the new nodes"
        raise InputError(f"{text}; a ProvisioningRequest names {MOST_SETS} at most")
    content = json.dumps(sorted(counts.items()))
    name = f"trellis-{sha256(content.encode()).hexdigest()[:10]}"
    sets = []
    for at, text in enumerate(sorted(counts)):
        meta = {"name": f"{name}-{at}", "namespace": namespace}
        template = json.loads(text)
        yield {"apiVersion": "v1", "kind": "PodTemplate", "metadata": meta, "template": template}
        sets.append({"count": counts[text], "podTemplateRef": {"name": meta["name"]}})
        if as_buffers:
            yield _buffer(meta, counts[text])
    if as_buffers:
        return
    yield {
        "apiVersion": "autoscaling.x-k8s.io/v1",
        "kind": "ProvisioningRequest",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"provisioningClassName": CLASS, "podSets": sets},
    }


def _buffer(meta: Plain, count: int) -> Plain:
    """Return the CapacityBuffer of this template, under the same name."""
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1alpha1",
        "kind": "CapacityBuffer",
        "metadata": meta,
        "spec": {
            "provisioningStrategy": STRATEGY,
            "podTemplateRef": {"name": meta["name"]},
            "replicas": count,
        },
    }


def _template(pod: Pod, instance_type: str) -> Plain:
    """Return the template of a pod, with the fields for scheduling, for nodes of this instance
    type.
    """
    spec = msgspec.to_builtins(pod.spec)
    for field in _NOT_OF_TEMPLATES:
        spec.pop(field, None)
    claims = [one for one in spec.pop("volumes", ()) if "persistentVolumeClaim" in one]
    if claims:
        spec["volumes"] = claims
    if instance_type:
        chosen = spec.get("nodeSelector") or {}
        spec["nodeSelector"] = {INSTANCE_TYPE: instance_type, **chosen}
    labels = {key: v for key, v in pod.metadata.labels.items() if key not in _OF_ONE_POD}
    return {"metadata": {"labels": labels} if labels else {}, "spec": spec}
