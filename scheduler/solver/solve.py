"""The door: an instance in, a checked answer with its proof out.

`Auto` takes the exact program wherever it covers the instance and fits into the time, CP-SAT for the
rest; `CPSAT` proves with CP-SAT and starts from the exact answer. What finds nothing in time falls back to
what the others have, at last to the greedy descent. No answer leaves here that scheduler.solver.check
objects to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from scheduler.base.clock import perf_s
from scheduler.base.errors import StateError
from scheduler.solver import check, costs, decode, exact, fold, greedy, tree
from scheduler.solver.answer import Answer, Outcome, Stage
from scheduler.solver.instance import Instance, Limits, Solver
from scheduler.solver.tree import Ints, Tree

if TYPE_CHECKING:
    from scheduler.solver.cpsat import Found

NOTHING = -(1 << 62)  # the bound of a stage of which nothing is known
EXACT_SUMS_PER_S = 100e6  # what the exact program does at most; decides whether it is tried


def solve(instance: Instance, limits: Limits | None = None, solver: Solver = "Auto") -> Answer:
    """Return the best placement, or that there is none, or the best known when time is over.

    `Greedy` is chic-sched's algorithm, for comparison; its answer is never called optimal.
    InputError when the instance contradicts itself.
    """
    allowed = limits or Limits()
    started = perf_s()
    if solver == "Greedy":
        answer = _greedy(instance, tree.build(instance, with_full=True))
    else:
        tree.check(instance)
        answer = _any_domain(
            fold.folded(instance),
            lambda part: _best(part, allowed, solver, lambda: started + allowed.total_s - perf_s()),
        )
    found = check.problems(instance, answer.counts) if answer.outcome == "placed" else []
    if found:
        raise StateError(f"{answer.solver} gave a wrong answer: {'; '.join(found[:3])}")
    return Answer(
        answer.outcome, answer.counts, answer.stages, answer.solver, round(perf_s() - started, 6)
    )


def _any_domain(instance: Instance, best: Callable[[Instance], Answer]) -> Answer:
    """Return the best answer; when all members have to be in one domain, that of the best domain."""
    parts = fold.by_domain(instance)
    if parts is None:
        return best(instance)
    answers = [_any_domain(part, best) for part in parts]
    placed = [answer for answer in answers if answer.outcome == "placed"]
    open_ones = [answer for answer in answers if not answer.optimal]
    if not placed:
        return open_ones[0] if open_ones else Answer("infeasible", solver="exact program")
    found = min(placed, key=lambda answer: [stage.value for stage in answer.stages])
    if not open_ones:
        return found
    unproven = tuple(msgspec.structs.replace(stage, bound=NOTHING) for stage in found.stages)
    return msgspec.structs.replace(found, stages=unproven)


def _best(
    instance: Instance, limits: Limits, solver: Solver, left_s: Callable[[], float]
) -> Answer:
    made = tree.build(instance)
    known = None
    if exact.separable(instance):
        known = _exact(instance, made, limits, solver, left_s)
        if solver == "Exact" or (solver == "Auto" and known is not None):
            return known or _greedy(instance, made)
    if solver == "Exact":
        return _greedy(instance, made)
    hint = None
    if known is not None and known.outcome == "placed":
        hint = np.array(known.counts, dtype=np.int64)[made.leaf]
    from scheduler.solver import cpsat

    return _proven(instance, made, cpsat.program(instance, made, limits, left_s, hint), known)


def _exact(
    instance: Instance, made: Tree, limits: Limits, solver: Solver, left_s: Callable[[], float]
) -> Answer | None:
    """Return the exact program's answer, None when it does not fit into the time."""
    share = 1.0 if solver == "Exact" else 0.5
    if exact.work(made) > share * limits.total_s * EXACT_SUMS_PER_S:
        return None
    until = (1 - share) * limits.total_s
    scale = costs.scale_of(made)
    counts = exact.program(made, scale, lambda: left_s() < until)
    if counts is None:
        return None
    if not len(counts):
        return Answer("infeasible", solver="exact program")
    placed = on_leaves(instance, made, decode.canonical(made, counts))
    stages = tuple(
        Stage(level, measure, value, value, "exact program")
        for level, measure, value in check.objective(instance, placed)
    )
    return Answer("placed", placed, stages, "exact program")


def _proven(instance: Instance, made: Tree, found: Found, known: Answer | None) -> Answer:
    """Return CP-SAT's answer; of equally good ones the exact program's, with its proofs for the rest."""
    if found.counts is None:
        if found.is_infeasible:
            return Answer("infeasible", solver="CP-SAT")
        return known or _greedy(instance, made)
    answer = Answer(
        "placed", on_leaves(instance, made, found.counts), tuple(found.stages), "CP-SAT"
    )
    if known is None:
        return answer
    stages = []
    for ours, exactly in zip(found.stages, known.stages, strict=True):
        if ours.bound > exactly.value or known.outcome != "placed":
            raise StateError(f"CP-SAT and the exact program disagree about {ours} and {exactly}")
        stages.append(exactly if ours.bound < exactly.value else ours)
    return Answer("placed", known.counts, _with_values(stages, known.stages), "CP-SAT")


def _with_values(stages: list[Stage], values: tuple[Stage, ...]) -> tuple[Stage, ...]:
    return tuple(
        Stage(one.level, one.measure, best.value, one.bound, one.by)
        for one, best in zip(stages, values, strict=True)
    )


def _greedy(instance: Instance, made: Tree) -> Answer:
    counts = greedy.place(made)
    placed: Outcome = "placed" if counts is not None else "unknown"
    if counts is None:
        return Answer(placed, solver="greedy")
    taken = on_leaves(instance, made, counts)
    if check.problems(instance, taken):
        return Answer("unknown", solver="greedy")
    stages = tuple(
        Stage(level, measure, value, NOTHING, "")
        for level, measure, value in check.objective(instance, taken)
    )
    return Answer(placed, taken, stages, "greedy")


def on_leaves(instance: Instance, made: Tree, counts: Ints) -> tuple[int, ...]:
    """Return the counts per leaf of the instance from those of the tree."""
    taken = np.zeros(len(instance.leaves), dtype=np.int64)
    taken[made.leaf] = counts
    return tuple(taken.tolist())
