"""What a solve starts from: a tree with capacity in its leaves, a group and its rules, in plain
records.

Built by scheduler.groups from columns, sent as JSON to the process that solves, recorded as a
test. Knows pods, units and amounts, and nothing of Kubernetes. The records hold no derived figures;
those are in scheduler.groups.solver.tree.
"""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

Kind = Literal["pack", "spread"]


class SolverRecord(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Base of all records of this package: immutable and written as JSON."""


# The numbers of a level rule with the value at which each binds nothing.
NEUTRAL: Final[Mapping[str, int]] = {"min": 0, "max": 0, "partitions": 0, "factor": 1}


class LevelRule(SolverRecord, frozen=True):
    """What holds for the units of one level; 0 says that a number is not given.

    The numbers always bind: every used unit holds between `min` and `max` pods, a multiple of
    `factor`, and under each used parent exactly `partitions` units are used. `kind` is a wish,
    unless `hard` stands without numbers: then pack means one used unit under each used parent,
    spread at most one pod on a unit. `min` or `max` alone bind as well.
    """

    kind: Kind = "pack"
    hard: bool = False
    min: int = 0
    max: int = 0
    partitions: int = 0
    factor: int = 1

    @property
    def has_numbers(self) -> bool:
        """Whether any number binds."""
        return any(getattr(self, name) > number for name, number in NEUTRAL.items())

    def numbers(self) -> dict[str, int]:
        """Return the numbers that bind, by name."""
        every = {name: int(getattr(self, name)) for name in NEUTRAL}
        return {name: number for name, number in every.items() if number > NEUTRAL[name]}

    @property
    def is_hard_pack(self) -> bool:
        """Whether all pods of a parent must be in one unit."""
        return self.hard and self.kind == "pack" and not self.has_numbers

    @property
    def is_hard_spread(self) -> bool:
        """Whether a unit may take one pod only."""
        return self.hard and self.kind == "spread" and not self.has_numbers

    @property
    def units_per_parent(self) -> int:
        """How many units are used under each used parent; 0 when that is open."""
        return 1 if self.is_hard_pack else self.partitions


class Level(SolverRecord, frozen=True):
    """One level of the tree, from the top down; the root is no level."""

    name: str
    rule: LevelRule = LevelRule()


class Leaf(SolverRecord, frozen=True):
    """A place for pods: its path of unit names from the top level down, itself last.

    `slots` is how many pods of the group fit, those already there (`fixed`) included; `free` says
    the same by amounts, in the order of the instance's `request`, and `slots` then only limits. A
    leaf with a path shorter than the tree is deep stands alone in units of its own below.
    """

    path: tuple[str, ...]
    slots: int = -1
    free: tuple[int, ...] = ()
    fixed: int = 0


class DomainRule(SolverRecord, frozen=True):
    """A rule between members over sets of leaves that need not be units of the tree.

    `sets` holds indices into the instance's leaves; leaves in no set are free of the rule, unless
    `only` forbids them. `at_most` limits the pods in each set (anti-affinity: 1), `single` keeps
    all in one set (affinity), `max_skew` limits a set's pods, with those of others in `existing`,
    over the least of all sets (topology spread). Fixed pods count, but are never in the wrong place
    themselves: only where a further one is put do `at_most`, `max_skew` and `only` have to hold.
    """

    name: str
    sets: tuple[tuple[int, ...], ...]
    at_most: int = 0
    single: bool = False
    max_skew: int = 0
    existing: tuple[int, ...] = ()
    only: bool = False


class Instance(SolverRecord, frozen=True):
    """One group to be placed: `size` like pods over `leaves` under the rules of `levels`.

    An elastic group has a `minimum` from 1 to `size` and takes any number of pods between them: the
    most that fit, and of those placements the best by its levels; with `levels_first` the best by
    its levels, and of those the most pods. 0 stands for `size`: all of them or none.
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
        """Return the fewest pods that may be placed."""
        return self.minimum or self.size

    @property
    def is_elastic(self) -> bool:
        """Whether fewer pods than `size` may be placed."""
        return self.least < self.size

    def with_size(self, size: int) -> "Instance":
        """Return the same group with just so many pods."""
        return msgspec.structs.replace(self, size=size, minimum=0, levels_first=False)


class Candidate(SolverRecord, frozen=True):
    """A group that may be evicted as a whole, or like single pods of one leaf (`single`), one by
    one.

    `freed` maps an index of the instance's leaves to what one eviction frees there: slots when the
    instance has no request, amounts otherwise. `pods` counts the pods of one eviction, `groups` the
    groups (a single pod is one), `count` how many of the like single pods there are. `budgets` maps
    an index into the problem's budgets to the pods of one eviction that it protects. `stranded` of
    these pods fit no other node. `counted` says
    how many of these pods stand in the `existing` of which `DomainRule`: by its name and the number
    of the set.
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
    """A group that may shrink: single candidates of one priority that are its pods, by their
    indices.

    Up to `surplus` of its pods may go, or all of them: with some more it would be below its
    minimum.
    """

    candidates: tuple[int, ...]
    surplus: int


class Budget(SolverRecord, frozen=True):
    """A disruption budget: how many of its pods may go without violating it."""

    name: str
    allowed: int = 0


class PreemptionInstance(SolverRecord, frozen=True):
    """A group that does not fit, and the candidates whose eviction may free capacity for it.

    Leaves hold what is free now. `forbid` allows no violated budget; otherwise violations are the
    first thing to be kept small.
    """

    instance: Instance
    candidates: tuple[Candidate, ...]
    budgets: tuple[Budget, ...] = ()
    forbid: bool = False
    elastic: tuple[ElasticGroup, ...] = ()


class SolveLimits(SolverRecord, frozen=True):
    """The limits of a solve: seconds per stage and in all, and its warm start."""

    stage_s: float = 2.0
    total_s: float = 10.0
    workers: int = 1
    seed: int = 1


Solver = Literal["Auto", "CPSAT", "Exact", "Greedy"]
