"""What a share of a device takes of its capacities: the amounts asked for, rounded by the device's policy.

Pure arithmetic on one device and one request; whether the rest of the device is enough for it is the
search's question. Rules: kube-scheduler 1.36, DRAConsumableCapacity.
"""

from collections.abc import Mapping

from scheduler.objects.devices import AmountText, CapacityPolicy, DeviceCapacity
from scheduler.plugins.dynamicresources.amounts import NANO, Amount, amount

# What is taken of each capacity, by name.
Taken = Mapping[str, Amount]


def taken_of(
    asked: Mapping[str, AmountText], capacity: Mapping[str, DeviceCapacity]
) -> Taken | None:
    """Return what serving `asked` takes of every capacity of a device; None if it cannot serve it.

    Names are compared as written, so `driver/id` does not find `id`.
    """
    if any(name not in capacity for name in asked):
        return None
    taken: dict[str, Amount] = {}
    for name, offered in capacity.items():
        policy = offered.request_policy
        wanted = _rounded(asked.get(name), offered, policy)
        if _violates(wanted, policy) or wanted.nanos > amount(offered.value).nanos:
            return None
        taken[name] = wanted
    return taken


def _rounded(
    asked: AmountText | None, offered: DeviceCapacity, policy: CapacityPolicy | None
) -> Amount:
    if asked is None:
        default = policy.default if policy is not None else None
        return amount(offered.value if default is None else default)
    wanted = amount(asked)
    if policy is None:
        return wanted
    limits = policy.valid_range
    if limits is not None and limits.min is not None:
        least = amount(limits.min)
        if wanted.nanos < least.nanos:
            return least
        step = amount(limits.step).whole if limits.step is not None else 0
        if step <= 0:
            return wanted
        steps = -(-(wanted.whole - least.whole) // step)
        return Amount((least.whole + step * steps) * NANO, "binary")
    for value in map(amount, policy.valid_values):
        if wanted.nanos <= value.nanos:
            return value
    return wanted


def _violates(wanted: Amount, policy: CapacityPolicy | None) -> bool:
    if policy is None or (policy.default is not None and wanted == amount(policy.default)):
        return False
    limits = policy.valid_range
    if limits is not None:
        if limits.max is not None and wanted.nanos > amount(limits.max).nanos:
            return True
        step = amount(limits.step).whole if limits.step is not None else 0
        least = amount(limits.min).whole if limits.min is not None else 0
        return step > 0 and (wanted.whole - least) % step != 0
    values = policy.valid_values
    return bool(values) and all(wanted.nanos != amount(value).nanos for value in values)
