"""Explain why a group fits nowhere, and what would help: the trials of the conflict search.

A trial with one role is decided by the tree program or CP-SAT, one with several roles by a greedy
descent or CP-SAT. Called after a solve returned `infeasible`.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from scheduler.groups.problem import conflict, rules
from scheduler.groups.problem.answer import Advice, Conflict
from scheduler.groups.problem.instance import Instance, SolveLimits
from scheduler.groups.problem.roles import GroupProblem
from scheduler.groups.solver import solve, tree
from scheduler.groups.solver.deadline import Deadline
from scheduler.groups.solver.exact import feasible, fold, layers, program

LARGEST_LOOK = 4096
TRIAL_PART = (
    0.25  # share of the time left for one trial, so that a hard one leaves time for the others
)


def explain(
    problem: Instance | GroupProblem,
    limits: SolveLimits | None = None,
    *,
    is_infeasible: bool = False,
) -> Advice:
    """Return why a group does not fit; without a conflict if it fits or the time limit is reached.

    `is_infeasible`: the caller has proven that the group does not fit. If it does not fit under no
    rule, the conflict is its size. An elastic group fits if one of its sizes does. Other sizes are
    tried only for one role: with several, a number would not state which role to change.
    """
    limits = limits or SolveLimits()
    left_s = Deadline(limits.total_s)
    ordered = rules.rules_of(problem)

    def fits(kept: frozenset[Conflict]) -> bool | None:
        return _trial(rules.under(problem, kept), limits, left_s)

    def is_over() -> bool:
        return left_s.is_over

    free = 0 if isinstance(problem, GroupProblem) else _capacity(problem)
    if not is_infeasible and fits(frozenset(ordered)) is not False:
        return Advice((), free=free)
    smaller, larger = 0, 0
    if isinstance(problem, Instance):
        smaller, larger = _sizes(problem, is_over)
    found = conflict.advice_of(ordered, fits, is_over)
    if found.is_size or (isinstance(problem, Instance) and _is_too_small(problem)):
        size = Conflict("", "size", str(rules.under(problem, frozenset()).least))
        found = Advice((size,), is_size=True)
    found = _with_uncovered(problem, found)
    return msgspec.structs.replace(found, smaller=smaller, larger=larger, free=free)


def _with_uncovered(problem: Instance | GroupProblem, found: Advice) -> Advice:
    """Return the advice; its `give_up` also has the hard types that its numbers cover.

    The trials ran without these types, so a placement without both was found.
    """
    marked = tuple(
        msgspec.structs.replace(
            one, fits_without=one.fits_without and not rules.uncovered(problem, (one,))
        )
        for one in found.conflict
    )
    give_up = (*found.give_up, *rules.uncovered(problem, found.give_up))
    return msgspec.structs.replace(found, conflict=marked, give_up=give_up)


def _trial(problem: Instance | GroupProblem, limits: SolveLimits, left_s: Deadline) -> bool | None:
    """Return whether a problem has a placement, None if it is undecided in a share of the time
    left.
    """
    if isinstance(problem, Instance):
        return _fits(problem, left_s)
    from scheduler.groups.solver.roles import heterogeneous

    return heterogeneous.fits(problem, limits, left_s, TRIAL_PART)


def _capacity(instance: Instance) -> int:
    """Return how many pods the leaves take under no rule."""
    bare = rules.one_role(instance, frozenset()).with_size(_look(instance))
    return int(tree.build(bare).slots.sum())


def _is_too_small(instance: Instance) -> bool:
    return int(tree.build(instance).slots.sum()) < instance.least


def _fits(instance: Instance, left_s: Deadline) -> bool | None:
    """Return whether a placement exists, None if the time limit is reached first."""
    instance = fold.folded(instance)
    parts = fold.by_domain(instance)
    if parts is not None:
        verdicts = [_fits(part, left_s) for part in parts]
        return True if True in verdicts else None if None in verdicts else False
    layered = layers.of(instance)
    if layered is not None:
        return feasible.fits(layered)
    with left_s.loading():
        from scheduler.groups.solver.cpsat import onerole

    made = tree.build(instance)
    return onerole.exists(instance, made, SolveLimits(), TRIAL_PART * left_s())


def fits_soon(instance: Instance) -> bool | None:
    """Return whether the group fits, None if that cannot be decided within milliseconds."""
    parts = fold.by_domain(fold.folded(instance))
    instances = [fold.folded(instance)] if parts is None else parts
    unknown = False
    for part in instances:
        layered = None if len(part.leaves) > solve.QUICK_LEAVES else layers.of(part)
        if layered is None or sum(program.work(layered.tree)) > solve.QUICK_SUMS:
            unknown = True
        elif feasible.fits(layered):
            return True
    return None if unknown else False


def _sizes(instance: Instance, is_over: Callable[[], bool]) -> tuple[int, int]:
    """Return the nearest smaller and larger size that fit under all rules; 0: none is known."""
    largest = instance.with_size(_look(instance))
    layered = layers.of(fold.folded(largest))
    bits = None if layered is None else feasible.sizes(layered, is_over)
    if bits is None:
        return 0, 0
    sizes = np.flatnonzero(np.array([int(bit) for bit in bin(bits)[:1:-1]]))
    fixed = sum(leaf.fixed for leaf in instance.leaves)
    below = sizes[(sizes < instance.least) & (sizes >= max(1, fixed))]
    above = sizes[sizes > instance.size]
    return (int(below[-1]) if len(below) else 0), (int(above[0]) if len(above) else 0)


def _look(instance: Instance) -> int:
    """Return the largest size to try: the capacity of all leaves is an upper bound."""
    most = tree.build(instance.with_size(max(LARGEST_LOOK, instance.size)))
    return max(instance.size, min(LARGEST_LOOK, int(most.slots.sum())))
