"""The page of a group's states: a drawing and tables of the transitions in the code."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

from docs.generate import markdown
from scheduler.groups.cycle.states import (
    GROUP_MOVES,
    MEMBER_MOVES,
    GroupMove,
    GroupState,
    MemberMove,
    MemberState,
)

INTRODUCTION: Final = f"""\
# States of a group and of its members

{markdown.origin("scheduler/groups/cycle/states.py")}

Every group and every member is in one of these states. The scheduler rejects a transition that no
row lists, and reports it as a fault of the group plugin.
A cause is a stage of an attempt to place the group, or a fact that the API server reports.
[A group's way](../explanation/a-groups-way.md) follows a group through the code.
"""
HEADER: Final = ("from", "cause", "to", "caused by", "writes")


def page() -> str:
    """Return the page."""
    return "\n".join(
        (
            INTRODUCTION,
            "## Group\n",
            drawing(GroupState, GROUP_MOVES),
            markdown.table(HEADER, rows(GROUP_MOVES)),
            "## Member\n",
            drawing(MemberState, MEMBER_MOVES),
            markdown.table(HEADER, rows(MEMBER_MOVES)),
        )
    )


def drawing(states: Iterable[StrEnum], moves: Sequence[GroupMove] | Sequence[MemberMove]) -> str:
    """Return a text drawing with an arrow from each state to each of its successors."""
    lines = ["```text"]
    for state in states:
        before = f"{state:<11}"
        for move in moves:
            if state in move.before and move.after not in (None, state):
                arrow = f"── {move.cause} ".ljust(16, "─")
                lines.append(f"{before} {arrow}▶ {move.after}")
                before = " " * 11
        if before.strip():
            lines.append(f"{state}")
    return "\n".join((*lines, "```\n"))


def rows(moves: Sequence[GroupMove] | Sequence[MemberMove]) -> Iterable[Sequence[str]]:
    """Yield the cells of each row of a table."""
    for move in moves:
        after = "the same" if move.after is None else str(move.after)
        yield (
            ", ".join(move.before),
            markdown.code(str(move.cause)),
            after,
            markdown.text(move.by),
            markdown.text(move.writes),
        )
