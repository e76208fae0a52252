"""The entry point for groups of one role: returns a checked placement with bounds and proof.

`Auto` runs the exact program if it covers the instance, and CP-SAT if it does not or exceeds its
share of the time. `CPSAT` starts from the exact program's answer and proves with CP-SAT. At the
time limit, the best known placement is returned; it is never worse than that of the greedy descent.
scheduler.groups.problem.checker has accepted every returned placement.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from scheduler.base.clock import perf_s
from scheduler.base.errors import StateError
from scheduler.groups.problem import checker
from scheduler.groups.problem.answer import NOTHING, Outcome, SolvedStage, SolverAnswer
from scheduler.groups.problem.instance import Instance, SolveLimits, Solver
from scheduler.groups.solver import costs, tree
from scheduler.groups.solver.exact import decode, fold, greedy, layers, program
from scheduler.groups.solver.exact.layers import Layers
from scheduler.groups.solver.tree import Ints, Tree

if TYPE_CHECKING:
    from scheduler.groups.solver.roles.result import RolesResult

# The exact program may use EXACT_PART of the whole time before CP-SAT starts. After TRIAL of that
# it stops if its pace predicts more than HOPELESS times its share; the work is a rough estimate.
# Beyond its share it continues while its pace predicts an end within LAST_PART of the whole time.
EXACT_PART, TRIAL, HOPELESS, LAST_PART = 0.6, 0.25, 3.0, 0.95
# The largest problem that is solved in the calling process; it takes at most about 5 ms.
QUICK_LEAVES, QUICK_SUMS = 600, 1_500_000


def solve(
    instance: Instance, limits: SolveLimits | None = None, solver: Solver = "Auto"
) -> SolverAnswer:
    """Return the best placement, a proof that none exists, or the best known at the time limit.

    `Greedy` is chic-sched's algorithm, for comparison; its answer is never marked optimal. Raises
    InputError if the instance contradicts itself.
    """
    allowed = limits or SolveLimits()
    started = perf_s()
    if solver == "Greedy":
        answer = _greedy(instance, tree.build(instance, with_full=True))
    else:
        tree.check(instance)
        answer = _any_domain(
            fold.folded(instance),
            lambda part: _best(part, allowed, solver, lambda: started + allowed.total_s - perf_s()),
        )
        if not answer.optimal:  # the descent may fail in each domain and succeed in the whole
            answer = _better(answer, _greedy(instance, tree.build(instance, with_full=True)))
    found = checker.problems(instance, answer.counts) if answer.outcome == "placed" else []
    if found:
        raise StateError(f"{answer.solver} gave a wrong answer: {'; '.join(found[:3])}")
    return SolverAnswer(
        answer.outcome, answer.counts, answer.stages, answer.solver, round(perf_s() - started, 6)
    )


def at_once(instance: Instance, limits: SolveLimits) -> SolverAnswer | None:
    """Return the best placement, proven, if the exact program finds it within milliseconds.

    Return None otherwise, also if no placement exists: the advice takes longer. Needs neither
    another process nor CP-SAT.
    """
    if len(instance.leaves) > QUICK_LEAVES:
        return None
    started = perf_s()
    tree.check(instance)
    folded = fold.folded(instance)
    if fold.by_domain(folded) is not None:
        return None
    layered = layers.of(folded)
    if layered is None or sum(program.work(layered.tree)) > QUICK_SUMS:
        return None
    found = _exact(folded, layered, limits, "Auto", lambda: started + limits.total_s - perf_s())
    if found is None or found.outcome != "placed" or checker.problems(instance, found.counts):
        return None
    return msgspec.structs.replace(found, seconds=round(perf_s() - started, 6))


def _any_domain(instance: Instance, best: Callable[[Instance], SolverAnswer]) -> SolverAnswer:
    """Return the best placement; if a rule requires one domain for all members, the best over
    domains.
    """
    parts = fold.by_domain(instance)
    if parts is None:
        return best(instance)
    answers = [_any_domain(part, best) for part in parts]
    placed = [answer for answer in answers if answer.outcome == "placed"]
    open_ones = [answer for answer in answers if not answer.optimal]
    if not placed:
        return open_ones[0] if open_ones else SolverAnswer("infeasible", solver="exact program")
    found = min(placed, key=lambda answer: [stage.value for stage in answer.stages])
    if not open_ones:
        return found
    unproven = tuple(msgspec.structs.replace(stage, bound=NOTHING) for stage in found.stages)
    return msgspec.structs.replace(found, stages=unproven)


def _best(
    instance: Instance, limits: SolveLimits, solver: Solver, left_s: Callable[[], float]
) -> SolverAnswer:
    layered = layers.of(instance)
    known = None
    if layered is not None:
        known = _exact(instance, layered, limits, solver, left_s)
        if solver in ("Auto", "Exact") and known is not None:
            return known
    made = tree.build(instance)
    guess = _greedy(instance, made)
    if solver == "Exact":
        return guess
    if layered is None and solver == "Auto":
        inside = _in_one_unit(instance, limits, left_s)
        if inside.optimal:
            return inside
        guess = inside if guess.outcome != "placed" else _better(guess, inside)
    start = known or guess
    hint = np.array(start.counts, dtype=np.int64) if start.outcome == "placed" else None
    # Loading CP-SAT can take longer than the search; the deadline does not count it.
    loading = perf_s()
    from scheduler.groups.solver.cpsat import onerole

    loaded_s = perf_s() - loading
    found = onerole.program(instance, made, limits, lambda: left_s() + loaded_s, hint)
    return _better(_proven(found, known), guess)


def _in_one_unit(
    instance: Instance, limits: SolveLimits, left_s: Callable[[], float]
) -> SolverAnswer:
    """Return the best placement with all pods in one unit of a packing level; unknown without one.

    Rules over sets of leaves that cross units of the tree may lie within each single unit. If some
    unit takes the whole group, the best placement is among these.
    """
    best, is_proven = SolverAnswer("unknown"), True
    for part, leaves in fold.by_unit(instance):
        if left_s() < (1 - EXACT_PART) * limits.total_s:
            is_proven = False
            break
        layered = layers.of(part)
        if layered is None:
            answer = _in_one_unit(part, limits, left_s)
        else:
            answer = _exact(part, layered, limits, "Auto", left_s) or SolverAnswer("unknown")
        is_proven = is_proven and answer.optimal
        if answer.outcome != "placed" or sum(answer.counts) < instance.size:
            continue
        values = [stage.value for stage in answer.stages]
        if best.outcome != "placed" or values < [stage.value for stage in best.stages]:
            counts = np.zeros(len(instance.leaves), dtype=np.int64)
            counts[list(leaves)] = answer.counts
            best = msgspec.structs.replace(answer, counts=tuple(counts.tolist()))
    if best.outcome != "placed" or is_proven:
        return best
    stages = tuple(msgspec.structs.replace(stage, bound=NOTHING, by="") for stage in best.stages)
    return msgspec.structs.replace(best, stages=stages)


def _exact(
    instance: Instance,
    made: Layers,
    limits: SolveLimits,
    solver: Solver,
    left_s: Callable[[], float],
) -> SolverAnswer | None:
    """Return the exact program's answer, None if it does not end within its share of the time.

    It is stopped early if its pace predicts a far longer run.
    """
    begin = left_s()
    allowed = (1.0 if solver == "Exact" else EXACT_PART) * limits.total_s

    def late(done: float) -> bool:
        spent = begin - left_s()
        if spent > allowed:  # predicted to end soon: it may use the rest of the time
            return spent > LAST_PART * limits.total_s * min(1.0, done)
        return spent > TRIAL * allowed and spent > HOPELESS * allowed * done

    counts = program.program(made, costs.scale_of(made.tree), late)
    if counts is None:
        return None
    if not len(counts):
        return SolverAnswer("infeasible", solver="exact program")
    placed = on_leaves(instance, made.tree, decode.canonical(made.tree, counts))
    stages = tuple(
        SolvedStage(level, measure, value, value, "exact program")
        for level, measure, value in checker.objective(instance, placed)
    )
    return SolverAnswer("placed", placed, stages, "exact program")


def _better(found: SolverAnswer, other: SolverAnswer) -> SolverAnswer:
    """Return the better of an answer with bounds and another without bounds.

    A bound was proven with earlier stages fixed at their values. It holds for the other answer up
    to the first stage in which that answer is better.
    """
    if other.outcome != "placed" or found.outcome == "infeasible" or found.optimal:
        return found
    if found.outcome != "placed":
        return other
    mine, others = ([one.value for one in each.stages] for each in (found, other))
    if mine <= others:
        return found
    first = next(at for at, (a, b) in enumerate(zip(mine, others, strict=True)) if a != b)
    stages = tuple(
        SolvedStage(
            better.level,
            better.measure,
            better.value,
            min(one.bound, better.value) if at <= first else NOTHING,
            one.by if at <= first else "",
        )
        for at, (one, better) in enumerate(zip(found.stages, other.stages, strict=True))
    )
    return msgspec.structs.replace(other, stages=stages)


def _proven(found: RolesResult, known: SolverAnswer | None) -> SolverAnswer:
    """Return CP-SAT's answer, or with `known` the exact program's with the tighter bound per stage.

    Raises StateError if a bound of CP-SAT excludes the placement of the exact program.
    """
    if found.counts is None:
        if found.is_proven:
            return SolverAnswer("infeasible", solver="CP-SAT")
        return known or SolverAnswer("unknown", solver="CP-SAT")
    answer = SolverAnswer("placed", tuple(found.counts.tolist()), found.stages, "CP-SAT")
    if known is None:
        return answer
    stages = []
    for ours, exactly in zip(found.stages, known.stages, strict=True):
        if ours.bound > exactly.value or known.outcome != "placed":
            raise StateError(f"CP-SAT and the exact program disagree about {ours} and {exactly}")
        stages.append(exactly if ours.bound < exactly.value else ours)
    return SolverAnswer("placed", known.counts, _with_values(stages, known.stages), "CP-SAT")


def _with_values(
    stages: list[SolvedStage], values: tuple[SolvedStage, ...]
) -> tuple[SolvedStage, ...]:
    return tuple(
        SolvedStage(one.level, one.measure, best.value, one.bound, one.by)
        for one, best in zip(stages, values, strict=True)
    )


def _greedy(instance: Instance, made: Tree) -> SolverAnswer:
    counts = greedy.place(made)
    placed: Outcome = "placed" if counts is not None else "unknown"
    if counts is None:
        return SolverAnswer(placed, solver="greedy")
    taken = on_leaves(instance, made, counts)
    if checker.problems(instance, taken):
        return SolverAnswer("unknown", solver="greedy")
    stages = tuple(
        SolvedStage(level, measure, value, NOTHING, "")
        for level, measure, value in checker.objective(instance, taken)
    )
    return SolverAnswer(placed, taken, stages, "greedy")


def on_leaves(instance: Instance, made: Tree, counts: Ints) -> tuple[int, ...]:
    """Return the pods per leaf of the instance from those per leaf of the tree."""
    taken = np.zeros(len(instance.leaves), dtype=np.int64)
    taken[made.leaf] = counts
    return tuple(taken.tolist())
