"""Traffic between areas over links of limited bandwidth, in the CP-SAT model.

A pod splits its traffic equally among its receivers, so a share is a fraction whose denominator is
their number. All amounts are integers in a unit that makes every share whole. Loaded only in the
solver process, except `parts_of`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import lcm
from typing import Any

from scheduler.groups.problem.classes import LinkLimit, TrafficStream
from scheduler.groups.problem.roles import GroupProblem

# With more parts of a unit, or larger sums, the model cannot count exactly.
MOST_PARTS, LARGEST_SUM = 1_000_000, 1 << 60
# As a share of a unit: a remainder up to this is ignored.
GRAIN = 1000


def parts_of(group: GroupProblem) -> int:
    """Return into how many parts a unit is divided so that all shares are whole; 0 if too many."""
    numbers = {n for flow in group.flows for n in receiving(group, flow)}
    parts = reduce(lcm, sorted(numbers), 1)
    pods = [
        sum(group.roles[role].count for role in one.roles) + sum(one.fixed) for one in group.classes
    ]
    most = sum(flow.amount * pods[flow.first] for flow in group.flows)
    return parts if parts <= MOST_PARTS and parts * most < LARGEST_SUM else 0


def receiving(group: GroupProblem, flow: TrafficStream) -> range:
    """Return the numbers of pods that a flow may be split among."""
    one = group.classes[flow.second]
    fixed = sum(one.fixed)
    most = fixed + sum(group.roles[role].count for role in one.roles)
    is_all = group.least == group.wanted
    return range(max(1, most if is_all else max(fixed, one.minimum)), max(1, most) + 1)


class FlowModel:
    """The variables of flows; `areas` has a class's pods by area, `times` multiplies variables."""

    def __init__(
        self,
        cp: Any,
        group: GroupProblem,
        areas: Callable[[int], Mapping[int, Any]],
        times: Callable[[Any, Any], Any],
    ) -> None:
        self._cp, self._group, self._areas, self._times = cp, group, areas, times
        self._parts = parts_of(group)
        self._is: dict[int, dict[int, Any]] = {}
        for link in group.links:
            self._keep(link)

    def _keep(self, link: LinkLimit) -> None:
        directions = [
            (link.origins, link.targets),
            *([(link.targets, link.origins)] * link.is_shared),
        ]
        before = [self._before(*ends) for ends in directions]
        most = max(link.headroom, sum(before))
        carried = []
        for ends in directions:
            whole = self._cp.new_int_var(0, most, "")
            parts = sum(self._flow(flow, *ends) for flow in self._group.flows)
            self._cp.add(parts <= self._parts * whole + self._parts // GRAIN)
            carried.append(whole)
        self._cp.add(sum(carried) <= most)

    def _before(self, origins: Sequence[int], targets: Sequence[int]) -> int:
        """Return the traffic of fixed pods between these areas, in whole units, rounded up."""
        group, total = self._group, 0.0
        for flow in group.flows:
            sending = self._fixed(flow.first, origins)
            second = sum(group.classes[flow.second].fixed)
            total += flow.amount * sending * self._fixed(flow.second, targets) / max(1, second)
        return -int(-(total - 1 / GRAIN) // 1)

    def _fixed(self, number: int, areas: Sequence[int]) -> int:
        fixed = self._group.classes[number].fixed
        return sum(
            n for n, area in zip(fixed, self._group.costs.areas, strict=False) if area in areas
        )

    def _flow(self, flow: TrafficStream, origins: Sequence[int], targets: Sequence[int]) -> Any:
        """Return the traffic from some areas to others, in parts."""
        sending, taking = self._sum(flow.first, origins), self._sum(flow.second, targets)
        pairs = self._times(sending, taking)
        numbers = receiving(self._group, flow)
        if len(numbers) == 1:
            return flow.amount * (self._parts // numbers[0]) * pairs
        most = max(pairs.proto.domain) * self._parts
        share = self._cp.new_int_var(0, most, "")
        for number, is_so in self._number(flow.second, numbers).items():
            self._cp.add(share == self._parts // number * pairs).only_enforce_if(is_so)
        return flow.amount * share

    def _sum(self, number: int, areas: Sequence[int]) -> Any:
        there = [pods for area, pods in self._areas(number).items() if area in areas]
        if len(there) == 1:
            return there[0]
        most = sum(max(one.proto.domain) for one in there)
        total = self._cp.new_int_var(0, most, "")
        self._cp.add(total == sum(there))
        return total

    def _number(self, number: int, numbers: range) -> Mapping[int, Any]:
        """Return, for each possible number of pods of a class, a Boolean variable that is true for
        the actual number; 0 counts as 1.
        """
        if number not in self._is:
            found = self._is[number] = {n: self._cp.new_bool_var("") for n in numbers}
            self._cp.add_exactly_one(list(found.values()))
            total = sum(self._areas(number).values())
            for n, is_so in found.items():
                rule = self._cp.add(total <= 1) if n == 1 else self._cp.add(total == n)
                rule.only_enforce_if(is_so)
        return self._is[number]
