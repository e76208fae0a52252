"""Bounds without search: the conservation test, and the minimum number of units that have to leave.

Both ignore that a unit that leaves needs a destination, so that they hold for every plan.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from scheduler.moves.solver.amounts import emptied, fitting
from scheduler.moves.solver.answer import Shortage
from scheduler.moves.solver.problem import Amounts, Claim, Fit, Free, Problem

INFINITE = np.int64(1) << 61


def shortage(problem: Problem) -> Shortage | None:
    """Return a resource that no set of moves frees enough of; None if the test decides nothing."""
    goal = problem.goal
    if isinstance(goal, Fit):
        return next(_shortages(problem, goal), None)
    if isinstance(goal, Free) and len(goal.domains) < goal.number:
        free = len(goal.domains)
        return Shortage(-1, goal.number, free, free)
    return None


def _shortages(problem: Problem, goal: Fit) -> Iterator[Shortage]:
    """Compare the claims' needs with the free and movable amounts, per set of destinations."""
    empty = emptied(problem)
    for destinations in sorted(
        {role.destinations for claim in goal.claims for role in claim.roles}
    ):
        nodes = problem.destination_sets[destinations]
        inside = [
            (role, claim.copies)
            for claim in goal.claims
            for role in claim.roles
            if problem.destination_sets[role.destinations] <= nodes
        ]
        for resource in range(len(problem.resources)):
            needed = sum(role.request[resource] * role.number * n for role, n in inside)
            free = sum(max(0, problem.nodes[node].free[resource]) for node in nodes)
            if needed > free:
                most = free + _departures(problem, nodes, resource)
                if needed > most:
                    yield Shortage(resource, needed, free, most)
        for role, copies in inside:
            slots = sum(fitting(empty[node], role.request, 1 << 20) for node in nodes)
            if slots < role.number * copies:
                now = sum(
                    fitting(problem.nodes[node].free, role.request, 1 << 20) for node in nodes
                )
                yield Shortage(-1, role.number * copies, now, slots)


def _departures(problem: Problem, nodes: frozenset[int], resource: int) -> int:
    """Return an upper bound on the amount of a resource that moves can take out of a set of nodes.

    Moves between nodes of the set do not count, and other nodes take no more than their free
    amounts.
    """
    outside: dict[int, bool] = {}
    free = sum(
        max(0, node.free[resource])
        for index, node in enumerate(problem.nodes)
        if index not in nodes
    )
    amount = 0
    for pod in problem.pods:
        if pod.node in nodes:
            leaves = outside.get(pod.destinations)
            if leaves is None:
                leaves = outside[pod.destinations] = (
                    not problem.destination_sets[pod.destinations] <= nodes
                )
            amount += pod.request[resource] if leaves else 0
    return min(amount, free)


class Weights(NamedTuple):
    """One number per unit, whose sums are ordered like the counts by priority, the highest
    first.
    """

    priorities: tuple[int, ...]
    base: int

    def of(self, priority: int) -> int:
        """Return the weight of a unit of a priority."""
        return int(self.base ** (len(self.priorities) - 1 - self.priorities.index(priority)))

    def counts(self, weight: int) -> tuple[int, ...]:
        """Return the counts by priority of a sum of weights."""
        found = []
        for _ in self.priorities:
            weight, count = divmod(weight, self.base)
            found.append(count)
        return tuple(reversed(found))


def weights(problem: Problem) -> Weights | None:
    """Return weights of the priorities, None where their sums exceed 60 bits."""
    priorities = tuple(sorted({unit.priority for unit in problem.units}, reverse=True))
    base = len(problem.units) + 1
    return Weights(priorities, base) if base ** len(priorities) < 1 << 60 else None


class Departures:
    """The least weight of units that leave a node so that pods of a request fit; memoised by
    content.
    """

    def __init__(self, problem: Problem, scale: Weights | None) -> None:
        """Weigh units by `scale`; without one, each pod counts 1."""
        self.problem = problem
        self.empty = emptied(problem)
        self._at: defaultdict[int, list[tuple[int, Amounts]]] = defaultdict(list)
        self._known: dict[tuple[object, ...], tuple[int, ...]] = {}
        self.has_groups = False
        for unit in problem.units:
            weight = 1 if scale is None else scale.of(unit.priority)
            if len(unit.pods) > 1 and scale is not None:
                # A group frees several nodes at once: its weight is counted at none of them.
                self.has_groups, weight = True, 0
            for pod in unit.pods:
                record = problem.pods[pod]
                self._at[record.node].append((weight, record.request))
        for pods in self._at.values():
            pods.sort()

    def weight(self, node: int) -> int:
        """Return the weight of all movable units of a node."""
        return sum(weight for weight, _ in self._at[node])

    def least(self, node: int, request: Amounts, most: int) -> tuple[int, ...]:
        """Return lower bounds on the weight for 0, 1, 2, … pods, up to what fits the emptied
        node.
        """
        free, pods = self.problem.nodes[node].free, self._at[node]
        key = (free, tuple(pods), request, most)
        known = self._known.get(key)
        if known is None:
            number = fitting(self.empty[node], request, most)
            known = self._known[key] = tuple(
                max(
                    (_cover(pods, at, need * count - free[at]) for at, need in _used(request)),
                    default=0,
                )
                if count
                else 0
                for count in range(number + 1)
            )
        return known


def _used(request: Amounts) -> list[tuple[int, int]]:
    return [(at, need) for at, need in enumerate(request) if need]


def _cover(pods: Sequence[tuple[int, Amounts]], resource: int, deficit: int) -> int:
    """Return the least weight of pods whose requests of one resource add up to a deficit.

    Weights of different priorities are lexicographic: as few as possible of the highest, provided
    that all lower ones may leave. So pods are removed from the lowest weight on, then those that
    are not needed are restored.
    """
    if deficit <= 0:
        return 0
    by_weight: defaultdict[int, list[int]] = defaultdict(list)
    for weight, request in pods:
        if request[resource]:
            by_weight[weight].append(request[resource])
    total, order = 0, sorted(by_weight, reverse=True)
    below = sum(map(sum, by_weight.values()))
    for weight in order:
        amounts = sorted(by_weight[weight], reverse=True)
        below -= sum(amounts)
        for amount in amounts:
            if below >= deficit:
                break
            deficit -= amount
            total += weight
    return total


def fewest(problem: Problem, departures: Departures) -> int:
    """Return a lower bound on the weight of the moved units; 0 if the goal gives none."""
    goal = problem.goal
    if isinstance(goal, Free):
        if departures.has_groups and goal.level != -1:
            return 0
        members = problem.members(goal.level)
        each = sorted(sum(map(departures.weight, members[domain])) for domain in goal.domains)
        return sum(each[: goal.number])
    if isinstance(goal, Fit):
        return max((_claim(problem, departures, claim) for claim in goal.claims), default=0)
    return 0


def _claim(problem: Problem, departures: Departures, claim: Claim) -> int:
    """Return the bound of one claim: its best domains, and in each the most demanding role."""
    if claim.level is None:
        members = {0: list(range(len(problem.nodes)))}
    else:
        members = problem.members(claim.level)
    total = np.full(claim.copies + 1, INFINITE)
    total[0] = 0
    for nodes in members.values():
        table = np.zeros(claim.copies + 1, dtype=np.int64)
        for role in claim.roles:
            apart = claim.copies if claim.apart else None
            own = _role(
                problem,
                departures,
                role.request,
                role.destinations,
                nodes,
                role.number * claim.copies,
                apart,
            )
            table = np.maximum(table, own[:: role.number])
        total = _plus(total, table)
    found = int(total[-1])
    return 0 if found >= INFINITE else found


def _role(
    problem: Problem,
    departures: Departures,
    request: Amounts,
    destinations: int,
    nodes: Sequence[int],
    number: int,
    per_node: int | None,
) -> np.ndarray:
    """Return lower bounds for 0 … `number` pods of a role on some nodes."""
    total = np.full(number + 1, INFINITE)
    total[0] = 0
    allowed = problem.destination_sets[destinations]
    for node in nodes:
        if node in allowed:
            most = number if per_node is None else min(number, per_node)
            own = departures.least(node, request, most)
            if len(own) > 1:
                total = _plus(total, np.asarray(own, dtype=np.int64))
    return total


def _plus(total: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Return the min-plus convolution of two tables, cut to the length of the first."""
    found = np.full(len(total), INFINITE)
    for count, weight in enumerate(own[: len(total)]):
        if weight < INFINITE:
            part = total[: len(total) - count] + weight
            np.minimum(found[count:], part, out=found[count:])
    return np.minimum(found, INFINITE)
