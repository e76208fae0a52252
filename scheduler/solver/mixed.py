"""Groups of unlike members: several kinds of pods, each with its own request, over common leaves.

What is wanted is the most pods, at least `minimum` of them, all in one unit where units are told apart;
`solve` proves that there is no more, or says that it does not know. `evict` finds the fewest victims
that make room for `minimum` pods. A first descent (large pods first, the fullest leaf that takes them)
settles most cases; CP-SAT settles the rest. Called by scheduler.solver.questions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from scheduler.base.clock import perf_s
from scheduler.solver.instance import Budget, Candidate, Limits, Record

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
MEANINGFUL_S = 0.02


class Kind(Record, frozen=True):
    """Like pods: how many there are, what each asks for, and how many of them a leaf takes at most."""

    count: int
    request: tuple[int, ...]
    slots: tuple[int, ...]


class Apart(Record, frozen=True):
    """Two kinds that may not meet in any of `sets` (of leaves); of a kind and itself one pod may be there."""

    sets: tuple[tuple[int, ...], ...]
    first: int
    second: int


class Crowd(Record, frozen=True):
    """Pods that cannot be on a leaf together, on none of `leaves`: so many of each kind, or more."""

    leaves: tuple[int, ...]
    counts: tuple[int, ...]


class Mixed(Record, frozen=True):
    """A group of several kinds; `free` is what each leaf has left of each resource.

    `units` says to which unit each leaf belongs: all pods have to be in one of them.
    """

    kinds: tuple[Kind, ...]
    free: tuple[tuple[int, ...], ...]
    units: tuple[int, ...]
    minimum: int
    apart: tuple[Apart, ...] = ()
    crowds: tuple[Crowd, ...] = ()


class MixedPreemption(Record, frozen=True):
    """A group that does not fit, and who might make room for it; as in `Preemption`, with amounts."""

    group: Mixed
    candidates: tuple[Candidate, ...]
    budgets: tuple[Budget, ...] = ()
    forbid: bool = False


class MixedAnswer(Record, frozen=True):
    """How many pods of each kind go to each leaf, whom that evicts, and whether more is out of reach."""

    outcome: Literal["placed", "infeasible", "unknown"]
    counts: tuple[tuple[int, ...], ...] = ()
    evicted: dict[int, int] = msgspec.field(default_factory=dict)
    optimal: bool = False
    seconds: float = 0.0

    @property
    def pods(self) -> int:
        """Return how many pods are placed."""
        return sum(map(sum, self.counts))


def solve(group: Mixed, limits: Limits) -> MixedAnswer:
    """Return the placement with the most pods, or that fewer than `minimum` fit anywhere."""
    started = perf_s()
    wanted = sum(kind.count for kind in group.kinds)
    best, slack = np.zeros((len(group.kinds), len(group.free)), dtype=np.int64), 0.0
    units = _units(group)
    for leaves in units:
        found, left = _descent(group, leaves)
        if found.sum() > best.sum() or (found.sum() == best.sum() and left < slack):
            best, slack = found, left
    is_proven = int(best.sum()) == wanted
    if not is_proven:
        best, is_proven = _improved(group, units, best, limits, started)
    if best.sum() < max(1, group.minimum):
        outcome: Literal["infeasible", "unknown"] = "infeasible" if is_proven else "unknown"
        return MixedAnswer(outcome, optimal=is_proven, seconds=_since(started))
    return MixedAnswer("placed", _plain(best), optimal=is_proven, seconds=_since(started))


def evict(problem: MixedPreemption, limits: Limits) -> MixedAnswer:
    """Return the least harm that lets `minimum` pods of the group in: budgets, pods, groups."""
    started = perf_s()
    group = problem.group
    best: tuple[tuple[int, ...], Ints, dict[int, int]] | None = None
    is_proven = True
    for leaves in _units(group):
        left = limits.total_s - (perf_s() - started)
        if left < MEANINGFUL_S:
            is_proven = False
            break
        model = _Model(group, leaves, problem)
        harm, is_optimal = model.least_harm(limits, left)
        is_proven = is_proven and is_optimal
        if harm is not None and (best is None or harm < best[0]):
            best = harm, model.counts, model.evicted
    if best is None:
        return MixedAnswer(
            "infeasible" if is_proven else "unknown", optimal=is_proven, seconds=_since(started)
        )
    _, counts, evicted = best
    return MixedAnswer("placed", _plain(counts), evicted, is_proven, _since(started))


def _improved(
    group: Mixed, units: list[Ints], best: Ints, limits: Limits, started: float
) -> tuple[Ints, bool]:
    """Ask CP-SAT of every unit that could hold more than is known; return the best, and if proven."""
    is_proven = True
    bounds = [(_most(group, leaves), number) for number, leaves in enumerate(units)]
    for most, number in sorted(bounds, key=lambda pair: (-pair[0], pair[1])):
        if most <= best.sum() or most < group.minimum:
            break
        left = limits.total_s - (perf_s() - started)
        if left < MEANINGFUL_S:
            return best, False
        model = _Model(group, units[number])
        found, is_optimal = model.most(limits, left, int(best.sum()))
        is_proven = is_proven and is_optimal
        if found is not None and found.sum() > best.sum():
            best = found
    return best, is_proven


def _units(group: Mixed) -> list[Ints]:
    by_unit: dict[int, list[int]] = defaultdict(list)
    for leaf, unit in enumerate(group.units):
        by_unit[unit].append(leaf)
    return [np.array(by_unit[unit], dtype=np.int64) for unit in sorted(by_unit)]


def _most(group: Mixed, leaves: Ints) -> int:
    """Return a number of pods that these leaves cannot exceed."""
    total = 0
    for kind in group.kinds:
        total += min(kind.count, int(np.array(kind.slots, dtype=np.int64)[leaves].sum()))
    return total


def _descent(group: Mixed, leaves: Ints) -> tuple[Ints, float]:
    """Place large pods first, each on the fullest leaf that takes it; return also what is left free."""
    free = np.array(group.free, dtype=np.int64)
    scale = np.maximum(free[leaves].max(axis=0, initial=1), 1)
    counts = np.zeros((len(group.kinds), len(free)), dtype=np.int64)
    banned = np.ones((len(group.kinds), len(free)), dtype=np.bool_)
    banned[:, leaves] = False
    sets = [_set_of(rule.sets, len(free)) for rule in group.apart]
    crowds = [(np.array(one.leaves), np.array(one.counts)) for one in group.crowds]
    sizes = [float((np.array(kind.request) / scale).max(initial=0)) for kind in group.kinds]
    for number in sorted(range(len(group.kinds)), key=lambda at: (-sizes[at], at)):
        kind = group.kinds[number]
        request = np.array(kind.request, dtype=np.int64)
        slots = np.array(kind.slots, dtype=np.int64)
        for _ in range(kind.count):
            fits = ~banned[number] & (slots > counts[number])
            fits &= ((free >= request) | (request == 0)).all(axis=1)
            for those, most in crowds:
                after = counts[:, those]
                after[number] += 1
                fits[those] &= (after < most[:, None]).any(axis=0)
            open_ones = np.flatnonzero(fits)
            if not len(open_ones):
                break
            room = (free[open_ones] / scale).sum(axis=1)
            leaf = int(open_ones[int(room.argmin())])
            counts[number, leaf] += 1
            free[leaf] -= request
            for rule, found in zip(group.apart, sets, strict=True):
                if number in (rule.first, rule.second) and found[leaf] >= 0:
                    other = rule.second if number == rule.first else rule.first
                    banned[other] |= found == found[leaf]
    return counts, float((free[leaves] / scale).sum())


def _set_of(sets: Sequence[Sequence[int]], leaves: int) -> Ints:
    found = np.full(leaves, -1, dtype=np.int64)
    for number, one in enumerate(sets):
        found[list(one)] = number
    return found


class _Model:
    """The pods of each kind on each leaf of one unit, and how many of each candidate go, for CP-SAT."""

    def __init__(
        self, group: Mixed, leaves: Iterable[int], problem: MixedPreemption | None = None
    ) -> None:
        from ortools.sat.python import cp_model

        self._cp_model = cp_model
        self._group = group
        self._problem = problem
        self._cp = cp = cp_model.CpModel()
        self._leaves = [int(leaf) for leaf in leaves]
        self._x: dict[tuple[int, int], Any] = {}
        self._gone: dict[int, Any] = {}
        self.counts: Ints = np.zeros((len(group.kinds), len(group.free)), dtype=np.int64)
        self.evicted: dict[int, int] = {}
        for number, kind in enumerate(group.kinds):
            for leaf in self._leaves:
                most = min(kind.count, kind.slots[leaf])
                if most > 0:
                    self._x[number, leaf] = cp.new_int_var(0, most, f"x{number}_{leaf}")
            mine = [x for (which, _), x in self._x.items() if which == number]
            cp.add(sum(mine) <= kind.count)
        if problem is not None:
            here = set(self._leaves)
            for index, one in enumerate(problem.candidates):
                if here & set(one.freed):
                    self._gone[index] = cp.new_int_var(0, one.count, f"e{index}")
        self._fit()
        self._apart()
        self._crowds()

    def most(self, limits: Limits, seconds: float, known: int) -> tuple[Ints | None, bool]:
        """Return the placement with the most pods above `known`, and whether that is proven."""
        total = sum(self._x.values())
        self._cp.add(total > known)
        self._cp.maximize(total)
        status, solver = self._solved(limits, seconds)
        if status not in (self._cp_model.OPTIMAL, self._cp_model.FEASIBLE):
            return None, bool(status == self._cp_model.INFEASIBLE)
        self._take(solver)
        return self.counts, bool(status == self._cp_model.OPTIMAL)

    def least_harm(self, limits: Limits, seconds: float) -> tuple[tuple[int, ...] | None, bool]:
        """Minimise the harm stage by stage; return its figures (None: no way), and if proven."""
        assert self._problem is not None  # noqa: S101 - for the type checker
        self._cp.add(sum(self._x.values()) >= self._group.minimum)
        until = perf_s() + seconds
        harm: list[int] = []
        is_proven = True
        for stage in self._harms():
            self._cp.minimize(stage)
            status, solver = self._solved(limits, until - perf_s())
            if status not in (self._cp_model.OPTIMAL, self._cp_model.FEASIBLE):
                is_no = status == self._cp_model.INFEASIBLE and not harm
                return (None, bool(is_no)) if not self.counts.any() else (tuple(harm), False)
            self._take(solver)
            value = round(solver.objective_value)
            harm.append(value)
            is_proven = is_proven and status == self._cp_model.OPTIMAL
            self._cp.add(stage <= value)
        return tuple(harm), is_proven

    def _fit(self) -> None:
        """No leaf gives more of anything than is free there and freed there."""
        group, cp = self._group, self._cp
        freed: dict[int, list[tuple[Any, tuple[int, ...]]]] = defaultdict(list)
        for index, variable in self._gone.items():
            assert self._problem is not None  # noqa: S101 - for the type checker
            for leaf, amounts in self._problem.candidates[index].freed.items():
                freed[leaf].append((variable, amounts))
        for leaf in self._leaves:
            here = [(number, x) for (number, at), x in self._x.items() if at == leaf]
            for resource, free in enumerate(group.free[leaf]):
                takes = [
                    group.kinds[number].request[resource] * x
                    for number, x in here
                    if group.kinds[number].request[resource]
                ]
                if not takes:
                    continue
                more = sum(amounts[resource] * variable for variable, amounts in freed[leaf])
                if free >= 0:
                    cp.add(sum(takes) <= free + more)
                    continue
                # An over-committed leaf hurts only those who take it.
                used = cp.new_bool_var("")
                for number, x in here:
                    cp.add(x <= group.kinds[number].count * used)
                cp.add(sum(takes) <= free + more).only_enforce_if(used)

    def _apart(self) -> None:
        cp = self._cp
        for rule in self._group.apart:
            for one in rule.sets:
                first = [x for leaf in one if (x := self._x.get((rule.first, leaf))) is not None]
                if rule.first == rule.second:
                    cp.add(sum(first) <= 1)
                    continue
                second = [x for leaf in one if (x := self._x.get((rule.second, leaf))) is not None]
                if first and second:
                    side = cp.new_bool_var("")
                    for variable in first:
                        cp.add(variable == 0).only_enforce_if(side)
                    for variable in second:
                        cp.add(variable == 0).only_enforce_if(~side)

    def _crowds(self) -> None:
        """Of the pods that cannot be on a leaf together one kind at least has fewer there."""
        for one in self._group.crowds:
            for leaf in set(one.leaves) & set(self._leaves):
                fewer = []
                for number, count in enumerate(one.counts):
                    x = self._x.get((number, leaf))
                    if not count:
                        continue
                    if x is None:
                        break  # none of that kind ever comes here
                    short = self._cp.new_bool_var("")
                    self._cp.add(x <= count - 1).only_enforce_if(short)
                    fewer.append(short)
                else:
                    self._cp.add_bool_or(fewer)

    def _harms(self) -> list[Any]:
        """Return what is to be kept small, the worst first: budgets, pods by priority, groups."""
        problem, cp = self._problem, self._cp
        assert problem is not None  # noqa: S101 - for the type checker
        over = []
        for number, budget in enumerate(problem.budgets):
            gone = [
                problem.candidates[index].budgets[number] * variable
                for index, variable in self._gone.items()
                if number in problem.candidates[index].budgets
            ]
            if gone:
                violated = cp.new_int_var(0, 1 << 30, f"v{number}")
                cp.add(violated >= sum(gone) - budget.allowed)
                over.append(violated)
        if problem.forbid:
            for violated in over:
                cp.add(violated == 0)
        stages: list[Any] = [sum(over)] if over else []
        by_priority: dict[int, list[Any]] = defaultdict(list)
        for index, variable in self._gone.items():
            one = problem.candidates[index]
            by_priority[one.priority].append(one.pods * variable)
        stages += [sum(by_priority[priority]) for priority in sorted(by_priority, reverse=True)]
        stages.append(sum(self._gone.values()) if self._gone else cp.new_constant(0))
        return stages

    def _solved(self, limits: Limits, seconds: float) -> tuple[Any, cp_model.CpSolver]:
        from scheduler.solver.cpsat import solver_for

        solver = solver_for(limits, min(limits.stage_s, seconds))
        return solver.solve(self._cp), solver

    def _take(self, solver: cp_model.CpSolver) -> None:
        self.counts = np.zeros_like(self.counts)
        for (number, leaf), x in self._x.items():
            self.counts[number, leaf] = solver.value(x)
        gone = ((index, solver.value(variable)) for index, variable in self._gone.items())
        self.evicted = {index: count for index, count in gone if count}


def _plain(counts: Ints) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(row) for row in counts.tolist())


def _since(started: float) -> float:
    return round(perf_s() - started, 6)
