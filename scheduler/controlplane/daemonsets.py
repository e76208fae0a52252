"""DaemonSet → pods: the eligible nodes, and the controller's changes to the pod."""

from collections.abc import Callable
from typing import Any, Final

from scheduler.controlplane.nodematch import NO_EXECUTE, keeps_away, selects_node, untolerated
from scheduler.controlplane.objects import Object
from scheduler.controlplane.templates import CONTROLLER_REVISION, pod_maker, with_labels

TEMPLATE_GENERATION: Final = "pod-template-generation"
_GENERATION: Final = "deprecated.daemonset.template.generation"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_TOLERATED: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_ON_HOST_NETWORK: Final = ("node.kubernetes.io/network-unavailable", "NoSchedule")


def daemon_pods(owner: Object, reference: Object, revision: str) -> Callable[[str], Object]:
    """Return a function that makes the pod of a node by its name.

    `revision` is the template's hash.
    """
    notes = owner["metadata"].get("annotations") or {}
    labels = {CONTROLLER_REVISION: revision, TEMPLATE_GENERATION: str(notes.get(_GENERATION, "1"))}
    make = pod_maker(with_labels(owner["spec"]["template"], labels), reference)

    def made(node: str) -> Object:
        pod = make()
        pod["metadata"]["generateName"] = f"{reference['name']}-"
        _pin(pod["spec"], node)
        return pod

    return made


def runs_on(spec: Object, node: Object) -> tuple[bool, bool]:
    """Return whether a node gets a pod of this spec, and whether it keeps a running one."""
    if spec.get("nodeName") not in (None, "", node["metadata"]["name"]):
        return False, False
    if not selects_node(spec, node):
        return False, False
    tolerations = [*(spec.get("tolerations") or ()), *_own_tolerations(spec)]
    taints = (node.get("spec") or {}).get("taints") or ()
    stays = not untolerated(taints, tolerations, (NO_EXECUTE,))
    return not keeps_away(node, tolerations), stays


def target_of(pod: Object) -> str:
    """Return the node that a daemon pod is bound to, or pinned to."""
    node = pod["spec"].get("nodeName")
    if node:
        return str(node)
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    for term in (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ():
        for rule in term.get("matchFields") or ():
            if rule["key"] == "metadata.name" and rule["operator"] == "In":
                return str(rule["values"][0])
    return ""


def _pin(spec: Object, node: str) -> None:
    """Bind a spec to one node by its name, and add the tolerations of daemon pods."""
    field: Any = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    on_nodes = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    # The controller has evaluated the template's own terms already; this term replaces them all.
    on_nodes[_REQUIRED] = {"nodeSelectorTerms": [{"matchFields": field}]}
    existing = spec.setdefault("tolerations", [])
    existing += [one for one in _own_tolerations(spec) if one not in existing]


def _own_tolerations(spec: Object) -> list[Object]:
    rows = (*_TOLERATED, _ON_HOST_NETWORK) if spec.get("hostNetwork") else _TOLERATED
    return [{"key": key, "operator": "Exists", "effect": effect} for key, effect in rows]
