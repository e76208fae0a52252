"""A short search for moves beside another answer: a goal that is not reached now, and is after
some.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from scheduler.base.errors import TrellisError
from scheduler.moves.facts import ClusterFacts
from scheduler.simulate.stage import AnswerOptions, Setup
from scheduler.snapshot.documents import Item
from scheduler.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    from scheduler.moves.goals import MoveGoal

# The search is a part of another answer only where it is short.
MOST_PODS: Final = 5_000
MOVES_S: Final = 1.0


class AfterMoves:
    """The objects that a cluster is read from, and the search for moves in it."""

    def __init__(self) -> None:
        self._items: list[Item] = []

    def note(self, item: Item) -> None:
        """Keep an object for the search; it is decoded only there."""
        self._items.append(item)

    def statement(
        self, snapshot: Snapshot, setup: Setup, goal: MoveGoal, options: AnswerOptions
    ) -> str:
        """Return the statement of the plan that reaches a goal.

        Empty if none is found in MOVES_S, none is needed, or more than MOST_PODS pods were read.
        """
        facts = ClusterFacts()
        for item in self._items:
            facts.take(item)
            if facts.pods > MOST_PODS:
                return ""
        # The solver is imported only for a search.
        from scheduler.moves.finding import MoveOptions, find_moves

        wanted = replace(options, details=False)
        try:
            found = find_moves(snapshot, facts, setup, goal, MoveOptions(seconds=MOVES_S), wanted)
        except TrellisError:
            return ""  # the answer itself names the problem
        return found.statement if found.moves else ""


def plan_command(goal: str, files: Sequence[str]) -> str:
    """Return a sentence with the command that shows the plan for a goal."""
    return " ".join(["The plan: trellis moves", goal, *(f"-f {name}" for name in files)])
