"""Claims prepared for the search: requests with their classes and selectors, and constraints.

An `AllocationPlan` is made once for claims of equal specs and contains no nodes, devices or names
of claims, so all pods with equal claims share one.
"""

from collections.abc import Mapping, Sequence

import msgspec

from scheduler.objects.claims import ALL, DeviceConstraint, ExactDeviceRequest, ResourceClaimSpec
from scheduler.objects.devices import DeviceClass, DeviceTaint
from scheduler.plugins.dynamicresources.allocation.selectors import Selector, Selectors

_BLOCKING = ("NoSchedule", "NoExecute")


class UnsupportedError(Exception):
    """A claim with an unknown request type; `claim` is its index among the pod's."""

    def __init__(self, claim: int, text: str) -> None:
        super().__init__(text)
        self.claim = claim


class RequestedDevices(msgspec.Struct, frozen=True, eq=False):
    """One request, or one alternative of a list.

    `path` names it in results, `index` its alternative. `number` identifies the request in a plan.

    `selectors` are with the class's first; each has the beginning of its error messages, in which
    `{claim}` stands for the claim.
    """

    number: int
    claim: int
    request: int
    index: int
    path: str
    parent: str
    spec: ExactDeviceRequest
    class_name: str
    selectors: tuple[tuple[str, Selector], ...]
    is_alternative: bool

    @property
    def takes_all(self) -> bool:
        """Return whether every matching device is requested."""
        return self.spec.allocation_mode == ALL

    @property
    def is_admin(self) -> bool:
        """Return whether devices are requested regardless of their use."""
        return bool(self.spec.admin_access)

    def tolerates(self, taints: Sequence[DeviceTaint]) -> bool:
        """Return whether the request tolerates all these taints."""
        return all(t.effect not in _BLOCKING or self._tolerates(t) for t in taints)

    def _tolerates(self, taint: DeviceTaint) -> bool:
        for one in self.spec.tolerations:
            if one.effect not in ("", taint.effect) or one.key not in ("", taint.key):
                continue
            if one.operator == "Exists":
                return True
            if one.operator in ("", "Equal") and one.value == taint.value:
                return True
        return False


class AttributeConstraint(msgspec.Struct, frozen=True, eq=False):
    """An attribute with equal (or distinct) values on the devices of the requests it applies to."""

    attribute: str
    is_distinct: bool
    paths: frozenset[str]

    def applies_to(self, requested: RequestedDevices) -> bool:
        """Return whether devices for this request count.

        A request's name covers its alternatives.
        """
        return not self.paths or requested.parent in self.paths or requested.path in self.paths


class ClaimPlan(msgspec.Struct, frozen=True, eq=False):
    """One claim: for each request its alternatives (an ordinary request has one), and constraints.

    `constraints_of` has for each request's number the constraints that apply.
    """

    requests: tuple[tuple[RequestedDevices, ...], ...]
    constraints: tuple[AttributeConstraint, ...]
    constraints_of: Mapping[int, tuple[int, ...]]


class AllocationPlan(msgspec.Struct, frozen=True, eq=False):
    """The claims of a pod to allocate, in order; `size` is the number of requests."""

    claims: tuple[ClaimPlan, ...]
    size: int

    @property
    def expressions(self) -> frozenset[str]:
        """Return the texts of all selectors."""
        planned = [
            requested
            for claim in self.claims
            for planned in claim.requests
            for requested in planned
        ]
        return frozenset(
            selector.text for requested in planned for _, selector in requested.selectors
        )

    @property
    def attributes(self) -> frozenset[str]:
        """Return the attributes that constraints compare."""
        return frozenset(one.attribute for claim in self.claims for one in claim.constraints)


def plan_of(
    specs: Sequence[ResourceClaimSpec], classes: Mapping[str, DeviceClass], selectors: Selectors
) -> AllocationPlan:
    """Return the plan of claims whose classes exist; UnsupportedError for unknown request types."""
    maker = _Maker(classes, selectors)
    claims = tuple(maker.claim(index, spec) for index, spec in enumerate(specs))
    return AllocationPlan(claims, maker.size)


class _Maker:
    """Makes the requests of a plan, numbering them."""

    def __init__(self, classes: Mapping[str, DeviceClass], selectors: Selectors) -> None:
        self._classes = classes
        self._selectors = selectors
        self.size = 0

    def claim(self, index: int, spec: ResourceClaimSpec) -> ClaimPlan:
        """Return the plan of one claim."""
        requests: list[tuple[RequestedDevices, ...]] = []
        for place, request in enumerate(spec.devices.requests):
            alternatives = request.first_available
            if not alternatives and request.exactly is None:
                text = f"request {request.name}: unknown request type"
                raise UnsupportedError(index, f"resource claim {{claim}}, {escaped(text)}")
            planned = [
                self._requested((index, place, i), f"{request.name}/{one.name}", request.name, one)
                for i, one in enumerate(alternatives)
            ]
            if request.exactly is not None and not planned:
                planned = [
                    self._requested((index, place, -1), request.name, request.name, request.exactly)
                ]
            requests.append(tuple(planned))
        constraints = tuple(
            _constraint(index, i, one) for i, one in enumerate(spec.devices.constraints)
        )
        applying = {
            requested.number: tuple(
                i for i, one in enumerate(constraints) if one.applies_to(requested)
            )
            for planned in requests
            for requested in planned
        }
        return ClaimPlan(tuple(requests), constraints, applying)

    def _requested(
        self, where: tuple[int, int, int], path: str, parent: str, spec: ExactDeviceRequest
    ) -> RequestedDevices:
        claim, request, index = where
        if spec.derived_attributes:  # alpha: the allocator of Kubernetes 1.37 has the same text
            text = f"request {spec.name or parent}: cannot handle request with derived attributes"
            raise UnsupportedError(
                claim, f"claim {{claim}}, {escaped(text)}, the feature is disabled"
            )
        one = self._classes[spec.device_class_name]
        number, self.size = self.size, self.size + 1
        found: list[tuple[str, Selector]] = []
        origins = (
            (f"class {escaped(one.metadata.name)}", one.spec.selectors),
            ("claim {claim}", spec.selectors),
        )
        for origin, selectors in origins:
            for i, selector in enumerate(selectors):
                if selector.cel is None:
                    text = f"request {spec.name or parent}, selector #{i}: CEL expression empty "
                    text += "(unsupported selector type?)"
                    raise UnsupportedError(claim, f"claim {{claim}}, {escaped(text)}")
                program = self._selectors.of(selector.cel.expression)
                found.append((f"{origin}: selector #{i}: ", program))
        return RequestedDevices(
            number,
            claim,
            request,
            max(index, 0),
            path,
            parent,
            spec,
            one.metadata.name,
            tuple(found),
            index >= 0,
        )


def escaped(text: str) -> str:
    """Return text that `format` leaves unchanged."""
    return text.replace("{", "{{").replace("}", "}}")


def _constraint(claim: int, index: int, spec: DeviceConstraint) -> AttributeConstraint:
    name = spec.match_attribute or spec.distinct_attribute
    if name is None:
        text = f"constraint #{index}: empty constraint (unsupported constraint type?)"
        raise UnsupportedError(claim, f"claim {{claim}}, {text}")
    return AttributeConstraint(name, spec.match_attribute is None, frozenset(spec.requests))
