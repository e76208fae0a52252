"""The records that a solver returns: pod counts per leaf, objective stages with bounds, and advice.

The caller uses a result only after scheduler.groups.problem.checker has verified it.
"""

from typing import Literal

import msgspec

from scheduler.groups.problem.instance import SolverRecord

Outcome = Literal["placed", "infeasible", "unknown"]
NOTHING = -(1 << 62)  # the bound of a stage without any proof


class SolvedStage(SolverRecord, frozen=True):
    """One stage of the objective: its value, to be minimised, and a proven lower bound.

    `measure` is `units` (used units of the level), `large` (minus the sum of squared pod counts),
    `squares` (the sum of squared pod counts), `pods` (evicted pods), `stranded` (victims that fit
    no other node), `groups` (groups that lose a member) or `violations` (pods beyond what a budget
    allows). The stage is proven when `bound` equals `value`.
    """

    level: str
    measure: str
    value: int
    bound: int
    by: str = ""

    @property
    def proven(self) -> bool:
        """Return whether the bound proves that no better value exists."""
        return self.bound >= self.value

    @property
    def known_bound(self) -> int | None:
        """Return the proven lower bound, None if none is known."""
        return None if self.bound <= NOTHING else self.bound

    @property
    def gap(self) -> int:
        """Return the difference between the value and its bound, 0 or more."""
        return max(0, self.value - self.bound)


class SolverAnswer(SolverRecord, frozen=True):
    """The placement of one group.

    `counts` has the pods per leaf of the instance, fixed pods included; it is empty unless
    `outcome` is `placed`. The outcome is `unknown` if the time limit ended the search before it
    found a placement or proved that none exists.
    """

    outcome: Outcome
    counts: tuple[int, ...] = ()
    stages: tuple[SolvedStage, ...] = ()
    solver: str = ""
    seconds: float = 0.0

    @property
    def optimal(self) -> bool:
        """Return whether every stage is proven, or it is proven that no placement exists."""
        return self.outcome != "unknown" and all(stage.proven for stage in self.stages)


class SolvedVictims(SolverRecord, frozen=True):
    """The victims to evict, and the placement of the group after their eviction.

    `evicted` maps the index of a candidate to the number of its evictions (1 for a group). `stages`
    are, in this order, violations, pods by priority from the highest, and groups; `placement` has
    the stages of the placement.
    """

    outcome: Outcome
    evicted: dict[int, int] = msgspec.field(default_factory=dict)
    stages: tuple[SolvedStage, ...] = ()
    placement: SolverAnswer = SolverAnswer("unknown")
    seconds: float = 0.0

    @property
    def optimal(self) -> bool:
        """Return whether it is proven that no better set of victims exists."""
        return self.outcome != "unknown" and all(stage.proven for stage in self.stages)


class Conflict(SolverRecord, frozen=True):
    """One rule of a set of rules that no placement satisfies together; `level` is '' for the
    group's size.

    `fits_without`: a placement was found that violates this rule alone, and giving it up does not
    make a hard type effective that it covered.
    """

    level: str
    rule: str
    value: str
    fits_without: bool = False


class Advice(SolverRecord, frozen=True):
    """The reason why a group fits nowhere, and what would help.

    `conflict` is a set of rules that no placement satisfies together; `smallest` states that no set
    with fewer rules conflicts. `smaller` and `larger` are the nearest group sizes that fit under
    all rules, 0 if none is known. `free` is the number of pods that the leaves take under no rule.
    `give_up` is a set of rules without which a placement was found (of the minimum of an elastic
    group). It is a smallest one if the time allowed, and empty if none was found. `is_size`: it is
    proven that the group does not fit even without any rule.
    """

    conflict: tuple[Conflict, ...]
    smaller: int = 0
    larger: int = 0
    free: int = 0
    smallest: bool = True
    give_up: tuple[Conflict, ...] = ()
    is_size: bool = False
