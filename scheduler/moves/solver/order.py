"""The order of execution: one source node after another, so that a prefix of the plan frees
whole nodes.
"""

from __future__ import annotations

from collections import defaultdict

from scheduler.moves.solver.answer import Move
from scheduler.moves.solver.problem import Problem


def ordered(problem: Problem, moves: tuple[Move, ...]) -> tuple[Move, ...]:
    """Return the moves by source node, the node with the fewest remaining pods first.

    Inside a node the lowest priority leaves first. The moves of a group stay together, at its first
    node.
    """
    unit_of = {pod: at for at, unit in enumerate(problem.units) for pod in unit.pods}
    remaining: defaultdict[int, int] = defaultdict(int)
    for pod in problem.pods:
        remaining[pod.node] += 1
    for move in moves:
        remaining[move.source] -= 1
    units: defaultdict[int, list[Move]] = defaultdict(list)
    for move in moves:
        units[unit_of[move.pod]].append(move)

    def rank(unit: int) -> tuple[int, str, int, int, str]:
        source = min(
            (remaining[move.source], problem.nodes[move.source].name) for move in units[unit]
        )
        record = problem.units[unit]
        return (*source, record.priority, record.cost, record.name)

    return tuple(
        move
        for unit in sorted(units, key=rank)
        for move in sorted(units[unit], key=lambda one: problem.pods[one.pod].name)
    )
