"""One evaluation: the values of variables, and the cost so far."""

from collections.abc import Callable
from typing import Any

from scheduler.cel.evaluation.costs import COST_LIMIT

Step = Callable[["EvaluationState"], Any]


class CancelledError(Exception):
    """The evaluation has cost all that it may."""


class EvaluationState:
    """The state of an evaluation; `slots` holds the variables, the device first."""

    __slots__ = ("cost", "slots")

    def __init__(self, slots: int) -> None:
        self.cost = 0
        self.slots: list[Any] = [None] * slots

    def pay(self, cost: int) -> None:
        """Add to the cost; CancelledError beyond the limit."""
        self.cost += cost
        if self.cost > COST_LIMIT:
            raise CancelledError
