"""The resources that the sandbox serves: one row each, plus those added by CRDs at run time.

The store keys its collections by `Resource.storage`, the server finds a row by group, version and
plural, and discovery prints the whole table. In-process clients name a resource by the constants
(`PODS`, `NODES`, ...). Several rows may share a storage: core and events.k8s.io events, and the
served versions of one CRD. `typed_as` names the type of a kind whose fields differ between
releases. This module contains names only: no objects, no rules.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

ALL_VERBS = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
)


@dataclass(frozen=True, slots=True)
class Resource:
    """One served resource of one API version."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    storage: str = ""
    custom: bool = False
    selectable: tuple[str, ...] = ()
    typed_as: str = ""
    api_version: str = field(init=False)
    qualified: str = field(init=False)
    head: bytes = field(init=False)

    def __post_init__(self) -> None:
        prefix = f"{self.group}/" if self.group else ""
        object.__setattr__(self, "api_version", prefix + self.version)
        suffix = f".{self.group}" if self.group else ""
        object.__setattr__(self, "qualified", self.plural + suffix)
        head = f'{{"kind":"{self.kind}","apiVersion":"{self.api_version}",'
        object.__setattr__(self, "head", head.encode())
        if not self.storage:
            object.__setattr__(self, "storage", self.qualified)

    @property
    def list_kind(self) -> str:
        """Return the kind of a list of these."""
        return self.kind + "List"

    @property
    def has_status(self) -> bool:
        """Return whether status is written through its own subresource."""
        return "status" in self.subresources


def _row(
    api_version: str,
    kind: str,
    short: str = "",
    *,
    plural: str = "",
    cluster: bool = False,
    sub: str = "",
    categories: str = "",
    verbs: tuple[str, ...] = ALL_VERBS,
    storage: str = "",
    typed_as: str = "",
) -> Resource:
    group, _, version = api_version.rpartition("/")
    return Resource(
        group=group,
        version=version,
        kind=kind,
        plural=plural or _plural(kind.lower()),
        singular=kind.lower(),
        namespaced=not cluster,
        short_names=tuple(short.split()),
        subresources=tuple(sub.split()),
        categories=tuple(categories.split()),
        verbs=verbs,
        storage=storage,
        typed_as=typed_as,
    )


def _plural(singular: str) -> str:
    """Pods, classes, policies."""
    if singular.endswith("y"):
        return singular[:-1] + "ies"
    return singular + ("es" if singular.endswith("s") else "s")


_CREATE = ("create",)
_review = partial(_row, cluster=True, verbs=_CREATE)
_admission = partial(
    _row, "admissionregistration.k8s.io/v1", cluster=True, categories="api-extensions"
)
_NO_COLLECTION = tuple(verb for verb in ALL_VERBS if verb != "deletecollection")

PODS = _row(
    "v1",
    "Pod",
    "po",
    sub="status binding eviction ephemeralcontainers log resize",
    categories="all",
)
NODES = _row("v1", "Node", "no", cluster=True, sub="status")
NAMESPACES = _row(
    "v1", "Namespace", "ns", cluster=True, sub="status finalize", verbs=_NO_COLLECTION
)
SERVICES = _row("v1", "Service", "svc", sub="status", categories="all")
ENDPOINTS = _row("v1", "Endpoints", "ep", plural="endpoints")
CONFIGMAPS = _row("v1", "ConfigMap", "cm")
SECRETS = _row("v1", "Secret")
SERVICEACCOUNTS = _row("v1", "ServiceAccount", "sa", sub="token")
EVENTS = _row("v1", "Event", "ev")
PERSISTENTVOLUMES = _row("v1", "PersistentVolume", "pv", cluster=True, sub="status")
PERSISTENTVOLUMECLAIMS = _row("v1", "PersistentVolumeClaim", "pvc", sub="status")
REPLICATIONCONTROLLERS = _row(
    "v1", "ReplicationController", "rc", sub="status scale", categories="all"
)
LIMITRANGES = _row("v1", "LimitRange", "limits")
RESOURCEQUOTAS = _row("v1", "ResourceQuota", "quota", sub="status")
BINDINGS = _row("v1", "Binding", verbs=_CREATE)
DEPLOYMENTS = _row("apps/v1", "Deployment", "deploy", sub="status scale", categories="all")
REPLICASETS = _row("apps/v1", "ReplicaSet", "rs", sub="status scale", categories="all")
STATEFULSETS = _row("apps/v1", "StatefulSet", "sts", sub="status scale", categories="all")
DAEMONSETS = _row("apps/v1", "DaemonSet", "ds", sub="status", categories="all")
CONTROLLERREVISIONS = _row("apps/v1", "ControllerRevision")
JOBS = _row("batch/v1", "Job", sub="status", categories="all")
CRONJOBS = _row("batch/v1", "CronJob", "cj", sub="status", categories="all")
PODDISRUPTIONBUDGETS = _row("policy/v1", "PodDisruptionBudget", "pdb", sub="status")
STORAGECLASSES = _row("storage.k8s.io/v1", "StorageClass", "sc", cluster=True)
CSINODES = _row("storage.k8s.io/v1", "CSINode", cluster=True)
CSIDRIVERS = _row("storage.k8s.io/v1", "CSIDriver", cluster=True)
CSISTORAGECAPACITIES = _row("storage.k8s.io/v1", "CSIStorageCapacity")
VOLUMEATTACHMENTS = _row("storage.k8s.io/v1", "VolumeAttachment", cluster=True, sub="status")
PRIORITYCLASSES = _row("scheduling.k8s.io/v1", "PriorityClass", "pc", cluster=True)
PODGROUPS = _row("scheduling.k8s.io/v1alpha2", "PodGroup", sub="status")
LEASES = _row("coordination.k8s.io/v1", "Lease")
EVENTS_V1 = _row("events.k8s.io/v1", "Event", "ev", storage=EVENTS.storage)
ENDPOINTSLICES = _row("discovery.k8s.io/v1", "EndpointSlice")
ROLES = _row("rbac.authorization.k8s.io/v1", "Role")
ROLEBINDINGS = _row("rbac.authorization.k8s.io/v1", "RoleBinding")
CLUSTERROLES = _row("rbac.authorization.k8s.io/v1", "ClusterRole", cluster=True)
CLUSTERROLEBINDINGS = _row("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", cluster=True)
TOKENREVIEWS = _review("authentication.k8s.io/v1", "TokenReview")
SELFSUBJECTREVIEWS = _review("authentication.k8s.io/v1", "SelfSubjectReview")
SUBJECTACCESSREVIEWS = _review("authorization.k8s.io/v1", "SubjectAccessReview")
LOCALSUBJECTACCESSREVIEWS = _row(
    "authorization.k8s.io/v1", "LocalSubjectAccessReview", verbs=_CREATE
)
SELFSUBJECTACCESSREVIEWS = _review("authorization.k8s.io/v1", "SelfSubjectAccessReview")
SELFSUBJECTRULESREVIEWS = _review("authorization.k8s.io/v1", "SelfSubjectRulesReview")
CUSTOMRESOURCEDEFINITIONS = _row(
    "apiextensions.k8s.io/v1",
    "CustomResourceDefinition",
    "crd crds",
    cluster=True,
    sub="status",
    categories="api-extensions",
)
DEVICECLASSES = _row("resource.k8s.io/v1", "DeviceClass", cluster=True)
RESOURCESLICES = _row("resource.k8s.io/v1", "ResourceSlice", cluster=True)
RESOURCECLAIMS = _row("resource.k8s.io/v1", "ResourceClaim", sub="status")
RESOURCECLAIMTEMPLATES = _row("resource.k8s.io/v1", "ResourceClaimTemplate")
MUTATINGWEBHOOKCONFIGURATIONS = _admission("MutatingWebhookConfiguration")
VALIDATINGWEBHOOKCONFIGURATIONS = _admission("ValidatingWebhookConfiguration")
VALIDATINGADMISSIONPOLICIES = _admission("ValidatingAdmissionPolicy", sub="status")
VALIDATINGADMISSIONPOLICYBINDINGS = _admission("ValidatingAdmissionPolicyBinding")
HORIZONTALPODAUTOSCALERS = _row(
    "autoscaling/v2", "HorizontalPodAutoscaler", "hpa", sub="status", categories="all"
)
INGRESSES = _row("networking.k8s.io/v1", "Ingress", "ing", sub="status")
INGRESSCLASSES = _row("networking.k8s.io/v1", "IngressClass", cluster=True)
NETWORKPOLICIES = _row("networking.k8s.io/v1", "NetworkPolicy", "netpol")
RUNTIMECLASSES = _row("node.k8s.io/v1", "RuntimeClass", cluster=True)

BUILT_IN: tuple[Resource, ...] = tuple(
    value for value in list(globals().values()) if isinstance(value, Resource)
)


# Releases of Kubernetes with different resources; the first is the default.
RELEASES = ("1.36", "1.37")
POD_GROUPS_1_37, WORKLOADS = (
    _row("scheduling.k8s.io/v1beta1", "PodGroup", sub="status"),
    _row("scheduling.k8s.io/v1beta1", "Workload"),
)
COMPOSITE_POD_GROUPS = _row(
    "scheduling.k8s.io/v1alpha3", "CompositePodGroup", "compositepodgroups", sub="status"
)
DEVICETAINTRULES = _row("resource.k8s.io/v1", "DeviceTaintRule", cluster=True, sub="status")
_SINCE_1_37 = (
    DEVICETAINTRULES,
    POD_GROUPS_1_37,
    COMPOSITE_POD_GROUPS,
    WORKLOADS,
    _row("scheduling.k8s.io/v1alpha3", "PodGroup", sub="status"),
    _row("scheduling.k8s.io/v1alpha3", "Workload"),
    _row("batch/v1", "Job", sub="status", categories="all", typed_as="batch/v1/Job~1.37"),
)


def of_release(release: str) -> tuple[Resource, ...]:
    """Return the rows of a release; ValueError names the known ones."""
    if release not in RELEASES:
        raise ValueError(f"{release} is none of the releases {', '.join(RELEASES)}")
    if release == RELEASES[0]:
        return BUILT_IN
    gone = (PODGROUPS, JOBS)
    return (*(row for row in BUILT_IN if row not in gone), *_SINCE_1_37)


class Kinds:
    """The table of served resources; CRDs add and remove rows while the server runs."""

    def __init__(self, rows: Iterable[Resource] = BUILT_IN, *, release: str = RELEASES[0]) -> None:
        self.generation = 0
        self.release = release
        self._groups: set[str] = set()
        self._groups_at = -1
        self._by_path: dict[tuple[str, str, str], Resource] = {}
        for row in rows:
            self.add(row)

    def add(self, resource: Resource) -> None:
        """Serve `resource`, in place of an earlier row of the same group, version and plural."""
        self._by_path[resource.group, resource.version, resource.plural] = resource
        self.generation += 1

    def remove(self, resource: Resource) -> None:
        """Stop serving `resource`; unknown ones are ignored."""
        if self._by_path.pop((resource.group, resource.version, resource.plural), None):
            self.generation += 1

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """Return the row at this path, or None."""
        return self._by_path.get((group, version, plural))

    def serves(self, group: str) -> bool:
        """Return whether a resource of a group is served."""
        if self._groups_at != self.generation:
            self._groups = {row.group for row in self._by_path.values()}
            self._groups_at = self.generation
        return group in self._groups

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        """Return the row of a manifest's `apiVersion` and `kind`, or None; O(rows)."""
        for row in self._by_path.values():
            if row.kind == kind and row.api_version == api_version:
                return row
        return None

    def of_storage(self, storage: str) -> Resource | None:
        """Return a row of this storage, or None; O(rows)."""
        return next((row for row in self._by_path.values() if row.storage == storage), None)

    def __iter__(self) -> Iterator[Resource]:
        return iter(list(self._by_path.values()))
