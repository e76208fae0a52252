"""The problem of placing a group with one role, as plain records: tree, capacity, group, rules.

scheduler.groups builds the records from columns. They are sent as JSON to the solver process and
recorded as test vectors. They contain pods, units and amounts, and nothing of Kubernetes. Derived
figures are in scheduler.groups.solver.tree.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

Kind = Literal["pack", "spread"]


class SolverRecord(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Base class of the records of this package: immutable, JSON with camelCase keys."""


# The numbers of a level rule, each with the value that has no effect.
NEUTRAL: Final[Mapping[str, int]] = {"min": 0, "max": 0, "partitions": 0, "factor": 1}


class LevelRule(SolverRecord, frozen=True):
    """The rule for the units of one level; a number of 0 (`factor`: 1) is unset.

    Numbers always bind. Every used unit has from `min` to `max` pods, in a multiple of `factor`;
    under each used parent exactly `partitions` units are used. `kind` is a preference. With `hard`
    and no numbers it binds: pack allows one used unit under each used parent, spread allows one pod
    on each unit.
    """

    kind: Kind = "pack"
    hard: bool = False
    min: int = 0
    max: int = 0
    partitions: int = 0
    factor: int = 1

    @property
    def has_numbers(self) -> bool:
        """Return whether any number is set."""
        return any(getattr(self, name) > number for name, number in NEUTRAL.items())

    def numbers(self) -> dict[str, int]:
        """Return the numbers that are set, by name."""
        every = {name: int(getattr(self, name)) for name in NEUTRAL}
        return {name: number for name, number in every.items() if number > NEUTRAL[name]}

    @property
    def is_hard_pack(self) -> bool:
        """Return whether the rule allows one used unit under each used parent."""
        return self.hard and self.kind == "pack" and not self.has_numbers

    @property
    def is_hard_spread(self) -> bool:
        """Return whether the rule allows one pod on each unit."""
        return self.hard and self.kind == "spread" and not self.has_numbers

    @property
    def units_per_parent(self) -> int:
        """Return how many units are used under each used parent, 0 if the rule leaves it open."""
        return 1 if self.is_hard_pack else self.partitions


class Level(SolverRecord, frozen=True):
    """One level of the tree, a name and a rule. The root is not a level."""

    name: str
    rule: LevelRule = LevelRule()


class Leaf(SolverRecord, frozen=True):
    """A node or another place for pods: `path` has its unit names from the top, its own name last.

    `slots` is the number of the group's pods that fit, fixed pods included (-1: unlimited). If
    `free` has amounts, in the order of the instance's `request`, they determine what fits and
    `slots` is an additional limit. A path with fewer names than the tree has levels puts the leaf
    in units of its own on the missing levels.
    """

    path: tuple[str, ...]
    slots: int = -1
    free: tuple[int, ...] = ()
    fixed: int = 0


class DomainRule(SolverRecord, frozen=True):
    """A rule over sets of leaves (domains), which need not be units of the tree.

    `sets` has indices of the instance's leaves. A leaf in no set is not subject to the rule; `only`
    forbids such leaves. `at_most` limits the pods of each set (anti-affinity: 1). `single` puts all
    pods in one set (affinity). `max_skew` limits how many more pods a set has than the set with the
    fewest (topology spread); `existing` are pods of other groups that count, by set. Fixed pods
    count, but they never violate `at_most`, `max_skew` or `only`: a set is checked only if it takes
    a new pod.

    With `asking`, in a group of several roles, `max_skew` and `only` apply where pods of these
    roles are placed, and pods of the roles in `counted` count (both are indices of roles). The
    group's fixed pods are then in `existing`.
    """

    name: str
    sets: tuple[tuple[int, ...], ...]
    at_most: int = 0
    single: bool = False
    max_skew: int = 0
    existing: tuple[int, ...] = ()
    only: bool = False
    asking: tuple[int, ...] = ()
    counted: tuple[int, ...] = ()

    def among(self, leaves: Sequence[int]) -> "DomainRule":
        """Return the rule over these leaves alone; a set without any of them still counts."""
        place = {leaf: at for at, leaf in enumerate(leaves)}
        sets = (tuple(place[leaf] for leaf in one if leaf in place) for one in self.sets)
        return msgspec.structs.replace(self, sets=tuple(sets))


class Instance(SolverRecord, frozen=True):
    """A group of `size` identical pods to be placed on `leaves` under the rules of `levels`.

    An elastic group has a `minimum` from 1 to `size` and takes from `minimum` to `size` pods. The
    objective places the most pods first, then prefers by levels; with `levels_first` it prefers by
    levels first, then places the most pods. A `minimum` of 0 stands for `size`: all pods or none.
    """

    levels: tuple[Level, ...]
    leaves: tuple[Leaf, ...]
    size: int
    request: tuple[int, ...] = ()
    domains: tuple[DomainRule, ...] = ()
    minimum: int = 0
    levels_first: bool = False

    @property
    def least(self) -> int:
        """Return the minimum number of pods to place."""
        return self.minimum or self.size

    @property
    def is_elastic(self) -> bool:
        """Return whether fewer pods than `size` may be placed."""
        return self.least < self.size

    def with_size(self, size: int) -> "Instance":
        """Return the same group with exactly `size` pods, not elastic."""
        return msgspec.structs.replace(self, size=size, minimum=0, levels_first=False)


class Candidate(SolverRecord, frozen=True):
    """A candidate for eviction: a whole group, or `count` identical single pods of one leaf
    (`single`).

    All fields but `count` describe one eviction. `freed` has what it frees by leaf index: amounts,
    or slots if the instance has no request. `pods` is the number of evicted pods, `stranded` how
    many of them fit no other node, `groups` the number of groups that lose a pod (a single pod is a
    group of one). `budgets` maps the index of a disruption budget to the number of evicted pods
    that it protects. `counted` states how many of the pods count in the `existing` pods of a
    `DomainRule`: by the rule's name, then by the index of the set.
    """

    name: str
    priority: int
    pods: int
    freed: dict[int, tuple[int, ...]]
    single: bool = False
    count: int = 1
    budgets: dict[int, int] = msgspec.field(default_factory=dict)
    counted: dict[str, dict[int, int]] = msgspec.field(default_factory=dict)
    groups: int = 1
    stranded: int = 0


class ElasticGroup(SolverRecord, frozen=True):
    """A running group that may lose pods: `candidates` are the indices of its single-pod
    candidates.

    Evicting up to `surplus` of its pods leaves the group at or above its minimum; evicting more of
    them requires evicting all.
    """

    candidates: tuple[int, ...]
    surplus: int


class Budget(SolverRecord, frozen=True):
    """A disruption budget: `allowed` is the number of its pods that may be evicted without
    violating it.
    """

    name: str
    allowed: int = 0


class PreemptionInstance(SolverRecord, frozen=True):
    """A group that does not fit, and the candidates whose eviction may free capacity for it.

    The leaves have the capacity that is free before evictions. With `forbid` no budget may be
    violated; otherwise the first objective is to minimise violations.
    """

    instance: Instance
    candidates: tuple[Candidate, ...]
    budgets: tuple[Budget, ...] = ()
    forbid: bool = False
    elastic: tuple[ElasticGroup, ...] = ()


class SolveLimits(SolverRecord, frozen=True):
    """Limits of a solve: seconds per stage and in total, CP-SAT workers, and the random seed."""

    stage_s: float = 2.0
    total_s: float = 10.0
    workers: int = 1
    seed: int = 1


Solver = Literal["Auto", "CPSAT", "Exact", "Greedy"]
