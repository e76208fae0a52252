"""The laws by name, and what says that one was broken.

Only a named law is a find: an error of the world's own code is none, and comes out as what it is.
"""

from enum import StrEnum
from typing import NamedTuple


class Law(StrEnum):
    """What must hold, in the words that tables print."""

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
    """A law that was broken, when (in seconds since the epoch), and how."""

    law: Law
    at: float
    what: str

    def __str__(self) -> str:
        return f"{self.law}: {self.at:.3f}: {self.what}"


class BrokenError(AssertionError):
    """The laws that a world broke, the first of which ended it."""

    def __init__(self, breaches: list[Breach]) -> None:
        super().__init__("\n".join(map(str, breaches[:5])))
        self.breaches = breaches

    @property
    def law(self) -> Law:
        """The law that was broken first."""
        return self.breaches[0].law
