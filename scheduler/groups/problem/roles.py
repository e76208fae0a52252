"""The problem of placing a group of heterogeneous members, as plain records: roles, leaves, answer.

The counterpart of scheduler.groups.problem.instance for several roles. scheduler.groups builds the
records; they are sent as JSON to the solver process.
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
    """Identical pods: their number, the request of each, and the most that each leaf takes."""

    count: int
    request: tuple[int, ...]
    slots: tuple[int, ...]


class Apart(instance.SolverRecord, frozen=True):
    """Two roles that exclude each other in each of `sets` (of leaves).

    If both are the same role, each set takes at most one of its pods.
    """

    sets: tuple[tuple[int, ...], ...]
    first: int
    second: int
    name: str = "anti-affinity"


class LeafConflict(instance.SolverRecord, frozen=True):
    """A combination of pods that fits none of `leaves`: `counts` pods of each role, or more."""

    leaves: tuple[int, ...]
    counts: tuple[int, ...]


class GroupProblem(instance.SolverRecord, frozen=True):
    """A group of several roles; `free` has the free amounts by leaf and resource.

    `paths` are the leaves' paths in the tree of `levels`; `fixed` counts the group's bound pods by
    leaf (empty: none). At least `minimum` further pods are to be placed. Levels in `unwished` have
    no preference; their numbers and hard rules bind. `classes` and `between` are rules of classes;
    `traffic` is weighted by `costs`; `limits` and `links` refer to the areas of `costs`, and
    `flows` use the links. In a group with `parts` each role belongs to one part, classes are the
    rules of parts, and their preferences at a level are summed. `exclusive` are the resources (host
    ports), by index and name, that count as rules which a user could give up. `domains` are the
    rules over sets of leaves: with one role all of them, with several those of topology spread.
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
        """Return the minimum number of pods to place: `minimum`, or what the parts need if that is
        more.
        """
        needed = parts.least(self.parts) if self.parts else 1
        return max(1, self.minimum, needed)

    @property
    def wanted(self) -> int:
        """Return the number of pods to place."""
        return sum(role.count for role in self.roles)

    def bound_counts(self, leaf: int) -> tuple[int, ...]:
        """Return the bound pods of every class and part that has some, in the order of these."""
        fixed_counts = [*(one.fixed for one in self.classes), *(one.fixed for one in self.parts)]
        return tuple(fixed[leaf] for fixed in fixed_counts if fixed)

    def homogeneous(self, *, is_emptied: bool = False) -> instance.Instance:
        """Return a relaxation with one role: the same tree, rules and sizes, and at least the
        capacity.

        Every placement of the group is one of the relaxation, with the same objective values. With
        `is_emptied` free amounts are no limit: evictions may free any amount.
        """
        fixed = self.fixed or (0,) * len(self.paths)
        capacity = self.capacity(is_emptied=is_emptied)
        leaves = tuple(
            instance.Leaf(path, there + most, fixed=there)
            for path, there, most in zip(self.paths, fixed, capacity.tolist(), strict=True)
        )
        size = self.wanted + sum(fixed)
        least = sum(fixed) + self.least
        return instance.Instance(self.levels, leaves, size, minimum=least if least < size else 0)

    def capacity(self, *, is_emptied: bool = False) -> Ints:
        """Return per leaf an upper bound on the number of further pods. `is_emptied`: ignore free
        amounts.
        """
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
        """Return the group restricted to these leaves."""
        place = {leaf: at for at, leaf in enumerate(leaves)}
        rules = []
        for rule in self.apart:
            inside = (tuple(place[leaf] for leaf in one if leaf in place) for one in rule.sets)
            sets = tuple(one for one in inside if one)
            rules.append(msgspec.structs.replace(rule, sets=sets))
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
            tuple(one.among(leaves) for one in self.domains),
        )


class GroupPreemption(instance.SolverRecord, frozen=True):
    """A group of several roles that does not fit, and the candidates for eviction.

    The fields are those of `PreemptionInstance`; candidates free amounts.
    """

    group: GroupProblem
    candidates: tuple[instance.Candidate, ...]
    budgets: tuple[instance.Budget, ...] = ()
    forbid: bool = False
    elastic: tuple[instance.ElasticGroup, ...] = ()


class GroupAnswer(instance.SolverRecord, frozen=True):
    """The placement of a group: pods by role and leaf, evictions by candidate, and the stages.

    `optimal` states that no better answer exists. For a group with parts, `pieces` assign the pods
    to the parts.
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
    """Return how many pods each amount of one resource serves, the smallest requests first.

    `pool` has the amounts (negative ones serve no pod), `caps` the limits by role and amount, and
    `requests` the request of one pod by role.
    """
    left, found = pool.clip(min=0), np.zeros_like(pool)
    for number in np.argsort(requests, kind="stable").tolist():
        request = int(requests[number])
        taken = caps[number] if request == 0 else np.minimum(caps[number], left // request)
        found += taken
        left -= taken * request
    return found
