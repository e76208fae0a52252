"""Solver calls of a plan for several roles: when nodes are reserved, how long, and how often.

The problems are replaced, because the calls depend only on their number and on the arguments.
"""

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import numpy as np
import pytest

from scheduler.framework.calls import SolverCall
from scheduler.framework.groups import AssignmentRejection
from scheduler.framework.status import Status
from scheduler.groups.args import ClusterTopologyPlacementGroupArgs
from scheduler.groups.planning import shapes
from scheduler.groups.planning.placements import ROUNDS
from scheduler.groups.planning.roles import heterogeneous, rolemessages
from scheduler.groups.planning.roles.rolesproblem import RolesProblem
from scheduler.groups.problem.roles import GroupAnswer, GroupProblem
from scheduler.groups.solver.questions import EvictRoles, Solution
from scheduler.objects.plain import read_pod
from scheduler.testing import pod

PROBLEM = RolesProblem(GroupProblem((), (), (), (), 1), ("cpu",), (0,), ("n",), {})
ARGS = ClusterTopologyPlacementGroupArgs(
    solver_time_limit_seconds=3.0, preemption_time_limit_seconds=5.0
)


class Members(msgspec.Struct):
    """The members of one role."""


class Task(msgspec.Struct):
    """The task of a group of one role with one member."""

    key: str = "default/g"
    name: str = "g"
    spec: object = None
    tree: object = None
    bound: tuple[object, ...] = ()
    least: int = 1
    shapes: tuple[object, ...] = ()
    roles: tuple[object, ...] = (Members(),)
    context: object = SimpleNamespace(members=("a",), nodes=())

    def left_open(self, text: str) -> str:
        """Return the text with its kind."""
        return f"open: {text}"


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return tools whose budget reports -1 allowed evictions, and replace the problem."""
    monkeypatch.setattr(heterogeneous, "roles_problem", lambda *_args, **_more: PROBLEM)
    monkeypatch.setattr(shapes, "with_parts", lambda found, *_: found)
    monkeypatch.setattr(heterogeneous, "candidates_of", lambda *_: ([], {}, ()))
    budget = SimpleNamespace(
        metadata=SimpleNamespace(namespace="default", name="b"),
        status=SimpleNamespace(disruptions_allowed=-1),
    )
    handle = SimpleNamespace(pods={}, objects=lambda _kind: {"default/b": budget})
    recorder = SimpleNamespace(solved=lambda *_: None, refusal=lambda *_: None)
    return SimpleNamespace(handle=handle, args=ARGS, recorder=recorder)


def test_the_nodes_are_reserved_from_the_second_question_of_a_placement(tools):
    """There are `ROUNDS` solver calls; each may take twice the solver's time limit."""
    placement = heterogeneous.HeterogeneousPlacement(cast(Any, Task()), tools)
    asked = [placement.question() for _ in range(ROUNDS + 1)]
    calls = [one for one in asked if isinstance(one, SolverCall)]

    assert [False, *[True] * (ROUNDS - 1)] == [one.holds for one in calls]
    assert {6.0} == {one.limit_s for one in calls}
    assert isinstance(asked[-1], Status)


def test_the_nodes_are_reserved_from_the_second_question_of_an_eviction(tools):
    """Each solver call may take twice the time limit; a violated budget allows no eviction."""
    eviction = heterogeneous.HeterogeneousEviction(cast(Any, Task()), tools)
    asked = [cast(SolverCall, eviction.question(cast(Any, None))) for _ in range(3)]

    assert [False, True, True] == [one.holds for one in asked]
    assert {10.0} == {one.limit_s for one in asked}
    (budget,) = cast(EvictRoles, asked[0].instance).problem.budgets
    assert ("default/b", 0) == (budget.name, budget.allowed)


def test_a_refusal_after_a_rejection_is_no_proof(tools, monkeypatch):
    """After a rejection, the rules learnt from it may exclude feasible placements. Without a
    rejection, infeasibility is proven.
    """
    refusal = SimpleNamespace(text="it needs more")
    monkeypatch.setattr(rolemessages, "refusal", lambda *_: refusal)
    monkeypatch.setattr(heterogeneous, "learn", lambda *_: None)
    placement = heterogeneous.HeterogeneousPlacement(cast(Any, Task()), tools)
    placement.question()
    none = Solution(roles=GroupAnswer("infeasible"))

    assert isinstance(placement.assigned(none), Status)
    placement.learn({}, AssignmentRejection(np.ones(1, int), read_pod(pod("p")), "n", "taken"))
    assert str(placement.assigned(none)).startswith("open: does not fit: it needs more")
