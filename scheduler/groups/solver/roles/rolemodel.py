"""The CP-SAT model of a group of unlike members: pods of each kind on each leaf, under the rules of
levels.

x[kind, leaf] counts pods; what a leaf and a unit hold are sums of them, and rules and objectives
speak of these sums only, as for like members. Leaves that nothing tells apart take pods in falling
order, which leaves out what would be the same placement again. Loaded only where solving happens.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from ortools.sat.python import cp_model

from scheduler.groups.problem.roles import GroupProblem
from scheduler.groups.solver.cpsat.variables import domain
from scheduler.groups.solver.roles import rolestages
from scheduler.groups.solver.roles.classmodel import ClassModel
from scheduler.groups.solver.roles.subgroupmodel import PartModel
from scheduler.groups.solver.tree import Ints, Tree, allowed, build

LARGEST_SQUARE = 1 << 40
Freeing: TypeAlias = Callable[[cp_model.CpModel], Mapping[tuple[int, int], Any]]


class RolesModel:
    """The variables and rules of one group.

    Leaves have what is free, and with `freeing` what that says of a (leaf, resource) besides; it
    makes its own variables in the model that it is given. `pods[level][unit]` and
    `used[level][unit]` start with the root; the last level are the leaves of the tree, whose
    numbers in the group are in `leaf`. `is_summed` says that leaves are several each.
    """

    def __init__(
        self, group: GroupProblem, freeing: Freeing | None = None, *, is_summed: bool = False
    ) -> None:
        self.cp = cp_model.CpModel()
        self.group = group
        self.tree: Tree = build(group.alike(is_emptied=freeing is not None), with_full=True)
        self.leaf: list[int] = self.tree.leaf.tolist()
        self.x: dict[tuple[int, int], Any] = {}
        self._make_pods()
        self._add_up()
        self._fit({} if freeing is None else freeing(self.cp))
        self._keep_apart()
        self._thin_excluded()
        self.classes = ClassModel(self.cp, group, self.tree, self.x)
        self.parts = PartModel(self.cp, group, self.tree, self.x)
        if freeing is None and not is_summed:
            self._order_like_leaves()

    def counts(self, solver: cp_model.CpSolver) -> Ints:
        """Return the pods by kind and leaf of a solution."""
        found = np.zeros((len(self.group.kinds), len(self.group.paths)), dtype=np.int64)
        for (kind, leaf), x in self.x.items():
            found[kind, leaf] = solver.value(x)
        return found

    def hint(self, counts: Ints) -> None:
        """Hand the solver a known placement to start from."""
        self.cp.clear_hints()  # type: ignore[no-untyped-call]
        for (kind, leaf), x in self.x.items():
            self.cp.add_hint(x, int(counts[kind, leaf]))

    def _make_pods(self) -> None:
        group, tree, cp = self.group, self.tree, self.cp
        for number, kind in enumerate(group.kinds):
            for leaf in self.leaf:
                most = min(kind.count, kind.slots[leaf])
                if most > 0:
                    self.x[number, leaf] = cp.new_int_var(0, most, f"x{number}_{leaf}")
            mine = [x for (which, _), x in self.x.items() if which == number]
            cp.add(sum(mine) <= kind.count)
        self.pods: list[list[Any]] = [[cp.new_int_var(tree.least, tree.size, "placed")]]
        self.used: list[list[Any]] = [[1]]
        for level in range(1, tree.depth + 1):
            fits = allowed(tree.rule(level), tree.size)
            rooms = tree.slots if level == tree.depth else tree.room[level]
            pods, used = [], []
            for unit, most in enumerate(rooms.tolist()):
                held = int(tree.held[unit]) if level == tree.depth else 0
                pods.append(
                    cp.new_int_var_from_domain(domain(fits, max(most, held)), f"n{level}_{unit}")
                )
                used.append(cp.new_bool_var(f"y{level}_{unit}"))
                cp.add(pods[-1] >= 1).only_enforce_if(used[-1])
                cp.add(pods[-1] == 0).only_enforce_if(~used[-1])
            self.pods.append(pods)
            self.used.append(used)

    def _add_up(self) -> None:
        """Pods add up from kinds to leaves, from leaves to the root; each parent uses its units."""
        tree, cp = self.tree, self.cp
        for position, leaf in enumerate(self.leaf):
            here = [
                self.x[kind, leaf]
                for kind in range(len(self.group.kinds))
                if (kind, leaf) in self.x
            ]
            cp.add(self.pods[tree.depth][position] == sum(here) + int(tree.held[position]))
        for level in range(tree.depth):
            wanted = tree.rule(level + 1).units_per_parent
            starts = tree.starts[level].tolist()
            for unit, pods in enumerate(self.pods[level]):
                below = slice(starts[unit], starts[unit + 1])
                cp.add(sum(self.pods[level + 1][below]) == pods)
                if wanted:
                    cp.add(sum(self.used[level + 1][below]) == wanted * self.used[level][unit])

    def _fit(self, room: Mapping[tuple[int, int], Any]) -> None:
        """No leaf gives more of anything than is free there, and what `room` adds."""
        group, cp = self.group, self.cp
        for leaf in self.leaf:
            here = [
                (kind.request, self.x[number, leaf])
                for number, kind in enumerate(group.kinds)
                if (number, leaf) in self.x
            ]
            for resource, free in enumerate(group.free[leaf]):
                takes = [request[resource] * x for request, x in here if request[resource]]
                if not takes:
                    continue
                more = room.get((leaf, resource), 0)
                if free >= 0:
                    cp.add(sum(takes) <= free + more)
                    continue
                # An over-committed leaf hurts only those who take it.
                takers = [x for request, x in here if request[resource]]
                is_used = cp.new_bool_var("")
                cp.add(sum(takers) == 0).only_enforce_if(~is_used)
                cp.add(sum(takes) <= free + more).only_enforce_if(is_used)

    def _keep_apart(self) -> None:
        cp = self.cp
        for rule in self.group.apart:
            for one in rule.sets:
                first = [x for leaf in one if (x := self.x.get((rule.first, leaf))) is not None]
                if rule.first == rule.second:
                    cp.add(sum(first) <= 1)
                    continue
                second = [x for leaf in one if (x := self.x.get((rule.second, leaf))) is not None]
                if first and second:
                    side = cp.new_bool_var("")
                    cp.add(sum(first) == 0).only_enforce_if(side)
                    cp.add(sum(second) == 0).only_enforce_if(~side)

    def _thin_excluded(self) -> None:
        """Of the pods that cannot be on a leaf together one kind at least has fewer there."""
        here = set(self.leaf)
        for one in self.group.excluded:
            for leaf in (leaf for leaf in one.leaves if leaf in here):
                wanted = [(number, count) for number, count in enumerate(one.counts) if count]
                if any((number, leaf) not in self.x for number, _ in wanted):
                    continue  # one of them never comes here
                fewer = []
                for number, count in wanted:
                    fewer.append(self.cp.new_bool_var(""))
                    self.cp.add(self.x[number, leaf] <= count - 1).only_enforce_if(fewer[-1])
                self.cp.add_bool_or(fewer)

    def _order_like_leaves(self) -> None:
        """Of leaves that nothing tells apart, let the first hold the most."""
        group, tree = self.group, self.tree
        sets_of: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for number, rule in enumerate(group.apart):
            for at, leaves in enumerate(rule.sets):
                for leaf in leaves if len(leaves) > 1 else ():
                    sets_of[leaf].append((number, at))
        for number, combination in enumerate(group.excluded):
            for leaf in combination.leaves:
                sets_of[leaf].append((-1, number))
        talks = group.costs.areas or (0,) * len(group.paths)
        last: dict[Any, int] = {}
        parents = tree.parents(tree.depth).tolist()
        for position, leaf in enumerate(self.leaf):
            slots = tuple(kind.slots[leaf] for kind in group.kinds)
            alone = tuple(any(leaves == (leaf,) for leaves in rule.sets) for rule in group.apart)
            held = int(tree.held[position])
            stands = (talks[leaf], *group.stand(leaf))
            sets = tuple(sets_of[leaf])
            same = (parents[position], group.free[leaf], slots, held, sets, alone, stands)
            if same in last:
                pods = self.pods[tree.depth]
                self.cp.add(pods[last[same]] >= pods[position])
            last[same] = position

    def expression(self, stage: rolestages.RolesStage) -> Any:
        """Return what a stage minimises."""
        level = stage.level
        if stage.measure == "leftOut":
            return self.tree.size - self.pods[0][0]
        if stage.measure == "cost":
            return self.classes.cost()
        if stage.measure in ("units", "leaves"):
            of_classes = (one for at in stage.of for one in self.classes.used(at, level))
            return sum(of_classes if stage.of else self.used[level])
        squares = []
        for pods, most in self._counts(stage):
            square = self.cp.new_int_var(0, min(most * most, LARGEST_SQUARE), "")
            if stage.measure == "large":
                self.cp.add_multiplication_equality(square, [pods, pods])
                squares.append(-square)
                continue
            # The square of a whole number is the least that stands above these tangents.
            for k in range(most):
                self.cp.add(square >= (2 * k + 1) * pods - k * (k + 1))
            squares.append(square)
        return sum(squares)

    def _counts(self, stage: rolestages.RolesStage) -> list[tuple[Any, int]]:
        """Return the pods of each unit that a stage speaks of, and how many they are at most."""
        if stage.of:
            return [
                (pods, max(self.classes.most(at), 1))
                for at in stage.of
                for pods in self.classes.pods(at, stage.level)
            ]
        tree = self.tree
        rooms = tree.slots if stage.level == tree.depth else tree.room[stage.level]
        return [
            (pods, max(int(room), 1))
            for pods, room in zip(self.pods[stage.level], rooms.tolist(), strict=True)
        ]
