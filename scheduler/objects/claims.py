"""Claims for devices: resource claims, their templates and allocations (resource.k8s.io/v1).

Read by the plugin DynamicResources, which writes `status`. Only changed fields are patched, never
the whole claim: the API server keeps parameters of drivers byte for byte, and these structs have
only the fields that allocation reads.
"""

from typing import Annotated, Any

import msgspec

from scheduler.objects.devices import MOST_ENTRIES, AmountText, DeviceSelector
from scheduler.objects.meta import AnnotatedMeta, Condition, Int64, Object, ObjectMeta
from scheduler.objects.pod import NodeSelector

FINALIZER = "resource.kubernetes.io/delete-protection"
EXTENDED_RESOURCE_CLAIM = "resource.kubernetes.io/extended-resource-claim"
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
EXACT_COUNT = "ExactCount"
ALL = "All"

# Limits of the API: results of one allocation, consumers of one claim.
MOST_RESULTS = 32
MOST_RESERVED = 256

_FEW = msgspec.Meta(max_length=MOST_ENTRIES)


class DeviceToleration(Object, frozen=True):
    """A toleration of device taints; an empty effect matches all, an empty key needs Exists.

    The API server defaults the operator to Equal, so that every allocation states it.
    """

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class CapacityRequirements(Object, frozen=True):
    """Requested amounts of a device's capacities, by the device's name for them."""

    requests: Annotated[dict[str, AmountText], _FEW] = {}


class ExactDeviceRequest(Object, frozen=True):
    """A request for a number of devices, or all, of a class (also for DeviceSubRequest).

    As `exactly` of a request it has no name, as an entry of `firstAvailable` no admin access.
    """

    name: str = ""
    device_class_name: str = ""
    selectors: Annotated[tuple[DeviceSelector, ...], _FEW] = ()
    allocation_mode: str = EXACT_COUNT
    count: Int64 = 1
    admin_access: bool | None = None
    tolerations: Annotated[tuple[DeviceToleration, ...], _FEW] = ()
    capacity: CapacityRequirements | None = None
    derived_attributes: Annotated[tuple[Any, ...], _FEW] = ()


class DeviceRequest(Object, frozen=True):
    """A request for one kind of device, or for the first available of several kinds."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: Annotated[tuple[ExactDeviceRequest, ...], _FEW] = ()


class DeviceConstraint(Object, frozen=True):
    """An attribute that is equal, or distinct, for the devices of some requests (none named:
    all).
    """

    requests: Annotated[tuple[str, ...], _FEW] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaimConfiguration(Object, frozen=True):
    """Parameters for the driver of some requests (none named: all), passed on unchanged."""

    requests: Annotated[tuple[str, ...], _FEW] = ()
    opaque: Any = None


class DeviceClaim(Object, frozen=True):
    """The request of a claim."""

    requests: Annotated[tuple[DeviceRequest, ...], _FEW] = ()
    constraints: Annotated[tuple[DeviceConstraint, ...], _FEW] = ()
    config: Annotated[tuple[DeviceClaimConfiguration, ...], _FEW] = ()


class ResourceClaimSpec(Object, frozen=True):
    """The spec of a claim; it is immutable."""

    devices: DeviceClaim = DeviceClaim()


class DeviceResult(Object, frozen=True):
    """One device that was allocated for a request (`request` or `request/alternative`)."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = msgspec.field(name="shareID", default=None)
    consumed_capacity: dict[str, AmountText] = {}


class DeviceConfiguration(Object, frozen=True):
    """Parameters of an allocation, and whether they come from the class or the claim."""

    source: str = ""
    requests: Annotated[tuple[str, ...], _FEW] = ()
    opaque: Any = None


class DeviceAllocation(Object, frozen=True):
    """The devices of a claim, in the order of allocation."""

    results: Annotated[tuple[DeviceResult, ...], _FEW] = ()
    config: tuple[DeviceConfiguration, ...] = ()


class AllocationResult(Object, frozen=True):
    """The allocation of a claim; without a node selector it is usable on all nodes."""

    devices: DeviceAllocation = DeviceAllocation()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class ConsumerReference(Object, frozen=True):
    """The consumer of a claim: a pod, or another object of `api_group`."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class AllocatedDeviceStatus(Object, frozen=True):
    """The driver's report on an allocated device."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = msgspec.field(name="shareID", default=None)
    conditions: tuple[Condition, ...] = ()


class ResourceClaimStatus(Object, frozen=True):
    """The allocation of a claim, and its consumers."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ClaimMeta(AnnotatedMeta, frozen=True):
    """`metadata` of a claim."""

    generate_name: str = ""
    finalizers: tuple[str, ...] = ()


class ResourceClaim(Object, frozen=True):
    """A claim for devices."""

    metadata: ClaimMeta = ClaimMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()

    @property
    def key(self) -> str:
        """Return `namespace/name`."""
        return f"{self.metadata.namespace}/{self.metadata.name}"


class TemplateMeta(Object, frozen=True):
    """`metadata` that a template copies to its claims."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class ResourceClaimTemplateSpec(Object, frozen=True):
    """The spec of a template's claims."""

    metadata: TemplateMeta = TemplateMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(Object, frozen=True):
    """A template for claims of pods; only a simulation creates these claims itself."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()
