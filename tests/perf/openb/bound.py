"""An upper bound on what any policy can allocate: a linear program over classes of equal nodes.

The sets of shared pods on one device are exact (by column generation); CPU and memory are pooled
per class, and a pod of k devices takes k whole ones of a class with k in a node. Each real
placement is a solution. Arrivals count until their requests equal all devices.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ortools.linear_solver import pywraplp

from tests.perf.openb.data import WHOLE, TraceNode, TracePod

_Class = tuple[str, int, int, int]  # model, devices, milli-cores, MiB
_GAIN = 1e-7
_MOST_ROUNDS = 200


def allocation_bound(nodes: Sequence[TraceNode], arrivals: Sequence[TracePod]) -> float:
    """Return the bound in percent of all devices at 100 % of arrivals, for any subset of them."""
    capacity = sum(node.devices for node in nodes) * WHOLE
    asked, chosen = 0, []
    for pod in arrivals:
        asked += pod.asked
        if asked > capacity:
            break
        chosen.append(pod)
    program = _Program(nodes, Counter(pod for pod in chosen if pod.devices))
    return 100 * program.solved() / capacity


class _Program:
    """The restricted master problem; patterns of devices are added while they improve it."""

    def __init__(self, nodes: Sequence[TraceNode], demand: Mapping[TracePod, int]) -> None:
        kinds = Counter((node.model, node.devices, node.cpu, node.memory) for node in nodes)
        self._classes: list[tuple[_Class, int]] = sorted(kinds.items())
        self._solver = pywraplp.Solver.CreateSolver("GLOP")
        self._patterns: set[tuple[int, tuple[tuple[int, int], ...]]] = set()
        solver, infinity = self._solver, self._solver.infinity()
        self._supply: list[tuple[Any, Any, Any]] = []
        self._sizes: list[dict[int, Any]] = []
        self._arrivals = {pod: solver.Constraint(0, count) for pod, count in demand.items()}
        self._goal = solver.Objective()
        self._goal.SetMaximization()
        for kind, count in self._classes:
            _, devices, cpu, memory = kind
            rows = tuple(solver.Constraint(0, count * each) for each in (devices, cpu, memory))
            self._supply.append((rows[0], rows[1], rows[2]))
            self._sizes.append({})
        for pod in demand:
            for number, (kind, _) in enumerate(self._classes):
                if _fits(pod, kind):
                    self._place(pod, number, infinity)

    def _place(self, pod: TracePod, number: int, infinity: float) -> None:
        """Add the amount of a shape that runs on a class."""
        amount = self._solver.NumVar(0, infinity, "")
        devices, cpu, memory = self._supply[number]
        self._goal.SetCoefficient(amount, pod.asked)
        self._arrivals[pod].SetCoefficient(amount, 1)
        cpu.SetCoefficient(amount, pod.cpu)
        memory.SetCoefficient(amount, pod.memory)
        if pod.milli < WHOLE:
            self._size(number, pod.milli).SetCoefficient(amount, 1)
        else:
            devices.SetCoefficient(amount, pod.devices)

    def _size(self, number: int, milli: int) -> Any:
        """Return the row "shares of one size on a class are at most those in its patterns"."""
        rows = self._sizes[number]
        if milli not in rows:
            rows[milli] = self._solver.Constraint(-self._solver.infinity(), 0)
        return rows[milli]

    def solved(self) -> float:
        """Return the value of the optimum in milli-GPU."""
        for number, rows in enumerate(self._sizes):
            for milli in rows:
                self._add(number, {milli: WHOLE // milli})
        value = 0.0
        for _ in range(_MOST_ROUNDS):
            if self._solver.Solve() != pywraplp.Solver.OPTIMAL:
                raise ArithmeticError("the program of the bound was not solved")
            value = self._goal.Value()
            added = [self._add(number, pattern) for number, pattern in self._improving()]
            if not any(added):
                break
        return value

    def _improving(self) -> list[tuple[int, dict[int, int]]]:
        """Return the best pattern of each class that improves the optimum.

        All are made before one is added: a changed model has no dual values.
        """
        found = []
        for number, rows in enumerate(self._sizes):
            price = self._supply[number][0].dual_value()
            values = {milli: row.dual_value() for milli, row in rows.items()}
            worth, pattern = _knapsack(values)
            if worth > price + _GAIN:
                found.append((number, pattern))
        return found

    def _add(self, number: int, pattern: Mapping[int, int]) -> bool:
        key = (number, tuple(sorted(pattern.items())))
        if key in self._patterns:
            return False
        self._patterns.add(key)
        amount = self._solver.NumVar(0, self._solver.infinity(), "")
        self._supply[number][0].SetCoefficient(amount, 1)
        for milli, times in pattern.items():
            self._sizes[number][milli].SetCoefficient(amount, -times)
        return True


def _fits(pod: TracePod, kind: _Class) -> bool:
    model, devices, cpu, memory = kind
    if pod.models and model not in pod.models:
        return False
    return pod.devices <= devices and pod.cpu <= cpu and pod.memory <= memory


def _knapsack(values: Mapping[int, float]) -> tuple[float, dict[int, int]]:
    """Return the best value of shares on one device, and how many of each size."""
    step = 10 if all(milli % 10 == 0 for milli in values) else 1
    cells = WHOLE // step
    best, last = [0.0] * (cells + 1), [0] * (cells + 1)
    priced = [(milli // step, value) for milli, value in values.items() if value > 0]
    for cell in range(1, cells + 1):
        best[cell] = best[cell - 1]
        for size, value in priced:
            if size <= cell and best[cell - size] + value > best[cell] + 1e-12:
                best[cell], last[cell] = best[cell - size] + value, size
    pattern: Counter[int] = Counter()
    cell = cells
    while cell > 0:
        size = last[cell]
        pattern[size * step] += size > 0
        cell -= size or 1
    return best[cells], {milli: times for milli, times in pattern.items() if times}
