"""Classes of heterogeneous members in plain records: rules of their own, rules between them, and
the traffic between them.

A class is one or several roles under a name ("workers"). Part of
scheduler.groups.problem.roles.GroupProblem; levels are counted from 0, the top one, as in its
`levels`.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from scheduler.groups.problem.instance import LevelRule, SolverRecord

MOST_CLASSES = 8

Relation = Literal["same", "other", "with", "one"]


class ClassRule(SolverRecord, frozen=True):
    """What holds for the pods of one class on the units of a level, as if no other class were
    there.
    """

    level: int
    rule: LevelRule


class PodClass(SolverRecord, frozen=True):
    """Kinds under one name, of which at least `minimum` and at most `maximum` pods stand (0: no
    limit).

    `fixed` counts those that are on each leaf already (empty: none); they count in all rules. In
    a group with parts they are all pods of one part and of those in it; it is `part`, and one
    alone.
    """

    name: str
    roles: tuple[int, ...]
    minimum: int = 0
    maximum: int = 0
    rules: tuple[ClassRule, ...] = ()
    fixed: tuple[int, ...] = ()
    part: int = -1


class PairRule(SolverRecord, frozen=True):
    """A rule between two classes on the units of a level.

    `same`: all pods of both stand in one unit. `other`: no unit has pods of both. `with`: a unit
    with pods of the first has some of the second. `one`: a unit has exactly one pod of the first if
    it has any of the second, and none otherwise.
    """

    relation: Relation
    first: int
    second: int
    level: int


class Traffic(SolverRecord, frozen=True):
    """The traffic of each pod of the first class with each pod of the second; of one class, with
    each other pod of it.
    """

    first: int
    second: int
    weight: int


class PathLimit(SolverRecord, frozen=True):
    """No pod of the first class may be in an area that is out of reach of one with a pod of the
    second.

    `beyond` has by area, in the order of `TrafficCosts.areas`, those that are out of reach from
    there: further than `most`. Where pods that stand break it already, they stay; no other
    pod comes there.
    """

    first: int
    second: int
    beyond: tuple[tuple[int, ...], ...]
    most: int = 0


class TrafficStream(SolverRecord, frozen=True):
    """Each pod of the first class sends so much to those of the second, as much to each of them."""

    first: int
    second: int
    amount: int


class LinkLimit(SolverRecord, frozen=True):
    """What flows from pods in some areas to pods in others may not be more than `headroom`.

    With `is_shared` what flows back counts as well. Each direction is rounded up to whole numbers,
    but for a thousandth. A link that is over its headroom already takes nothing more.
    """

    origins: tuple[int, ...]
    targets: tuple[int, ...]
    headroom: int
    is_shared: bool = False


class TrafficCosts(SolverRecord, frozen=True):
    """The cost of traffic between two pods: where they are apart, and between areas.

    `steps` is by level what two pods cost more that are not in the same unit of it, nothing at
    levels beyond its end. `matrix` is what it costs more from one area to another, to itself
    included, `areas` the area of each leaf. Either may be empty. A number of the matrix may be
    below 0, what a pair costs in all is not.
    """

    steps: tuple[int, ...] = ()
    areas: tuple[int, ...] = ()
    matrix: tuple[tuple[int, ...], ...] = ()

    def part(self, leaves: Sequence[int]) -> "TrafficCosts":
        """Return the costs between these leaves alone."""
        if not self.areas:
            return self
        return msgspec.structs.replace(self, areas=tuple(self.areas[leaf] for leaf in leaves))
