"""The planner's result: a plan with the value and the bound of each stage, or the reason for
none.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Verdict(StrEnum):
    """The outcome of a search."""

    REACHED = "reached"  # the goal holds without a move
    PLANNED = "planned"
    IMPOSSIBLE = "impossible"  # proven: no set of moves reaches the goal
    CHAINED = "chained"  # proven: only moves that wait for one another reach it
    UNKNOWN = "unknown"  # neither a plan nor a proof within the time limit


class Move(NamedTuple):
    """Pod `pod` leaves node `source`; its replacement starts on node `target`."""

    pod: int
    source: int
    target: int


class Placed(NamedTuple):
    """A pod of `copy` of a claim, in a role, on a node."""

    claim: int
    copy: int
    role: int
    node: int


class Stage(NamedTuple):
    """A stage of the objective: no plan with the same values before has less than `bound`."""

    name: str
    value: int
    bound: int

    @property
    def proven(self) -> bool:
        """Return whether no plan is better in this stage."""
        return self.value <= self.bound


class Found(NamedTuple):
    """A plan over some nodes with its stages, or a proof that there is none over them."""

    moves: tuple[Move, ...] = ()
    placed: tuple[Placed, ...] = ()
    freed: tuple[int, ...] = ()
    stages: tuple[Stage, ...] = ()
    is_infeasible: bool = False
    is_known: bool = False


class Answer(NamedTuple):
    """The planner's result.

    `moves` are in the order of execution, `placed` has the claims' nodes after them. `freed` are
    the free domains, for a goal of free domains. `shortage` is the resource by which the
    conservation test decided. `first_s` are the seconds until the first plan was known.
    """

    verdict: Verdict
    moves: tuple[Move, ...] = ()
    placed: tuple[Placed, ...] = ()
    freed: tuple[int, ...] = ()
    stages: tuple[Stage, ...] = ()
    shortage: Shortage | None = None
    seconds: float = 0.0
    first_s: float = 0.0

    @property
    def proven(self) -> bool:
        """Return whether no plan moves fewer units and pods. Lost run time is not part of this
        statement.
        """
        if self.verdict is Verdict.UNKNOWN:
            return False
        return all(stage.proven for stage in self.stages if stage.name != LOST)

    @property
    def gap(self) -> float:
        """Return the relative gap (0 to 1) between value and bound of the first stage that is not
        proven; 0 if all are. Lost run time does not count.
        """
        for stage in self.stages:
            if not stage.proven and stage.name != LOST:
                return (stage.value - stage.bound) / stage.value
        return 0.0


class Shortage(NamedTuple):
    """A resource that no set of moves frees enough of: at most `most` of the `needed` amount.

    `resource` is an index into the problem's resources, or -1 for the number of pods or domains.
    """

    resource: int
    needed: int
    free: int
    most: int


UNITS, PODS, LOST = "units", "pods", "lost"
