"""The nodes that take part in the model: few promising ones first, then more, at last all nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import zip_longest

from scheduler.moves.solver.amounts import emptied, fitting
from scheduler.moves.solver.bounds import Departures, weights
from scheduler.moves.solver.problem import Cool, Fit, Free, Problem, Repair

SMALL = 96  # a model of this many nodes is solved at once
GROWTH = 4
DESTINATIONS = 2  # destination nodes per node that takes waiting pods or becomes free


def focuses(problem: Problem) -> Iterator[frozenset[int]]:
    """Yield growing sets of nodes that a search may use; the last set has all nodes."""
    everywhere = frozenset(range(len(problem.nodes)))
    if len(everywhere) > SMALL and not isinstance(problem.goal, Cool):
        wanted = needed(problem)
        targets, destinations = promising(problem)
        number = max(SMALL // 3, 2 * wanted)
        while (1 + DESTINATIONS) * number < len(everywhere):
            yield frozenset((*targets[:number], *destinations[: DESTINATIONS * number]))
            number *= GROWTH
    yield everywhere


def needed(problem: Problem) -> int:
    """Return about how many nodes the goal concerns."""
    goal = problem.goal
    if isinstance(goal, Fit):
        return sum(role.number * claim.copies for claim in goal.claims for role in claim.roles)
    if isinstance(goal, Free):
        members = problem.members(goal.level)
        return goal.number * max((len(members[one]) for one in goal.domains), default=1)
    return len(problem.pods) if isinstance(goal, Cool) else len(_repaired(problem))


def promising(problem: Problem) -> tuple[list[int], list[int]]:
    """Return nodes ordered by the goal's cost there, and destinations ordered by their
    utilization.
    """
    goal = problem.goal
    # Units of several pods would weigh nothing where each of them is.
    is_single = all(len(unit.pods) == 1 for unit in problem.units)
    departures = Departures(problem, weights(problem) if is_single else None)
    if isinstance(goal, Fit):
        targets = _claimed(problem, goal, departures)
    elif isinstance(goal, Free):
        targets = _freed(problem, goal, departures)
    else:
        targets = _repaired(problem)
    return targets, _destinations(problem)


def _claimed(problem: Problem, goal: Fit, departures: Departures) -> list[int]:
    """Return the nodes that can take waiting pods; those of the best domains first."""
    empty = emptied(problem)
    found: dict[int, tuple[int, int, int]] = {}
    for claim in goal.claims:
        each: dict[int, int] = {}
        slots: defaultdict[int, int] = defaultdict(int)
        for role in claim.roles:
            for node in problem.destination_sets[role.destinations]:
                number = fitting(empty[node], role.request, role.number)
                if number:
                    cost = departures.least(node, role.request, 1)[1]
                    each[node] = min(cost, each.get(node, cost))
                    slots[node] += number
        ranks = _domain_ranks(problem, claim.level, each, slots, sum(r.number for r in claim.roles))
        for node, cost in each.items():
            rank = 0 if claim.level is None else ranks[problem.domain(claim.level, node)]
            key = (rank, cost, node)
            found[node] = min(key, found.get(node, key))
    return sorted(found, key=found.__getitem__)


def _domain_ranks(
    problem: Problem,
    level: int | None,
    each: dict[int, int],
    slots: dict[int, int],
    size: int,
) -> dict[int, int]:
    """Return the rank of each domain of a level by the least cost of one copy in it."""
    if level is None:
        return {}
    costs = {}
    for domain, nodes in problem.members(level).items():
        left, cost = size, 0
        for node in sorted((node for node in nodes if node in each), key=each.__getitem__):
            cost += each[node]
            left -= slots[node]
            if left <= 0:
                break
        costs[domain] = (left > 0, cost, domain)
    ranks = {domain: at for at, domain in enumerate(sorted(costs, key=costs.__getitem__))}
    return {**ranks, -1: len(ranks)}


def _freed(problem: Problem, goal: Free, departures: Departures) -> list[int]:
    members = problem.members(goal.level)
    usable = [
        domain
        for domain in goal.domains
        if not any(problem.nodes[node].pinned for node in members[domain])
    ]
    usable.sort(key=lambda domain: (sum(map(departures.weight, members[domain])), domain))
    return [node for domain in usable for node in members[domain]]


def _repaired(problem: Problem) -> list[int]:
    goal = problem.goal
    clauses = goal.clauses if isinstance(goal, Repair) else ()
    found = {problem.pods[pod].node for clause in clauses for pod in clause}
    found |= {at for at, node in enumerate(problem.nodes) if min(node.free, default=0) < 0}
    return sorted(found)


def _destinations(problem: Problem) -> list[int]:
    """Return nodes that can take a movable pod, alternately the fullest and the emptiest."""
    shapes = {(pod.request, pod.destinations) for pod in problem.pods}
    able = {
        node
        for request, destinations in shapes
        for node in problem.destination_sets[destinations]
        if fitting(problem.nodes[node].free, request, 1)
    }
    order = sorted(able, key=lambda node: (problem.nodes[node].free[::-1], node))
    half = (len(order) + 1) // 2
    pairs = zip_longest(order[:half], order[: half - 1 : -1])
    return [node for pair in pairs for node in pair if node is not None]
