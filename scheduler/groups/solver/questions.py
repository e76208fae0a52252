"""The questions that the helper process answers, as records that travel as JSON.

The engine sends them out as the instance of a `Solve` effect; whoever has the solver (the worker
process, or `simulate` in its own) turns one into a `Solution`.
"""

from typing import TypeAlias

import msgspec

from scheduler.groups.solver import conflict, solve
from scheduler.groups.solver.answer import Advice, SolvedVictims, SolverAnswer
from scheduler.groups.solver.instance import Instance, PreemptionInstance, SolveLimits, Solver
from scheduler.groups.solver.kinds import Mixed, MixedAnswer, MixedPreemption


class Place(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag="place"):
    """Place a group; `advise` also asks why, and what would help, when it fits nowhere."""

    instance: Instance
    limits: SolveLimits = SolveLimits()
    solver: Solver = "Auto"
    advise: bool = True


class EvictQuestion(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag="evict"):
    """Find the fewest victims that make room for a group."""

    problem: PreemptionInstance
    limits: SolveLimits = SolveLimits()


class PlaceMixed(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag="placeMixed"):
    """Place a group of unlike members."""

    group: Mixed
    limits: SolveLimits = SolveLimits()


class EvictMixed(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag="evictMixed"):
    """Find the fewest victims that make room for a group of unlike members."""

    problem: MixedPreemption
    limits: SolveLimits = SolveLimits()


Question: TypeAlias = Place | EvictQuestion | PlaceMixed | EvictMixed


class Solution(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The answer to a question; `advice` and `says` are there when a group fits nowhere."""

    placed: SolverAnswer = SolverAnswer("unknown")
    advice: Advice | None = None
    says: str = ""
    victims: SolvedVictims | None = None
    mixed: MixedAnswer | None = None


def answer(question: Question) -> Solution:
    """Answer a question; InputError when it contradicts itself."""
    if isinstance(question, EvictQuestion):
        from scheduler.groups.solver import victims

        return Solution(victims=victims.solve(question.problem, question.limits))
    if isinstance(question, PlaceMixed | EvictMixed):
        from scheduler.groups.solver import mixed

        if isinstance(question, EvictMixed):
            return Solution(mixed=mixed.evict(question.problem, question.limits))
        return _placed_mixed(question)
    placed = solve.solve(question.instance, question.limits, question.solver)
    if placed.outcome != "infeasible" or not question.advise:
        return Solution(placed)
    advice = conflict.explain(question.instance, question.limits)
    size, least = question.instance.size, question.instance.least
    return Solution(placed, advice, conflict.message(advice, size, least))


def at_once(question: Question) -> Solution | None:
    """Answer a small question in milliseconds, as `answer` would; None for one that needs longer."""
    if not isinstance(question, Place) or question.solver != "Auto":
        return None
    placed = solve.at_once(question.instance, question.limits)
    return None if placed is None else Solution(placed)


def _placed_mixed(question: PlaceMixed) -> Solution:
    from scheduler.groups.solver import mixed, mixedconflict

    group = question.group
    found = mixed.solve(group, question.limits)
    if found.outcome != "infeasible" or group.excluded:
        return Solution(mixed=found)  # what was learnt may exclude too much to blame a rule
    advice = mixedconflict.explain(group, question.limits)
    return Solution(mixed=found, advice=advice, says=conflict.reasons(advice, "enough fit"))


def read(payload: bytes) -> Question:
    """Read a question from JSON; msgspec's errors say what is wrong with it."""
    question: Question = msgspec.json.decode(payload, type=Question)
    return question
