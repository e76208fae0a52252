"""The order in which shareable devices are tried, if a plugin chooses among them.

kube-scheduler allocates the first device that fits, in the order of the slices. A search over the
same devices in another order finds a solution exactly when the first one does.
"""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from scheduler.plugins.dynamicresources.allocation.amounts import amount
from scheduler.plugins.dynamicresources.allocation.inuse import InUse
from scheduler.plugins.dynamicresources.allocation.pools import PoolView, Slot
from scheduler.plugins.dynamicresources.allocation.requests import AllocationPlan

WHOLE = 1000  # milli of a device

Order = Callable[[Sequence[int], int], Sequence[int]]


def preferred(
    views: Sequence[PoolView], plan: AllocationPlan, in_use: InUse, order: Order
) -> tuple[PoolView, ...]:
    """Return the pools with their devices in the plugin's order for the plan's first amounts.

    Pools without shareable devices stay unchanged.
    """
    requested = _amounts(plan)
    found = []
    for view in views:
        shared = any(slot.device.allow_multiple_allocations for slot in view.slots)
        milli = max((share_of(slot, requested) for slot in view.slots), default=0) if shared else 0
        found.append(_ordered(view, in_use, order, milli) if 0 < milli < WHOLE else view)
    return tuple(found)


def _ordered(view: PoolView, in_use: InUse, order: Order, milli: int) -> PoolView:
    places = order([free_milli(slot, in_use) for slot in view.slots], milli)
    return replace(view, slots=tuple(view.slots[place] for place in places))


def free_milli(slot: Slot, in_use: InUse) -> int:
    """Return the free thousandths of a device: of its scarcest capacity, if it is shared."""
    if slot.id in in_use.whole:
        return 0
    shares = in_use.shared.get(slot.id)
    if shares is None:
        return WHOLE
    parts = []
    for name, capacity in slot.device.capacity.items():
        offered = amount(capacity.value).nanos
        if offered > 0:
            parts.append((offered - shares.taken.get(name, 0)) * WHOLE // offered)
    return max(min(parts, default=WHOLE), 0)


def share_of(slot: Slot, requested: dict[str, int]) -> int:
    """Return the thousandths of a device that the amounts use; 0 where it lacks one of them."""
    shares = [0]
    for name, nanos in requested.items():
        capacity = slot.device.capacity.get(name)
        offered = amount(capacity.value).nanos if capacity is not None else 0
        if offered <= 0:
            return 0
        shares.append(-(-nanos * WHOLE // offered))
    return max(shares)


def _amounts(plan: AllocationPlan) -> dict[str, int]:
    """Return the amounts of the first request with amounts, in 10**-9 by name."""
    for claim in plan.claims:
        for alternatives in claim.requests:
            capacity = alternatives[0].spec.capacity
            if capacity is not None and capacity.requests:
                return {name: amount(text).nanos for name, text in capacity.requests.items()}
    return {}
