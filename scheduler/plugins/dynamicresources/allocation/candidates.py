"""The devices of a node that a request may use, independent of the pod's other requests.

Facts that depend on the device and the request alone are computed once per search: selectors (in
kube-scheduler's order, and only for devices that it would evaluate), taints, and the amounts of a
share. Nothing here depends on the search's choices so far.
"""

from collections.abc import Sequence

from scheduler.objects.claims import EXACT_COUNT
from scheduler.plugins.dynamicresources.allocation.amounts import amount
from scheduler.plugins.dynamicresources.allocation.capacity import CapacityError, Taken, taken_of
from scheduler.plugins.dynamicresources.allocation.inuse import InUse
from scheduler.plugins.dynamicresources.allocation.pools import PoolView, Slot
from scheduler.plugins.dynamicresources.allocation.requests import RequestedDevices
from scheduler.plugins.dynamicresources.allocation.rules import DeviceRules
from scheduler.plugins.dynamicresources.allocation.selectors import SelectorError


class SearchError(Exception):
    """An error that ends the whole attempt, with kube-scheduler's text."""


class Candidates:
    """The devices of a node by position, and their suitability for each request.

    `slots` are those of all pools that can be allocated from; `pool_of` is the index of a slot's
    pool.
    """

    def __init__(
        self,
        names: Sequence[str],
        views: Sequence[PoolView],
        in_use: InUse,
        rules: DeviceRules = DeviceRules(),  # noqa: B008 - a constant
    ) -> None:
        self._names = names
        self._rules = rules
        self._views = views
        self._in_use = in_use
        self.slots: list[Slot] = []
        self.pool_of: list[int] = []
        for place, view in enumerate(views):
            if not view.fault:
                self.slots += view.slots
                self.pool_of += [place] * len(view.slots)
        # The faults of the pools that prevent a request for all devices.
        self.withheld: set[str] = set()
        self._selectable: dict[tuple[int, int], bool] = {}
        self._amounts: dict[tuple[int, int], Taken | None] = {}
        self._shared = {
            place for place, slot in enumerate(self.slots) if slot.device.allow_multiple_allocations
        }

    def is_selectable(self, requested: RequestedDevices, place: int) -> bool:
        """Return whether the request's selectors match a device that the node can use.

        SearchError.
        """
        found = self._selectable.get((requested.number, place))
        if found is None:
            found = self._selectable[requested.number, place] = self._selects(
                requested, self.slots[place]
            )
        return found

    def _selects(self, requested: RequestedDevices, slot: Slot) -> bool:
        for words, selector in requested.selectors:
            try:
                if not selector.matches(slot.content, slot.device, slot.id[0]):
                    return False
            except SelectorError as error:
                named = words.format(claim=self._names[requested.claim])
                text = self._rules.selector_error(named, "/".join(slot.id), str(error))
                raise SearchError(text) from error
        return slot.is_here

    def is_known(self, requested: RequestedDevices, place: int) -> bool:
        """Return whether the selectors were evaluated for a device."""
        return (requested.number, place) in self._selectable

    def is_shared(self, place: int) -> bool:
        """Return whether several claims can have shares of a device."""
        return place in self._shared

    def amounts(self, requested: RequestedDevices, place: int) -> Taken | None:
        """Return the amounts of the request on a device's capacities; None if it does not fit."""
        key = (requested.number, place)
        if key not in self._amounts:
            capacity = self.slots[place].device.capacity
            amounts_requested = (
                requested.spec.capacity.requests if requested.spec.capacity is not None else {}
            )
            try:
                taken = (
                    taken_of(amounts_requested, capacity, self._rules)
                    if amounts_requested or capacity
                    else {}
                )
            except CapacityError as error:
                raise SearchError(str(error)) from error
            self._amounts[key] = taken
        return self._amounts[key]

    def fits(self, requested: RequestedDevices, place: int) -> bool:
        """Return whether a device fits the request if the pod uses nothing else of it.

        Checks capacity, taints and allocated shares; not the selectors.
        """
        slot = self.slots[place]
        if slot.device.taints and not requested.tolerates(slot.device.taints):
            return False
        taken = self.amounts(requested, place)
        return taken is not None and (requested.is_admin or self.has_left(place, [taken]))

    def has_left(self, place: int, taken: Sequence[Taken]) -> bool:
        """Return whether a device has these amounts together beside its allocated ones."""
        slot = self.slots[place]
        shares = self._in_use.shared.get(slot.id)
        if shares is None and len(taken) == 1:
            return True  # amounts of one request never exceed the device's
        for name in taken[0]:
            total = sum(one[name].nanos for one in taken)
            if shares is not None:
                total += shares.taken.get(name, 0)
            if total > _offered(slot, name):
                return False
        return True

    def has_shares(self, place: int) -> bool:
        """Return whether a share of a device is allocated."""
        return self.slots[place].id in self._in_use.shared

    def is_free(self, place: int) -> bool:
        """Return whether no claim has the whole device."""
        return self.slots[place].id not in self._in_use.whole

    def equivalence_key(self, place: int) -> tuple[object, ...]:
        """Return the equivalence key of a device: devices with equal keys are interchangeable."""
        slot = self.slots[place]
        return self.pool_of[place], slot.content, slot.is_here, self._in_use.state(slot.id)

    def everything(self, requested: RequestedDevices) -> list[int]:
        """Return the devices of a request for all devices, in order; SearchError.

        An incomplete or invalid pool may hide some of them: then the node does not fit the request,
        and the list is empty. kube-scheduler 1.36 ends the attempt there (kubernetes#141829).
        """
        found, place = [], -1
        for view in self._views:
            if view.fault:
                if view.is_here and not any(s.excludes(view.id[0]) for _, s in requested.selectors):
                    self.withheld.add(view.fault)
                    return []
                continue
            for _ in view.slots:
                place += 1
                # A used-up device belongs to all devices: the request fails on it.
                if (
                    self.is_selectable(requested, place)
                    and self.amounts(requested, place) is not None
                ):
                    found.append(place)
        return found

    def wanted(self, requested: RequestedDevices) -> list[int] | None:
        """Return the devices of a request for all devices, None for one with a number.

        SearchError.
        """
        if requested.takes_all:
            return self.everything(requested)
        if requested.spec.allocation_mode != EXACT_COUNT:
            name = requested.spec.name or requested.parent
            raise SearchError(
                f"claim {self._names[requested.claim]}, request {name}: "
                f"unsupported count mode {requested.spec.allocation_mode}"
            )
        return None


def _offered(slot: Slot, name: str) -> int:
    return amount(slot.device.capacity[name].value).nanos
