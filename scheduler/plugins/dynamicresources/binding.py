"""Binding conditions: devices that must be made ready, by their driver, before a pod can be bound.

An allocation names the conditions of each device; its driver reports them in the claim's status. Here
is only how these reports are read; who waits for them is `writing`.
"""

from scheduler.base.clock import parse_rfc3339
from scheduler.objects.claims import (
    AllocatedDeviceStatus,
    AllocationResult,
    DeviceResult,
    ResourceClaim,
)
from scheduler.objects.meta import Condition


class DeviceBindingError(Exception):
    """A driver has given up on a device."""


class BindingTimeoutError(DeviceBindingError):
    """A driver took too long."""


def awaits_devices(claim: ResourceClaim) -> bool:
    """Whether a claim got a device that must be made ready."""
    return has_conditions(claim.status.allocation)


def has_conditions(allocation: AllocationResult | None) -> bool:
    """Whether one of the devices must be made ready."""
    return allocation is not None and any(
        one.binding_conditions for one in allocation.devices.results
    )


def is_ready(claim: ResourceClaim) -> bool:
    """Whether all devices of a claim are ready; BindingError if one never will be."""
    allocation = claim.status.allocation
    if allocation is None:
        return False
    for one in allocation.devices.results:
        if not one.binding_conditions:
            continue
        status = _status_of(claim, one)
        if status is None:
            return False
        for name in one.binding_failure_conditions:
            failed = _condition(status, name)
            if failed is not None and failed.status == "True":
                raise DeviceBindingError(
                    f"device binding failed: claim={claim.metadata.name}, "
                    f'reason={failed.reason}, message="{failed.message}"'
                )
        found = [_condition(status, name) for name in one.binding_conditions]
        if any(condition is None or condition.status != "True" for condition in found):
            return False
    return True


def has_timed_out(claim: ResourceClaim, now: float, timeout_s: float) -> bool:
    """Whether a claim's devices should have been ready by now (seconds since the epoch)."""
    allocation = claim.status.allocation
    if allocation is None or not awaits_devices(claim):
        return False
    since = parse_rfc3339(allocation.allocation_timestamp)
    return since is not None and since + timeout_s < now


def has_failed(claim: ResourceClaim, now: float, timeout_s: float) -> bool:
    """Whether a claim's devices will not become ready any more."""
    try:
        return not is_ready(claim) and has_timed_out(claim, now, timeout_s)
    except DeviceBindingError:
        return True


def _status_of(claim: ResourceClaim, result: DeviceResult) -> AllocatedDeviceStatus | None:
    wanted = (result.driver, result.pool, result.device, result.share_id)
    return next(
        (
            one
            for one in claim.status.devices
            if (one.driver, one.pool, one.device, one.share_id) == wanted
        ),
        None,
    )


def _condition(status: AllocatedDeviceStatus, kind: str) -> Condition | None:
    return next((one for one in status.conditions if one.type == kind), None)
