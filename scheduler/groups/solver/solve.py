"""The door: an instance in, a checked answer with its proof out.

`Auto` tries the exact program wherever it covers the instance, and CP-SAT when that does not or is
not done in time; `CPSAT` proves with CP-SAT and starts from the exact answer. Whatever is known
when time is over, the best of it is the answer: never one that is worse than the greedy descent's.
No answer leaves here that scheduler.groups.problem.checker objects to.
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

# What part of the time the exact program has before CP-SAT needs the rest; after which part of its
# own it is judged by its pace; how many times too slow it may seem then, for the work is known
# roughly only. Beyond its part it goes on only when it is expected to be done within the last one
# of the whole time.
EXACT_PART, TRIAL, HOPELESS, LAST_PART = 0.6, 0.25, 3.0, 0.95
# Up to which size a problem is solved on the spot, in at most about five milliseconds.
QUICK_LEAVES, QUICK_SUMS = 600, 1_500_000


def solve(
    instance: Instance, limits: SolveLimits | None = None, solver: Solver = "Auto"
) -> SolverAnswer:
    """Return the best placement, or that there is none, or the best known when time is over.

    `Greedy` is chic-sched's algorithm, for comparison; its answer is never called optimal.
    InputError when the instance contradicts itself.
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
        if not answer.optimal:  # the descent may find in the whole what it does not in its parts
            answer = _better(answer, _greedy(instance, tree.build(instance, with_full=True)))
    found = checker.problems(instance, answer.counts) if answer.outcome == "placed" else []
    if found:
        raise StateError(f"{answer.solver} gave a wrong answer: {'; '.join(found[:3])}")
    return SolverAnswer(
        answer.outcome, answer.counts, answer.stages, answer.solver, round(perf_s() - started, 6)
    )


def at_once(instance: Instance, limits: SolveLimits) -> SolverAnswer | None:
    """Return the best placement, proven, where the exact program is done with it in milliseconds.

    None where it is not, and where there is no placement: what would help is a longer question.
    The caller needs neither another process nor CP-SAT for it.
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
    """Return the best answer; when all members have to be in one domain, that of the best
    domain.
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
    # Loading CP-SAT can take longer than the search, so that is not on the search's clock.
    loading = perf_s()
    from scheduler.groups.solver.cpsat import onerole

    loaded_s = perf_s() - loading
    found = onerole.program(instance, made, limits, lambda: left_s() + loaded_s, hint)
    return _better(_proven(found, known), guess)


def _in_one_unit(
    instance: Instance, limits: SolveLimits, left_s: Callable[[], float]
) -> SolverAnswer:
    """Return the best placement with all pods in one unit of a level that packs; unknown without
    one.

    Rules over sets that run across units may lie in the tree within each of them. When any unit
    takes the whole group, the best of all is among these.
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
    """Return the exact program's answer, None when it does not come within its part of the time.

    It is given up early when, at the pace so far, it would take far longer than it may.
    """
    begin = left_s()
    allowed = (1.0 if solver == "Exact" else EXACT_PART) * limits.total_s

    def late(done: float) -> bool:
        spent = begin - left_s()
        if spent > allowed:  # nearly done, it goes on as long as there is time at all
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
    """Return the better of an answer with its bounds and another without any.

    A stage's bound was proven with the stages before it at their values, so it holds for the other
    answer up to the first stage in which that one is better.
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
    """Return CP-SAT's answer; of equally good ones the exact program's, with its proofs for the
    rest.
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
    """Return the counts per leaf of the instance from those of the tree."""
    taken = np.zeros(len(instance.leaves), dtype=np.int64)
    taken[made.leaf] = counts
    return tuple(taken.tolist())
