"""Checks a plan without the solver: destinations, parallel safety, rules, the goal, and the
counts it states.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import NamedTuple

from scheduler.moves.solver.answer import LOST, PODS, Answer, Verdict
from scheduler.moves.solver.problem import (
    Amounts,
    Cool,
    Fit,
    Free,
    Problem,
    Repair,
    Role,
)


class Body(NamedTuple):
    """A pod on a node, as rules see it."""

    node: int
    request: Amounts
    tags: frozenset[str]
    number: int  # index of the pod; negative for a waiting pod


def faults(problem: Problem, answer: Answer) -> list[str]:
    """Return the faults of an answer, empty if it is a valid plan for the goal."""
    if answer.verdict not in (Verdict.REACHED, Verdict.PLANNED):
        return []
    check = Check(problem, answer)
    return [
        *check.units(),
        *check.destinations(),
        *check.capacity(),
        *check.limits(),
        *check.conflicts(),
        *check.anchors(),
        *check.goal(),
        *check.stages(),
    ]


def costs(problem: Problem, moved: Iterable[int]) -> tuple[tuple[str, int], ...]:
    """Return name and value of each stage for a set of moved units, as `Answer.stages` has them."""
    units = [problem.units[index] for index in moved]
    priorities = sorted({unit.priority for unit in problem.units}, reverse=True)
    by_priority = Counter(unit.priority for unit in units)
    return (
        *((f"units of priority {one}", by_priority[one]) for one in priorities),
        (PODS, sum(len(unit.pods) for unit in units)),
        (LOST, sum(unit.cost for unit in units)),
    )


class Check:
    """The verification of one plan: initial pods, arrivals and waiting pods by node."""

    def __init__(self, problem: Problem, answer: Answer) -> None:
        self.problem, self.answer = problem, answer
        self.moved = {move.pod for move in answer.moves}
        self.arrivals = [self._body(move.pod, move.target) for move in answer.moves]
        self.remaining = [
            self._body(index, pod.node)
            for index, pod in enumerate(problem.pods)
            if index not in self.moved
        ]
        self.waiting = [
            Body(one.node, role.request, role.tags, -1 - number)
            for number, one in enumerate(answer.placed)
            if (role := self._role(one.claim, one.role)) is not None
        ]

    def _body(self, pod: int, node: int) -> Body:
        return Body(node, self.problem.pods[pod].request, self.problem.pods[pod].tags, pod)

    def _role(self, claim: int, role: int) -> Role | None:
        goal = self.problem.goal
        return goal.claims[claim].roles[role] if isinstance(goal, Fit) else None

    def units(self) -> Iterator[str]:
        """Yield faults of units that move in part, and of groups outside one domain."""
        for pod, times in Counter(move.pod for move in self.answer.moves).items():
            if times > 1:
                yield f"{self.problem.pods[pod].name} moves {times} times"
        targets = {move.pod: move.target for move in self.answer.moves}
        for unit in self.problem.units:
            own = [targets[pod] for pod in unit.pods if pod in targets]
            if own and len(own) != len(unit.pods):
                yield f"{len(own)} of {len(unit.pods)} pods of {unit.name} move"
            if own and unit.level is not None:
                domains = {self.problem.domain(unit.level, node) for node in own}
                if len(domains) > 1 or -1 in domains:
                    yield f"{unit.name} is spread over {len(domains)} domains"

    def destinations(self) -> Iterator[str]:
        """Yield faults of sources and destinations."""
        for move in self.answer.moves:
            pod = self.problem.pods[move.pod]
            if move.source != pod.node:
                yield f"{pod.name} runs on another node than its move states"
            if move.target == pod.node and self._is_single(move.pod):
                yield f"{pod.name} moves to its own node"
            if move.target not in self.problem.destination_sets[pod.destinations]:
                yield f"{pod.name} cannot run on {self.problem.nodes[move.target].name}"

    def _is_single(self, pod: int) -> bool:
        return any(unit.pods == (pod,) for unit in self.problem.units)

    def capacity(self) -> Iterator[str]:
        """Yield overcommitted nodes: while all sources run, and in the end with the waiting
        pods.
        """
        for node, at in _by_node(self.arrivals).items():
            if not _fits(self.problem.nodes[node].free, at):
                yield f"arrivals exceed {self.problem.nodes[node].name} while their sources run"
        left: defaultdict[int, list[Body]] = defaultdict(list)
        for move in self.answer.moves:
            left[move.source].append(self._body(move.pod, move.source))
        for node, at in _by_node(self.waiting).items():
            free = list(self.problem.nodes[node].free)
            for body in left[node]:
                free = [a + b for a, b in zip(free, body.request, strict=True)]
            for body in self.arrivals:
                if body.node == node:
                    free = [a - b for a, b in zip(free, body.request, strict=True)]
            if not _fits(tuple(free), at):
                yield f"waiting pods exceed {self.problem.nodes[node].name}"

    def limits(self) -> Iterator[str]:
        """Yield limits that the plan exceeds."""
        for limit in self.problem.limits:
            pods = {pod for unit in limit.units for pod in self.problem.units[unit].pods}
            number = len(pods & self.moved)
            if number > limit.most:
                yield f"{number} moves exceed {limit.most} of {limit.name}"

    def conflicts(self) -> Iterator[str]:
        """Yield pairs of pods that must not share a domain."""
        meeting = [*combinations(self.arrivals + self.waiting, 2)]
        meeting += [(body, other) for body in self.waiting for other in self.remaining]
        for rule in self.problem.conflicts:
            for one, other in meeting:
                both = {self.problem.domain(rule.level, node) for node in (one.node, other.node)}
                apart = len(both) > 1 or -1 in both
                if not apart and _clash(rule.first, rule.second, one.tags, other.tags):
                    yield f"{rule.first} and {rule.second} share a domain"

    def anchors(self) -> Iterator[str]:
        """Yield dependents without a provider that stays."""
        for rule in self.problem.anchors:
            staying, all_end, before = (
                {self.problem.domain(rule.level, b.node) for b in bodies if rule.provider in b.tags}
                for bodies in (self.remaining, self.remaining + self.arrivals, self._before())
            )
            fine = (rule.anchored | staying) - {-1}
            for body in self.arrivals:
                if rule.dependent in body.tags and self._at(rule.level, body) not in fine:
                    yield f"{rule.dependent} arrives without {rule.provider}"
            for body in self.remaining:
                domain = self._at(rule.level, body)
                if rule.dependent in body.tags and domain in before - {-1} - fine:
                    yield f"{rule.dependent} loses its {rule.provider}"
            for body in self.waiting:
                domain = self._at(rule.level, body)
                if rule.dependent in body.tags and domain not in fine | all_end - {-1}:
                    yield f"{rule.dependent} waits without {rule.provider}"

    def _before(self) -> list[Body]:
        return [self._body(index, pod.node) for index, pod in enumerate(self.problem.pods)]

    def _at(self, level: int, body: Body) -> int:
        return self.problem.domain(level, body.node)

    def goal(self) -> Iterator[str]:
        """Yield the unmet requirements of the goal."""
        goal = self.problem.goal
        if isinstance(goal, Fit):
            yield from self._claims(goal)
        elif isinstance(goal, Free):
            yield from self._freed(goal)
        elif isinstance(goal, Cool):
            yield from self._cooled()
        else:
            yield from self._repaired(goal)

    def _claims(self, goal: Fit) -> Iterator[str]:
        for number, claim in enumerate(goal.claims):
            placed = [one for one in self.answer.placed if one.claim == number]
            for copy in range(claim.copies):
                own = [one for one in placed if one.copy == copy]
                counts = Counter(one.role for one in own)
                if any(counts[at] != role.number for at, role in enumerate(claim.roles)):
                    yield f"copy {copy} of {claim.name} is incomplete"
                nodes = [one.node for one in own]
                if claim.apart and len(set(nodes)) < len(nodes):
                    yield f"copy {copy} of {claim.name} has two pods on one node"
                if claim.level is not None:
                    domains = {self.problem.domain(claim.level, node) for node in nodes}
                    if len(domains) > 1 or -1 in domains:
                        yield f"copy {copy} of {claim.name} spans {len(domains)} domains"
            for one in placed:
                if (
                    one.node
                    not in self.problem.destination_sets[claim.roles[one.role].destinations]
                ):
                    yield f"{claim.name} cannot run on {self.problem.nodes[one.node].name}"

    def _freed(self, goal: Free) -> Iterator[str]:
        occupied = {body.node for body in self.remaining + self.arrivals}
        freed = set(self.answer.freed)
        if len(freed) < goal.number or not freed <= set(goal.domains):
            yield f"{len(freed)} of {goal.number} domains are free"
        for node, record in enumerate(self.problem.nodes):
            if self.problem.domain(goal.level, node) in freed and (
                record.pinned or node in occupied
            ):
                yield f"{record.name} is not free"

    def _cooled(self) -> Iterator[str]:
        change: Counter[int] = Counter()
        arrived: Counter[int] = Counter()
        for move in self.answer.moves:
            load = self.problem.pods[move.pod].load
            change[move.source] -= load
            change[move.target] += load
            arrived[move.target] += load
        for node, record in enumerate(self.problem.nodes):
            if change[node] > record.headroom or arrived[node] > max(0, record.headroom):
                yield f"{record.name} is above its threshold"

    def _repaired(self, goal: Repair) -> Iterator[str]:
        for clause in goal.clauses:
            if not clause & self.moved:
                names = sorted(self.problem.pods[pod].name for pod in clause)
                yield f"none of {', '.join(names)} leaves"
        for node, record in enumerate(self.problem.nodes):
            left = [self.problem.pods[m.pod].request for m in self.answer.moves if m.source == node]
            for resource, free in enumerate(record.free):
                if free + sum(request[resource] for request in left) < 0:
                    yield f"{record.name} stays overcommitted"

    def stages(self) -> Iterator[str]:
        """Yield stages whose stated values differ from those of the moves."""
        moved = [
            index for index, unit in enumerate(self.problem.units) if self.moved & set(unit.pods)
        ]
        stated = tuple((stage.name, stage.value) for stage in self.answer.stages)
        if self.answer.verdict is Verdict.PLANNED and stated != costs(self.problem, moved):
            yield f"the plan states {stated}, its moves cost {costs(self.problem, moved)}"
        if self.answer.verdict is Verdict.REACHED and self.moved:
            yield "the goal is said to hold already, and pods move"


def _by_node(bodies: Iterable[Body]) -> dict[int, list[Body]]:
    found: defaultdict[int, list[Body]] = defaultdict(list)
    for body in bodies:
        found[body.node].append(body)
    return found


def _fits(free: Amounts, bodies: list[Body]) -> bool:
    """Return whether the requests fit; a resource that no pod requests is not compared."""
    sums = [sum(body.request[at] for body in bodies) for at in range(len(free))]
    return all(not needed or needed <= left for needed, left in zip(sums, free, strict=True))


def _clash(first: str, second: str, one: frozenset[str], other: frozenset[str]) -> bool:
    return (first in one and second in other) or (first in other and second in one)
