"""The changes of kube-apiserver's admission plugins to a new pod or claim.

LimitRanger, DefaultTolerationSeconds, Priority, RuntimeClass, DefaultStorageClass, and
`matchLabelKeys`, which the pod strategy merges into selectors. Each function changes a defaulted
object in place; AdmissionError is the plugin's rejection. The order is kube-apiserver's.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from scheduler.controlplane.objects import (
    AdmissionError,
    AdmissionObjects,
    Object,
    containers,
    labels_of,
)

LIMIT_RANGE, PRIORITY_CLASS = "LimitRange", "PriorityClass"
RUNTIME_CLASS, STORAGE_CLASS = "RuntimeClass", "StorageClass"
DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
SYSTEM_CLASSES: Final = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
_BETA_DEFAULT_CLASS: Final = "storageclass.beta.kubernetes.io/is-default-class"
_BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_TOLERATED: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_EVICTION_DELAY_S: Final = 300


def admit_pod(objects: AdmissionObjects, pod: Object) -> None:
    """Apply the admission plugins except Priority, whose rejections differ between callers."""
    spec = pod["spec"]
    spec.setdefault("serviceAccountName", "default")
    spec.setdefault("serviceAccount", spec["serviceAccountName"])
    apply_limit_ranges(objects, pod)
    add_default_tolerations(spec)
    apply_runtime_class(objects, spec)
    merge_match_label_keys(pod)


def admit_volume_claim(objects: AdmissionObjects, claim: Object) -> None:
    """Set the default StorageClass in a claim without a class; '' requests no class."""
    notes = claim["metadata"].get("annotations") or {}
    if claim["spec"].get("storageClassName") is None and _BETA_CLASS not in notes:
        name = default_storage_class(objects)
        if name:
            claim["spec"]["storageClassName"] = name


def default_storage_class(objects: AdmissionObjects) -> str:
    """Return the name of the default StorageClass, the newest of several, or ''."""
    found = [one for one in objects.all(STORAGE_CLASS) if _is_default(one)]
    found.sort(key=lambda one: one["metadata"]["name"])
    found.sort(key=lambda one: one["metadata"].get("creationTimestamp") or "", reverse=True)
    return str(found[0]["metadata"]["name"]) if found else ""


def _is_default(storage_class: Object) -> bool:
    notes = storage_class["metadata"].get("annotations") or {}
    return "true" in (notes.get(DEFAULT_CLASS), notes.get(_BETA_DEFAULT_CLASS))


def priority_class(objects: AdmissionObjects, name: str) -> Object | None:
    """Return the PriorityClass of that name, the default one for ''; None when there is none."""
    if name:
        return objects.find(PRIORITY_CLASS, name)
    defaults = [one for one in objects.all(PRIORITY_CLASS) if one.get("globalDefault")]
    if not defaults:
        return None
    # kube-apiserver: of several defaults the lowest is used.
    return min(defaults, key=lambda one: (one.get("value", 0), one["metadata"]["name"]))


def apply_limit_ranges(objects: AdmissionObjects, pod: Object) -> None:
    """Fill in missing requests and limits of containers, and record it in an annotation."""
    notes: list[str] = []
    for limit in _container_limits(objects, pod["metadata"]["namespace"]):
        for container in containers(pod["spec"]):
            resources = container.setdefault("resources", {})
            for part, defaults in (("request", "defaultRequest"), ("limit", "default")):
                added = _fill(resources, f"{part}s", limit.get(defaults))
                if added:
                    notes.append(f"{added} {part} for container {container['name']}")
    if notes:
        meta = pod["metadata"]
        note = {"kubernetes.io/limit-ranger": "LimitRanger plugin set: " + "; ".join(notes)}
        meta["annotations"] = {**(meta.get("annotations") or {}), **note}


def _container_limits(objects: AdmissionObjects, namespace: str) -> Iterator[Object]:
    for limit_range in objects.all(LIMIT_RANGE, namespace):
        for limit in (limit_range.get("spec") or {}).get("limits") or ():
            if limit.get("type") == "Container":
                yield limit


def _fill(resources: Object, part: str, amounts: dict[str, Any] | None) -> str:
    """Add missing amounts; return the names of those that were added."""
    existing = resources.get(part) or {}
    added = [name for name in sorted(amounts or {}) if name not in existing]
    if amounts and added:
        resources[part] = {**amounts, **existing}
    return ", ".join(added)


def add_default_tolerations(spec: Object) -> None:
    """Tolerate a node that is not ready or unreachable for 300 seconds."""
    existing = list(spec.get("tolerations") or ())
    for key in _TOLERATED:
        covered = any(
            toleration.get("key") in (None, "", key)
            and toleration.get("effect") in (None, "", "NoExecute")
            for toleration in existing
        )
        if not covered:
            existing.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _EVICTION_DELAY_S,
                }
            )
    spec["tolerations"] = existing


def apply_runtime_class(objects: AdmissionObjects, spec: Object) -> None:
    """Add overhead, node selector and tolerations of the pod's RuntimeClass."""
    name = spec.get("runtimeClassName")
    if not name:
        return
    found = objects.find(RUNTIME_CLASS, name)
    if found is None:
        raise AdmissionError(f'pod rejected: RuntimeClass "{name}" not found')
    overhead = (found.get("overhead") or {}).get("podFixed")
    if overhead:
        if spec.get("overhead") not in (None, {}, overhead):
            raise AdmissionError(
                "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
            )
        spec["overhead"] = dict(overhead)
    scheduling = found.get("scheduling") or {}
    if scheduling.get("nodeSelector"):
        spec["nodeSelector"] = _merged_selector(spec.get("nodeSelector") or {}, scheduling)
    if scheduling.get("tolerations"):
        spec["tolerations"] = _without_redundant(
            [*(spec.get("tolerations") or ()), *scheduling["tolerations"]]
        )


def _merged_selector(own: Object, scheduling: Object) -> Object:
    merged = {**own, **scheduling["nodeSelector"]}
    for key, wanted in own.items():
        if merged[key] != wanted:
            raise AdmissionError(
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {merged[key]}; "
                f"pod.spec.nodeSelector[{key}] = {wanted}"
            )
    return merged


def _without_redundant(tolerations: list[Object]) -> list[Object]:
    """Return the tolerations that no other one covers; of equal ones the first."""
    kept: list[Object] = []
    for index, one in enumerate(tolerations):
        later = tolerations[index + 1 :]
        if any(_includes(other, one) for other in kept):
            continue
        if not any(_normal(other) != _normal(one) and _includes(other, one) for other in later):
            kept.append(one)
    return kept


def _normal(toleration: Object) -> Object:
    return {name: value for name, value in toleration.items() if value not in (None, "")}


def _includes(wide: Object, narrow: Object) -> bool:
    """Return whether `wide` tolerates all that `narrow` tolerates."""
    wide, narrow = _normal(wide), _normal(narrow)
    if wide == narrow:
        return True
    exists = wide.get("operator") == "Exists"
    if wide.get("key") != narrow.get("key") and (wide.get("key") or not exists):
        return False
    if wide.get("effect") not in (None, narrow.get("effect")):
        return False
    if wide.get("effect") == "NoExecute" and "tolerationSeconds" in wide:
        seconds = narrow.get("tolerationSeconds")
        if seconds is None or seconds > wide["tolerationSeconds"]:
            return False
    return exists or (
        wide.get("operator", "Equal") == narrow.get("operator", "Equal")
        and wide.get("value") == narrow.get("value")
    )


def merge_match_label_keys(pod: Object) -> None:
    """Merge the pod's own values of `matchLabelKeys` into the selectors."""
    labels, spec = labels_of(pod), pod["spec"]
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


def _merge(term: Object, labels: Object, keys: Iterable[str] | None, operator: str) -> None:
    selector = term.get("labelSelector")
    if not keys or selector is None:
        return
    added = [
        {"key": key, "operator": operator, "values": [labels[key]]} for key in keys if key in labels
    ]
    existing = selector.get("matchExpressions") or ()
    added = [one for one in added if one not in existing]
    if added:
        term["labelSelector"] = {**selector, "matchExpressions": [*existing, *added]}
