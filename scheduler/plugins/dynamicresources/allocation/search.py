"""The exact search for devices on one node: depth first, the first solution is returned.

Claims in order, requests in order, devices in the pools' order; each next device of a request is
searched after the one before, so combinations are tried and not permutations. Pruning does not
change the result: after a failure equivalent devices are skipped, and a request with too few
remaining devices is not started. It ends with an error where kube-scheduler's does, and after a
number of steps. Pure: reads the devices in use, changes nothing.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

from scheduler.objects.claims import MOST_RESULTS
from scheduler.plugins.dynamicresources.allocation.candidates import Candidates, SearchError
from scheduler.plugins.dynamicresources.allocation.capacity import Taken
from scheduler.plugins.dynamicresources.allocation.inuse import InUse
from scheduler.plugins.dynamicresources.allocation.limits import PoolCounters, Values
from scheduler.plugins.dynamicresources.allocation.pools import INCOMPLETE, INVALID, PoolView, Slot
from scheduler.plugins.dynamicresources.allocation.requests import (
    AllocationPlan,
    ClaimPlan,
    RequestedDevices,
)
from scheduler.plugins.dynamicresources.allocation.rules import DeviceRules

__all__ = ["ChosenDevice", "DeviceSearch", "OutOfStepsError", "SearchError"]

# The number of devices tried per second of kube-scheduler's limit before a search times out.
STEPS_PER_S: Final = 20_000


class OutOfStepsError(Exception):
    """The search exceeded its number of steps."""


class Steps:
    """The number of devices tried, and its limit; None is no limit."""

    __slots__ = ("most", "taken")

    def __init__(self, most: int | None = None) -> None:
        self.most = most
        self.taken = 0

    def count(self) -> None:
        """Count one; raise OutOfStepsError after the last."""
        self.taken += 1
        if self.most is not None and self.taken > self.most:
            raise OutOfStepsError


class ChosenDevice:
    """A device for a request; `taken` are the amounts of a share, None for the whole device."""

    __slots__ = ("requested", "slot", "taken")

    def __init__(self, requested: RequestedDevices, slot: Slot, taken: Taken | None) -> None:
        self.requested = requested
        self.slot = slot
        self.taken = taken


class DeviceSearch:
    """One search: claims of a pod (`names` are theirs) on one node."""

    def __init__(
        self,
        plan: AllocationPlan,
        names: Sequence[str],
        views: Sequence[PoolView],
        in_use: InUse,
        steps: Steps | None = None,
        rules: DeviceRules = DeviceRules(),  # noqa: B008 - a constant
    ) -> None:
        self._rules = rules
        self._plan = plan
        self._names = names
        self._views = views
        self._in_use = in_use
        self._steps = steps or Steps()
        self._devices = Candidates(names, views, in_use, rules)
        self._wanted: list[list[int] | None] = [None] * plan.size
        self._least_after: list[list[int]] = []
        self._counters: dict[int, PoolCounters] = {}
        # By position of the device: claims of this attempt that have it, and shares of this
        # attempt.
        self._taken: dict[int, set[int]] = {}
        self._shares: dict[int, list[Taken]] = {}
        self._values = [
            [Values(one.attribute, is_distinct=one.is_distinct) for one in claim.constraints]
            for claim in plan.claims
        ]
        self._eligible: dict[int, list[int]] = {}
        self.results: list[list[ChosenDevice]] = [[] for _ in plan.claims]

    def run(self) -> bool:
        """Return whether all claims fit, with the devices in `results`.

        SearchError, OutOfStepsError.
        """
        for index, claim in enumerate(self._plan.claims):
            self._prepare(index, claim)
        frame = self._enter(0, 0)
        frames: list[_Frame] = [] if frame is None else [frame]
        while frames:
            following = self._advance(frames[-1])
            if following is False:
                frames.pop()
            elif following is True:
                return True
            else:
                frames.append(following)
        return frame is None

    @property
    def steps_taken(self) -> int:
        """Return how many devices were tried."""
        return self._steps.taken

    @property
    def saw_invalid_pool(self) -> bool:
        """Return whether a pool of the node is invalid."""
        return any(view.fault == INVALID for view in self._views)

    @property
    def awaits_pool(self) -> bool:
        """Return whether a request for all devices needs a pool that is not published in full."""
        return INCOMPLETE in self._devices.withheld

    def _prepare(self, index: int, claim: ClaimPlan) -> None:
        """Compute the number of requested devices; SearchError where that is an error."""
        least = []
        for alternatives in claim.requests:
            for requested in alternatives:
                self._wanted[requested.number] = self._devices.wanted(requested)
            least.append(min(self._number(requested) for requested in alternatives))
        total = sum(least)
        if total > MOST_RESULTS:
            raise SearchError(self._too_many(index, claim, least))
        self._least_after.append([sum(least[place + 1 :]) for place in range(len(least))])

    def _too_many(self, index: int, claim: ClaimPlan, least: Sequence[int]) -> str:
        """Return why a claim is over the limit: `least` devices of each request at least."""
        name, before = self._names[index], 0
        if not self._rules.is_1_37:
            text = f"claim {name}: number of requested devices {sum(least)} exceeds the claim limit"
            return f"{text} of {MOST_RESULTS}"
        place = 0
        while before + least[place] <= MOST_RESULTS:
            before, place = before + least[place], place + 1
        return (
            f"claim {name}, request {claim.requests[place][0].parent}: adding {least[place]} "
            f"devices exceeds the claim limit of {MOST_RESULTS}, "
            f"with {before} already accounted for"
        )

    def _number(self, requested: RequestedDevices) -> int:
        wanted = self._wanted[requested.number]
        return requested.spec.count if wanted is None else len(wanted)

    def _enter(self, claim: int, request: int) -> "_Frame | None":
        """Return the frame of a request; None after the last one."""
        claims = self._plan.claims
        while claim < len(claims) and request >= len(claims[claim].requests):
            claim, request = claim + 1, 0
        if claim == len(claims):
            return None
        alternatives = claims[claim].requests[request]
        return (
            _Alternatives(alternatives)
            if alternatives[0].is_alternative
            else _Device(alternatives[0], 0, 0)
        )

    def _advance(self, frame: "_Frame") -> "_Frame | bool":
        """Try the next choice of a frame: return the next frame, True for a solution, False without
        one.
        """
        if isinstance(frame, _Alternatives):
            if frame.tried == len(frame.alternatives):
                return False
            frame.tried += 1
            return _Device(frame.alternatives[frame.tried - 1], 0, 0)
        if frame.placed >= 0:
            self._undo(frame)
        requested = frame.requested
        number = self._number(requested)
        if not frame.index and not self._can_begin(requested, number):
            return False
        place = self._all_next(frame) if requested.takes_all else self._next(frame, number)
        if place < 0:
            return False
        if frame.index + 1 < number:
            return _Device(requested, frame.index + 1, place + 1)
        following = self._enter(requested.claim, requested.request + 1)
        return True if following is None else following

    def _can_begin(self, requested: RequestedDevices, number: int) -> bool:
        """Return whether a request is not empty and leaves enough results for the rest of its
        claim.
        """
        after = self._least_after[requested.claim][requested.request]
        return 0 < number <= MOST_RESULTS - after - len(self.results[requested.claim])

    def _all_next(self, frame: "_Device") -> int:
        """Use the next device of a request for all devices; -1 if it is not available."""
        wanted = self._wanted[frame.requested.number] or []
        if frame.cursor < 0:
            return -1
        frame.cursor = -1  # no other choice is left
        self._steps.count()
        place = wanted[frame.index]
        if not self._is_free(frame.requested, place):
            return -1
        return place if self._place(frame, place, must=True) else -1

    def _next(self, frame: "_Device", number: int) -> int:
        """Use the next available device; -1 if there is none."""
        requested, devices = frame.requested, self._devices
        missing = number - frame.index
        for place in range(frame.cursor, len(devices.slots)):
            if not self._has_enough(requested, place, missing):
                return -1
            self._steps.count()
            if not self._is_free(requested, place) or not devices.is_selectable(requested, place):
                continue
            equivalence_key = None
            if place not in self._shares and place not in self._taken:
                equivalence_key = devices.equivalence_key(place)
                if equivalence_key in frame.failed:
                    continue
            if devices.fits(requested, place) and self._place(frame, place, must=False):
                frame.cursor, frame.equivalence_key = place + 1, equivalence_key
                return place
            frame.failed.add(equivalence_key)
        self._count_eligible(requested)
        return -1

    def _is_free(self, requested: RequestedDevices, place: int) -> bool:
        claims = self._taken.get(place)
        if requested.is_admin:
            return not claims or requested.claim not in claims
        return not claims and self._devices.is_free(place)

    def _has_enough(self, requested: RequestedDevices, place: int, missing: int) -> bool:
        """Return whether enough suitable devices follow; True while their number is unknown."""
        known = self._eligible.get(requested.number)
        return known is None or len(known) - bisect_left(known, place) >= missing

    def _count_eligible(self, requested: RequestedDevices) -> None:
        """Store which devices suit a request, once its selectors were evaluated for all of them."""
        if requested.number in self._eligible:
            return
        devices = self._devices
        free = [
            place
            for place in range(len(devices.slots))
            if requested.is_admin or devices.is_free(place)
        ]
        # Evaluating a selector may fail, and that error must end the search that reaches the
        # device.
        if all(devices.is_known(requested, place) for place in free):
            self._eligible[requested.number] = [
                place
                for place in free
                if devices.is_selectable(requested, place) and devices.fits(requested, place)
            ]

    def _place(self, frame: "_Device", place: int, *, must: bool) -> bool:
        """Use a device if counters, constraints and its free amounts allow that.

        SearchError if a device that the claim `must` have violates a constraint of the claim.
        """
        requested, slot = frame.requested, self._devices.slots[place]
        is_shared = self._devices.is_shared(place)
        # Before the constraints: a device that is used up does not fit, which is no fault of the
        # claim.
        taken = self._devices.amounts(requested, place)
        before = self._shares.get(place, ())
        if taken is None or not (
            requested.is_admin or self._devices.has_left(place, [taken, *before])
        ):
            return False
        # Only the first share of a device uses its counters. Admin access uses nothing.
        counters = None
        has_counters = requested.is_admin or (
            is_shared and (place in self._shares or self._devices.has_shares(place))
        )
        if slot.taken and not has_counters:
            counters = self._counters_of(place)
            if not counters.take(slot.taken):
                return False
        if must and slot.device.taints and not requested.tolerates(slot.device.taints):
            self._give_back(counters, slot)
            return False
        values = self._values[requested.claim]
        added: list[Values] = []
        for index in self._plan.claims[requested.claim].constraints_of[requested.number]:
            if not values[index].add(slot):
                for one in added:
                    one.remove(slot)
                self._give_back(counters, slot)
                if must:
                    raise self._against_constraint(requested, slot)
                return False
            added.append(values[index])
        if is_shared and not requested.is_admin:
            self._shares.setdefault(place, []).append(taken)
        elif not is_shared:
            self._taken.setdefault(place, set()).add(requested.claim)
        self.results[requested.claim].append(
            ChosenDevice(requested, slot, taken if is_shared else None)
        )
        frame.placed, frame.counters = place, counters
        return True

    def _undo(self, frame: "_Device") -> None:
        """Release the device of a frame after its subtree failed."""
        place, requested = frame.placed, frame.requested
        slot = self._devices.slots[place]
        self.results[requested.claim].pop()
        is_shared = self._devices.is_shared(place)
        if is_shared and not requested.is_admin:
            self._shares[place].pop()
            if not self._shares[place]:
                del self._shares[place]
        elif not is_shared:
            self._taken[place].discard(requested.claim)
            if not self._taken[place]:
                del self._taken[place]
        for index in self._plan.claims[requested.claim].constraints_of[requested.number]:
            self._values[requested.claim][index].remove(slot)
        self._give_back(frame.counters, slot)
        frame.placed = -1
        if frame.equivalence_key is not None:
            frame.failed.add(frame.equivalence_key)

    def _counters_of(self, place: int) -> PoolCounters:
        pool = self._devices.pool_of[place]
        found = self._counters.get(pool)
        if found is None:
            found = self._counters[pool] = PoolCounters(self._views[pool], self._in_use)
        return found

    def _give_back(self, counters: PoolCounters | None, slot: Slot) -> None:
        if counters is not None and slot.taken:
            counters.give_back(slot.taken)

    def _against_constraint(self, requested: RequestedDevices, slot: Slot) -> SearchError:
        name = requested.spec.name or requested.parent
        return SearchError(
            f"claim {self._names[requested.claim]}, request {name}: cannot add "
            f"device {'/'.join(slot.id)} because a claim constraint would not be satisfied"
        )


class _Alternatives:
    """A list of alternatives, of which `tried` have been tried."""

    __slots__ = ("alternatives", "tried")

    def __init__(self, alternatives: Sequence[RequestedDevices]) -> None:
        self.alternatives = alternatives
        self.tried = 0


class _Device(msgspec.Struct, eq=False):
    """The device number `index` of a request: the current one, and where to search for the next
    one.

    `failed` are the equivalence keys of devices without a solution.
    """

    requested: RequestedDevices
    index: int
    cursor: int
    placed: int = -1
    counters: PoolCounters | None = None
    equivalence_key: object = None
    failed: set[object] = set()


_Frame: TypeAlias = _Alternatives | _Device
