"""The decision variables: how many pods of a kind leave a node or arrive there, which groups move.

All constraints read two lists: `leaving` and `arriving`. Single pods and members of groups are
equal in them. Only `active` nodes take part; pods on the other nodes stay.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from ortools.sat.python import cp_model

from scheduler.moves.solver.amounts import emptied, fitting
from scheduler.moves.solver.kinds import Kinds
from scheduler.moves.solver.problem import Amounts, Fit, Problem

Expression = Any


class Flow(NamedTuple):
    """Pods of equal requests and tags that leave or reach a node: `pods` of at most `most`."""

    node: int
    request: Amounts
    tags: frozenset[str]
    load: int
    pods: Expression
    most: int


class Variables:
    """The model with its variables; constraints, goals and stages add to `cp`."""

    def __init__(
        self, problem: Problem, kinds: Kinds, active: Iterable[int], *, parallel: bool
    ) -> None:
        self.problem, self.kinds, self.parallel = problem, kinds, parallel
        self.active = frozenset(active)
        self.cp = cp_model.CpModel()
        self.out: dict[int, Any] = {}  # by source
        self.arrivals: dict[tuple[int, int], Any] = {}  # by kind and node
        self.moves: dict[int, Any] = {}  # by group
        self.homes: dict[tuple[int, int, int], Any] = {}  # by group, its role, and node
        self.group_roles: dict[int, list[list[int]]] = {}
        self.waiting: dict[tuple[int, int, int], Any] = {}  # by claim, role and node
        self.copies: dict[tuple[int, int], Any] = {}  # by claim and domain
        self.freed: dict[int, Any] = {}  # by domain
        self.leaving: list[Flow] = []
        self.arriving: list[Flow] = []
        self.claimed: list[Flow] = []
        self._singles()
        for group in kinds.groups:
            self._group(group)
        if isinstance(problem.goal, Fit):
            self._claims(problem.goal)

    def fits_now(self, request: Amounts, node: int) -> int:
        """Return how many such pods fit the node while all sources run."""
        return fitting(self.problem.nodes[node].free, request, len(self.problem.pods))

    def _most(self, request: Amounts, node: int) -> int:
        return self.fits_now(request, node) if self.parallel else len(self.problem.pods)

    def _singles(self) -> None:
        totals: Counter[int] = Counter()
        for index, source in enumerate(self.kinds.sources):
            if source.node not in self.active:
                continue
            kind, number = self.kinds.kinds[source.kind], len(source.units)
            out = self.cp.new_int_var(0, number, f"out{index}")
            self.out[index] = out
            totals[source.kind] += number
            self.leaving.append(Flow(source.node, kind.request, kind.tags, kind.load, out, number))
        for number, kind in enumerate(self.kinds.kinds):
            if not totals[number]:
                continue
            for node in sorted(self.problem.destination_sets[kind.destinations] & self.active):
                most = min(totals[number], self._most(kind.request, node))
                if most:
                    into = self.cp.new_int_var(0, most, f"in{number},{node}")
                    self.arrivals[number, node] = into
                    self.arriving.append(Flow(node, kind.request, kind.tags, kind.load, into, most))
        self._conserve(totals)

    def _conserve(self, totals: Iterable[int]) -> None:
        """Give each single pod that leaves a destination other than its own node."""
        out: defaultdict[int, list[Any]] = defaultdict(list)
        into: defaultdict[int, list[Any]] = defaultdict(list)
        for index, variable in self.out.items():
            out[self.kinds.sources[index].kind].append(variable)
        for (kind, _), variable in self.arrivals.items():
            into[kind].append(variable)
        for kind in totals:
            self.cp.add(sum(out[kind]) == sum(into[kind]))
        for index, variable in self.out.items():
            source = self.kinds.sources[index]
            here = self.arrivals.get((source.kind, source.node))
            if here is not None:
                # A departure and an arrival of one kind on one node would only exchange the pods'
                # names.
                leaves = self.cp.new_bool_var(f"leaves{index}")
                self.cp.add(variable == 0).only_enforce_if(~leaves)
                self.cp.add(here == 0).only_enforce_if(leaves)

    def _group(self, group: int) -> None:
        unit = self.problem.units[group]
        pods = [self.problem.pods[pod] for pod in unit.pods]
        if not all(pod.node in self.active for pod in pods):
            return
        moves = self.moves[group] = self.cp.new_bool_var(f"group{group}")
        for pod in pods:
            self.leaving.append(Flow(pod.node, pod.request, pod.tags, pod.load, moves, 1))
        roles: dict[tuple[Amounts, int, frozenset[str], int], list[int]] = {}
        for index, pod in zip(unit.pods, pods, strict=True):
            roles.setdefault((pod.request, pod.destinations, pod.tags, pod.load), []).append(index)
        self.group_roles[group] = list(roles.values())
        at: defaultdict[int, list[Any]] = defaultdict(list)
        for number, ((request, destinations, tags, load), members) in enumerate(roles.items()):
            own = []
            for node in sorted(self.problem.destination_sets[destinations] & self.active):
                most = min(len(members), self._most(request, node))
                if most:
                    into = self.cp.new_int_var(0, most, f"home{group},{number},{node}")
                    self.homes[group, number, node] = into
                    self.arriving.append(Flow(node, request, tags, load, into, most))
                    own.append(into)
                    at[node].append(into)
            self.cp.add(sum(own) == len(members) * moves)
        if unit.level is not None:
            self._one_domain(unit.level, len(pods), at)

    def _one_domain(self, level: int, size: int, at: dict[int, list[Any]]) -> None:
        """Place all pods of a group inside one domain of a level."""
        domains: defaultdict[int, list[Any]] = defaultdict(list)
        for node, variables in at.items():
            domains[self.problem.domain(level, node)] += variables
        chosen = []
        for domain, variables in domains.items():
            if domain < 0:
                self.cp.add(sum(variables) == 0)
                continue
            here = self.cp.new_bool_var("")
            self.cp.add(sum(variables) <= size * here)
            chosen.append(here)
        self.cp.add(sum(chosen) <= 1)

    def _claims(self, goal: Fit) -> None:
        for number, claim in enumerate(goal.claims):
            for at, role in enumerate(claim.roles):
                most = role.number * claim.copies
                for node in sorted(self.problem.destination_sets[role.destinations] & self.active):
                    upper = min(most, self._free_copies(node, role.request))
                    if upper:
                        variable = self.cp.new_int_var(0, upper, f"w{number},{at},{node}")
                        self.waiting[number, at, node] = variable
                        self.claimed.append(Flow(node, role.request, role.tags, 0, variable, upper))

    def _free_copies(self, node: int, request: Amounts) -> int:
        """Return how many such pods fit the node if all movable pods leave it."""
        if not hasattr(self, "_emptied"):
            self._emptied = emptied(self.problem)
        return fitting(self._emptied[node], request, 1 << 20)
