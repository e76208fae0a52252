"""A first plan without search: node after node from the least cost on, its pods to the fullest
nodes.

Serves as the plan until the model finds a better one, and as its start. Nothing is proven here
except where the plan equals a bound. Goals with rules between pods are left to the model.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.moves.solver.answer import Move, Placed
from scheduler.moves.solver.problem import Amounts, Claim, Fit, Problem, Role

Cost = tuple[int, ...]


def first_plans(problem: Problem) -> Iterator[tuple[tuple[Move, ...], tuple[Placed, ...]]]:
    """Yield moves and the places of the claims; nothing if these simple orders find no plan."""
    goal = problem.goal
    if not isinstance(goal, Fit) or problem.conflicts or problem.anchors:
        return
    for avoids_targets in (False, True):
        filling = Filling(problem)
        if avoids_targets:
            filling.avoid_targets(goal)
        copies = ((n, copy, one) for n, one in enumerate(goal.claims) for copy in range(one.copies))
        if all(filling.place(*one) for one in copies):
            yield tuple(filling.moves), tuple(filling.placed)


class Filling:
    """The state of an unfinished plan: free amounts now and at the end, and the pods that have
    moved.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.moves: list[Move] = []
        self.placed: list[Placed] = []
        free = np.array([node.free for node in problem.nodes], dtype=np.int64)
        self._now, self._end = np.maximum(free, 0), free.copy()
        self._is_target = np.zeros(len(problem.nodes), dtype=np.bool_)
        self._scale = np.maximum(1, self._now.max(axis=0))
        self._destination_sets: dict[int, NDArray[np.bool_]] = {}
        self._at: list[list[int]] = [[] for _ in problem.nodes]
        self._priority: dict[int, tuple[int, int]] = {}
        for unit in problem.units:
            if len(unit.pods) == 1:
                self._at[problem.pods[unit.pods[0]].node].append(unit.pods[0])
                self._priority[unit.pods[0]] = unit.priority, unit.cost
        self._priorities = sorted({unit.priority for unit in problem.units}, reverse=True)
        self._version = [0] * len(problem.nodes)
        self._avoided = np.zeros(len(problem.nodes), dtype=np.int64)

    def avoid_targets(self, goal: Fit) -> None:
        """Avoid as destinations the nodes that cost least: they are to be cleared themselves."""
        for claim in goal.claims:
            for role in claim.roles:
                found = [
                    (cost[0], node)
                    for node in self.problem.destination_sets[role.destinations]
                    if (cost := self._departures(node, role))
                ]
                for _, node in sorted(found)[: role.number * claim.copies]:
                    self._avoided[node] = 1

    def place(self, number: int, copy: int, claim: Claim) -> bool:
        """Place one copy of a claim inside a domain of its level; nothing changes if none fits."""
        if claim.level is None:
            return self._inside(number, copy, claim, range(len(self.problem.nodes)))
        members = self.problem.members(claim.level).values()
        return any(
            self._inside(number, copy, claim, nodes) for nodes in self._by_cost(claim, members)
        )

    def _by_cost(self, claim: Claim, domains: object) -> list[list[int]]:
        """Return domains ordered by the cost of the first role's pods there."""
        role = claim.roles[0]

        def cost(nodes: Sequence[int]) -> tuple[bool, list[Cost]]:
            each = sorted(one[0] for node in nodes if (one := self._departures(node, role)))
            return len(each) < role.number, each[: role.number]

        return sorted(domains, key=cost)  # type: ignore[call-overload, no-any-return]

    def _inside(self, number: int, copy: int, claim: Claim, nodes: Sequence[int]) -> bool:
        saved = (
            self._now.copy(),
            self._end.copy(),
            self._is_target.copy(),
            list(map(list, self._at)),
        )
        done = len(self.moves), len(self.placed)
        used: set[int] = set()
        for at, role in enumerate(claim.roles):
            if not self._role(number, copy, at, role, nodes, used, apart=claim.apart):
                self._now, self._end, self._is_target, self._at = saved
                del self.moves[done[0] :], self.placed[done[1] :]
                self._version = [one + 1 for one in self._version]
                return False
        return True

    def _role(
        self,
        number: int,
        copy: int,
        at: int,
        role: Role,
        nodes: Sequence[int],
        used: set[int],
        *,
        apart: bool,
    ) -> bool:
        """Place the pods of a role, each on the node where it costs least now."""
        heap: list[tuple[Cost, int, int, list[int]]] = []
        for node in nodes:
            self._push(heap, node, role)
        left = role.number
        while left and heap:
            _, node, version, leaving = heapq.heappop(heap)
            if version != self._version[node]:
                self._push(heap, node, role)
                continue
            if (apart and node in used) or not self._clear(node, leaving):
                continue
            self._end[node] -= role.request
            self._now[node] = 0  # no arrivals on nodes that waiting pods will use
            self._is_target[node] = True
            self._version[node] += 1
            self.placed.append(Placed(number, copy, at, node))
            used.add(node)
            left -= 1
            self._push(heap, node, role)
        return not left

    def _push(self, heap: list[tuple[Cost, int, int, list[int]]], node: int, role: Role) -> None:
        if node in self.problem.destination_sets[role.destinations]:
            found = self._departures(node, role)
            if found is not None:
                heapq.heappush(heap, (found[0], node, self._version[node], found[1]))

    def _departures(self, node: int, role: Role) -> tuple[Cost, list[int]] | None:
        """Return cost and pods of few departures after which one pod of a role fits; None if it
        never fits.
        """
        short = [
            max(0, need - have) if need else 0
            for need, have in zip(role.request, self._end[node].tolist(), strict=True)
        ]
        if not any(short):
            return self._cost(()), []
        pods = [pod for pod in self._at[node] if _helps(self.problem.pods[pod].request, short)]
        pods.sort(
            key=lambda pod: (
                self._priority[pod][0],
                -self._help(pod, short),
                self._priority[pod][1],
            )
        )
        chosen: list[int] = []
        for pod in pods:
            if not any(short):
                break
            chosen.append(pod)
            request = self.problem.pods[pod].request
            short = [max(0, a - b) for a, b in zip(short, request, strict=True)]
        if any(short):
            return None
        chosen = self._pruned(node, role, chosen)
        return self._cost(chosen), chosen

    def _pruned(self, node: int, role: Role, chosen: list[int]) -> list[int]:
        """Return the pods without those that turn out not to be needed, the most costly first."""
        surplus = [
            have - need for have, need in zip(self._end[node].tolist(), role.request, strict=True)
        ]
        for pod in chosen:
            surplus = [a + b for a, b in zip(surplus, self.problem.pods[pod].request, strict=True)]
        kept = list(chosen)
        for pod in sorted(chosen, key=self._priority.__getitem__, reverse=True):
            request = self.problem.pods[pod].request
            without = [a - b for a, b in zip(surplus, request, strict=True)]
            if all(left >= 0 for left, need in zip(without, role.request, strict=True) if need):
                surplus = without
                kept.remove(pod)
        return kept

    def _help(self, pod: int, short: Sequence[int]) -> float:
        request = self.problem.pods[pod].request
        return sum(min(a, b) / b for a, b in zip(request, short, strict=True) if b)

    def _cost(self, pods: Sequence[int]) -> Cost:
        counts = [0] * len(self._priorities)
        lost = 0
        for pod in pods:
            counts[self._priorities.index(self._priority[pod][0])] += 1
            lost += self._priority[pod][1]
        return (*counts, lost)

    def _clear(self, node: int, leaving: Sequence[int]) -> bool:
        """Move pods off a node; nothing changes if one of them finds no destination."""
        before = self._now.copy()
        found = []
        for pod in sorted(leaving, key=lambda one: self.problem.pods[one].request, reverse=True):
            target = self._destination(pod, node)
            if target is None:
                self._now = before
                return False
            self._now[target] -= self.problem.pods[pod].request
            found.append((pod, target))
        for pod, target in found:
            request = np.array(self.problem.pods[pod].request)
            self._end[target] -= request
            self._end[node] += request
            self._at[node].remove(pod)
            self._version[target] += 1
            self.moves.append(Move(pod, node, target))
        return True

    def _destination(self, pod: int, source: int) -> int | None:
        """Return the fullest node that takes a pod while all sources run."""
        record = self.problem.pods[pod]
        destinations = self._destination_sets.get(record.destinations)
        if destinations is None:
            destinations = np.zeros(len(self.problem.nodes), dtype=np.bool_)
            destinations[list(self.problem.destination_sets[record.destinations])] = True
            self._destination_sets[record.destinations] = destinations
        need = np.array(record.request)
        able = destinations & ~self._is_target & ((need == 0) | (self._now >= need)).all(axis=1)
        able[source] = False
        rows = np.flatnonzero(able)
        if not len(rows):
            return None
        left = ((self._now[rows] - need) / self._scale).sum(axis=1)
        return int(rows[int(np.argmin(left + 100.0 * self._avoided[rows]))])


def _helps(request: Amounts, short: Sequence[int]) -> bool:
    return any(a and b for a, b in zip(request, short, strict=True))
