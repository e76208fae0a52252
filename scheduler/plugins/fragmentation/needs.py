"""A pod's requirements for the tables: limiting resources, devices, the share of one device.

Requests of extended resources count as whole devices; so do requests of claims without amounts. An
amount counts as the largest share that it is of a capacity that some device publishes under that
name.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from scheduler.framework import Cycle, PerSpec
from scheduler.objects.claims import ALL, ExactDeviceRequest, ResourceClaim
from scheduler.objects.devices import ResourceSlice
from scheduler.objects.pod import Pod
from scheduler.objects.quantity import resource_amount, resource_text
from scheduler.objects.reports.podmix import HistoryShape
from scheduler.plugins.dynamicresources.allocation.amounts import amount
from scheduler.plugins.dynamicresources.allocation.slices import SLICE
from scheduler.plugins.dynamicresources.podclaims import ClaimLookup, NotReadyError
from scheduler.plugins.fragmentation.args import FragmentationAwareArgs, ShapeSpec
from scheduler.plugins.fragmentation.mix import WHOLE
from scheduler.plugins.nodeselection import RequiredNodes, required_nodes
from scheduler.state.resources import counted, pod_requests

_encode = msgspec.json.Encoder(order="deterministic").encode


class PodNeed(msgspec.Struct, frozen=True):
    """A pod's limiting resources, devices, milli of each, and the number of its node
    requirements.

    Where cpu or memory counts as devices, `devices` is the amount: milli of a core, or bytes.
    """

    beside: tuple[int, ...]
    devices: int
    milli: int
    nodes: int = 0


class PodNeeds:
    """Compute requirements; `objects` returns those of a kind by key."""

    def __init__(
        self, args: FragmentationAwareArgs, objects: Callable[[str], Mapping[str, Any]]
    ) -> None:
        self._args = args
        self._resources = frozenset(args.resources)
        self._slices = objects(SLICE)
        self._claims = ClaimLookup(objects)
        self._capacities: tuple[int, dict[str, int]] = (-1, {})
        # Node requirements of pods, by number; 0 means none.
        self.required: list[RequiredNodes | None] = [None]
        self._numbers: dict[bytes, int] = {}
        self._plain = PerSpec(lambda pod: self.of(pod, counted(pod_requests(pod))))

    def of(self, pod: Pod, requests: Mapping[str, int]) -> PodNeed:
        """Return the requirements of a pod with these effective requests."""
        beside = tuple(requests.get(name, 0) for name in self._args.beside)
        devices, milli = sum(requests.get(name, 0) for name in self._args.resources), WHOLE
        if pod.spec.resource_claims:
            for count, share in self._requested(pod):
                # Shares of several devices are rare: they count as whole devices.
                milli = share if not devices and count == 1 else WHOLE
                devices += count
        if not devices:
            milli = 0
        return PodNeed(beside, devices, milli, self._number(pod))

    def of_shape(self, shaped: Cycle) -> PodNeed:
        """Return the requirements of the pod of a cycle; those of a pod without claims follow
        from its spec.
        """
        if shaped.pod.spec.resource_claims:
            return self.of(shaped.pod, shaped.shape.requests)
        return self._plain.of(shaped)

    def may_use_devices(self, pod: Pod, requests: Mapping[str, int]) -> bool:
        """Return whether a pod names a resource that counts as a device, or a claim."""
        return bool(pod.spec.resource_claims) or not self._resources.isdisjoint(requests)

    def expected(self, shape: ShapeSpec | HistoryShape) -> PodNeed:
        """Return the requirements of a shape as an object states it, without node requirements."""
        amounts = {"cpu": shape.cpu, "memory": shape.memory}
        beside = tuple(resource_amount(name, amounts[name]) for name in self._args.beside)
        if self._args.divisible:
            name = self._args.divisible
            return PodNeed(beside, resource_amount(name, amounts[name]), WHOLE)
        return PodNeed(beside, shape.devices, shape.milli if shape.devices else 0)

    def stated(self, need: PodNeed, models: tuple[str, ...]) -> HistoryShape:
        """Return a shape of weight 0 of which `expected` returns the requirements."""
        amounts = dict(zip(self._args.beside, need.beside, strict=True))
        devices, milli = need.devices, need.milli
        if self._args.divisible:
            amounts[self._args.divisible] = need.devices
            devices, milli = 0, WHOLE
        cpu, memory = (resource_text(name, amounts.get(name, 0)) for name in ("cpu", "memory"))
        return HistoryShape(0.0, cpu, memory, devices, milli, models)

    def _number(self, pod: Pod) -> int:
        spec = pod.spec
        if not spec.node_selector and spec.affinity is None:
            return 0
        required = required_nodes(pod)
        if required.allows_all:
            return 0
        key = _encode((required.labels, required.affinity))
        if key not in self._numbers:
            self._numbers[key] = len(self.required)
            self.required.append(required)
        return self._numbers[key]

    def _requested(self, pod: Pod) -> Iterator[tuple[int, int]]:
        """Yield (devices, milli of each) per request of the pod's claims."""
        try:
            claims: list[ResourceClaim] = list(self._claims.of(pod))
        except NotReadyError:
            return
        for claim in claims:
            for request in claim.spec.devices.requests:
                requested = request.exactly or next(iter(request.first_available), None)
                if requested is not None and self._counts(requested):
                    yield max(int(requested.count), 0), self._share(requested)

    def _counts(self, requested: ExactDeviceRequest) -> bool:
        chosen = self._args.device_classes
        if requested.admin_access or requested.allocation_mode == ALL:
            return False
        return not chosen or requested.device_class_name in chosen

    def _share(self, requested: ExactDeviceRequest) -> int:
        """Return the milli that a request uses of a device."""
        capacities = requested.capacity.requests if requested.capacity is not None else {}
        offered = self._offered()
        shares = [
            -(-amount(text).nanos * WHOLE // offered[name])
            for name, text in capacities.items()
            if offered.get(name)
        ]
        return min(max(shares), WHOLE) if shares and max(shares) > 0 else WHOLE

    def _offered(self) -> dict[str, int]:
        """Return the largest amount of each capacity that can be shared, in 10**-9."""
        version: int = getattr(self._slices, "version", len(self._slices))
        if self._capacities[0] != version:
            found: dict[str, int] = {}
            for one in self._slices.values():
                _raise_to(found, one)
            self._capacities = (version, found)
        return self._capacities[1]


def _raise_to(found: dict[str, int], one: ResourceSlice) -> None:
    for device in one.spec.devices:
        if device.allow_multiple_allocations:
            for name, capacity in device.capacity.items():
                found[name] = max(found.get(name, 0), amount(capacity.value).nanos)
