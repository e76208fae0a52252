"""Convert new objects of a snapshot to structs, with the API server's additions.

An object without a uid is new to the API server: `controlplane` fills in defaults and applies
admission. A missing priority always follows from the priority classes.
"""

from collections.abc import Iterable
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from scheduler.base.errors import ObjectError
from scheduler.base.text import did_you_mean
from scheduler.controlplane import admission, poddefaults
from scheduler.controlplane.admission import (
    LIMIT_RANGE,
    PRIORITY_CLASS,
    RUNTIME_CLASS,
    STORAGE_CLASS,
    SYSTEM_CLASSES,
)
from scheduler.controlplane.defaults import DEFAULTS
from scheduler.controlplane.validation import pod_level_faults, request_faults
from scheduler.objects.admission import (
    DaemonSet,
    LimitRange,
    PriorityClass,
    ResourceQuota,
    RuntimeClass,
)
from scheduler.objects.groups.podgroup import WorkloadGroup
from scheduler.objects.kinds import Kind
from scheduler.objects.pod import Pod, PodSpec, ResourceList
from scheduler.objects.workloads import Namespace
from scheduler.snapshot.checks import check_pod
from scheduler.snapshot.spelling import check_spelling

NAMESPACE_NAME = "kubernetes.io/metadata.name"
Plain = dict[str, Any]
Prioritized = TypeVar("Prioritized", Pod, WorkloadGroup)


class _ClassSpec(msgspec.Struct, frozen=True, rename="camel"):
    priority_class_name: str | None = None
    preemption_policy: str | None = None


class _ClassOf(msgspec.Struct, frozen=True):
    spec: _ClassSpec = _ClassSpec()


class _Capacity(msgspec.Struct, frozen=True):
    capacity: ResourceList | None = None


class _NodeInfo(msgspec.Struct, frozen=True, rename="camel"):
    kubelet_version: str = ""


class _Info(msgspec.Struct, frozen=True, rename="camel"):
    node_info: _NodeInfo | None = None


class _KubeletOf(msgspec.Struct, frozen=True):
    status: _Info | None = None


class _CapacityOf(msgspec.Struct, frozen=True):
    status: _Capacity = _Capacity()


_class_of = msgspec.json.Decoder(_ClassOf)
_kubelet_of = msgspec.json.Decoder(_KubeletOf)
_capacity_of = msgspec.json.Decoder(_CapacityOf)


def _kind(group: str, plural: str, struct: type[Any], *, namespaced: bool) -> Kind:
    name = struct.__name__
    return Kind(name, group, "v1", plural, struct, namespaced=namespaced, required=False)


# Read from snapshots and clusters, never watched: a scheduler receives objects after admission.
KINDS: Final = (
    _kind("scheduling.k8s.io", "priorityclasses", PriorityClass, namespaced=False),
    _kind("node.k8s.io", "runtimeclasses", RuntimeClass, namespaced=False),
    _kind("", "limitranges", LimitRange, namespaced=True),
    _kind("", "resourcequotas", ResourceQuota, namespaced=True),
    _kind("apps", "daemonsets", DaemonSet, namespaced=True),
)
BY_KIND: Final = {kind.kind: kind for kind in KINDS}
# New objects of these kinds get defaults: kind → its entry in the table.
DEFAULTED: Final = {
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "ResourceClaim": "resourceclaims.resource.k8s.io",
    "ResourceClaimTemplate": "resourceclaimtemplates.resource.k8s.io",
}
# Exceptions of functions that receive unchecked plain data of a wrong type.
MALFORMED: Final = (msgspec.ValidationError, AttributeError, LookupError, TypeError, ValueError)
RESOURCE_QUOTA: Final = "ResourceQuota"
_MOST_KEPT: Final = 5_000
_NAMESPACED: Final = (LIMIT_RANGE, RESOURCE_QUOTA)
# The kinds of objects that admission reads.
READ: Final = (PRIORITY_CLASS, RUNTIME_CLASS, STORAGE_CLASS, *_NAMESPACED)


class ClusterAdmission:
    """Admit new objects using the objects that admission reads.

    `is_alone` states that the rest of the cluster is missing: an unknown RuntimeClass then adds
    nothing, and is named in `unknown`.
    """

    def __init__(self, *, is_alone: bool = False) -> None:
        self._is_alone = is_alone
        # Of new pods: namespace, labels and spec without node → the spec after admission.
        self._admitted: dict[bytes, PodSpec] = {}
        self._objects: dict[str, dict[str, Plain]] = {kind: {} for kind in READ}
        for name, value in SYSTEM_CLASSES.items():
            self.add(PRIORITY_CLASS, {"metadata": {"name": name}, "value": value})
        self.unknown: set[str] = set()

    def add(self, kind: str, plain: Plain) -> None:
        """Store an object that admission reads."""
        self._admitted.clear()
        meta = plain["metadata"]
        key = meta["name"]
        if kind == LIMIT_RANGE:
            DEFAULTS["limitranges"](plain)
        if kind in _NAMESPACED:
            key = f"{meta.setdefault('namespace', 'default')}/{key}"
        self._objects[kind][key] = plain

    def find(self, kind: str, name: str) -> Plain | None:
        """Return the cluster-scoped object of that name, or None."""
        found = self._objects[kind].get(name)
        if found is None and kind == RUNTIME_CLASS and self._is_alone:
            self.unknown.add(name)
            return {"metadata": {"name": name}}
        return found

    def all(self, kind: str, namespace: str = "") -> Iterable[Plain]:
        """Return the objects of a kind, those of one namespace if it is given."""
        found = self._objects[kind].values()
        return [one for one in found if namespace in ("", one["metadata"].get("namespace"))]

    def pod(self, plain: Plain, *, is_strict: bool = False) -> Pod:
        """Return a new pod as the API server would return it; may change `plain`.

        `is_strict`: ObjectError for a field that pods do not have. Of pods with equal specs, only
        the first is admitted: the others get its spec.
        """
        meta = plain["metadata"]
        namespace = meta.setdefault("namespace", "default")
        meta.setdefault("uid", f"Pod/{namespace}/{meta['name']}")
        rest = {name: part for name, part in plain.items() if name != "spec"}
        spec = plain.get("spec")
        # `matchLabelKeys` merges labels into the spec.
        key = _key(is_strict, namespace, meta.get("labels"), spec)
        if is_strict:
            check_spelling(rest)
        known = self._admitted.get(key)
        if known is None:
            if is_strict:
                check_spelling({"spec": spec})
            pod = self._admit_pod(plain)
            if key and len(self._admitted) < _MOST_KEPT:
                self._admitted[key] = pod.spec
            return pod
        try:
            node = {name: part for name, part in plain["spec"].items() if name == "nodeName"}
            pod = msgspec.convert({**rest, "spec": node}, Pod)
        except MALFORMED as error:
            raise ObjectError(f"cannot be read: {error!r}") from error
        return replace(pod, spec=replace(known, node_name=pod.spec.node_name))

    def _admit_pod(self, plain: Plain) -> Pod:
        """Return a new pod with all defaults and additions, checked; changes `plain`."""
        spec = plain["spec"]
        try:
            poddefaults.fill_spec(spec)
            poddefaults.fill_pod(spec)
            admission.admit_pod(self, plain)
            for fault in (*request_faults(spec), *pod_level_faults(spec)):
                raise ObjectError(f"{fault.field}: {fault.value} {fault.detail}")
            # kube-apiserver sets defaults on objects from etcd: pod-level requests follow a
            # LimitRange.
            poddefaults.fill_pod(spec)
            pod = msgspec.convert(plain, Pod)
        except MALFORMED as error:
            raise ObjectError(f"cannot be read: {error!r}") from error
        check_pod(pod)
        name, has_policy = class_of(plain)
        return self.prioritized(pod, name, has_policy=has_policy)

    def other(self, kind: Kind, plain: Plain) -> Any:
        """Return a new object other than a pod as the API server would return it.

        Changes `plain`.
        """
        try:
            DEFAULTS[DEFAULTED[kind.kind]](plain)
            obj = msgspec.convert(plain, kind.struct)
        except MALFORMED as error:
            raise ObjectError(f"cannot be read: {error!r}") from error
        return obj

    def with_storage_class(self, claim: Any) -> Any:
        """Return a claim without a StorageClass with the default one.

        The volume controller does so later for claims that are older than the default class.
        """
        if claim.spec.storage_class_name is not None or claim.spec.volume_name:
            return claim
        plain = {
            "metadata": {"annotations": claim.metadata.annotations},
            "spec": {"storageClassName": None},
        }
        admission.admit_volume_claim(self, plain)
        name = plain["spec"]["storageClassName"]
        return replace(claim, spec=replace(claim.spec, storage_class_name=name))

    def prioritized(self, obj: Prioritized, name: str, *, has_policy: bool) -> Prioritized:
        """Return a pod or PodGroup without a priority with that of its class, or of the default
        class.

        `has_policy` states that the object has its own preemption policy. ObjectError when the
        class does not exist.
        """
        if obj.spec.priority is not None:
            return obj
        found = admission.priority_class(self, name)
        if found is None and name:
            hint = did_you_mean(name, self._objects[PRIORITY_CLASS])
            raise ObjectError(f'spec.priorityClassName: no PriorityClass "{name}" is given{hint}')
        if found is None:
            return obj
        policy = obj.spec.preemption_policy
        if found.get("preemptionPolicy") and not has_policy:
            policy = found["preemptionPolicy"]
        spec = replace(obj.spec, priority=found.get("value", 0), preemption_policy=policy)
        if isinstance(obj, Pod):
            spec = replace(spec, priority_class_name=found["metadata"]["name"])
        return replace(obj, spec=spec)


def _key(is_strict: bool, namespace: str, labels: Any, spec: Any) -> bytes:
    """Return a key that is equal for equal specs of a namespace, whatever their node; b"" for
    none.
    """
    if not isinstance(spec, dict):
        return b""
    shared = {name: part for name, part in spec.items() if name != "nodeName"}
    try:
        return msgspec.msgpack.encode((is_strict, namespace, labels, shared))
    except (TypeError, ValueError, OverflowError):
        return b""  # of numbers beyond 64 bits, which admission rejects


def capacity_of(raw: Any) -> ResourceList:
    """Return a node's capacity, the default for allocatable."""
    status = _part(raw, _capacity_of, _CapacityOf).status
    return status.capacity or {}


def kubelet_of(raw: Any) -> str:
    """Return the version of a node's kubelet, or ''."""
    status = _part(raw, _kubelet_of, _KubeletOf).status
    return status.node_info.kubelet_version if status and status.node_info else ""


def class_of(raw: Any) -> tuple[str, bool]:
    """Return a pod's priority class name, and whether the pod has a preemption policy of its
    own.
    """
    spec = _part(raw, _class_of, _ClassOf).spec
    return spec.priority_class_name or "", spec.preemption_policy is not None


def namespaces(found: Iterable[Namespace], pods: Iterable[Pod]) -> list[Namespace]:
    """Return the namespaces found and those of the pods, each with the label of its name.

    An API server sets that label, and rejects pods without an existing namespace; namespace
    selectors match Namespace objects alone.
    """
    by_name = {pod.metadata.namespace: Namespace() for pod in pods}
    by_name |= {one.metadata.name: one for one in found}
    return [_named(one, name) for name, one in by_name.items()]


def _named(one: Namespace, name: str) -> Namespace:
    labels = {**one.metadata.labels, NAMESPACE_NAME: name}
    return replace(one, metadata=replace(one.metadata, name=name, labels=labels))


def _part(raw: Any, decoder: Any, into: Any) -> Any:
    """Return a part of an object; None if it is missing or invalid (its struct was read before)."""
    try:
        if isinstance(raw, bytes):
            return decoder.decode(raw)
        return msgspec.convert(raw, into)
    except msgspec.MsgspecError:
        return into()
