"""A lower bound of the traffic cost of a group, over all placements.

Pods on one leaf exchange traffic at no cost; other pairs pay at least the cheapest path. A bound of
the traffic inside leaves therefore bounds the cost. That bound is a linear program over patterns
(the pods of one leaf by role), solved by column generation. Any dual prices give a valid bound:
each leaf's best traffic minus prices, summed in integers, so rounding does not invalidate it. The
cases of used areas are enumerated: one, two, or more areas; several areas also pay for the traffic
they cut. All other rules are ignored, which only lowers the bound. Loaded only in the solver
process.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray
from ortools.linear_solver import pywraplp
from ortools.sat.python import cp_model

from scheduler.groups.problem.instance import SolveLimits
from scheduler.groups.problem.roles import GroupProblem
from scheduler.groups.solver import tree
from scheduler.groups.solver.cpsat.run import MEANINGFUL_S, solver_for
from scheduler.groups.solver.traffic.leastcut import least_cut
from scheduler.groups.solver.traffic.neighbours import MOST_DENSE, TrafficPrices
from scheduler.groups.solver.tree import Ints

# The limit of patterns; roles are omitted above it, those with the least traffic first.
MOST_PATTERNS = 250_000
MOST_ROUNDS = 80
# The limit of patterns for the exact search.
MOST_NEAR = 5_000
# The cost of a pair in a case with a single leaf: no path to another leaf exists.
FORBIDDEN = 1 << 20
# Prices are integers in units of 1/PARTS, so that sums of them are exact.
PARTS = 256
Floats: TypeAlias = NDArray[np.float64]


def least(group: GroupProblem, value: int, limits: SolveLimits, left_s: Callable[[], float]) -> int:
    """Return a lower bound of the traffic cost of all pods, at most `value`.

    `value` is the cost of a known placement that places all pods. Return 0 if the costs are
    unsupported. After the time limit, return the bound found so far.
    """
    if not group.traffic or not 0 < len(group.paths) <= MOST_DENSE or value <= 0:
        return 0
    costs = TrafficPrices(group)
    prices = costs.between
    if prices is None or (prices < 0).any():
        return 0
    traffic = _Traffic(group, costs)
    everywhere, *cases = _cases(traffic, prices, _blocks(group))
    at_least = _paid(traffic, everywhere, 0, value, None, left_s)
    found = value
    for case in sorted(cases, key=lambda case: case.cut):
        if max(case.cut, at_least) >= found:
            break
        if left_s() <= 0:
            return max(case.cut, at_least)
        found = min(found, _paid(traffic, case, at_least, found, limits, left_s))
    return found


def _paid(
    traffic: _Traffic,
    case: _Case,
    known: int,
    value: int,
    limits: SolveLimits | None,
    left_s: Callable[[], float],
) -> int:
    """Return a lower bound of the cost in one case, from `known` up to `value`.

    With `limits` the linear bound is replaced by an exact search if that ends in time. A bound of
    `value` or more excludes the case, so it is cut to `value`.
    """
    if not case.cheapest:
        return min(value, max(known, case.cut))
    # A placement that costs less than `value` keeps at least this traffic inside leaves.
    needed = traffic.total - (value - 1 - case.cut) // case.cheapest
    prices = _Prices(traffic, traffic.like(case.leaves), needed)
    kept = prices.found(left_s)
    if kept >= needed and limits is not None:
        kept = min(kept, prices.exactly(kept, limits, left_s))
    return min(value, max(known, case.cut + case.cheapest * max(0, traffic.total - kept)))


class _Case(msgspec.Struct, frozen=True):
    """One case of used blocks and its leaves.

    Traffic between two leaves costs at least `cheapest`; the division into blocks adds at least
    `cut` in total.
    """

    leaves: list[int]
    cheapest: int
    cut: int


def _blocks(group: GroupProblem) -> list[list[int]]:
    """Return the leaves by area, or by unit of the level that costs most to cross."""
    found: dict[object, list[int]] = defaultdict(list)
    steps = group.costs.steps[: len(group.levels) - 1]
    level = 1 + max(range(len(steps)), key=steps.__getitem__, default=0)
    for leaf, path in enumerate(group.paths):
        area = group.costs.areas[leaf] if group.costs.areas else -1
        found[area, tree.filled(path, len(group.levels))[:level] if steps else ()].append(leaf)
    return list(found.values())


def _cases(traffic: _Traffic, prices: Floats, blocks: Sequence[list[int]]) -> list[_Case]:
    """Return the case of all leaves first, then each block, each pair, and three or more blocks."""
    cheap = np.minimum(prices, prices.T)
    np.fill_diagonal(cheap, np.inf)
    between = np.array([[cheap[np.ix_(a, b)].min() for b in blocks] for a in blocks])
    inside = between.diagonal().copy()
    fixed = {at for at, leaves in enumerate(blocks) if traffic.fixed[:, leaves].any()}
    least = cheap.min() if len(prices) > 1 else 0.0
    found = [_Case(list(range(len(prices))), int(least), 0)]
    for number in (1, 2):
        for used in itertools.combinations(range(len(blocks)), number):
            leaves = [leaf for at in used for leaf in blocks[at]]
            if not fixed <= set(used):
                continue
            least = between[np.ix_(used, used)].min()
            step = int(least) if np.isfinite(least) else FORBIDDEN
            more = int(between[used[0], used[1]]) - step if number == 2 else 0
            found.append(_Case(leaves, step, more * traffic.cut))
    if len(blocks) > 2:
        np.fill_diagonal(between, np.inf)
        step = int(min(inside.min(), between.min()))
        three = int(sum(sorted(between.min(axis=0).astype(int).tolist())[:3])) - 3 * step
        found.append(_Case(list(range(len(prices))), step, (three * traffic.cut + 1) // 2))
    return found


class _Traffic:
    """The traffic between roles, and the patterns of pods that a leaf may take."""

    def __init__(self, group: GroupProblem, costs: TrafficPrices) -> None:
        self.group = group
        of = costs.of_classes
        # [from, to] by role: floats with integer values, so sums are exact.
        self._weights = (of.T @ costs.weights @ of).astype(np.float64)
        self._loops = (of.T @ costs.weights.diagonal()).astype(np.float64)
        # Bound pods count as pods of the first role of their class.
        roles, leaves = len(group.roles), len(group.paths)
        self.fixed = np.zeros((roles, leaves), dtype=np.int64)
        for one in group.classes:
            if one.fixed and one.roles:
                self.fixed[one.roles[0]] += np.array(one.fixed, dtype=np.int64)
        self._counts = np.array([role.count for role in group.roles], dtype=np.int64)
        self._requests = np.array([role.request for role in group.roles], dtype=np.int64)
        self._slots = np.array([role.slots for role in group.roles], dtype=np.int64)
        self._free = np.array(group.free, dtype=np.int64).reshape(leaves, -1).clip(min=0)
        rows, self._needs = self._patterns()
        self._rows = rows.astype(np.float64)
        self._open = (self._rows > 0).any(axis=0)
        whole = np.where(self._open, self._counts, 0)
        self.total = int(
            self._traffic((whole + self.fixed.sum(axis=1))[None, :].astype(np.float64))[0]
        )
        # The minimum traffic between two parts of the pods.
        between = (self._weights + self._weights.T).astype(np.int64)
        self.cut = least_cut(between, self._counts + self.fixed.sum(axis=1))
        self._taken = self._traffic(self._rows)

    def _traffic(self, rows: Floats) -> Floats:
        """Return the traffic among the pods of each row."""
        return np.asarray(((rows @ self._weights) * rows).sum(axis=1) - rows @ self._loops)

    def _patterns(self) -> tuple[Ints, Ints]:
        """Return the patterns that fit the largest leaf [pattern, role], and their requests."""
        roles = len(self._counts)
        largest, most = self._free.max(axis=0), np.minimum(self._slots.max(axis=1), self._counts)
        rows, needs = np.zeros((1, roles), np.int64), np.zeros((1, self._free.shape[1]), np.int64)
        busy = self._weights + self._weights.T
        loud = (busy @ self._counts) * self._counts
        for number in sorted(range(roles), key=lambda role: (-int(loud[role]), role)):
            if len(rows) * (int(most[number]) + 1) > MOST_PATTERNS * 4:
                continue
            more = np.arange(most[number] + 1)
            sums = np.repeat(needs, len(more), axis=0)
            sums += np.tile(more, len(rows))[:, None] * self._requests[number]
            fits = (sums <= largest).all(axis=1)
            if int(fits.sum()) > MOST_PATTERNS:
                continue
            wider = np.repeat(rows, len(more), axis=0)
            wider[:, number] = np.tile(more, len(rows))
            rows, needs = wider[fits], sums[fits]
        return rows, needs

    def like(self, leaves: Sequence[int]) -> list[_Leaves]:
        """Return the leaves grouped by equal capacity and bound pods."""
        equal: dict[bytes, list[int]] = defaultdict(list)
        for leaf in leaves:
            same = (self._free[leaf], self._slots[:, leaf], self.fixed[:, leaf])
            equal[b"".join(one.tobytes() for one in same)].append(leaf)
        return [_Leaves(self, those) for those in equal.values()]

    def may(self, leaf: int) -> Ints:
        """Return the indices of the patterns that fit a leaf."""
        fits = (self._needs <= self._free[leaf]).all(axis=1)
        return np.flatnonzero(fits & (self._rows <= self._slots[:, leaf]).all(axis=1))

    def values(self, leaf: int, rows: Ints) -> Floats:
        """Return the traffic inside a leaf for some patterns, with that of its bound pods."""
        fixed = self.fixed[:, leaf]
        return self._traffic(self._rows[rows] + fixed) if fixed.any() else self._taken[rows]

    @property
    def rows(self) -> Floats:
        """Return the patterns [pattern, role]."""
        return self._rows

    @property
    def wanted(self) -> Ints:
        """Return the number of pods of each role, 0 for roles omitted from the patterns."""
        return np.where(self._open, self._counts, 0)


class _Leaves:
    """Equal leaves: the patterns that each may take, and the traffic that each keeps inside."""

    def __init__(self, traffic: _Traffic, leaves: Sequence[int]) -> None:
        self.number = len(leaves)
        self.may = traffic.may(leaves[0])
        self.values = traffic.values(leaves[0], self.may)


class _Prices:
    """The linear program: prices of roles that minimise the bound of traffic inside leaves."""

    def __init__(self, traffic: _Traffic, types: Sequence[_Leaves], needed: int) -> None:
        self._traffic, self._types, self._needed = traffic, types, needed
        self._solver = pywraplp.Solver.CreateSolver("GLOP")
        self._solver.Objective().SetMaximization()
        self._places = [self._solver.Constraint(0, one.number) for one in types]
        self._roles = [self._solver.Constraint(float(n), float(n)) for n in traffic.wanted]
        self._best, self._prices = np.inf, np.zeros(len(self._roles))
        for constraint in self._roles:
            for sign in (1, -1):
                spare = self._solver.NumVar(0, self._solver.infinity(), "")
                constraint.SetCoefficient(spare, sign)
                self._solver.Objective().SetCoefficient(spare, -1 - traffic.total)

    def found(self, left_s: Callable[[], float]) -> int:
        """Return an upper bound of the traffic inside leaves.

        The search stops once the bound is below `needed`: that decides the case.
        """
        for _ in range(MOST_ROUNDS):
            if self._solver.Solve() != pywraplp.Solver.OPTIMAL:
                break
            duals = [constraint.dual_value() for constraint in self._roles]
            reached = self._solver.Objective().Value()
            added = self._price(np.rint(np.array(duals) * PARTS))
            is_met = np.floor(reached + 1e-6) >= self._best // PARTS
            if self._best // PARTS < self._needed or is_met or not added or left_s() <= 0:
                break
        return int(min(self._best // PARTS, self._traffic.total))

    def _price(self, prices: Floats) -> bool:
        """Compute the bound of these prices, and add the best pattern of each leaf as a column.

        Return whether a column was added.
        """
        paid = self._traffic.rows @ prices
        rents = [place.dual_value() for place in self._places]
        limit, added = float(prices @ self._traffic.wanted), False
        for one, place, rent in zip(self._types, self._places, rents, strict=True):
            worth = PARTS * one.values - paid[one.may]
            at = int(worth.argmax())
            limit += one.number * float(worth[at])
            if worth[at] > PARTS * rent + 1:
                added = True
                self._add(one, place, at)
        if limit < self._best:
            self._best, self._prices = limit, prices
        return added

    def _add(self, one: _Leaves, place: pywraplp.Constraint, at: int) -> None:
        column = self._solver.NumVar(0, self._solver.infinity(), "")
        place.SetCoefficient(column, 1)
        self._solver.Objective().SetCoefficient(column, float(one.values[at]))
        row = self._traffic.rows[one.may[at]]
        for role in np.flatnonzero(row).tolist():
            self._roles[role].SetCoefficient(column, float(row[role]))

    def exactly(self, kept: int, limits: SolveLimits, left_s: Callable[[], float]) -> int:
        """Return the most traffic inside leaves, by CP-SAT over the patterns that may reach
        `needed`.

        A pattern whose reduced value is below the leaf's best by more than the slack of the bound
        is in no such placement. Return `kept` if the patterns are too many or the time limit is
        reached.
        """
        spare = self._best - PARTS * self._needed
        paid = self._traffic.rows @ self._prices
        worth = [PARTS * one.values - paid[one.may] for one in self._types]
        near = [np.flatnonzero(each >= each.max() - spare) for each in worth]
        left = min(left_s(), limits.stage_s)
        if sum(map(len, near)) > MOST_NEAR or left <= MEANINGFUL_S:
            return kept
        cp = cp_model.CpModel()
        terms: list[Any] = []
        rows: list[list[Any]] = [[] for _ in self._roles]
        for one, those in zip(self._types, near, strict=True):
            taken = [cp.new_int_var(0, one.number, "") for _ in those]
            cp.add(sum(taken) == one.number)
            for at, y in zip(those.tolist(), taken, strict=True):
                terms.append(int(one.values[at]) * y)
                row = self._traffic.rows[one.may[at]]
                for role in np.flatnonzero(row).tolist():
                    rows[role].append(int(row[role]) * y)
        for row_of, number in zip(rows, self._traffic.wanted.tolist(), strict=True):
            cp.add(sum(row_of) == number)
        inside = sum(terms)
        cp.add(inside >= self._needed)
        cp.maximize(inside)
        solver = solver_for(limits, left)
        status = solver.solve(cp)
        if status == cp_model.INFEASIBLE:
            return self._needed - 1
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return min(kept, int(np.floor(solver.best_objective_bound + 1e-6)))
        return kept
