"""The API server's changes and checks before an object is stored: defaults, admission, validation.

`ApiRules` is the `Rules` of a real sandbox store (`start.py`); every write passes here, over HTTP
or in process. It selects the functions of a kind from `controlplane`, `podadmission`, `podchecks`,
`objectchecks` and `crd`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from scheduler.controlplane import poddefaults
from scheduler.controlplane.defaults import DEFAULTS, fill_shown, name_job_pods
from scheduler.controlplane.validation import pod_level_faults
from scheduler.sandbox.api.status import Cause, Object, forbidden, invalid, invalid_value
from scheduler.sandbox.kinds import (
    crd,
    deviceclaims,
    deviceslices,
    objectchecks,
    podadmission,
    podchecks,
    podgroups,
    services,
    since137,
)
from scheduler.sandbox.kinds.kinds import (
    COMPOSITE_POD_GROUPS,
    CUSTOMRESOURCEDEFINITIONS,
    DEVICETAINTRULES,
    JOBS,
    NAMESPACES,
    PERSISTENTVOLUMES,
    PODGROUPS,
    PODS,
    RESOURCECLAIMS,
    SERVICES,
    Resource,
)
from scheduler.sandbox.kinds.typetable import TypeShape, type_table
from scheduler.sandbox.store.metadata import owner_faults

if TYPE_CHECKING:
    from scheduler.sandbox.store.store import ObjectStore

# kube-apiserver: these kinds count their spec changes in metadata.generation, the others have none.
_WITH_GENERATION: Final = frozenset(
    {
        "pods",
        "replicationcontrollers",
        "deployments.apps",
        "replicasets.apps",
        "statefulsets.apps",
        "daemonsets.apps",
        "jobs.batch",
        "cronjobs.batch",
        "poddisruptionbudgets.policy",
        "priorityclasses.scheduling.k8s.io",
        "ingresses.networking.k8s.io",
        "ingressclasses.networking.k8s.io",
        "networkpolicies.networking.k8s.io",
        "customresourcedefinitions.apiextensions.k8s.io",
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
        "validatingadmissionpolicies.admissionregistration.k8s.io",
        "endpointslices.discovery.k8s.io",
        "resourceslices.resource.k8s.io",
        "deviceclasses.resource.k8s.io",
        "devicetaintrules.resource.k8s.io",
    }
)
_STATUS_AT_CREATION: Final = frozenset({"nodes"})
# The collector removes these when the object is unused.
_PROTECTED: Final = {
    "persistentvolumes": "kubernetes.io/pv-protection",
    "persistentvolumeclaims": "kubernetes.io/pvc-protection",
}
POD_GROUP_PROTECTION: Final = "scheduling.k8s.io/podgroup-protection"
_GROUPS: Final = (PODGROUPS.storage, COMPOSITE_POD_GROUPS.storage)
_KEPT_NAMESPACES: Final = frozenset({"default", "kube-system", "kube-public"})


class ApiRules:
    """Kubernetes' own rules; one instance serves one store."""

    def __init__(self) -> None:
        self.definitions: crd.Definitions | None = None
        self._addresses = services.Addresses()

    def prepare_create(self, store: "ObjectStore", resource: Resource, obj: Object) -> None:
        """Default, admit and check a new object in place."""
        if resource.storage in _WITH_GENERATION or resource.custom:
            obj["metadata"]["generation"] = 1
        else:
            obj["metadata"].pop("generation", None)
        if resource.has_status and resource.storage not in _STATUS_AT_CREATION:
            obj.pop("status", None)
        self._default(store, resource, obj, None)
        if resource is PODS:
            _new_pod(store, obj)
        elif resource.storage == JOBS.storage:
            name_job_pods(obj)
        elif resource.storage == NAMESPACES.storage:
            obj["spec"] = {**(obj.get("spec") or {}), "finalizers": ["kubernetes"]}
            obj["status"] = {"phase": "Active"}
        elif resource.storage in _PROTECTED:
            current = obj["metadata"].get("finalizers") or []
            obj["metadata"]["finalizers"] = [*current, _PROTECTED[resource.storage]]
            obj["status"] = {"phase": "Pending"}
            if resource.storage == PERSISTENTVOLUMES.storage:
                obj["status"]["lastPhaseTransitionTime"] = store.now()
            else:
                podadmission.admit_volume_claim(store, obj)
        elif resource.storage == SERVICES.storage:
            self._addresses.assign(store, obj)
            obj["status"] = {"loadBalancer": {}}
        elif resource is DEVICETAINTRULES:
            obj["status"] = {}
        elif resource.storage in _GROUPS:
            current = obj["metadata"].get("finalizers") or []
            obj["metadata"]["finalizers"] = [*current, POD_GROUP_PROTECTION]
            has_policy = resource.version != PODGROUPS.version
            podadmission.apply_priority(store, resource, obj, with_policy=has_policy)
            obj["status"] = {}
        self._check(store, resource, obj, None, "")
        if resource is PODS:
            # kube-apiserver sets defaults on objects from etcd: pod-level requests follow a
            # LimitRange.
            poddefaults.fill_pod(obj["spec"])

    def prepare_update(
        self, store: "ObjectStore", resource: Resource, new: Object, old: Object, subresource: str
    ) -> None:
        """Default, admit and check a changed object in place."""
        if subresource == "status":
            served = self._served(resource)
            if served is not None:
                new["metadata"] = {**old["metadata"], **_kept_version(new)}
                crd.prepare_custom(served, new, old)
            elif resource.storage == CUSTOMRESOURCEDEFINITIONS.storage:
                new["metadata"] = dict(old["metadata"])
            elif resource is PODS:
                new["status"] = podadmission.completed_status(new.get("status") or {})
            elif resource is RESOURCECLAIMS:
                faults = deviceclaims.check_status(new, old)
                causes = since137.restated(faults, new, store.kinds.release)
                if causes:
                    raise invalid(resource, old["metadata"]["name"], causes)
            return
        if resource is PODS and subresource:
            podadmission.keep_to_part(new, old, subresource)
        if resource is PODS:
            new["spec"].setdefault("nodeName", old["spec"].get("nodeName", ""))
            if not new["spec"]["nodeName"]:
                del new["spec"]["nodeName"]
        self._default(store, resource, new, old)
        if resource.storage == SERVICES.storage:
            self._addresses.keep(new, old)
        self._check(store, resource, new, old, subresource)

    def grace_period_s(self, resource: Resource, obj: Object, requested: int | None) -> int | None:
        """Return the seconds a pod has to stop; all other kinds have no grace period."""
        if resource is not PODS:
            return None
        spec = obj["spec"]
        phase = (obj.get("status") or {}).get("phase")
        if not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
            return 0
        wanted = spec.get("terminationGracePeriodSeconds", 30) if requested is None else requested
        return max(0, int(wanted))

    def mark_deleted(self, resource: Resource, obj: Object) -> None:
        """Mark a namespace Terminating; the system namespaces stay."""
        if resource.storage != NAMESPACES.storage:
            return
        name = obj["metadata"]["name"]
        if name in _KEPT_NAMESPACES:
            raise forbidden(NAMESPACES, name, "this namespace may not be deleted")
        obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}

    def prune(self, resource: Resource, obj: Object) -> Sequence[str]:
        """Remove fields that a custom resource does not have; returns their paths."""
        served = self._served(resource)
        return served.schema.prune(obj) if served else ()

    def printer_columns(self, resource: Resource) -> Sequence[Object]:
        """Return the columns that a custom resource's definition adds to tables."""
        served = self._served(resource)
        return served.columns if served else ()

    def scale_paths(self, resource: Resource) -> Object | None:
        """Where a custom resource keeps its replicas."""
        served = self._served(resource)
        return served.scale if served else None

    def shape_of(self, resource: Resource) -> TypeShape | None:
        """How lists and maps of a kind merge."""
        served = self._served(resource)
        return served.shape if served else type_table().of_resource(resource)

    def openapi_schema(self, resource: Resource) -> Object | None:
        """Return the schema of a custom resource."""
        served = self._served(resource)
        return served.schema.document if served else None

    def _served(self, resource: Resource) -> crd.ServedVersion | None:
        return self.definitions.of(resource) if self.definitions and resource.custom else None

    def _default(
        self, store: "ObjectStore", resource: Resource, obj: Object, old: Object | None
    ) -> None:
        if resource is PODS:
            poddefaults.fill_spec(obj.setdefault("spec", {}))
            return
        if resource.storage in _GROUPS:
            podgroups.fill(obj, resource.version)
            return
        if resource is DEVICETAINTRULES:
            deviceslices.fill_rule(obj, old, store.now())
        fill_shown(resource.storage, obj)
        fill = DEFAULTS.get(resource.storage)
        if fill is not None:
            fill(obj)
        elif resource.storage == CUSTOMRESOURCEDEFINITIONS.storage:
            if old is None:
                crd.prepare_definition(obj, store.now())
            else:
                crd.check_definition(obj)
        elif (served := self._served(resource)) is not None:
            crd.prepare_custom(served, obj, old)
        since137.complete(resource, obj, store.kinds.release, is_new=old is None)

    @staticmethod
    def _check(
        store: "ObjectStore", resource: Resource, obj: Object, old: Object | None, subresource: str
    ) -> None:
        release = store.kinds.release
        causes: list[Cause] = list(podchecks.check_labels(obj["metadata"]))
        if "ownerReferences" in obj["metadata"]:
            causes += owner_faults(obj["metadata"], release)
        if resource is PODS:
            if old is None:
                causes += podchecks.check_spec(obj["spec"], "spec")
                causes += [invalid_value(*fault) for fault in pod_level_faults(obj["spec"])]
            elif obj["spec"] != old["spec"]:
                causes += podchecks.check_update(obj, old, subresource)
        else:
            causes += objectchecks.check(resource, obj, old)
        if causes:
            name = obj["metadata"].get("name", "")
            raise invalid(resource, name, since137.restated(causes, obj, release))


def _new_pod(store: "ObjectStore", pod: Object) -> None:
    poddefaults.fill_pod(pod["spec"])
    podadmission.admit(store, pod)
    pod["status"] = podadmission.first_status(pod, store.now())


def _kept_version(new: Object) -> Object:
    version = new["metadata"].get("resourceVersion")
    return {"resourceVersion": version} if version else {}
