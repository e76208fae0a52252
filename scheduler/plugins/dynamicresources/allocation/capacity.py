"""The amounts that a share uses of a device's capacities: the request, rounded by the policy.

Pure arithmetic on one device and one request; the search checks the rest of the device. Rules:
DRAConsumableCapacity of kube-scheduler 1.36 and 1.37 (fractions of a unit).
"""

from collections.abc import Mapping
from typing import Final

from scheduler.objects.devices import AmountText, CapacityPolicy, CapacityRange, DeviceCapacity
from scheduler.plugins.dynamicresources.allocation.amounts import NANO, Amount, amount
from scheduler.plugins.dynamicresources.allocation.rules import DeviceRules

# The amount used of each capacity, by name.
Taken = Mapping[str, Amount]

_MILLI: Final = NANO // 1000
_MOST: Final = 2**63 - 1
_UNFIT: Final = "capacity request cannot be represented in the device's range arithmetic"


class CapacityError(Exception):
    """A request that no device may be tried for; the text is kube-scheduler's."""


def taken_of(
    requested: Mapping[str, AmountText],
    capacity: Mapping[str, DeviceCapacity],
    rules: DeviceRules = DeviceRules(),  # noqa: B008 - a constant
) -> Taken | None:
    """Return the amount of every capacity of a device for `requested`; None if it does not fit.

    Names are compared as written, so `driver/id` does not match `id`. CapacityError (1.37) for an
    amount that is negative or that the arithmetic of the range cannot represent.
    """
    if any(name not in capacity for name in requested):
        return None
    taken: dict[str, Amount] = {}
    for name, offered in capacity.items():
        try:
            taken[name] = _rounded(requested.get(name), offered, rules)
        except CapacityError as error:
            raise CapacityError(f'capacity "{name}": {error}') from error
        if rules.is_1_37 and taken[name].nanos < 0:
            raise CapacityError(f'capacity "{name}": capacity value is negative')
    for name, offered in capacity.items():
        wanted = taken[name]
        if _violates(wanted, offered.request_policy, rules):
            return None
        if wanted.nanos > amount(offered.value).nanos:
            return None
    return taken


def _rounded(requested: AmountText | None, offered: DeviceCapacity, rules: DeviceRules) -> Amount:
    policy = offered.request_policy
    if requested is None:
        default = policy.default if policy is not None else None
        return amount(offered.value if default is None else default)
    wanted = amount(requested)
    if policy is None:
        return wanted
    limits = policy.valid_range
    if limits is not None and limits.min is not None:
        return _in_range(wanted, limits, rules)
    for value in map(amount, policy.valid_values):
        if wanted.nanos <= value.nanos:
            return value
    return wanted


def _in_range(wanted: Amount, limits: CapacityRange, rules: DeviceRules) -> Amount:
    """Return the smallest amount that is at least `wanted` and equals `min` plus a multiple of
    `step`.
    """
    least = amount(limits.min or 0)
    if wanted.nanos < least.nanos:
        return least
    if limits.step is None:
        return wanted
    unit, given = _unit(limits, rules), amount(limits.step)
    step = _in_units(given, unit)
    if step <= 0:
        return wanted
    if unit == _MILLI and wanted.nanos % _MILLI:
        raise CapacityError(f"{_UNFIT}: request {wanted} is not a representable milli value")
    first = _in_units(least, unit)
    steps = -(-(_in_units(wanted, unit) - first) // step)
    found = first + step * steps
    if rules.is_1_37 and max(found, _in_units(wanted, unit)) > _MOST:
        raise CapacityError(f"{_UNFIT}: request {wanted} exceeds MaxInt64")
    return Amount(found * unit, given.form if rules.is_1_37 else "binary")


def _unit(limits: CapacityRange, rules: DeviceRules) -> int:
    """Return the unit of a range's arithmetic: 1m if all limits are exact in it, else 1."""
    given = [amount(one) for one in (limits.min, limits.max, limits.step) if one is not None]
    fits = all(not one.nanos % _MILLI and one.nanos // _MILLI <= _MOST for one in given)
    return _MILLI if rules.fractions and fits else NANO


def _in_units(one: Amount, unit: int) -> int:
    return -(-one.nanos // unit)


def _violates(wanted: Amount, policy: CapacityPolicy | None, rules: DeviceRules) -> bool:
    if policy is None or (policy.default is not None and wanted == amount(policy.default)):
        return False
    limits = policy.valid_range
    if limits is not None:
        if limits.max is not None and wanted.nanos > amount(limits.max).nanos:
            return True
        unit = _unit(limits, rules)
        step = _in_units(amount(limits.step), unit) if limits.step is not None else 0
        least = _in_units(amount(limits.min), unit) if limits.min is not None else 0
        return step > 0 and (_in_units(wanted, unit) - least) % step != 0
    values = policy.valid_values
    return bool(values) and all(wanted.nanos != amount(value).nanos for value in values)
