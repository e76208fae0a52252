"""Validation of the kinds other than pods: common faults of manifests, and immutable fields.

Returns causes with kube-apiserver's texts; `defaults.py` turns them into one 422. Not a complete
copy of the API server's validation.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from scheduler.sandbox.api.status import (
    AsJson,
    Cause,
    Object,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from scheduler.sandbox.kinds import deviceclaims, deviceslices, podchecks, podgroups
from scheduler.sandbox.kinds.kinds import COMPOSITE_POD_GROUPS, PODGROUPS, Resource
from scheduler.sandbox.store.collection import field

Check = Callable[[Object, Object | None], Iterator[Cause]]
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_IMMUTABLE: Final = "field is immutable"


def check(resource: Resource, obj: Object, old: Object | None) -> list[Cause]:
    """Return all faults of a defaulted object; `old` is the version it replaces, if any."""
    if resource.storage == PODGROUPS.storage:
        return list(podgroups.check(obj, old, resource.version))
    if resource.storage == COMPOSITE_POD_GROUPS.storage:
        return list(podgroups.check_composite(obj, old))
    found = _CHECKS.get(resource.storage)
    return list(found(obj, old)) if found else []


def _workload(obj: Object, old: Object | None) -> Iterator[Cause]:
    spec = obj["spec"]
    selector = spec.get("selector")
    labels = field(spec, "template", "metadata", "labels") or {}
    if not selector:
        yield required("spec.selector")
    if not selects(selector or {}, labels):
        yield invalid_value(
            "spec.template.metadata.labels",
            AsJson(labels),
            "`selector` does not match template `labels`",
        )
    replicas = spec.get("replicas", 0)
    if replicas < 0:
        yield invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
    yield from podchecks.check_spec(field(spec, "template", "spec") or {}, "spec.template.spec")
    if old is not None and selector != old["spec"].get("selector"):
        yield invalid_value("spec.selector", AsJson(selector), _IMMUTABLE)


def _job(obj: Object, old: Object | None) -> Iterator[Cause]:
    spec = obj["spec"]
    pod = field(spec, "template", "spec") or {}
    yield from podchecks.check_spec(pod, "spec.template.spec")
    if pod.get("restartPolicy") == "Always":
        detail = 'valid values: "OnFailure", "Never"'
        yield required("spec.template.spec.restartPolicy", detail)
    yield from _job_scheduling(spec, None if old is None else old["spec"])
    if old is not None:
        for name in ("selector", "completionMode"):
            if spec.get(name) != old["spec"].get(name):
                yield invalid_value(f"spec.{name}", AsJson(spec.get(name)), _IMMUTABLE)
        if spec.get("template") != old["spec"].get("template") and not old["spec"].get("suspend"):
            yield invalid_value("spec.template", AsJson(spec.get("template")), _IMMUTABLE)


def _job_scheduling(spec: Object, before: Object | None) -> Iterator[Cause]:
    """Yield the faults of a Job's `spec.scheduling`: only a gang's number may change."""
    scheduling = spec.get("scheduling")
    least = field(scheduling or {}, "schedulingPolicy", "gang", "minCount")
    path = "spec.scheduling"
    if least is not None and least > spec.get("parallelism", 1):
        text = f"must not be greater than parallelism ({spec.get('parallelism', 1)})"
        yield invalid_value(f"{path}.schedulingPolicy.gang.minCount", least, text)
    if before is None or scheduling == before.get("scheduling"):
        return
    was: Any = before.get("scheduling") or {}
    now: Any = scheduling or {}
    if bool(scheduling is None) != bool(before.get("scheduling") is None):
        yield invalid_value(path, None, _IMMUTABLE)
        return
    for name in ("schedulingConstraints", "disruptionMode", "resourceClaims"):
        if was.get(name) != now.get(name):
            yield invalid_value(f"{path}.{name}", None, _IMMUTABLE)
    if {*(was.get("schedulingPolicy") or ())} != {*(now.get("schedulingPolicy") or ())}:
        yield invalid_value(f"{path}.schedulingPolicy", None, _IMMUTABLE)


def _service(obj: Object, old: Object | None) -> Iterator[Cause]:
    spec = obj["spec"]
    ports = spec.get("ports") or ()
    if not ports and spec.get("clusterIP") != "None" and spec["type"] != "ExternalName":
        yield required("spec.ports")
    for index, port in enumerate(ports):
        number = port.get("port", 0)
        if not 1 <= number <= 65535:
            yield invalid_value(
                f"spec.ports[{index}].port", number, "must be between 1 and 65535, inclusive"
            )
        target = port.get("targetPort")
        if isinstance(target, int) and not 1 <= target <= 65535:
            yield invalid_value(
                f"spec.ports[{index}].targetPort",
                target,
                "must be between 1 and 65535, inclusive",
            )
        if len(ports) > 1 and not port.get("name"):
            yield required(f"spec.ports[{index}].name")
    if old is not None and old["spec"].get("clusterIP") and spec["type"] != "ExternalName":
        address = spec.get("clusterIP")
        if address != old["spec"]["clusterIP"]:
            yield invalid_value("spec.clusterIPs[0]", [address], "may not change once set")


def _config(obj: Object, old: Object | None) -> Iterator[Cause]:
    if old is None or not old.get("immutable"):
        return
    if not obj.get("immutable"):
        yield forbidden_field("immutable", "field is immutable when `immutable` is set")
    for name in ("data", "binaryData"):
        if (obj.get(name) or {}) != (old.get(name) or {}):
            yield forbidden_field(name, "field is immutable when `immutable` is set")


def _node(obj: Object, _old: Object | None) -> Iterator[Cause]:
    seen: set[tuple[Any, Any]] = set()
    for index, taint in enumerate(obj["spec"].get("taints") or ()):
        path = f"spec.taints[{index}]"
        if not taint.get("key"):
            yield required(f"{path}.key", "name part must be non-empty")
        if taint.get("effect") not in _EFFECTS:
            yield not_supported(f"{path}.effect", taint.get("effect", ""), _EFFECTS)
        identity = (taint.get("key"), taint.get("effect"))
        if identity in seen:
            yield Cause("FieldValueDuplicate", path, f"Duplicate value: {AsJson(taint)}")
        seen.add(identity)


def _priority_class(obj: Object, old: Object | None) -> Iterator[Cause]:
    number = obj.get("value", 0)
    if number > 1_000_000_000 and not obj["metadata"]["name"].startswith("system-"):
        yield forbidden_field(
            "value", "maximum allowed value of a user defined priority is 1000000000"
        )
    if old is not None:
        if number != old.get("value", 0):
            yield forbidden_field("value", "may not be changed in an update.")
        if obj.get("preemptionPolicy") != old.get("preemptionPolicy"):
            policy = obj.get("preemptionPolicy")
            yield invalid_value("preemptionPolicy", policy, _IMMUTABLE)


def _storage_class(obj: Object, old: Object | None) -> Iterator[Cause]:
    if not obj.get("provisioner"):
        yield required("provisioner")
    if old is None:
        return
    for name in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
        if obj.get(name) != old.get(name):
            yield forbidden_field(name, f"updates to {name} are forbidden.")


def _budget(obj: Object, _old: Object | None) -> Iterator[Cause]:
    spec = obj.get("spec") or {}
    if "minAvailable" in spec and "maxUnavailable" in spec:
        # kube-apiserver: prints its internal struct, whose fields have no JSON names.
        shown = {
            "MinAvailable": spec["minAvailable"],
            "Selector": spec.get("selector"),
            "MaxUnavailable": spec["maxUnavailable"],
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
        }
        text = "minAvailable and maxUnavailable cannot be both set"
        yield invalid_value("spec", AsJson(shown), text)


def _lease(obj: Object, _old: Object | None) -> Iterator[Cause]:
    spec = obj.get("spec") or {}
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and duration <= 0:
        yield invalid_value("spec.leaseDurationSeconds", duration, "must be greater than 0")
    transitions = spec.get("leaseTransitions")
    if transitions is not None and transitions < 0:
        yield invalid_value(
            "spec.leaseTransitions", transitions, "must be greater than or equal to 0"
        )


def _claim(obj: Object, old: Object | None) -> Iterator[Cause]:
    spec = obj["spec"]
    if not spec.get("accessModes"):
        yield required("spec.accessModes", "at least 1 access mode is required")
    if not field(spec, "resources", "requests", "storage"):
        yield required("spec.resources[storage]")
    if old is not None:
        after, before = dict(spec), dict(old["spec"])
        for name in ("resources", "volumeName", "volumeAttributesClassName"):
            after.pop(name, None)
            before.pop(name, None)
        if after != before:
            yield forbidden_field(
                "spec",
                "spec is immutable after creation except resources.requests and "
                "volumeAttributesClassName for bound claims",
            )


def _role_binding(obj: Object, old: Object | None) -> Iterator[Cause]:
    if old is not None and obj.get("roleRef") != old.get("roleRef"):
        reference = obj.get("roleRef") or {}
        shown = {
            "APIGroup": reference.get("apiGroup", ""),
            "Kind": reference.get("kind", ""),
            "Name": reference.get("name", ""),
        }
        yield invalid_value("roleRef", AsJson(shown), "cannot change roleRef")


def selects(selector: Object, labels: Object, *, empty: bool = False) -> bool:
    """Return whether a label selector object matches; `empty` is the result of an empty one."""
    match = selector.get("matchLabels") or {}
    if any(labels.get(key) != text for key, text in match.items()):
        return False
    for rule in selector.get("matchExpressions") or ():
        text = labels.get(rule["key"])
        current = {
            "In": text in (rule.get("values") or ()),
            "NotIn": text not in (rule.get("values") or ()),
            "Exists": text is not None,
            "DoesNotExist": text is None,
        }
        if not current.get(rule.get("operator", ""), False):
            return False
    return empty or bool(match or selector.get("matchExpressions"))


def check_event(obj: Object) -> list[Cause]:
    """Return the faults of a new event in events.k8s.io/v1, with that version's texts."""
    if not obj.get("eventTime"):
        return [required("eventTime")]
    needed = ("reportingController", "reportingInstance", "action", "reason")
    return [required(part) for part in needed if not obj.get(part)]


_CHECKS: Final[dict[str, Check]] = {
    "deployments.apps": _workload,
    "replicasets.apps": _workload,
    "statefulsets.apps": _workload,
    "daemonsets.apps": _workload,
    "jobs.batch": _job,
    "services": _service,
    "configmaps": _config,
    "secrets": _config,
    "nodes": _node,
    "priorityclasses.scheduling.k8s.io": _priority_class,
    "storageclasses.storage.k8s.io": _storage_class,
    "poddisruptionbudgets.policy": _budget,
    "leases.coordination.k8s.io": _lease,
    "persistentvolumeclaims": _claim,
    "rolebindings.rbac.authorization.k8s.io": _role_binding,
    "clusterrolebindings.rbac.authorization.k8s.io": _role_binding,
    "deviceclasses.resource.k8s.io": deviceclaims.check_class,
    "resourceclaims.resource.k8s.io": deviceclaims.check_claim,
    "resourceclaimtemplates.resource.k8s.io": deviceclaims.check_template,
    "resourceslices.resource.k8s.io": deviceslices.check_slice,
    "devicetaintrules.resource.k8s.io": deviceslices.check_rule,
}
