"""Devices in use, and the used amounts of shared ones: the sum of all allocations.

`InUse` counts claims one by one; the search reads it. A result with admin access uses nothing, one
with a share id uses its amounts, any other uses the whole device. Pure bookkeeping.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from scheduler.objects.claims import DeviceResult
from scheduler.plugins.dynamicresources.allocation.amounts import amount
from scheduler.plugins.dynamicresources.allocation.pools import DeviceId, PoolId


class Shares:
    """The shares of one device: their number and amounts in 10**-9 by name."""

    __slots__ = ("count", "taken")

    def __init__(self) -> None:
        self.count = 0
        self.taken: dict[str, int] = {}

    @property
    def state(self) -> tuple[tuple[str, int], ...]:
        """Return the amounts as a comparable value."""
        return tuple(sorted(self.taken.items()))


class InUse:
    """Devices in use by id: whole ones with the number of their claims, and shared ones."""

    def __init__(self) -> None:
        self.whole: dict[DeviceId, int] = {}
        self.shared: dict[DeviceId, Shares] = {}
        # By pool the number of uses of each device, whole or shared.
        self._by_pool: dict[PoolId, dict[str, int]] = {}

    def has_beyond(self, pool: PoolId, names: Collection[str]) -> bool:
        """Return whether a device of the pool outside `names` is in use."""
        return any(name not in names for name in self._by_pool.get(pool, ()))

    def has(self, device: DeviceId) -> bool:
        """Return whether a device is allocated, as a whole or in part."""
        return device in self.whole or device in self.shared

    def counts(self) -> Counter[tuple[str, ...]]:
        """Return how many devices of each driver are in use: `(driver, "whole" or "shared")`."""
        found: Counter[tuple[str, ...]] = Counter(
            (driver, "whole") for driver, _pool, _name in self.whole
        )
        found.update((driver, "shared") for driver, _pool, _name in self.shared)
        return found

    def state(self, device: DeviceId) -> object:
        """Return a value that identifies a device's use: None for a free device."""
        if device in self.whole:
            return True
        shares = self.shared.get(device)
        return None if shares is None else shares.state

    def add(self, results: Iterable[DeviceResult]) -> None:
        """Count the allocation of a claim."""
        for device, consumed in _uses(results):
            self._note(device, 1)
            if consumed is None:
                self.whole[device] = self.whole.get(device, 0) + 1
                continue
            shares = self.shared.setdefault(device, Shares())
            shares.count += 1
            for name, nanos in consumed.items():
                shares.taken[name] = shares.taken.get(name, 0) + nanos

    def remove(self, results: Iterable[DeviceResult]) -> None:
        """Stop counting an allocation."""
        for device, consumed in _uses(results):
            self._note(device, -1)
            if consumed is None:
                self.whole[device] -= 1
                if not self.whole[device]:
                    del self.whole[device]
                continue
            shares = self.shared[device]
            shares.count -= 1
            for name, nanos in consumed.items():
                shares.taken[name] -= nanos
            if not shares.count:
                del self.shared[device]

    def _note(self, device: DeviceId, more: int) -> None:
        pool, name = device[:2], device[2]
        names = self._by_pool.setdefault(pool, {})
        names[name] = names.get(name, 0) + more
        if not names[name]:
            del names[name]
            if not names:
                del self._by_pool[pool]


def _uses(
    results: Iterable[DeviceResult],
) -> Iterator[tuple[DeviceId, Mapping[str, int] | None]]:
    for one in results:
        if one.admin_access:
            continue
        device = (one.driver, one.pool, one.device)
        if one.share_id is None:
            yield device, None
        else:
            yield device, {name: amount(text).nanos for name, text in one.consumed_capacity.items()}
