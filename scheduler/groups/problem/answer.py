"""The result of a solve: counts per leaf, the stages of the objective with bounds, proof, advice.

Plain records like those of scheduler.groups.problem.instance. A result is used only after
scheduler.groups.problem.checklevels has verified it.
"""

from typing import Literal

import msgspec

from scheduler.groups.problem.instance import SolverRecord

Outcome = Literal["placed", "infeasible", "unknown"]
NOTHING = -(1 << 62)  # the bound of a stage of which nothing is known


class SolvedStage(SolverRecord, frozen=True):
    """One stage of the objective: smaller is better, `bound` is a proven lower limit.

    `measure` is `units` (used units of the level), `squares` (sum of squared counts, negative where
    large counts are wanted), `pods`, `stranded` (victims that fit no other node), `groups` or
    `violations`. Proven when value and bound meet.
    """

    level: str
    measure: str
    value: int
    bound: int
    by: str = ""

    @property
    def proven(self) -> bool:
        """Whether no better value exists."""
        return self.bound >= self.value

    @property
    def known_bound(self) -> int | None:
        """Return the proven lower limit, None where nothing is proven."""
        return None if self.bound <= NOTHING else self.bound

    @property
    def gap(self) -> int:
        """How far the value may be from the best."""
        return max(0, self.value - self.bound)


class SolverAnswer(SolverRecord, frozen=True):
    """The result of placing one group.

    `counts` has one entry per leaf of the instance, fixed pods included; it is empty unless
    `outcome` is `placed`. `unknown` says that the time was over before anything was found or
    excluded.
    """

    outcome: Outcome
    counts: tuple[int, ...] = ()
    stages: tuple[SolvedStage, ...] = ()
    solver: str = ""
    seconds: float = 0.0

    @property
    def optimal(self) -> bool:
        """Whether every stage is proven, or that no placement exists."""
        return self.outcome != "unknown" and all(stage.proven for stage in self.stages)


class SolvedVictims(SolverRecord, frozen=True):
    """Who is evicted, and where the group goes then.

    `evicted` maps a candidate's index to how many of its evictions are made (1 for a group).
    Its stages are violations, pods by priority from the highest down, and groups; those of the
    placement are in `placement`.
    """

    outcome: Outcome
    evicted: dict[int, int] = msgspec.field(default_factory=dict)
    stages: tuple[SolvedStage, ...] = ()
    placement: SolverAnswer = SolverAnswer("unknown")
    seconds: float = 0.0

    @property
    def optimal(self) -> bool:
        """Whether no better set of victims exists."""
        return self.outcome != "unknown" and all(stage.proven for stage in self.stages)


class Conflict(SolverRecord, frozen=True):
    """One rule of the smallest set that cannot hold together; `level` is empty for the size.

    `fits_without`: a placement was found that breaks this one rule alone, and no hard type begins
    to bind without it.
    """

    level: str
    rule: str
    value: str
    fits_without: bool = False


class Advice(SolverRecord, frozen=True):
    """Why a group fits nowhere: the conflict, the sizes that would fit, the capacity there is.

    `smaller` and `larger` are the nearest sizes that all rules allow, 0 when there is none.
    `smallest`: it is proven that no set with fewer rules conflicts. `give_up` is a set of rules
    without which a placement was found (for an elastic group: of its minimum), a smallest one if
    time allowed; it is empty when only another size helps, and when none was found in time.
    `is_size`: the group does not fit under no rule at all.
    """

    conflict: tuple[Conflict, ...]
    smaller: int = 0
    larger: int = 0
    free: int = 0
    smallest: bool = True
    give_up: tuple[Conflict, ...] = ()
    is_size: bool = False
