"""Deployment → ReplicaSet → pods: the ReplicaSet of a template, and the order of deletion."""

from typing import Any

from scheduler.controlplane.objects import Object, controller_reference, labels_of
from scheduler.controlplane.templates import POD_TEMPLATE_HASH, copied, with_labels

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


def replica_set(deployment: Object, label: str, replicas: int) -> Object:
    """Return the ReplicaSet of a Deployment's template, whose hash is `label`."""
    meta, spec = deployment["metadata"], deployment["spec"]
    template = with_labels(spec["template"], {POD_TEMPLATE_HASH: label})
    selector = spec["selector"]
    match = {**(selector.get("matchLabels") or {}), POD_TEMPLATE_HASH: label}
    made: Object = {
        "metadata": {
            "name": f"{meta['name']}-{label}",
            "labels": dict(labels_of(template)),
            "ownerReferences": [controller_reference("apps/v1", "Deployment", deployment)],
        },
        "spec": {
            "replicas": replicas,
            "selector": {**selector, "matchLabels": match},
            "template": copied(template),
        },
    }
    if spec.get("minReadySeconds"):
        made["spec"]["minReadySeconds"] = spec["minReadySeconds"]
    return made


def removal_rank(pod: Object, on_node: int) -> tuple[Any, ...]:
    """Return the sort key by which a ReplicaSet, or a Job, deletes pods.

    `on_node` of its pods share the pod's node.
    """
    status, meta = pod.get("status") or {}, pod["metadata"]
    node = pod["spec"].get("nodeName") or ""
    ready: Object = next((c for c in status.get("conditions") or () if c["type"] == "Ready"), {})
    is_ready = ready.get("status") == "True"
    return (
        bool(node),
        {"Pending": 0, "Unknown": 1}.get(status.get("phase") or "Pending", 2),
        is_ready,
        _number((meta.get("annotations") or {}).get(DELETION_COST, "0")),
        -on_node if node else 0,
        _newest_first(ready.get("lastTransitionTime") or "" if is_ready else ""),
        _newest_first(meta.get("creationTimestamp") or ""),
        meta.get("name", ""),
    )


def _newest_first(text: str) -> tuple[int, ...]:
    return tuple(-ord(letter) for letter in text)


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return 0
