"""The invariants by name, and the exception for their violation.

Only a named invariant counts as a find; an error of the simulation's own code is raised unchanged.
"""

from enum import StrEnum
from typing import NamedTuple


class Law(StrEnum):
    """An invariant, with the text that tables print."""

    ONCE = "nobody is bound twice"
    ROOM = "no node is over capacity"
    OPEN = "nobody is bound to a node that has gone or is closed"
    WHOLE = "no group stays in part"
    BEGUN = "no group begins with fewer than it needs"
    RECEIPT = "nobody goes without a receipt"
    PRIORITY = "nobody goes for one who is not more important"
    BUDGET = "no budget is broken without need"
    LEASE = "nothing is carried out for who does not lead"
    FENCE = "who could not renew sends nothing"
    IDENTITY = "nothing reaches a pod that its sender cannot know"
    KNOWN = "nothing is decided on what is not known"
    TRUTH = "what is said to be bound is"
    LIVENESS = "who can be bound is bound in time"
    TOLD = "who waits is told why"
    SAID = "a group that is whole says so"
    BOOKS = "the leader's books are the server's"
    LEFT = "nothing is left over"
    SILENCE = "a quiet world is silent"
    ONE = "one leads"
    ENDS = "who is asked to end does, and nobody else"
    PACE = "time passes"
    FAULT = "nothing fails that nobody foresaw"


class Breach(NamedTuple):
    """A violated invariant, when (in seconds since the epoch), and how."""

    law: Law
    at: float
    what: str

    def __str__(self) -> str:
        return f"{self.law}: {self.at:.3f}: {self.what}"


class BrokenError(AssertionError):
    """The violated invariants of a world, the first of which ended it."""

    def __init__(self, breaches: list[Breach]) -> None:
        super().__init__("\n".join(map(str, breaches[:5])))
        self.breaches = breaches

    @property
    def law(self) -> Law:
        """Return the first violated invariant."""
        return self.breaches[0].law
