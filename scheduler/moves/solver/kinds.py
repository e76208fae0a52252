"""Aggregation: movable pods that are interchangeable are one kind, and only their number per
node counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from scheduler.moves.solver.problem import Amounts, Problem, Repair


class Kind(NamedTuple):
    """Units of one pod each that differ only in name, node and lost run time."""

    request: Amounts
    destinations: int
    tags: frozenset[str]
    load: int
    priority: int
    limits: frozenset[int]
    clauses: frozenset[int]


class Source(NamedTuple):
    """The movable units of one kind on one node: `units` by increasing cost, then by name."""

    kind: int
    node: int
    units: tuple[int, ...]


class Kinds(NamedTuple):
    """The single pods aggregated into kinds and sources; `groups` are the units of several pods."""

    kinds: tuple[Kind, ...]
    sources: tuple[Source, ...]
    groups: tuple[int, ...]


def aggregated(problem: Problem) -> Kinds:
    """Return the kinds, the sources by node, and the groups."""
    limits = _memberships(one.units for one in problem.limits)
    goal = problem.goal
    clauses = _memberships(goal.clauses) if isinstance(goal, Repair) else {}
    numbers: dict[Kind, int] = {}
    found: dict[tuple[int, int], list[int]] = {}
    groups = []
    for index, unit in enumerate(problem.units):
        if len(unit.pods) != 1:
            groups.append(index)
            continue
        pod = problem.pods[unit.pods[0]]
        kind = Kind(
            pod.request,
            pod.destinations,
            pod.tags,
            pod.load,
            unit.priority,
            limits.get(index, frozenset()),
            clauses.get(unit.pods[0], frozenset()),
        )
        number = numbers.setdefault(kind, len(numbers))
        found.setdefault((pod.node, number), []).append(index)

    def order(unit: int) -> tuple[int, str, int]:
        return problem.units[unit].cost, problem.units[unit].name, unit

    sources = tuple(
        Source(kind, node, tuple(sorted(units, key=order)))
        for (node, kind), units in sorted(found.items())
    )
    return Kinds(tuple(numbers), sources, tuple(groups))


def _memberships(sets: Iterable[frozenset[int]]) -> dict[int, frozenset[int]]:
    """Return the numbers of the sets that contain each element."""
    found: dict[int, set[int]] = {}
    for number, members in enumerate(sets):
        for member in members:
            found.setdefault(member, set()).add(number)
    return {member: frozenset(numbers) for member, numbers in found.items()}
