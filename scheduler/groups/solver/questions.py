"""The requests that the helper process solves, as JSON records.

The engine sends them as the instance of a `Solve` effect; the process with the solver (the worker
process, or `simulate` in its own) turns one into a `Solution`.
"""

from typing import TypeAlias

import msgspec

from scheduler.groups.problem import conflict
from scheduler.groups.problem.answer import Advice, SolvedVictims, SolverAnswer
from scheduler.groups.problem.instance import Instance, PreemptionInstance, SolveLimits, Solver
from scheduler.groups.problem.roles import GroupAnswer, GroupPreemption, GroupProblem
from scheduler.groups.solver import solve
from scheduler.groups.solver.explain import explain

ADVICE_PART = 0.8


class Place(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag="place"):
    """A request to place a group of one role; with `advise` also to explain why no placement
    exists.
    """

    instance: Instance
    limits: SolveLimits = SolveLimits()
    solver: Solver = "Auto"
    advise: bool = True


class EvictQuestion(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag="evict"):
    """A request for the fewest victims that free capacity for a group of one role."""

    problem: PreemptionInstance
    limits: SolveLimits = SolveLimits()


class PlaceRoles(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag="placeMixed"):
    """A request to place a group of several roles."""

    group: GroupProblem
    limits: SolveLimits = SolveLimits()


class EvictRoles(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag="evictMixed"):
    """A request for the fewest victims that free capacity for a group of several roles."""

    problem: GroupPreemption
    limits: SolveLimits = SolveLimits()


Question: TypeAlias = Place | EvictQuestion | PlaceRoles | EvictRoles


class Solution(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The answer to a request; `advice` and `says` are set if the group fits nowhere."""

    placed: SolverAnswer = SolverAnswer("unknown")
    advice: Advice | None = None
    says: str = ""
    victims: SolvedVictims | None = None
    roles: GroupAnswer | None = msgspec.field(default=None, name="mixed")


def answer(question: Question) -> Solution:
    """Answer a request. Raises InputError if it contradicts itself."""
    if isinstance(question, EvictQuestion):
        from scheduler.groups.solver.victims import onerole

        return Solution(victims=onerole.solve(question.problem, question.limits))
    if isinstance(question, EvictRoles):
        from scheduler.groups.solver.victims import severalroles

        return Solution(roles=severalroles.solve(question.problem, question.limits))
    if isinstance(question, PlaceRoles):
        return _placed_roles(question)
    placed = solve.solve(question.instance, question.limits, question.solver)
    if placed.outcome != "infeasible" or not question.advise:
        return Solution(placed)
    advice = explain(question.instance, _for_advice(question.limits), is_infeasible=True)
    size, least = question.instance.size, question.instance.least
    text = conflict.message(advice, size, least, is_infeasible=True)
    return Solution(placed, advice, text)


def at_once(question: Question) -> Solution | None:
    """Answer a request as `answer` would, or return None if that takes more than milliseconds."""
    if not isinstance(question, Place) or question.solver != "Auto":
        return None
    placed = solve.at_once(question.instance, question.limits)
    return None if placed is None else Solution(placed)


def _placed_roles(question: PlaceRoles) -> Solution:
    from scheduler.groups.solver.roles import heterogeneous

    group = question.group
    found = heterogeneous.solve(group, question.limits)
    if found.outcome != "infeasible" or group.excluded:
        return Solution(roles=found)  # learnt exclusions may be too strict to name a rule
    advice = explain(group, _for_advice(question.limits), is_infeasible=True)
    return Solution(roles=found, advice=advice, says=conflict.reasons(advice, "enough fit"))


def _for_advice(limits: SolveLimits) -> SolveLimits:
    """Return the limits of the advice search; solve and advice take at most 2 `total_s`."""
    return msgspec.structs.replace(limits, total_s=ADVICE_PART * limits.total_s)


def read(payload: bytes) -> Question:
    """Read a request from JSON; errors of msgspec name the invalid field."""
    question: Question = msgspec.json.decode(payload, type=Question)
    return question
