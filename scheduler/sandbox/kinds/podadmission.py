"""What admission does to a new pod from what other objects say.

Priority from its PriorityClass, default tolerations, overhead and scheduling from a RuntimeClass, LimitRange defaults,
`matchLabelKeys` merged into selectors, the default service account (without a token volume), the
first status. Called by `defaults.py` on a private copy; reads the store, never writes it.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from scheduler.sandbox.api.status import Object, forbidden
from scheduler.sandbox.kinds.amounts import value
from scheduler.sandbox.kinds.kinds import (
    LIMITRANGES,
    NODES,
    PODS,
    PRIORITYCLASSES,
    RUNTIMECLASSES,
    Resource,
)

if TYPE_CHECKING:
    from scheduler.sandbox.store.store import ObjectStore

_TOLERATED: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOPOLOGY_LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_EVICTION_DELAY_S: Final = 300


def admit(store: "ObjectStore", pod: Object) -> None:
    """Change a defaulted pod as kube-apiserver's admission plugins do; 403 where they refuse."""
    spec = pod["spec"]
    spec.setdefault("serviceAccountName", "default")
    spec.setdefault("serviceAccount", spec["serviceAccountName"])
    _apply_limit_ranges(store, pod)
    _add_tolerations(spec)
    _apply_runtime_class(store, pod)
    apply_priority(store, PODS, pod)
    merge_match_label_keys(pod)
    if spec.get("nodeName"):
        labels = topology_labels(store, spec["nodeName"])
        if labels:
            pod["metadata"]["labels"] = {**(pod["metadata"].get("labels") or {}), **labels}


def topology_labels(store: "ObjectStore", node: str) -> dict[str, Any]:
    """kube-apiserver: a pod takes its node's zone and region labels when it is assigned."""
    stored = store.find(NODES, "", node)
    labels = (stored.obj["metadata"].get("labels") or {}) if stored else {}
    return {name: labels[name] for name in _TOPOLOGY_LABELS if name in labels}


def first_status(pod: Object, now: str) -> Object:
    """The status that a new pod starts with."""
    status: Object = {"phase": "Pending", "qosClass": qos_class(pod["spec"])}
    if pod["spec"].get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": now,
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]
    return status


def completed_status(status: Object) -> Object:
    """A written status with the list of addresses that goes with the single one."""
    address = status.get("podIP")
    if address and not status.get("podIPs"):
        return {**status, "podIPs": [{"ip": address}]}
    return status


def keep_to_part(new: Object, old: Object, subresource: str) -> None:
    """Reduce a write through `resize` or `ephemeralcontainers` to what it may change, in place."""
    sent, spec = new["spec"], dict(old["spec"])
    if subresource == "ephemeralcontainers":
        spec["ephemeralContainers"] = sent.get("ephemeralContainers") or []
    elif subresource == "resize":
        for part in ("containers", "initContainers"):
            resources = {held["name"]: held.get("resources") or {} for held in sent.get(part) or ()}
            if part in spec:
                spec[part] = [
                    {**held, "resources": resources.get(held["name"], held.get("resources", {}))}
                    for held in spec[part]
                ]
        if "resources" in sent:
            spec["resources"] = sent["resources"]
    new["spec"] = spec
    new["metadata"] = {**old["metadata"], "resourceVersion": new["metadata"]["resourceVersion"]}


def qos_class(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort, by cpu and memory of all containers."""
    if (spec.get("resources") or {}).get("requests") or (spec.get("resources") or {}).get("limits"):
        parts = [spec["resources"]]
    else:
        parts = [container.get("resources") or {} for container in containers(spec)]
    any_set, all_equal = False, bool(parts)
    for resources in parts:
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for name in ("cpu", "memory"):
            request, limit = requests.get(name), limits.get(name)
            if (request and value(request)) or (limit and value(limit)):
                any_set = True
            if not limit or value(request or limit) != value(limit):
                all_equal = False
    if not any_set:
        return "BestEffort"
    return "Guaranteed" if all_equal else "Burstable"


def containers(spec: Object) -> Iterator[Object]:
    """Init containers, then containers."""
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def apply_priority(
    store: "ObjectStore", resource: Resource, obj: Object, *, with_policy: bool = True
) -> None:
    """Resolve the priority class of a pod or PodGroup; what differs from its class is refused.

    Of groups the class says since Kubernetes 1.37 as well whether they may evict others.
    """
    spec, name = obj["spec"], obj["spec"].get("priorityClassName")
    found: Object = {}
    if name:
        stored = store.find(PRIORITYCLASSES, "", name)
        if stored is None:
            text = f"no PriorityClass with name {name} was found"
            raise forbidden(resource, _name_of(obj), text)
        found = stored.obj
    elif default := _default_class(store):
        found = default
        spec["priorityClassName"] = found["metadata"]["name"]
    _impose(resource, obj, "priority", "integer value of priority", found.get("value", 0))
    if with_policy:
        policy = found.get("preemptionPolicy") or "PreemptLowerPriority"
        _impose(resource, obj, "preemptionPolicy", "string value of PreemptionPolicy", policy)


def _impose(resource: Resource, obj: Object, field: str, what: str, wanted: Any) -> None:
    """Set a field to what the priority class says; who sent something else is refused."""
    sent = obj["spec"].get(field)
    if sent is not None and sent != wanted:
        kind = "pod" if resource is PODS else "pod group"
        text = (
            f"the {what} ({sent}) must not be provided in {kind} spec; priority admission controller "
            f"computed {wanted} from the given PriorityClass name"
        )
        raise forbidden(resource, _name_of(obj), text)
    obj["spec"][field] = wanted


def _default_class(store: "ObjectStore") -> Object | None:
    defaults = [
        stored.obj for stored in store.list(PRIORITYCLASSES) if stored.obj.get("globalDefault")
    ]
    return min(defaults, key=lambda obj: obj.get("value", 0)) if defaults else None


def _add_tolerations(spec: Object) -> None:
    held = list(spec.get("tolerations") or ())
    for key in _TOLERATED:
        covered = any(
            toleration.get("key") in (None, "", key)
            and toleration.get("effect") in (None, "", "NoExecute")
            for toleration in held
        )
        if not covered:
            held.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _EVICTION_DELAY_S,
                }
            )
    if held:
        spec["tolerations"] = held


def _apply_runtime_class(store: "ObjectStore", pod: Object) -> None:
    spec = pod["spec"]
    name = spec.get("runtimeClassName")
    if not name:
        if spec.get("overhead"):
            raise forbidden(
                PODS,
                _name_of(pod),
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
            )
        return
    stored = store.find(RUNTIMECLASSES, "", name)
    if stored is None:
        raise forbidden(PODS, _name_of(pod), f'pod rejected: RuntimeClass "{name}" not found')
    overhead = (stored.obj.get("overhead") or {}).get("podFixed")
    if overhead:
        spec["overhead"] = dict(overhead)
    scheduling = stored.obj.get("scheduling") or {}
    if scheduling.get("nodeSelector"):
        merged = {**(spec.get("nodeSelector") or {}), **scheduling["nodeSelector"]}
        for key, wanted in (spec.get("nodeSelector") or {}).items():
            if merged[key] != wanted:
                raise forbidden(
                    PODS,
                    _name_of(pod),
                    f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {merged[key]}; "
                    f"pod.spec.nodeSelector[{key}] = {wanted}",
                )
        spec["nodeSelector"] = merged
    if scheduling.get("tolerations"):
        held = list(spec.get("tolerations") or ())
        held += [added for added in scheduling["tolerations"] if added not in held]
        spec["tolerations"] = held


def _apply_limit_ranges(store: "ObjectStore", pod: Object) -> None:
    ranges = store.list(LIMITRANGES, pod["metadata"]["namespace"])
    said: list[str] = []
    for stored in ranges:
        for limit in (stored.obj.get("spec") or {}).get("limits") or ():
            if limit.get("type") != "Container":
                continue
            for container in containers(pod["spec"]):
                for part, defaults in (("request", "defaultRequest"), ("limit", "default")):
                    added = _fill(container["resources"], f"{part}s", limit.get(defaults))
                    if added:
                        said.append(f"{added} {part} for container {container['name']}")
    if said:
        meta = pod["metadata"]
        note = {"kubernetes.io/limit-ranger": "LimitRanger plugin set: " + "; ".join(said)}
        meta["annotations"] = {**(meta.get("annotations") or {}), **note}


def _fill(resources: Object, part: str, amounts: dict[str, Any] | None) -> str:
    """Add what is missing; returns the names of what was."""
    held = resources.get(part) or {}
    added = [name for name in sorted(amounts or {}) if name not in held]
    if amounts and added:
        resources[part] = {**amounts, **held}
    return ", ".join(added)


def merge_match_label_keys(pod: Object) -> None:
    """Write the pod's own values of `matchLabelKeys` into the selectors, as the API server does."""
    labels = pod["metadata"].get("labels") or {}
    spec = pod["spec"]
    for constraint in spec.get("topologySpreadConstraints") or ():
        _merge(constraint, labels, constraint.get("matchLabelKeys"), "In")
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        for term in _terms(affinity.get(kind) or {}):
            _merge(term, labels, term.get("matchLabelKeys"), "In")
            _merge(term, labels, term.get("mismatchLabelKeys"), "NotIn")


def _terms(part: Object) -> Iterator[Object]:
    yield from part.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    for weighted in part.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
        yield weighted.get("podAffinityTerm") or {}


def _merge(term: Object, labels: Object, keys: list[str] | None, operator: str) -> None:
    selector = term.get("labelSelector")
    if not keys or selector is None:
        return
    added = [
        {"key": key, "operator": operator, "values": [labels[key]]} for key in keys if key in labels
    ]
    if added:
        expressions = [*(selector.get("matchExpressions") or ()), *added]
        term["labelSelector"] = {**selector, "matchExpressions": expressions}


def _name_of(obj: Object) -> str:
    meta = obj["metadata"]
    return str(meta.get("name") or meta.get("generateName") or "")
