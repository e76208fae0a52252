"""What plugins return: a `Status` for the pod, `Rejected` for rows of the node table.

Outcomes are values. The codes and their meaning are kube-scheduler's (framework.Code), so that
messages and recorded vectors use the same terms.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import msgspec
import numpy as np

from scheduler.base.arrays import BoolColumn, no_rows


class Code(StrEnum):
    """The outcome of a plugin call; the value is its public name."""

    SUCCESS = "Success"
    ERROR = "Error"
    UNSCHEDULABLE = "Unschedulable"
    UNRESOLVABLE = "UnschedulableAndUnresolvable"
    WAIT = "Wait"
    SKIP = "Skip"
    PENDING = "Pending"


# Finding a member of an enumeration is slow in Python 3.11.
_SUCCESS_CODE = Code.SUCCESS


class Status(msgspec.Struct, frozen=True):
    """A code with reasons; `plugin` is filled in by the runner, `timeout_s` belongs to Wait."""

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    plugin: str = ""
    timeout_s: float = 0.0

    @property
    def is_success(self) -> bool:
        """Return whether the call succeeded."""
        return self.code is _SUCCESS_CODE

    @property
    def is_rejected(self) -> bool:
        """Return whether the pod was rejected (and not merely in error)."""
        return self.code in (Code.UNSCHEDULABLE, Code.UNRESOLVABLE, Code.PENDING)

    @property
    def message(self) -> str:
        """Return the reasons as one text."""
        return ", ".join(self.reasons)


SUCCESS = Status()
SKIP = Status(Code.SKIP)


def unschedulable(*reasons: str) -> Status:
    """Return a rejection that preemption may lift."""
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """Return a rejection that evicting pods would not lift."""
    return Status(Code.UNRESOLVABLE, reasons)


def wait(timeout_s: float) -> Status:
    """Return a status that delays the pod at permit until a plugin allows or rejects it, or
    `timeout_s`.
    """
    return Status(Code.WAIT, timeout_s=timeout_s)


class Reason(msgspec.Struct, frozen=True):
    """The rows that one reason applies to."""

    rows: BoolColumn
    text: str


class Rejected(msgspec.Struct, frozen=True):
    """The rows that a filter rejects, why, and for which of them that is final.

    `rows` and `final` are full columns; `final` marks UnschedulableAndUnresolvable. A row may have
    several reasons, in the order of `reasons`.
    """

    rows: BoolColumn
    final: BoolColumn
    reasons: tuple[Reason, ...]

    def __or__(self, other: "Rejected | None") -> "Rejected":
        """Unite two rejections: a row rejected by both keeps both reasons."""
        if other is None:
            return self
        return Rejected(
            self.rows | other.rows, self.final | other.final, self.reasons + other.reasons
        )

    def __ror__(self, other: None) -> "Rejected":
        return self

    def otherwise(self, other: "Rejected | None") -> "Rejected":
        """Add `other` for the rows that this rejection does not contain."""
        if other is None:
            return self
        fresh = ~self.rows
        return Rejected(
            self.rows | other.rows,
            self.final | (other.final & fresh),
            self.reasons + tuple(Reason(r.rows & fresh, r.text) for r in other.reasons),
        )

    def with_final(self, final: BoolColumn) -> "Rejected":
        """Return the same rejection with `final` marking the rows where evictions cannot help."""
        return Rejected(self.rows, self.rows & final, self.reasons)

    def texts(self, row: int) -> tuple[str, ...]:
        """Return the reasons of one row."""
        return tuple(r.text for r in self.reasons if r.rows[row])

    def status(self, row: int, plugin: str = "") -> Status:
        """Return the status of one row."""
        if not self.rows[row]:
            return SUCCESS
        code = Code.UNRESOLVABLE if self.final[row] else Code.UNSCHEDULABLE
        return Status(code, self.texts(row), plugin)

    def histogram(self, among: BoolColumn) -> Iterator[tuple[str, int]]:
        """Yield each reason with the number of rows in `among` that have it."""
        for reason in self.reasons:
            count = int(np.count_nonzero(reason.rows & among))
            if count:
                yield reason.text, count


def reject(rows: BoolColumn, text: str, *, final: bool = False) -> Rejected:
    """Return a rejection of `rows` for one reason; `final` states that evictions would not help."""
    return Rejected(rows, rows if final else no_rows(len(rows)), (Reason(rows, text),))


class Rejection(msgspec.Struct, frozen=True):
    """The rows that one plugin rejected among those that all plugins before it accepted."""

    plugin: str
    rows: BoolColumn
    rejected: Rejected


class Narrow(msgspec.Struct, frozen=True):
    """A result of `pre_filter` that excludes all other rows from filtering.

    Rows of several plugins are intersected (kube-scheduler's PreFilterResult). `state` is passed to
    the later points as if it had been returned alone. `is_empty` states that the plugin names no
    node at all, not even an unknown one: the pod is rejected at once.
    """

    rows: BoolColumn
    state: Any = None
    is_empty: bool = False


def none_left(plugins: list[str]) -> Status:
    """Return the status of a pod for which these plugins together leave no node."""
    if len(plugins) == 1:
        return unresolvable(f"node(s) didn't satisfy plugin {plugins[0]}")
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(plugins)}] simultaneously")
