"""`plan`: the fewest moves that reach a goal, with proof, or why there are none.

1. Without moves: the goal may hold already.
2. Conservation test: the largest amount that can become free is compared with the needed one.
3. Bound: the least weight of units that have to leave, whatever their destination.
4. A stronger bound by classes of equal nodes, with the destinations of the units that leave.
5. The model over promising nodes. Where its plan equals the bound, it is optimal for the whole
   cluster.
6. More nodes, up to all of them; then the model's own bound is valid for the cluster.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from scheduler.base.clock import perf_s
from scheduler.moves.solver import bounds
from scheduler.moves.solver.answer import PODS, UNITS, Answer, Found, Move, Stage, Verdict
from scheduler.moves.solver.checker import costs, faults
from scheduler.moves.solver.focus import SMALL, focuses
from scheduler.moves.solver.greedy import first_plans
from scheduler.moves.solver.kinds import Kinds, aggregated
from scheduler.moves.solver.problem import Fit, Problem

FULL_S = 0.6  # the part of the time after which no larger model is begun
CLASSES_S = 0.2  # the part of the remaining time for the bound by node classes


class SearchLimits(NamedTuple):
    """The seconds for one answer, without the time to load CP-SAT, and the seed of the search."""

    seconds: float = 10.0
    seed: int = 0


def plan(problem: Problem, limits: SearchLimits | None = None) -> Answer:
    """Return the plan of least cost for the goal of a problem, verified by the checker.

    Raises RuntimeError if the checker finds a fault, which is a bug of the planner.
    """
    return Planner(expanded(problem), limits or SearchLimits()).answer()


def expanded(problem: Problem) -> Problem:
    """Return the problem with single copies of claims whose roles keep apart from one another."""
    goal = problem.goal
    if not isinstance(goal, Fit):
        return problem
    claims = []
    for claim in goal.claims:
        if claim.apart and len(claim.roles) > 1:
            claims += [claim._replace(copies=1)] * claim.copies
        else:
            claims.append(claim)
    return problem._replace(goal=Fit(tuple(claims)))


class Planner:
    """The stages of one plan: bounds found so far, the model's nodes, the remaining time."""

    def __init__(self, problem: Problem, limits: SearchLimits) -> None:
        self._problem, self._limits = problem, limits
        self._kinds: Kinds = aggregated(problem)
        self._started = perf_s()
        self._best: Found | None = None
        self._first_s = 0.0
        self._bounds: tuple[int, ...] = ()

    def answer(self) -> Answer:
        """Return the answer."""
        self._started = perf_s()
        short = bounds.shortage(self._problem)
        if short is not None:
            return Answer(Verdict.IMPOSSIBLE, shortage=short, seconds=self._spent())
        self._bounds = self._fewest()
        self._start()
        if self._best is not None and self._needs_no_model(self._best):
            return self._planned(self._best)
        if not self._by_class():
            return Answer(self._why_none(), seconds=self._spent())
        if self._best is not None and self._needs_no_model(self._best):
            return self._planned(self._best)
        exhausted = False
        for active, is_all in self._focuses():
            found = self._search(
                self._problem,
                self._kinds,
                active,
                self._left,
                bounds=self._bounds,
                seed=self._limits.seed,
                start=self._best,
            )
            self._take(found, is_all=is_all)
            exhausted = is_all and found.is_infeasible
            if self._is_optimal(is_all=is_all and found.is_known):
                break
        if self._best is not None:
            return self._planned(self._best)
        if exhausted:
            return Answer(self._why_none(), seconds=self._spent())
        return Answer(Verdict.UNKNOWN, seconds=self._spent())

    def _fewest(self) -> tuple[int, ...]:
        """Return lower bounds on the units by priority, from the highest."""
        scale = bounds.weights(self._problem)
        if scale is None or not self._problem.units:
            return ()
        self._departures = bounds.Departures(self._problem, scale)
        return scale.counts(bounds.fewest(self._problem, self._departures))

    def _by_class(self) -> bool:
        """Improve the bounds by node classes; return False if there is no plan."""
        began = perf_s()
        from scheduler.moves.solver.classes import class_bound

        self._started += perf_s() - began
        best = self._best
        units = [one.value for one in best.stages if one.name.startswith(UNITS)] if best else []
        found = class_bound(
            self._problem, CLASSES_S * self._left(), self._limits.seed, tuple(units)
        )
        self._bounds = max(self._bounds, found.units)
        if self._best is not None:
            stages = self._with_bounds(self._best.stages)
            self._best = self._best._replace(stages=stages)
        return not found.is_infeasible

    def _start(self) -> None:
        """Begin with a plan that needs no search, if a simple order gives one."""
        units = {pod: at for at, unit in enumerate(self._problem.units) for pod in unit.pods}
        for moves, placed in first_plans(self._problem):
            values = costs(self._problem, [units[move.pod] for move in moves])
            stages = tuple(Stage(name, value, 0) for name, value in values)
            verdict = Verdict.PLANNED if moves else Verdict.REACHED
            if not faults(self._problem, Answer(verdict, moves, placed, (), stages)):
                self._take(Found(moves, placed, (), stages, is_known=True), is_all=False)
            if self._is_optimal(is_all=False):
                return

    def _focuses(self) -> Iterator[tuple[frozenset[int], bool]]:
        for active in focuses(self._problem):
            is_all = len(active) == len(self._problem.nodes)
            if self._best is not None and self._spent() > FULL_S * self._limits.seconds:
                return
            yield active, is_all

    def _take(self, found: Found, *, is_all: bool) -> None:
        """Store a plan if it is better than the best one so far.

        With `is_all` the plan is for all nodes and its bounds are stored; bounds for some nodes do
        not hold for all.
        """
        if not found.is_known:
            return
        if not is_all:
            found = found._replace(stages=self._with_bounds(found.stages))
        best = self._best
        if best is None:
            self._first_s = self._spent()
        if best is None or _values(found) < _values(best):
            self._best = found
        elif is_all:
            self._best = best._replace(
                stages=tuple(
                    one._replace(bound=min(one.value, other.bound))
                    for one, other in zip(best.stages, found.stages, strict=True)
                )
            )

    def _with_bounds(self, stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
        """Return stages with the bounds that hold for all nodes."""
        found: list[Stage] = []
        for number, stage in enumerate(stages):
            proven = all(one.proven for one in found)
            known = self._bounds[number] if proven and number < len(self._bounds) else 0
            if proven and stage.name == PODS:
                known = sum(one.value for one in found)  # each unit has a pod at least
            found.append(stage._replace(bound=min(stage.value, known)))
        return tuple(found)

    def _needs_no_model(self, found: Found) -> bool:
        """Return whether a plan is proven; lost run time is optimised too if the cluster is
        small.
        """
        is_large = len(self._problem.nodes) > SMALL
        return self._is_optimal(is_all=False) and (is_large or found.stages[-1].proven)

    def _is_optimal(self, *, is_all: bool) -> bool:
        if self._best is None:
            return False
        return is_all or all(stage.proven for stage in self._best.stages[:-1])

    def _planned(self, found: Found) -> Answer:
        verdict = Verdict.PLANNED if found.moves else Verdict.REACHED
        answer = Answer(
            verdict,
            ordered(self._problem, found.moves),
            found.placed,
            found.freed,
            found.stages,
            seconds=self._spent(),
            first_s=self._first_s,
        )
        wrong = faults(self._problem, answer)
        if wrong:
            raise RuntimeError(f"the plan of moves is invalid: {'; '.join(wrong[:5])}")
        return answer

    def _why_none(self) -> Verdict:
        """Return whether moves that wait for one another would reach the goal."""
        everywhere = range(len(self._problem.nodes))
        found = self._search(self._problem, self._kinds, everywhere, self._left, parallel=False)
        if found.is_known:
            return Verdict.CHAINED
        return Verdict.IMPOSSIBLE if found.is_infeasible else Verdict.UNKNOWN

    def _search(self, *args: Any, **options: Any) -> Found:
        """Run the model; the time for loading CP-SAT, about a second, does not count."""
        began = perf_s()
        from scheduler.moves.solver.search import search

        self._started += perf_s() - began
        return search(*args, **options)

    def _spent(self) -> float:
        return perf_s() - self._started

    def _left(self) -> float:
        return self._limits.seconds - self._spent()


def _values(found: Found) -> tuple[int, ...]:
    return tuple(stage.value for stage in found.stages)


def ordered(problem: Problem, moves: tuple[Move, ...]) -> tuple[Move, ...]:
    """Return the moves by source node, so that a prefix of the plan frees whole nodes.

    The node with the fewest remaining pods is first; inside a node the lowest priority leaves
    first. The moves of a group stay together, at its first
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
