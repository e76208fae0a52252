"""Classes of heterogeneous members as plain records: their rules, and the traffic between them.

A class is a name for one or several roles ("workers"). Part of
scheduler.groups.problem.roles.GroupProblem; `level` is an index into its `levels`, 0 is the top.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from scheduler.groups.problem.instance import LevelRule, SolverRecord

MOST_CLASSES = 8

Relation = Literal["same", "other", "with", "one"]


class ClassRule(SolverRecord, frozen=True):
    """The rule of a level for the pods of one class; pods of other classes do not count."""

    level: int
    rule: LevelRule


class PodClass(SolverRecord, frozen=True):
    """One or several roles under a name, with a minimum and a maximum of pods (0: no limit).

    `fixed` counts the class's bound pods by leaf (empty: none); they count in all rules. In a group
    with parts, a class has the pods of one part and of all parts inside it: `part` is its index.
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

    `same`: all pods of both classes are in one unit. `other`: no unit has pods of both. `with`: a
    unit with pods of the first class has pods of the second. `one`: a unit with pods of the second
    class has exactly one pod of the first, any other unit none.
    """

    relation: Relation
    first: int
    second: int
    level: int


class Traffic(SolverRecord, frozen=True):
    """Traffic of weight `weight` between each pod of the first class and each pod of the second.

    If both are the same class, the traffic is between each pod and every other pod of it.
    """

    first: int
    second: int
    weight: int


class PathLimit(SolverRecord, frozen=True):
    """The longest allowed path between any pod of the first class and any pod of the second.

    `beyond` lists for each area (an index as in `TrafficCosts.areas`) the areas with a longer path
    than `most`. Bound pods that violate the limit stay; a new pod must satisfy it.
    """

    first: int
    second: int
    beyond: tuple[tuple[int, ...], ...]
    most: int = 0


class TrafficStream(SolverRecord, frozen=True):
    """The traffic that each pod of the first class sends, split equally among the pods of the
    second.
    """

    first: int
    second: int
    amount: int


class LinkLimit(SolverRecord, frozen=True):
    """The headroom for traffic from the areas `origins` to the areas `targets`.

    With `is_shared` the traffic in the opposite direction counts too. Each direction is rounded up
    to a whole number; a remainder up to 1/1000 is ignored. A link that is over its headroom takes
    no further traffic.
    """

    origins: tuple[int, ...]
    targets: tuple[int, ...]
    headroom: int
    is_shared: bool = False


class TrafficCosts(SolverRecord, frozen=True):
    """The cost of traffic between two pods, by the levels that separate them and by their areas.

    `steps` has by level the cost that is added if the pods are in different units of the level;
    levels beyond its end add nothing. `matrix` has the cost that is added from one area to another
    or to itself, `areas` the area of each leaf. Each may be empty. A number of the matrix may be
    negative; the total cost of a pair is not.
    """

    steps: tuple[int, ...] = ()
    areas: tuple[int, ...] = ()
    matrix: tuple[tuple[int, ...], ...] = ()

    def part(self, leaves: Sequence[int]) -> "TrafficCosts":
        """Return the costs restricted to these leaves."""
        if not self.areas:
            return self
        return msgspec.structs.replace(self, areas=tuple(self.areas[leaf] for leaf in leaves))
