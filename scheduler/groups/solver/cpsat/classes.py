"""The rules and traffic costs of classes in the CP-SAT model.

The pods of a class on a unit are a sum of the model's variables, created when a rule or cost needs
it. A level's step is a cost of all pairs except those inside one unit, so the traffic of two
classes needs one product per unit of the level. Traffic between areas needs one product per area:
its pods of one class times the cost from there of all pods of the other. Loaded only in the solver
process.
"""

from typing import Any

from scheduler.groups.problem.classes import ClassRule, PairRule, PathLimit, Traffic
from scheduler.groups.solver.cpsat.domains import values_of
from scheduler.groups.solver.cpsat.leaves import LeafModel, LeafVariables
from scheduler.groups.solver.roles.linkflows import FlowModel
from scheduler.groups.solver.tree import allowed


class ClassModel(LeafModel):
    """The variables of the classes of a group over x[role, leaf]; level 0 is the root."""

    def __init__(self, variables: LeafVariables) -> None:
        super().__init__(variables)
        self._fixed = [one.fixed or (0,) * len(self._group.paths) for one in self._group.classes]
        self._pods: dict[tuple[int, int], list[Any]] = {}
        self._used: dict[tuple[int, int], list[Any]] = {}
        for number in range(len(self._group.classes)):
            self._bound(number)
        for rule in self._group.between:
            self._relate(rule)
        self._by_area: dict[int, dict[int, Any]] = {}
        self._comes: dict[tuple[int, int], Any] = {}
        for limit in self._group.limits:
            self._limit(limit)
        if self._group.links:
            FlowModel(self._cp, self._group, self._areas, self._times)

    def pods(self, number: int, level: int) -> list[Any]:
        """Return the pods of a class on each unit of a level, fixed ones included."""
        key = number, level
        if key not in self._pods:
            self._pods[key] = [
                self._sum(number, leaves, f"c{number}_{level}_{unit}")
                for unit, leaves in enumerate(self._leaves(level))
            ]
        return self._pods[key]

    def used(self, number: int, level: int) -> list[Any]:
        """Return for each unit of a level a variable: 1 if the class has pods there."""
        key = number, level
        if key not in self._used:
            self._used[key] = []
            for pods in self.pods(number, level):
                used = self._cp.new_bool_var("")
                self._cp.add(pods >= 1).only_enforce_if(used)
                self._cp.add(pods == 0).only_enforce_if(~used)
                self._used[key].append(used)
        return self._used[key]

    def cost(self) -> Any:
        """Return the cost of all traffic as an expression."""
        terms = [one.weight * self._cost(one) for one in self._group.traffic if one.weight]
        return sum(terms) if terms else self._cp.new_constant(0)

    def pairs(self, traffic: Traffic) -> Any:
        """Return the number of pairs of pods with traffic; of one class n², a pod with itself
        included.
        """
        return self._times(self.pods(traffic.first, 0)[0], self.pods(traffic.second, 0)[0])

    def most(self, number: int) -> int:
        """Return the largest number of pods that a class can have."""
        one = self._group.classes[number]
        return sum(self._group.roles[role].count for role in one.roles) + sum(self._fixed[number])

    def _sum(self, number: int, leaves: list[int], name: str) -> Any:
        """Return a variable for the pods of a class on these leaves."""
        one, x = self._group.classes[number], self._x
        here = [(role, leaf) for leaf in leaves for role in one.roles if (role, leaf) in x]
        fixed = sum(self._fixed[number][leaf] for leaf in leaves)
        roles = self._group.roles
        capacity = sum(min(roles[role].slots[leaf], roles[role].count) for role, leaf in here)
        pods = self._cp.new_int_var(fixed, min(fixed + capacity, self.most(number)), name)
        self._cp.add(pods == sum(x[key] for key in here) + fixed)
        return pods

    def _bound(self, number: int) -> None:
        one = self._group.classes[number]
        fixed = sum(self._fixed[number])
        if one.minimum or one.maximum:
            total = self.pods(number, 0)[0]
            self._cp.add(total >= one.minimum)
            if one.maximum:
                self._cp.add(total <= max(one.maximum, fixed))
        for each in one.rules:
            self._rule(number, each)

    def _rule(self, number: int, own: ClassRule) -> None:
        """Add the rule of a class at a level: counts per used unit, used units per used parent."""
        level, rule = own.level + 1, own.rule
        fits = values_of(allowed(rule, self.most(number)), self.most(number))
        for pods in self.pods(number, level):
            self._cp.add_linear_expression_in_domain(pods, fits)
        if not rule.units_per_parent:
            return
        starts = self._tree.starts[level - 1].tolist()
        used = self.used(number, level)
        for unit, above in enumerate(self.used(number, level - 1)):
            below = used[starts[unit] : starts[unit + 1]]
            self._cp.add(sum(below) == rule.units_per_parent * above)

    def _relate(self, rule: PairRule) -> None:
        cp, level = self._cp, rule.level + 1
        first, second = self.used(rule.first, level), self.used(rule.second, level)
        if rule.relation == "same":
            either = [cp.new_bool_var("") for _ in first]
            for one, other, any_of in zip(first, second, either, strict=True):
                cp.add_implication(one, any_of)
                cp.add_implication(other, any_of)
            cp.add_at_most_one(either)
        elif rule.relation == "other":
            for one, other in zip(first, second, strict=True):
                cp.add_at_most_one([one, other])
        elif rule.relation == "with":
            for one, other in zip(first, second, strict=True):
                cp.add_implication(one, other)
        else:
            for pods, other in zip(self.pods(rule.first, level), second, strict=True):
                cp.add(pods == other)

    def _cost(self, traffic: Traffic) -> Any:
        """Return the cost of one pair of classes, for a weight of 1."""
        costs = self._group.costs
        terms = [
            step * self._outside(traffic, level)
            for level, step in enumerate(costs.steps, 1)
            if step
        ]
        if costs.areas:
            terms.append(self._between_areas(traffic))
        return sum(terms) if terms else self._cp.new_constant(0)

    def _outside(self, traffic: Traffic, level: int) -> Any:
        """Return the number of pairs that are not in one unit of a level, as an expression."""
        pods = self.pods(traffic.first, level), self.pods(traffic.second, level)
        inside = [self._times(one, other) for one, other in zip(*pods, strict=True)]
        # At least 0. The products imply it only jointly; as its own row it tightens the bounds.
        most = self.most(traffic.first) * self.most(traffic.second)
        outside = self._cp.new_int_var(0, most, "")
        self._cp.add(outside == self.pairs(traffic) - sum(inside))
        return outside

    def _areas(self, number: int) -> dict[int, Any]:
        """Return the pods of a class in each area, fixed ones included."""
        if number not in self._by_area:
            leaves: dict[int, list[int]] = {}
            for leaf, area in enumerate(self._group.costs.areas):
                leaves.setdefault(area, []).append(leaf)
            self._by_area[number] = {
                area: self._sum(number, there, "") for area, there in sorted(leaves.items())
            }
        return self._by_area[number]

    def _between_areas(self, traffic: Traffic) -> Any:
        costs, cp = self._group.costs, self._cp
        first, second = self._areas(traffic.first), self._areas(traffic.second)
        pods = self.most(traffic.second)
        terms = []
        for area, here in first.items():
            row = costs.matrix[area]
            dear = cp.new_int_var(
                pods * min(0, *(row[other] for other in second)),
                pods * max(0, *(row[other] for other in second)),
                "",
            )
            cp.add(dear == sum(row[other] * there for other, there in second.items()))
            terms.append(self._times(here, dear))
            if traffic.first == traffic.second:
                terms.append(-row[area] * here)
        return sum(terms)

    def _limit(self, limit: PathLimit) -> None:
        """Forbid each pod whose counterpart would be farther away than the path limit."""
        first, second = self._areas(limit.first), self._areas(limit.second)
        for here in first:
            beyond = [second[there] for there in limit.beyond[here] if there in second]
            self._comes_without(limit.first, here, beyond)
        for there in second:
            beyond = [pods for here, pods in first.items() if there in limit.beyond[here]]
            self._comes_without(limit.second, there, beyond)

    def _comes_without(self, number: int, area: int, others: list[Any]) -> None:
        if not others:
            return
        if (number, area) not in self._comes:
            fixed = (
                pods
                for pods, where in zip(self._fixed[number], self._group.costs.areas, strict=True)
                if where == area
            )
            comes = self._comes[number, area] = self._cp.new_bool_var("")
            self._cp.add(self._areas(number)[area] == sum(fixed)).only_enforce_if(~comes)
        self._cp.add(sum(others) == 0).only_enforce_if(self._comes[number, area])

    def _times(self, one: Any, other: Any) -> Any:
        """Return a variable for the product of two variables, the first of which is 0 or more."""
        most = max(one.proto.domain)
        ends = [most * end for end in (0, *other.proto.domain)]
        product = self._cp.new_int_var(min(ends), max(ends), "")
        self._cp.add_multiplication_equality(product, [one, other])
        return product
