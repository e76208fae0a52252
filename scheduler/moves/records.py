"""The report of `trellis moves`: its JSON is a public contract."""

from __future__ import annotations

import msgspec

from scheduler.simulate.records import API_VERSION


class PodMove(msgspec.Struct, frozen=True, rename="camel"):
    """A move: `pod` leaves `source` for `target`. `unit` names the pods that restart together.

    `order` is the place in the plan, from 1. `lost_seconds` is the time that the pod has run.
    """

    order: int
    pod: str
    source: str
    target: str
    unit: str
    priority: int
    lost_seconds: int


class PlacedPods(msgspec.Struct, frozen=True):
    """Waiting pods that fit a node after the moves."""

    pod: str
    node: str


class PlanStage(msgspec.Struct, frozen=True):
    """A stage of the objective: the value of the plan, and a bound that no plan is below."""

    name: str
    value: int
    bound: int


class Exclusion(msgspec.Struct, frozen=True):
    """Why `pods` pods may not move, with the names of some."""

    reason: str
    pods: int
    examples: tuple[str, ...]


class MovesReport(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The result of `moves`.

    `verdict`: reached, planned, impossible, chained or unknown. `statement` is the sentence about
    what is proven. `before` and `after` describe the goal without and with the plan. `gap` is the
    relative distance between the plan's moves and the lower bound.
    """

    api_version: str = API_VERSION
    kind: str = "Moves"
    goal: str
    verdict: str
    statement: str
    proven: bool
    gap: float = 0.0
    before: str = ""
    after: str = ""
    moves: tuple[PodMove, ...] = ()
    placed: tuple[PlacedPods, ...] = ()
    freed: tuple[str, ...] = ()
    stages: tuple[PlanStage, ...] = ()
    movable: int = 0
    excluded: tuple[Exclusion, ...] = ()
    notices: tuple[str, ...] = ()
    seconds: float = 0.0
