"""Solves the model stage by stage over a set of active nodes, and decodes the plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ortools.sat.python import cp_model

from scheduler.moves.solver import constraints, goals
from scheduler.moves.solver.answer import LOST, PODS, Found, Move, Placed, Stage
from scheduler.moves.solver.kinds import Kinds
from scheduler.moves.solver.problem import Fit, Problem
from scheduler.moves.solver.variables import Variables

MEANINGFUL_S = 0.01
QUALITY_S = 1.0  # the time for better destinations: no proof depends on it


class Values(NamedTuple):
    """The value of each variable of a solution, by index."""

    numbers: tuple[int, ...]

    def of(self, variable: Any) -> int:
        """Return the value of a variable."""
        return int(self.numbers[variable.index])


class Objective(NamedTuple):
    """A stage: the minimised expression and its known bound."""

    name: str
    expression: Any
    bound: int = 0


def search(
    problem: Problem,
    kinds: Kinds,
    active: Iterable[int],
    left_s: Callable[[], float],
    *,
    bounds: tuple[int, ...] = (),
    parallel: bool = True,
    seed: int = 0,
    start: Found | None = None,
) -> Found:
    """Return the best plan that moves pods between active nodes only; `start` is a known plan.

    `bounds` are known lower bounds of the first stages. The bounds of the result hold for the
    active nodes.
    """
    model = Variables(problem, kinds, active, parallel=parallel)
    constraints.build(model)
    goals.build(model)
    if start is not None:
        begin_with(model, start)
    best: Values | None = None
    stages: list[Stage] = []
    open_stages = True
    for number, stage in enumerate(_objectives(model)):
        known = bounds[number] if open_stages and number < len(bounds) else 0
        if stage.name == PODS and open_stages:
            known = sum(one.value for one in stages)  # each unit has a pod at least
        best, value, lower, verdict = _minimised(model, stage, known, best, left_s, seed)
        if best is None:
            return Found(is_infeasible=verdict == cp_model.INFEASIBLE)
        stages.append(Stage(stage.name, value, min(value, max(lower, known))))
        open_stages = open_stages and stages[-1].proven
        model.cp.add(stage.expression <= value)
    assert best is not None  # noqa: S101 - the stage of lost run time always exists
    best = _better_destinations(model, best, left_s, seed)
    return _decoded(model, best, tuple(stages))


def _objectives(model: Variables) -> list[Objective]:
    problem, kinds = model.problem, model.kinds
    priorities = sorted({unit.priority for unit in problem.units}, reverse=True)
    counts: dict[int, Any] = dict.fromkeys(priorities, 0)
    pods: Any = 0
    for index, variable in model.out.items():
        counts[kinds.kinds[kinds.sources[index].kind].priority] += variable
        pods += variable
    for group, moves in model.moves.items():
        counts[problem.units[group].priority] += moves
        pods += len(problem.units[group].pods) * moves
    return [
        *(Objective(f"units of priority {one}", counts[one]) for one in priorities),
        Objective(PODS, pods),
        Objective(LOST, _lost(model)),
    ]


def _lost(model: Variables) -> Any:
    """Return the lost run time: of the pods of one kind and node, those with the least leave
    first.
    """
    total: Any = 0
    for index, variable in model.out.items():
        units = model.kinds.sources[index].units
        costs = [model.problem.units[unit].cost for unit in units]
        if costs[0] == costs[-1]:
            total += costs[0] * variable
            continue
        leaves = [model.cp.new_bool_var("") for _ in units]
        model.cp.add(sum(leaves) == variable)
        total += sum(cost * one for cost, one in zip(costs, leaves, strict=True))
    for group, moves in model.moves.items():
        total += model.problem.units[group].cost * moves
    return total


def _minimised(
    model: Variables,
    stage: Objective,
    known: int,
    best: Values | None,
    left_s: Callable[[], float],
    seed: int,
) -> tuple[Values | None, int, int, Any]:
    """Minimise one stage: the values, the value of the stage, its lower bound, the status."""
    if isinstance(stage.expression, int):
        if best is not None:
            return best, stage.expression, stage.expression, cp_model.OPTIMAL
    elif best is not None:
        value = _value(stage.expression, best)
        if value <= known or left_s() < MEANINGFUL_S:
            return best, value, known, cp_model.FEASIBLE
    model.cp.minimize(stage.expression)
    if known:
        model.cp.add(stage.expression >= known)
    solver = solver_for(left_s(), seed)
    _hint(model, best)
    status = solver.solve(model.cp)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        best = _values(solver)
    if best is None:
        return None, 0, known, status
    value = _value(stage.expression, best)
    lower = value if status == cp_model.OPTIMAL else max(known, _lower(solver))
    return best, value, lower, status


def solver_for(seconds: float, seed: int) -> cp_model.CpSolver:
    """Return a solver with fixed parameters: one worker, so that equal problems have equal
    solutions.
    """
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed
    # With substitutions OR-Tools 9.15 ended the process (tests/unit/solver/test_presolve.py).
    solver.parameters.presolve_substitution_level = 0
    solver.parameters.max_time_in_seconds = max(0.001, seconds)
    return solver


def _lower(solver: cp_model.CpSolver) -> int:
    bound = solver.best_objective_bound
    return int(bound + 1 - 1e-6) if bound > 0 else 0


def _values(solver: cp_model.CpSolver) -> Values:
    return Values(tuple(solver.response_proto.solution))


def _value(expression: Any, values: Values) -> int:
    """Return the value of a linear expression."""
    if isinstance(expression, int):
        return expression
    flat = cp_model.FlatIntExpr(expression)
    terms = zip(flat.vars, flat.coeffs, strict=True)
    return int(flat.offset + sum(values.of(variable) * factor for variable, factor in terms))


def _hint(model: Variables, best: Values | None) -> None:
    if best is None:
        return  # the hints of a known plan stay
    model.cp.clear_hints()  # type: ignore[no-untyped-call]
    for index, value in enumerate(best.numbers):
        model.cp.add_hint(model.cp.get_int_var_from_proto_index(index), value)


def begin_with(model: Variables, plan: Found) -> None:
    """Hint a known plan to the solver; its pods outside of the model are left out."""
    pods, units = model.problem.pods, model.problem.units
    unit_of = {unit.pods[0]: at for at, unit in enumerate(units) if len(unit.pods) == 1}
    source_of = {unit: at for at, one in enumerate(model.kinds.sources) for unit in one.units}
    gone = {move.pod for move in plan.moves}
    leaving: Counter[int] = Counter()
    arriving: Counter[tuple[int, int]] = Counter()
    for move in plan.moves:
        source = source_of.get(unit_of.get(move.pod, -1))
        if source is not None:
            leaving[source] += 1
            arriving[model.kinds.sources[source].kind, move.target] += 1
    waiting = Counter((one.claim, one.role, one.node) for one in plan.placed)
    for index, variable in model.out.items():
        model.cp.add_hint(variable, leaving[index])
    for pair, variable in model.arrivals.items():
        model.cp.add_hint(variable, arriving[pair])
    for place, variable in model.waiting.items():
        model.cp.add_hint(variable, waiting[place])
    for group, variable in model.moves.items():
        model.cp.add_hint(
            variable, pods[units[group].pods[0]].node >= 0 and units[group].pods[0] in gone
        )


def _better_destinations(
    model: Variables, best: Values, left_s: Callable[[], float], seed: int
) -> Values:
    """Prefer destinations with little free capacity, so that large free shares stay whole."""
    free = _free_shares(model.problem)
    expression: Any = sum(
        free[node] * variable for (_, node), variable in sorted(model.arrivals.items())
    )
    expression += sum(free[key[2]] * variable for key, variable in sorted(model.homes.items()))
    if isinstance(expression, int) or left_s() < MEANINGFUL_S:
        return best
    stage = Objective("free capacity", expression)
    limit = min(QUALITY_S, left_s())
    return _minimised(model, stage, 0, best, lambda: limit, seed)[0] or best


def _free_shares(problem: Problem) -> list[int]:
    """Return the free amounts per node in thousandths of the largest free amount of any node,
    summed.
    """
    most = [
        max(1, *(node.free[at] for node in problem.nodes)) for at in range(len(problem.resources))
    ]
    return [
        sum(1000 * max(0, free) // most[at] for at, free in enumerate(node.free))
        for node in problem.nodes
    ]


def _decoded(model: Variables, best: Values, stages: tuple[Stage, ...]) -> Found:
    moves = [*_single_moves(model, best), *_group_moves(model, best)]
    freed = tuple(sorted(domain for domain, one in model.freed.items() if best.of(one)))
    return Found(tuple(moves), tuple(_placed(model, best)), freed, stages, is_known=True)


def _single_moves(model: Variables, best: Values) -> Iterable[Move]:
    """Match the departures of each kind with its arrivals."""
    targets: dict[int, list[int]] = {}
    for (kind, node), variable in sorted(model.arrivals.items()):
        targets.setdefault(kind, []).extend([node] * best.of(variable))
    for index, variable in sorted(model.out.items()):
        source = model.kinds.sources[index]
        for unit in source.units[: best.of(variable)]:
            target = targets[source.kind].pop(0)
            yield Move(model.problem.units[unit].pods[0], source.node, target)


def _group_moves(model: Variables, best: Values) -> Iterable[Move]:
    for group, roles in sorted(model.group_roles.items()):
        if not best.of(model.moves[group]):
            continue
        for number, members in enumerate(roles):
            targets = [
                node
                for (which, role, node), variable in sorted(model.homes.items())
                if (which, role) == (group, number)
                for _ in range(best.of(variable))
            ]
            for pod, target in zip(members, targets, strict=True):
                yield Move(pod, model.problem.pods[pod].node, target)


def _placed(model: Variables, best: Values) -> Iterable[Placed]:
    """Yield the waiting pods of each domain with their copy of the claim.

    Pods of one role go to the copies in turn, so pods of one node are in different copies.
    """
    goal = model.problem.goal
    if not isinstance(goal, Fit):
        return
    first: Counter[int] = Counter()
    for (claim, domain), variable in sorted(model.copies.items()):
        copies, level = best.of(variable), goal.claims[claim].level
        dealt: Counter[int] = Counter()
        for (which, role, node), waiting in sorted(model.waiting.items()):
            here = 0 if level is None else model.problem.domain(level, node)
            if which == claim and here == domain:
                for _ in range(best.of(waiting)):
                    yield Placed(claim, first[claim] + dealt[role] % copies, role, node)
                    dealt[role] += 1
        first[claim] += copies
