"""Devices as their drivers publish them: device classes and resource slices (resource.k8s.io/v1).

Read by the plugin DynamicResources; claims for devices are in `objects.claims`. Only the fields
that allocation reads are decoded, quantities stay as written. Objects that the API server would
reject (a slice with too many devices) are rejected here too, which bounds the size of the tables.
"""

from typing import Annotated, Any, TypeAlias

import msgspec

from scheduler.objects.meta import Int64, Object, ObjectMeta
from scheduler.objects.pod import NodeSelector

IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"

# Limits of the API (resource.k8s.io/v1): devices and counter sets of one slice; entries of any
# other list, of which the API allows 32 or fewer; characters of an expression.
MOST_DEVICES = 128
MOST_COUNTER_SETS = 8
MOST_ENTRIES = 32
LONGEST_EXPRESSION = 10 * 1024

_FEW = msgspec.Meta(max_length=MOST_ENTRIES)

AmountText: TypeAlias = str | int | float


class CELSelector(Object, frozen=True):
    """A CEL expression that is true for the selected devices."""

    expression: Annotated[str, msgspec.Meta(max_length=LONGEST_EXPRESSION)] = ""


class DeviceSelector(Object, frozen=True):
    """One selector; without `cel` it is of an unknown kind."""

    cel: CELSelector | None = None


class DeviceClassConfiguration(Object, frozen=True):
    """Parameters for one driver, passed on unchanged."""

    opaque: Any = None


class DeviceClassSpec(Object, frozen=True):
    """The common properties of a class's devices, and the extended resource it serves, if any."""

    selectors: Annotated[tuple[DeviceSelector, ...], _FEW] = ()
    config: Annotated[tuple[DeviceClassConfiguration, ...], _FEW] = ()
    extended_resource_name: str | None = None


class DeviceClass(Object, frozen=True):
    """A class of devices."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClassSpec = DeviceClassSpec()

    @property
    def resources(self) -> tuple[str, ...]:
        """Return the extended resources by which pods may request this class."""
        implicit = IMPLICIT_PREFIX + self.metadata.name
        named = self.spec.extended_resource_name
        return (implicit, named) if named else (implicit,)


class DeviceAttribute(Object, frozen=True):
    """A value, or a list of values, of one of four types; exactly one field is set.

    Lists belong to the feature gate DRAListTypeAttributes of the API server (alpha).
    """

    integer: Int64 | None = msgspec.field(name="int", default=None)
    boolean: bool | None = msgspec.field(name="bool", default=None)
    string: str | None = None
    version: str | None = None
    ints: tuple[Int64, ...] | None = None
    bools: tuple[bool, ...] | None = None
    strings: tuple[str, ...] | None = None
    versions: tuple[str, ...] | None = None

    @property
    def key(self) -> tuple[str, Any] | None:
        """Return type and value, which are equal for equal attributes; None without a value."""
        if self.string is not None:
            return "string", self.string
        if self.integer is not None:
            return "int", self.integer
        if self.boolean is not None:
            return "bool", self.boolean
        return self.list_key if self.version is None else ("version", self.version)

    @property
    def list_key(self) -> tuple[str, Any] | None:
        """Return (type, values) if the attribute is a list, None for a single value."""
        if self.strings is not None:
            return "strings", self.strings
        if self.ints is not None:
            return "ints", self.ints
        if self.bools is not None:
            return "bools", self.bools
        return None if self.versions is None else ("versions", self.versions)


class CapacityRange(Object, frozen=True):
    """Amounts from `min` in steps, up to `max`."""

    min: AmountText | None = None
    max: AmountText | None = None
    step: AmountText | None = None


class CapacityPolicy(Object, frozen=True):
    """The amounts of a shared device's capacity that may be requested."""

    default: AmountText | None = None
    valid_values: Annotated[tuple[AmountText, ...], _FEW] = ()
    valid_range: CapacityRange | None = None


class DeviceCapacity(Object, frozen=True):
    """An amount that a device has of something."""

    value: AmountText = 0
    request_policy: CapacityPolicy | None = None


class Counter(Object, frozen=True):
    """An amount of a counter."""

    value: AmountText = 0


class CounterSet(Object, frozen=True):
    """Counters that the devices of a pool share."""

    name: str = ""
    counters: Annotated[dict[str, Counter], _FEW] = {}


class CounterConsumption(Object, frozen=True):
    """The amounts of a counter set that an allocated device consumes."""

    counter_set: str = ""
    counters: Annotated[dict[str, Counter], _FEW] = {}
    compatibility_groups: Annotated[tuple[str, ...], _FEW] = ()


class DeviceTaint(Object, frozen=True):
    """A taint; NoSchedule and NoExecute exclude claims that do not tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""


class DeviceTaintSelector(Object, frozen=True):
    """The devices that a rule taints: every given field must match."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None

    def selects(self, driver: str, pool: str, device: str) -> bool:
        """Return whether a device matches."""
        return (
            self.driver in (None, driver)
            and self.pool in (None, pool)
            and self.device in (None, device)
        )


class DeviceTaintRuleSpec(Object, frozen=True):
    """The taint and its devices; without a selector it applies to none."""

    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(Object, frozen=True):
    """A taint that an administrator puts on devices."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()


class Device(Object, frozen=True):
    """One device; it has its own node selection only if its slice allows it."""

    name: str = ""
    attributes: Annotated[dict[str, DeviceAttribute], _FEW] = {}
    capacity: Annotated[dict[str, DeviceCapacity], _FEW] = {}
    consumes_counters: Annotated[tuple[CounterConsumption, ...], _FEW] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    taints: Annotated[tuple[DeviceTaint, ...], _FEW] = ()
    binds_to_node: bool = False
    binding_conditions: Annotated[tuple[str, ...], _FEW] = ()
    binding_failure_conditions: Annotated[tuple[str, ...], _FEW] = ()
    allow_multiple_allocations: bool | None = None


class ResourcePool(Object, frozen=True):
    """The pool of a slice: complete with `resource_slice_count` slices of its newest generation."""

    name: str = ""
    generation: Int64 = 0
    resource_slice_count: Int64 = 0


class ResourceSliceSpec(Object, frozen=True):
    """Devices or counters of one driver, and the nodes that can use them."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: Annotated[tuple[Device, ...], msgspec.Meta(max_length=MOST_DEVICES)] = ()
    shared_counters: Annotated[
        tuple[CounterSet, ...], msgspec.Meta(max_length=MOST_COUNTER_SETS)
    ] = ()


class ResourceSlice(Object, frozen=True):
    """A part of the devices that a driver publishes."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceSliceSpec = ResourceSliceSpec()
