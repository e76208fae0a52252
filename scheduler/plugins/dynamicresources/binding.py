"""Binding conditions: devices that their driver must prepare before a pod can be bound.

An allocation names the conditions of each device; its driver reports them in the claim's status.
This module reads these reports; `writing` waits for them.
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
    """A driver failed to prepare a device."""


class BindingTimeoutError(DeviceBindingError):
    """A driver exceeded the time limit."""


def awaits_devices(claim: ResourceClaim) -> bool:
    """Return whether a claim has a device that must be prepared."""
    return has_conditions(claim.status.allocation)


def has_conditions(allocation: AllocationResult | None) -> bool:
    """Return whether one of the devices must be prepared."""
    return allocation is not None and any(
        one.binding_conditions for one in allocation.devices.results
    )


def is_ready(claim: ResourceClaim) -> bool:
    """Return whether all devices of a claim are ready; BindingError if one never will be."""
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
    """Return whether a claim waits for its devices for longer than `timeout_s`.

    `now` is in seconds since the epoch.
    """
    allocation = claim.status.allocation
    if allocation is None or not awaits_devices(claim):
        return False
    since = parse_rfc3339(allocation.allocation_timestamp)
    return since is not None and since + timeout_s < now


def has_failed(claim: ResourceClaim, now: float, timeout_s: float) -> bool:
    """Return whether a claim's devices cannot become ready any more."""
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
