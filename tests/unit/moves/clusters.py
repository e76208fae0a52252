"""Random small relocation problems, and the best plan of each by enumeration."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from random import Random

from scheduler.moves.solver.answer import Answer, Move, Placed, Stage, Verdict
from scheduler.moves.solver.checker import Check, costs, faults
from scheduler.moves.solver.problem import (
    Anchor,
    Claim,
    Conflict,
    Cool,
    Fit,
    Free,
    Limit,
    Node,
    Pod,
    Problem,
    Repair,
    Role,
    Unit,
)


def random_problem(seed: int, most_pods: int = 8) -> Problem:
    """Return a cluster of 2 to 6 nodes, two resources, groups, rules and limits, with one goal of
    four.
    """
    rng = Random(seed)
    count = rng.randint(3, 6)
    zone = tuple(rng.choice((0, 0, 1, 1, 2, -1)) for _ in range(count))
    capacity = [(rng.randint(4, 9), rng.choice((2, 4, 6))) for _ in range(count)]
    overcommits = rng.random() < 0.15
    left = [list(one) for one in capacity]
    tags = ("a", "b")
    rough: list[tuple[int, tuple[int, int], frozenset[str], int]] = []
    for _ in range(rng.randint(1, most_pods)):
        request = (rng.randint(0, 3), rng.choice((0, 0, 1, 2)))
        node = rng.randrange(count)
        fits = all(have >= need for have, need in zip(left[node], request, strict=True))
        if fits or overcommits:
            left[node] = [a - b for a, b in zip(left[node], request, strict=True)]
            own = frozenset(tag for tag in tags if rng.random() < 0.25)
            rough.append((node, request, own, rng.randint(0, 3)))
    for node in range(count):  # pods that cannot move
        if rng.random() < 0.2:
            left[node] = [max(0, a - 1) for a in left[node]]
    conflicts = tuple(
        Conflict(rng.choice((-1, 0)), *rng.choice((("a", "a"), ("a", "b"))))
        for _ in range(rng.choice((0, 0, 1)))
    )
    anchors = tuple(
        Anchor(0, "a", "b", frozenset(d for d in range(3) if rng.random() < 0.2))
        for _ in range(rng.choice((0, 0, 0, 1)))
    )
    nodes = tuple(
        Node(f"n{at}", tuple(left[at]), rng.random() < 0.1, rng.randint(-1, 5))
        for at in range(count)
    )
    levels = (zone,)
    destination_sets: dict[frozenset[int], int] = {}
    pods = []
    for at, (node, request, own, load) in enumerate(rough):
        allowed = frozenset(one for one in range(count) if rng.random() < 0.9)
        others = [(other, names) for i, (other, _, names, _) in enumerate(rough) if i != at]
        allowed = frozenset(
            one for one in allowed if not _clashes(conflicts, zone, one, own, others)
        )
        destinations = destination_sets.setdefault(allowed, len(destination_sets))
        pods.append(Pod(f"p{at}", node, request, destinations, own, load))
    units = _units(rng, len(pods))
    limits = tuple(
        Limit(
            f"limit{at}",
            frozenset(u for u in range(len(units)) if rng.random() < 0.5),
            rng.randint(0, 2),
        )
        for at in range(rng.choice((0, 0, 1, 2)))
    )
    goal = _goal(rng, zone, nodes, pods, destination_sets)
    return Problem(
        ("cpu", "gpu"),
        nodes,
        tuple(pods),
        units,
        tuple(destination_sets),
        goal,
        levels,
        limits,
        conflicts,
        anchors,
    )


def _clashes(conflicts, zone, node, own, others) -> bool:
    for rule in conflicts:
        for other, names in others:
            one, two = (node, other) if rule.level == -1 else (zone[node], zone[other])
            clash = (rule.first in own and rule.second in names) or (
                rule.second in own and rule.first in names
            )
            if clash and one == two and one >= 0:
                return True
    return False


def _units(rng: Random, number: int) -> tuple[Unit, ...]:
    left: list[int] = list(range(number))
    units: list[Unit] = []
    while left:
        size = min(len(left), rng.choice((1, 1, 1, 1, 2, 3)))
        members, left = tuple(left[:size]), left[size:]
        level = 0 if size > 1 and rng.random() < 0.4 else None
        units.append(
            Unit(f"u{len(units)}", members, rng.choice((0, 0, 1, 5)), rng.randint(0, 4), level)
        )
    return tuple(units)


def _goal(rng, zone, nodes, pods, destination_sets):
    count, most = len(nodes), max(node.free[0] for node in nodes)
    kind = rng.choice(("fit", "fit", "fit", "free", "cool", "repair"))
    if kind == "cool":
        return Cool()
    if kind == "free":
        level = rng.choice((-1, -1, 0))
        domains = tuple(sorted(set(zone) - {-1})) if level == 0 else tuple(range(count))
        return Free(rng.randint(1, 2), level, domains)
    if kind == "repair":
        numbers = range(len(pods))
        clauses = {
            frozenset(rng.sample(numbers, min(len(pods), rng.randint(1, 2))))
            for _ in range(rng.randint(1, 2))
        }
        return Repair(tuple(sorted(clauses, key=sorted)))
    claims = []
    simple = rng.random() < 0.5  # one pod that fits no node: the usual reason for moves
    for at in range(1 if simple else rng.choice((1, 1, 2))):
        roles = tuple(
            Role(
                (rng.choice((most + 1, rng.randint(0, most + 1))), rng.choice((0, 0, 0, 1))),
                1 if simple else rng.choice((1, 1, 2)),
                destination_sets.setdefault(
                    frozenset(n for n in range(count) if rng.random() < 0.8), len(destination_sets)
                ),
                frozenset(tag for tag in ("a", "b") if rng.random() < 0.15),
            )
            for _ in range(1 if simple else rng.choice((1, 1, 2)))
        )
        claims.append(
            Claim(
                f"c{at}",
                roles,
                rng.choice((None, 0)),
                1 if simple else rng.choice((1, 2)),
                rng.random() < 0.3,
            )
        )
    return Fit(tuple(claims))


class TooLargeError(Exception):
    """An enumeration has used up its steps."""


class Steps:
    """The number of plans that an enumeration may still evaluate."""

    def __init__(self, left: int) -> None:
        self.left = left

    def take(self) -> None:
        """Use one step; TooLargeError if none is left."""
        self.left -= 1
        if self.left < 0:
            raise TooLargeError


def enumerated(
    problem: Problem, *, parallel: bool = True, most: int = 1 << 60
) -> tuple[int, ...] | None:
    """Return the least cost of a plan by trying all sets of units in the order of their cost.

    None without a plan. TooLargeError after `most` plans.
    """
    numbers, steps = range(len(problem.units)), Steps(most)
    sets = [some for size in range(len(numbers) + 1) for some in combinations(numbers, size)]
    priced = sorted((tuple(v for _, v in costs(problem, some)), some) for some in sets)
    for cost, some in priced:
        steps.take()
        if _possible(problem, some) and _feasible(problem, some, steps, parallel=parallel):
            return cost
    return None


def _possible(problem: Problem, some: tuple[int, ...]) -> bool:
    """Return whether the goal could be reached if the set's pods vanished; prunes the
    enumeration.
    """
    moved = {pod for unit in some for pod in problem.units[unit].pods}
    for limit in problem.limits:
        if sum(len(problem.units[unit].pods) for unit in some if unit in limit.units) > limit.most:
            return False
    goal = problem.goal
    if isinstance(goal, Repair):
        return all(clause & moved for clause in goal.clauses)
    if isinstance(goal, Fit):
        free = _after(problem, moved)
        return next(_placements(problem, goal, free), None) is not None
    return True


def _after(problem: Problem, moved: set[int]) -> list[list[int]]:
    free = [list(node.free) for node in problem.nodes]
    for pod in moved:
        record = problem.pods[pod]
        free[record.node] = [a + b for a, b in zip(free[record.node], record.request, strict=True)]
    return free


def _feasible(problem: Problem, some: tuple[int, ...], steps: Steps, *, parallel: bool) -> bool:
    moved = [pod for unit in some for pod in problem.units[unit].pods]
    stages = tuple(Stage(name, value, value) for name, value in costs(problem, some))
    for moves in _assignments(problem, moved, steps, parallel=parallel):
        verdict = Verdict.PLANNED if moves else Verdict.REACHED
        for placed, freed in _outcomes(problem, moves):
            steps.take()
            answer = Answer(verdict, moves, placed, freed, stages)
            if parallel and not faults(problem, answer):
                return True
            if not parallel and not _final_faults(problem, answer):
                return True
    return False


def _assignments(
    problem: Problem, moved: list[int], steps: Steps, *, parallel: bool
) -> Iterator[tuple[Move, ...]]:
    """Yield destinations of pods; in parallel plans those that fit while all sources run."""
    single = {unit.pods[0] for unit in problem.units if len(unit.pods) == 1}
    left = [list(node.free) for node in problem.nodes]

    def assign(at: int, moves: tuple[Move, ...]) -> Iterator[tuple[Move, ...]]:
        if at == len(moved):
            yield moves
            return
        pod, record = moved[at], problem.pods[moved[at]]
        for node in sorted(problem.destination_sets[record.destinations]):
            steps.take()
            if node == record.node and pod in single:
                continue
            pairs = list(zip(record.request, left[node], strict=True))
            if parallel and any(need and need > have for need, have in pairs):
                continue
            left[node] = [have - need for need, have in pairs]
            yield from assign(at + 1, (*moves, Move(pod, record.node, node)))
            left[node] = [have for _, have in pairs]

    return assign(0, ())


def _final_faults(problem: Problem, answer: Answer) -> bool:
    """Return whether the final state is wrong, whatever the order.

    Capacity of waiting pods by _outcomes.
    """
    check = Check(problem, answer)
    groups = (check.units(), check.destinations(), check.limits(), check.conflicts())
    if any(any(True for _ in one) for one in (*groups, check.anchors(), check.goal())):
        return True
    free = _after(problem, check.moved)
    for body in check.arrivals + check.waiting:
        free[body.node] = [a - b for a, b in zip(free[body.node], body.request, strict=True)]
    users = check.arrivals + check.waiting
    return any(
        body.request[at] and free[body.node][at] < 0
        for body in users
        for at in range(len(body.request))
    )


def all_sources_run(problem: Problem, moves: tuple[Move, ...]) -> bool:
    """Return whether all replacements fit while no source has ended."""
    used: dict[int, list[int]] = {}
    for move in moves:
        at = used.setdefault(move.target, [0] * len(problem.resources))
        for resource, amount in enumerate(problem.pods[move.pod].request):
            at[resource] += amount
    return all(
        not amount or amount <= problem.nodes[node].free[resource]
        for node, at in used.items()
        for resource, amount in enumerate(at)
    )


def _outcomes(
    problem: Problem, moves: tuple[Move, ...]
) -> Iterator[tuple[tuple[Placed, ...], tuple[int, ...]]]:
    """Yield placements of the claims after the moves, or the freed domains."""
    goal = problem.goal
    if isinstance(goal, Fit):
        free = _after(problem, {move.pod for move in moves})
        for move in moves:
            request = problem.pods[move.pod].request
            free[move.target] = [a - b for a, b in zip(free[move.target], request, strict=True)]
        for placed in _placements(problem, goal, free):
            yield placed, ()
        return
    if isinstance(goal, Free):
        gone = {move.pod for move in moves}
        busy = {pod.node for at, pod in enumerate(problem.pods) if at not in gone}
        busy |= {move.target for move in moves}
        busy |= {at for at, node in enumerate(problem.nodes) if node.pinned}
        members = problem.members(goal.level)
        yield (), tuple(one for one in goal.domains if busy.isdisjoint(members[one]))
        return
    yield (), ()


def _placements(problem: Problem, goal: Fit, free: list[list[int]]) -> Iterator[tuple[Placed, ...]]:
    """Yield all placements of the claims in the free capacity."""
    waiting = [
        (number, copy, role)
        for number, claim in enumerate(goal.claims)
        for copy in range(claim.copies)
        for role, record in enumerate(claim.roles)
        for _ in range(record.number)
    ]
    left = [list(one) for one in free]

    def place(at: int, placed: tuple[Placed, ...]) -> Iterator[tuple[Placed, ...]]:
        if at == len(waiting):
            yield placed
            return
        number, copy, role = waiting[at]
        claim = goal.claims[number]
        request = claim.roles[role].request
        own = [one for one in placed if (one.claim, one.copy) == (number, copy)]
        same = [one.node for one in own if one.role == role]
        for node in sorted(problem.destination_sets[claim.roles[role].destinations]):
            if same and node < same[-1]:
                continue  # pods of one role are interchangeable
            if claim.apart and any(one.node == node for one in own):
                continue
            if claim.level is not None:
                domain = problem.domain(claim.level, node)
                if domain < 0 or (own and problem.domain(claim.level, own[0].node) != domain):
                    continue
            if any(need and need > have for need, have in zip(request, left[node], strict=True)):
                continue
            left[node] = [a - b for a, b in zip(left[node], request, strict=True)]
            yield from place(at + 1, (*placed, Placed(number, copy, role, node)))
            left[node] = [a + b for a, b in zip(left[node], request, strict=True)]

    return place(0, ())
