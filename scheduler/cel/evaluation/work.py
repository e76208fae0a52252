"""Limits of an evaluation's work beyond CEL's cost.

Upstream's cost counts the length of a list but not its elements' sizes, and the length of a regular
expression but not its repetitions. Comparisons and matches spend from this budget, so that no text
can keep a scheduler busy. One evaluation runs at a time; it resets the budget.
"""

_MOST = 300_000


class WorkExceededError(Exception):
    """The evaluation has used its work budget."""


class CostBudget:
    """The remaining budget of an evaluation, in compared elements and steps of a match."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = _MOST

    def fill(self) -> None:
        """Start an evaluation."""
        self.left = _MOST

    def spend(self, amount: int) -> None:
        """Subtract `amount` from the budget; WorkExceededError if it is used up."""
        self.left -= amount
        if self.left < 0:
            raise WorkExceededError


WORK_BUDGET = CostBudget()
