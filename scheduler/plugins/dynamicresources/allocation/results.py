"""The result of a search, as written to `status.allocation` of each claim.

Field by field as kube-scheduler writes it: results in the order in which devices were found,
configuration of classes before that of the claim, and the nodes from which the devices can be used.
Pure; the caller provides the share ids, the timestamp is set on writing.
"""

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from scheduler.objects.claims import (
    AllocationResult,
    DeviceAllocation,
    DeviceConfiguration,
    DeviceResult,
    ResourceClaimSpec,
)
from scheduler.objects.devices import DeviceClass
from scheduler.objects.pod import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from scheduler.plugins.dynamicresources.allocation.requests import ClaimPlan, RequestedDevices
from scheduler.plugins.dynamicresources.allocation.search import ChosenDevice

FROM_CLASS, FROM_CLAIM = "FromClass", "FromClaim"


def allocation_of(
    spec: ResourceClaimSpec,
    plan: ClaimPlan,
    chosen: Sequence[ChosenDevice],
    node: str,
    classes: Mapping[str, DeviceClass],
    new_share_id: Callable[[], str],
    *,
    is_1_37: bool = False,
) -> AllocationResult:
    """Return the allocation of a claim on a node.

    `is_1_37` shortens the list of parameters as 1.37 does.
    """
    results = tuple(_result(one, new_share_id) for one in chosen)
    config = _configuration(spec, plan, chosen, classes, is_once=is_1_37)
    if is_1_37:
        chosen_requests = _chosen_requests(plan, chosen)
        config = tuple(_applying(one, chosen_requests) for one in config)
    return AllocationResult(DeviceAllocation(results, config), _nodes_of(chosen, node))


def _result(one: ChosenDevice, new_share_id: Callable[[], str]) -> DeviceResult:
    driver, pool, device = one.slot.id
    found = one.slot.device
    return DeviceResult(
        one.requested.path,
        driver,
        pool,
        device,
        True if one.requested.is_admin else None,
        one.requested.spec.tolerations,
        found.binding_conditions,
        found.binding_failure_conditions,
        None if one.taken is None else new_share_id(),
        {name: str(amount) for name, amount in (one.taken or {}).items()},
    )


def _configuration(
    spec: ResourceClaimSpec,
    plan: ClaimPlan,
    chosen: Sequence[ChosenDevice],
    classes: Mapping[str, DeviceClass],
    *,
    is_once: bool,
) -> tuple[DeviceConfiguration, ...]:
    """Return the parameters: of classes once each, of the claim once for each request they name.

    With `is_once`, those of the claim are listed once if they name a request.
    """
    chosen_requests = _chosen_requests(plan, chosen)
    of_class: dict[str, list[str]] = {}
    for requested in chosen_requests:
        of_class.setdefault(requested.class_name, []).append(requested.path)
    found = [
        DeviceConfiguration(FROM_CLASS, tuple(paths), one.opaque)
        for name, paths in of_class.items()
        for one in classes[name].spec.config
    ]
    for one in spec.devices.config:
        entry = DeviceConfiguration(FROM_CLAIM, one.requests, one.opaque)
        if not one.requests:
            found.append(entry)
            continue
        named = [
            entry
            for requested in chosen_requests
            if requested.parent in one.requests or requested.path in one.requests
        ]
        found += named[:1] if is_once else named
    return tuple(found)


def _chosen_requests(plan: ClaimPlan, chosen: Sequence[ChosenDevice]) -> list[RequestedDevices]:
    """Return the alternative used for each request, the first one for a request without devices."""
    used = {one.requested.request: one.requested for one in chosen}
    return [
        used.get(place, chosen_requests[0]) for place, chosen_requests in enumerate(plan.requests)
    ]


def _applying(
    config: DeviceConfiguration, chosen_requests: Sequence[RequestedDevices]
) -> DeviceConfiguration:
    """Return parameters that apply to all requests: an empty list means all."""
    named = set(config.requests)
    covers = all(
        requested.parent in named or requested.path in named for requested in chosen_requests
    )
    return replace(config, requests=()) if covers else config


def _nodes_of(chosen: Sequence[ChosenDevice], node: str) -> NodeSelector | None:
    """Return the nodes that can use all these devices; None for all nodes."""
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    for one in chosen:
        if one.slot.node_name is not None or one.slot.device.binds_to_node:
            only = NodeSelectorRequirement("metadata.name", "In", (node,))
            return NodeSelector((NodeSelectorTerm(match_fields=(only,)),))
        selector = one.slot.node_selector
        for term in selector.node_selector_terms if selector is not None else ():
            _add_new(term.match_fields, fields)
            _add_new(term.match_expressions, expressions)
    if not fields and not expressions:
        return None
    return NodeSelector((NodeSelectorTerm(tuple(expressions), tuple(fields)),))


def _add_new(more: Sequence[NodeSelectorRequirement], known: list[NodeSelectorRequirement]) -> None:
    same = {(one.key, one.operator, frozenset(one.values)) for one in known}
    for one in more:
        key = (one.key, one.operator, frozenset(one.values))
        if key not in same:
            same.add(key)
            known.append(one)


def stamped(allocation: AllocationResult, when: str) -> AllocationResult:
    """Return an allocation with the time of its writing."""
    return replace(allocation, allocation_timestamp=when)
