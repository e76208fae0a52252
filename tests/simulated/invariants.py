"""The invariants by name, and the exception for their violation.

Only a named invariant counts as a find; an error of the simulation's own code is raised unchanged.
"""

from enum import StrEnum
from typing import NamedTuple


class Invariant(StrEnum):
    """An invariant, with the text that tables print."""

    ONCE = "no pod is bound twice"
    CAPACITY = "no node is over capacity"
    OPEN = "no pod is bound to a deleted or unschedulable node"
    WHOLE = "no group stays partially bound"
    STARTED = "no group begins below its minimum"
    EVICTION_EVENT = "no pod is evicted without an event"
    PRIORITY = "victims have lower priority than their preemptor"
    BUDGET = "no disruption budget is violated without need"
    LEASE = "no write of a process that does not lead is executed"
    FENCE = "a process that could not renew sends nothing"
    IDENTITY = "no write reaches a pod unknown to its sender"
    KNOWN = "nothing is decided on unknown objects"
    TRUTH = "a pod reported as bound is bound"
    LIVENESS = "every feasible pod is bound in time"
    REPORTED = "every pending pod has a reason"
    GROUP_REPORTED = "a complete group is reported as bound"
    BOOKS = "the leader's state equals the server's"
    LEFT = "no record is left over"
    SILENCE = "a quiet cluster gets no writes"
    ONE = "exactly one process leads"
    ENDS = "a stopped process ends, and no other"
    PACE = "virtual time advances"
    FAULT = "no unexpected error occurs"


class Breach(NamedTuple):
    """A violated invariant, when (in seconds since the epoch), and how."""

    invariant: Invariant
    at: float
    what: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.at:.3f}: {self.what}"


class BrokenError(AssertionError):
    """The violated invariants of a run, the first of which ended it."""

    def __init__(self, breaches: list[Breach]) -> None:
        super().__init__("\n".join(map(str, breaches[:5])))
        self.breaches = breaches

    @property
    def invariant(self) -> Invariant:
        """Return the first violated invariant."""
        return self.breaches[0].invariant
