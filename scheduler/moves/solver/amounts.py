"""Arithmetic on amounts: how many pods of a request fit, and the free amounts of emptied nodes."""

from __future__ import annotations

from scheduler.moves.solver.problem import Amounts, Problem


def emptied(problem: Problem) -> list[Amounts]:
    """Return the free amounts of each node if all movable pods leave."""
    found = [list(node.free) for node in problem.nodes]
    for pod in problem.pods:
        at = found[pod.node]
        for resource, amount in enumerate(pod.request):
            at[resource] += amount
    return [tuple(one) for one in found]


def fitting(free: Amounts, request: Amounts, most: int) -> int:
    """Return how many pods of a request fit, at most `most`; negative amounts fit none."""
    for have, need in zip(free, request, strict=True):
        if need:
            most = min(most, have // need)
    return max(0, most)
