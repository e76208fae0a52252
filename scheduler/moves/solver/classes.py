"""A bound by node classes: nodes with equal free amounts, pods and destinations are counted.

Stronger than the departures of `bounds`, because each departure needs a destination: a node that
takes waiting pods or becomes free is emptied of them, and the other nodes have free capacity for
the replacements. A relaxation of the model over all nodes, for parallel-safe plans: rules between
pods, levels, limits and the cost of groups are left out, and capacity holds for the nodes of a
class together. A fill of 500 nodes has about 35 classes, so that its optimum is a matter of
milliseconds.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from ortools.sat.python import cp_model

from scheduler.base.clock import perf_s
from scheduler.moves.solver.amounts import emptied, fitting
from scheduler.moves.solver.bounds import Departures
from scheduler.moves.solver.problem import NODE_LEVEL, Amounts, Claim, Fit, Free, Problem
from scheduler.moves.solver.search import solver_for

MOST_PAIRS = 20_000  # classes times kinds: a larger model is as large as that of all nodes


class PodKind(NamedTuple):
    """Movable pods of equal requests and destinations; `priority` is None for pods of groups."""

    request: Amounts
    destinations: int
    priority: int | None


class NodeClass(NamedTuple):
    """`number` nodes that are equal to `first`; `running` counts their pods by kind.

    `may_be_free`: a goal of free nodes may choose them.
    """

    free: Amounts
    running: tuple[tuple[int, int], ...]
    accepts: tuple[bool, ...]  # by set of destinations
    may_be_free: bool
    first: int = 0
    number: int = 0


class ClassBound(NamedTuple):
    """Lower bounds on the moved units by priority from the highest, or that there is no plan."""

    units: tuple[int, ...] = ()
    is_infeasible: bool = False


def class_bound(
    problem: Problem, seconds: float, seed: int, best: tuple[int, ...] | None = None
) -> ClassBound:
    """Return the bound; an empty one for goals and clusters that it does not suit.

    `best` are the units of a known plan: a bound that equals them ends the calculation.
    """
    goal = problem.goal
    if not isinstance(goal, Fit) and not (isinstance(goal, Free) and goal.level == NODE_LEVEL):
        return ClassBound()
    found: tuple[int, ...] = ()
    ends = perf_s() + seconds
    for relaxed in (*_by_resource(problem), problem):
        model = _ClassModel(relaxed)
        left = ends - perf_s()
        if left <= 0 or len(model.classes) * len(model.kinds) > MOST_PAIRS:
            continue
        model.build()
        bound = _minimized(model, left, seed)
        if bound.is_infeasible:
            return bound
        found = max(found, bound.units)
        if found == best:
            break
    return ClassBound(found)


def _by_resource(problem: Problem) -> Iterator[Problem]:
    """Yield the problem with one resource alone, and without the choice of destinations.

    Nodes that differ in amounts which decide nothing are one class then. Only resources that
    waiting pods request, if there are such pods.
    """
    goal = problem.goal
    roles = [role for claim in goal.claims for role in claim.roles] if isinstance(goal, Fit) else []
    everywhere = (frozenset(range(len(problem.nodes))),)
    for at, name in enumerate(problem.resources):
        if roles and not any(role.request[at] for role in roles):
            continue
        pods = (
            pod._replace(request=(pod.request[at],), destinations=0, tags=frozenset())
            for pod in problem.pods
        )
        yield problem._replace(
            resources=(name,),
            nodes=tuple(node._replace(free=(node.free[at],)) for node in problem.nodes),
            pods=tuple(pods),
            destination_sets=everywhere,
            goal=Fit(tuple(_of_resource(claim, at) for claim in goal.claims))
            if isinstance(goal, Fit)
            else goal,
        )


def _of_resource(claim: Claim, at: int) -> Claim:
    return claim._replace(
        roles=tuple(
            role._replace(request=(role.request[at],), destinations=0) for role in claim.roles
        )
    )


def _minimized(model: _ClassModel, seconds: float, seed: int) -> ClassBound:
    """Minimise the units of each priority, given the least numbers of the higher ones."""
    found: list[int] = []
    for expression in model.units():
        if isinstance(expression, int):
            found.append(expression)
            continue
        solver = solver_for(seconds / len(model.priorities), seed)
        model.cp.minimize(expression)
        status = solver.solve(model.cp)
        if status == cp_model.INFEASIBLE:
            return ClassBound(is_infeasible=True)
        if status != cp_model.OPTIMAL:
            found.append(max(0, int(solver.best_objective_bound + 1 - 1e-6)))
            break
        found.append(round(solver.objective_value))
        model.cp.add(expression == found[-1])
    return ClassBound((*found, *[0] * (len(model.priorities) - len(found))))


class _ClassModel:
    """The variables of one bound: departures, arrivals and waiting pods by class."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.priorities = sorted({unit.priority for unit in problem.units}, reverse=True)
        self.cp = cp_model.CpModel()
        self.kinds: list[PodKind] = []
        self.classes = self._classified()
        self._departures = Departures(problem, None)
        self._emptied = emptied(problem)
        self._out: defaultdict[int, list[Any]] = defaultdict(list)  # by kind
        self._into: defaultdict[int, list[Any]] = defaultdict(list)
        self._waiting: defaultdict[tuple[int, int], list[Any]] = defaultdict(list)
        self._freed: list[Any] = []

    def _classified(self) -> list[NodeClass]:
        problem, goal = self.problem, self.problem.goal
        numbers: dict[PodKind, int] = {}
        running: defaultdict[int, Counter[int]] = defaultdict(Counter)
        for unit in problem.units:
            for at in unit.pods:
                pod = problem.pods[at]
                priority = unit.priority if len(unit.pods) == 1 else None
                kind = PodKind(pod.request, pod.destinations, priority)
                running[pod.node][numbers.setdefault(kind, len(numbers))] += 1
        self.kinds = list(numbers)
        used = {kind.destinations for kind in self.kinds}
        if isinstance(goal, Fit):
            used |= {role.destinations for claim in goal.claims for role in claim.roles}
        sets = [problem.destination_sets[one] for one in sorted(used)]
        self._sets = {one: at for at, one in enumerate(sorted(used))}
        able = frozenset(goal.domains) if isinstance(goal, Free) else frozenset()
        found: Counter[NodeClass] = Counter()
        first: dict[NodeClass, int] = {}
        for at, node in enumerate(problem.nodes):
            own = tuple(sorted(running[at].items()))
            accepts = tuple(at in one for one in sets)
            key = NodeClass(node.free, own, accepts, at in able and not node.pinned)
            found[key] += 1
            first.setdefault(key, at)
        return [one._replace(first=first[one], number=count) for one, count in found.items()]

    def units(self) -> Iterator[Any]:
        """Yield the number of moved single pods of each priority."""
        for priority in self.priorities:
            own = (at for at, kind in enumerate(self.kinds) if kind.priority == priority)
            yield sum(one for at in own for one in self._out[at])

    def build(self) -> None:
        """Add all variables and constraints."""
        goal = self.problem.goal
        for one in self.classes:
            self._class(one)
        for at, kind in enumerate(self.kinds):
            if kind.priority is not None:  # the destinations of groups are left out
                self.cp.add(sum(self._out[at]) == sum(self._into[at]))
        if isinstance(goal, Free):
            self.cp.add(sum(self._freed) >= goal.number)
            return
        for number, claim in enumerate(goal.claims if isinstance(goal, Fit) else ()):
            for at, role in enumerate(claim.roles):
                self.cp.add(sum(self._waiting[number, at]) == role.number * claim.copies)

    def _class(self, one: NodeClass) -> None:
        """Divide the nodes of a class into those that the goal uses, and the others.

        A pod leaves only a node that is used: replacements fit while all sources run, so that the
        departure from another node frees nothing.
        """
        used = self.cp.new_int_var(0, one.number, "")
        out = {}
        for kind, count in one.running:
            out[kind] = self.cp.new_int_var(0, one.number * count, "")
            self.cp.add(out[kind] <= count * used)
            self._out[kind].append(out[kind])
        if isinstance(self.problem.goal, Free):
            self._free(one, used, out)
            self._arrivals(one, one.number - used)
            return
        wanted = self._claims(one, used, out)
        arriving = self._arrivals(one, used)
        self._arrivals(one, one.number - used)
        for resource, free in enumerate(one.free):
            needs = _amounts(wanted, resource)
            if needs and free >= 0:
                gone = [pods * self.kinds[kind].request[resource] for kind, pods in out.items()]
                taken = sum(needs) + sum(_amounts(arriving, resource))
                self.cp.add(taken <= free * used + sum(gone))

    def _free(self, one: NodeClass, used: Any, out: dict[int, Any]) -> None:
        if not one.may_be_free:
            self.cp.add(used == 0)
        for kind, count in one.running:
            self.cp.add(out[kind] == count * used)
        self._freed.append(used)

    def _claims(self, one: NodeClass, used: Any, out: dict[int, Any]) -> list[tuple[Amounts, Any]]:
        """Add the waiting pods on used nodes, each with the departures that it needs at least."""
        goal, found = self.problem.goal, []
        for number, claim in enumerate(goal.claims if isinstance(goal, Fit) else ()):
            for at, role in enumerate(claim.roles):
                most = claim.copies * (1 if claim.apart else role.number)
                most = fitting(self._emptied[one.first], role.request, most)
                if not most or not one.accepts[self._sets[role.destinations]]:
                    continue
                # steps[k]: how many nodes of the class have more than k of these pods.
                steps = [self.cp.new_int_var(0, one.number, "") for _ in range(most)]
                self.cp.add(steps[0] <= used)
                for more, fewer in pairwise(steps):
                    self.cp.add(fewer <= more)
                least = self._departures.least(one.first, role.request, most)
                needed = sum(
                    (after - before) * step
                    for step, (before, after) in zip(steps, pairwise(least), strict=True)
                )
                self.cp.add(sum(out.values()) >= needed)
                self._waiting[number, at].append(sum(steps))
                found.append((role.request, sum(steps)))
        return found

    def _arrivals(self, one: NodeClass, number: Any) -> list[tuple[Amounts, Any]]:
        """Add the replacements that fit `number` nodes of a class beside all sources."""
        found = []
        for at, kind in enumerate(self.kinds):
            most = fitting(one.free, kind.request, len(self.problem.pods))
            if kind.priority is None or not most or not one.accepts[self._sets[kind.destinations]]:
                continue
            into = self.cp.new_int_var(0, one.number * most, "")
            self.cp.add(into <= most * number)
            self._into[at].append(into)
            found.append((kind.request, into))
        for resource, free in enumerate(one.free):
            self._packed(found, resource, max(0, free), number)
        return found

    def _packed(
        self, arriving: list[tuple[Amounts, Any]], resource: int, free: int, number: Any
    ) -> None:
        """Keep arrivals within the free amount, counted in units of each of their sizes.

        A node with 5 free GPUs takes one pod of 4 GPUs, though two nodes have 10 of them together.
        """
        sizes = {request[resource] for request, _ in arriving} - {0}
        for size in sorted({1, *sizes} if sizes else ()):
            taken = [pods * (request[resource] // size) for request, pods in arriving]
            self.cp.add(sum(taken) <= free // size * number)


def _amounts(pods: list[tuple[Amounts, Any]], resource: int) -> list[Any]:
    return [number * request[resource] for request, number in pods if request[resource]]
