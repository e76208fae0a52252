"""A group of heterogeneous members in plain records: roles of pods, leaves with amounts, and the
answer.

The counterpart of scheduler.groups.problem.instance for members that differ. Built by
scheduler.groups, sent as JSON to the process that solves.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np

from scheduler.base.arrays import IntColumn as Ints
from scheduler.groups.problem import instance, parts
from scheduler.groups.problem.answer import SolvedStage
from scheduler.groups.problem.classes import (
    LinkLimit,
    PairRule,
    PathLimit,
    PodClass,
    Traffic,
    TrafficCosts,
    TrafficStream,
)
from scheduler.groups.problem.parts import LikeParts, PlacedPart


class Role(instance.SolverRecord, frozen=True):
    """Identical pods: their number, the request of each, and how many of them a leaf takes at
    most.
    """

    count: int
    request: tuple[int, ...]
    slots: tuple[int, ...]


class Apart(instance.SolverRecord, frozen=True):
    """Two roles that may not meet in any of `sets` (of leaves); of a role and itself one pod may be
    there.
    """

    sets: tuple[tuple[int, ...], ...]
    first: int
    second: int


class LeafConflict(instance.SolverRecord, frozen=True):
    """Pods that cannot be on a leaf together, on none of `leaves`: so many of each role, or
    more.
    """

    leaves: tuple[int, ...]
    counts: tuple[int, ...]


class GroupProblem(instance.SolverRecord, frozen=True):
    """A group of several roles; `free` is what each leaf has left of each resource.

    `paths` are those of the leaves in the tree of `levels`; `fixed` counts the group's pods that
    are on a leaf already (empty: none). At least `minimum` pods are to be placed beside those.
    Classes have rules of their own and `between` them; `traffic` makes them cost what `costs` says.
    Nothing is wished for on levels in `unwished` (from 0); numbers and hard rules bind there as
    elsewhere. A group of groups has `parts`, in each of its roles one, and classes only for rules
    of these: what they wish for at a level is summed over all of them. `exclusive` are resources
    that count as a rule which could be given up, by index and name: host ports. `limits` and
    `links` are between the areas of `costs`, and `flows` go over links. `domains` are the rules
    over sets of leaves of a group with one role.
    """

    roles: tuple[Role, ...]
    free: tuple[tuple[int, ...], ...]
    levels: tuple[instance.Level, ...]
    paths: tuple[tuple[str, ...], ...]
    minimum: int
    apart: tuple[Apart, ...] = ()
    fixed: tuple[int, ...] = ()
    excluded: tuple[LeafConflict, ...] = ()
    classes: tuple[PodClass, ...] = ()
    between: tuple[PairRule, ...] = ()
    traffic: tuple[Traffic, ...] = ()
    costs: TrafficCosts = TrafficCosts()
    unwished: tuple[int, ...] = ()
    parts: tuple[LikeParts, ...] = ()
    limits: tuple[PathLimit, ...] = ()
    flows: tuple[TrafficStream, ...] = ()
    links: tuple[LinkLimit, ...] = ()
    exclusive: tuple[tuple[int, str], ...] = ()
    domains: tuple[instance.DomainRule, ...] = ()

    @property
    def least(self) -> int:
        """Return how many pods are placed at least: the minimum, and what its parts need."""
        needed = parts.least(self.parts) if self.parts else 1
        return max(1, self.minimum, needed)

    @property
    def wanted(self) -> int:
        """Return how many pods there are to place."""
        return sum(role.count for role in self.roles)

    def stand(self, leaf: int) -> tuple[int, ...]:
        """Return how many pods of classes and parts are on a leaf already, in their order."""
        fixed_counts = [*(one.fixed for one in self.classes), *(one.fixed for one in self.parts)]
        return tuple(fixed[leaf] for fixed in fixed_counts if fixed)

    def homogeneous(self, *, is_emptied: bool = False) -> instance.Instance:
        """Return the group as if its pods were homogeneous: its tree, rules and sizes, and more
        capacity than there is.

        What breaks a rule of a level there breaks it here, and objectives are the same. When leaves
        may be emptied, what is free does not limit them.
        """
        fixed = self.fixed or (0,) * len(self.paths)
        capacity = self.capacity(is_emptied=is_emptied)
        leaves = tuple(
            instance.Leaf(path, there + most, fixed=there)
            for path, there, most in zip(self.paths, fixed, capacity.tolist(), strict=True)
        )
        size = self.wanted + sum(fixed)
        least = sum(fixed) + self.least
        return instance.Instance(
            self.levels, leaves, size, minimum=least if 0 < least < size else 0
        )

    def capacity(self, *, is_emptied: bool = False) -> Ints:
        """Return for each leaf a number of further pods that it cannot exceed."""
        slots = np.array([role.slots for role in self.roles], dtype=np.int64)
        counts = np.array([role.count for role in self.roles], dtype=np.int64)
        requests = np.array([role.request for role in self.roles], dtype=np.int64)
        most = np.minimum(slots, counts[:, None]).sum(axis=0)
        if is_emptied:
            return np.asarray(most)
        caps = np.minimum(slots, counts[:, None])
        for column, request in zip(np.array(self.free, dtype=np.int64).T, requests.T, strict=True):
            most = np.minimum(most, served(column, caps, request))
        return np.asarray(most)

    def part(self, leaves: Sequence[int]) -> "GroupProblem":
        """Return the group with these leaves alone."""
        place = {leaf: at for at, leaf in enumerate(leaves)}
        rules = []
        for rule in self.apart:
            inside = (tuple(place[leaf] for leaf in one if leaf in place) for one in rule.sets)
            rules.append(Apart(tuple(one for one in inside if one), rule.first, rule.second))
        excluded = (
            LeafConflict(tuple(place[leaf] for leaf in one.leaves if leaf in place), one.counts)
            for one in self.excluded
        )
        roles = (
            msgspec.structs.replace(role, slots=tuple(role.slots[leaf] for leaf in leaves))
            for role in self.roles
        )
        classes = (
            msgspec.structs.replace(
                one, fixed=tuple(one.fixed[leaf] for leaf in leaves) if one.fixed else ()
            )
            for one in self.classes
        )
        return GroupProblem(
            tuple(roles),
            tuple(self.free[leaf] for leaf in leaves),
            self.levels,
            tuple(self.paths[leaf] for leaf in leaves),
            self.minimum,
            tuple(rules),
            tuple(self.fixed[leaf] for leaf in leaves) if self.fixed else (),
            tuple(one for one in excluded if one.leaves),
            tuple(classes),
            self.between,
            self.traffic,
            self.costs.part(leaves),
            self.unwished,
            tuple(one.among(leaves) for one in self.parts),
            self.limits,
            self.flows,
            self.links,
            self.exclusive,
        )


class GroupPreemption(instance.SolverRecord, frozen=True):
    """A group that does not fit, and the candidates whose eviction may free capacity for it;
    as in `Preemption`, with
    amounts.
    """

    group: GroupProblem
    candidates: tuple[instance.Candidate, ...]
    budgets: tuple[instance.Budget, ...] = ()
    forbid: bool = False
    elastic: tuple[instance.ElasticGroup, ...] = ()


class GroupAnswer(instance.SolverRecord, frozen=True):
    """How many pods of each role go to each leaf, whom that evicts, and whether better is out of
    limit.

    `pieces` say of a group with parts which of the pods are whose.
    """

    outcome: Literal["placed", "infeasible", "unknown"]
    counts: tuple[tuple[int, ...], ...] = ()
    evicted: dict[int, int] = msgspec.field(default_factory=dict)
    optimal: bool = False
    seconds: float = 0.0
    stages: tuple[SolvedStage, ...] = ()
    pieces: tuple[PlacedPart, ...] = ()

    @property
    def pods(self) -> int:
        """Return how many pods are placed."""
        return sum(map(sum, self.counts))


def served(pool: Ints, caps: Ints, requests: Ints) -> Ints:
    """Return how many pods amounts of one resource serve, the smallest requests first.

    `pool` has the amounts (those below 0 serve no pod), `caps` by role and amount how many pods
    there are at most, `requests` what a pod of each role asks for.
    """
    left, found = pool.clip(min=0), np.zeros_like(pool)
    for number in np.argsort(requests, kind="stable").tolist():
        request = int(requests[number])
        taken = caps[number] if request == 0 else np.minimum(caps[number], left // request)
        found += taken
        left -= taken * request
    return found
