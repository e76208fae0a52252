"""The goal of moves as a user states it, before it becomes part of a problem."""

from __future__ import annotations

import msgspec

from scheduler.objects.pod import Pod


class FitGoal(msgspec.Struct, frozen=True, tag="fit"):
    """The waiting pod or group `key` fits."""

    key: str


class FreeGoal(msgspec.Struct, frozen=True, tag="free"):
    """`number` nodes, or domains of a node label, run no pod except those bound to their node.

    Only nodes with all labels of `selector` count.
    """

    number: int
    label: str = ""
    selector: tuple[tuple[str, str], ...] = ()


class CapacityGoal(msgspec.Struct, frozen=True, tag="capacity"):
    """`number` copies of a shape fit; `pods` are the members of one copy, `key` its name."""

    number: int
    key: str
    pods: tuple[Pod, ...] = ()


class LoadGoal(msgspec.Struct, frozen=True, tag="load"):
    """No node uses more than `percent` of its cpu or memory, as measured by NodeMetric objects."""

    percent: int
    resource: str = "cpu"


class RepairGoal(msgspec.Struct, frozen=True, tag="repair"):
    """No pod runs on a node that its filters reject now, and no node is overcommitted."""


MoveGoal = FitGoal | FreeGoal | CapacityGoal | LoadGoal | RepairGoal


def words(goal: MoveGoal) -> str:
    """Return the goal as a statement."""
    if isinstance(goal, FitGoal):
        return f"{goal.key} fits"
    if isinstance(goal, CapacityGoal):
        return f"{goal.number} of {goal.key} fit"
    if isinstance(goal, FreeGoal):
        what = "domain" if goal.label else "node"
        of = f" of {goal.label}" if goal.label else ""
        return (
            f"1 {what}{of} is free" if goal.number == 1 else f"{goal.number} {what}s{of} are free"
        )
    if isinstance(goal, LoadGoal):
        return f"no node uses more than {goal.percent}% of its {goal.resource}"
    return "no pod violates a hard rule"
