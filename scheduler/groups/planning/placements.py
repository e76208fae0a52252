"""The interface of plan.py to homogeneous and heterogeneous groups: `Placement` and `Eviction`.

Each keeps the filters' rejections since its first instance, so that the next instance excludes
them.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from scheduler.framework.calls import SolverCall
from scheduler.framework.groups import AssignmentRejection
from scheduler.framework.handle import Handle
from scheduler.framework.status import Status
from scheduler.groups.args import ClusterTopologyPlacementGroupArgs
from scheduler.groups.planning.eviction import Candidates
from scheduler.groups.planning.recording import PlanRecorder
from scheduler.groups.planning.task import GroupTask, Offer
from scheduler.groups.problem.answer import SolvedStage
from scheduler.groups.solver.questions import Solution

# How often the solver is called again with the filters' rejections.
ROUNDS = 8


class PlanningTools(msgspec.Struct, frozen=True):
    """Tools that placements and evictions of one profile share."""

    args: ClusterTopologyPlacementGroupArgs
    handle: Handle
    recorder: PlanRecorder


class Assigned(msgspec.Struct, frozen=True):
    """A node for each placed member by uid, and the solver's stages that led to it."""

    nodes: dict[str, str]
    stages: Sequence[SolvedStage]


class Placement(Protocol):
    """The search for nodes of the members of one task."""

    task: GroupTask

    def question(self) -> SolverCall | Status:
        """Return the next question to the solver; a status if no node takes a member or rounds are
        used up.
        """

    def assigned(self, solution: Solution) -> Assigned | Status | None:
        """Return the assignment of a solution, the reason for none, or None to solve again."""

    def learn(self, nodes: Mapping[str, str], rejection: AssignmentRejection) -> None:
        """Exclude the filters' rejections of an assignment from the next instance."""


class Eviction(Protocol):
    """The search for pods to evict for the members of one task."""

    def question(self, lower: Candidates) -> SolverCall | None:
        """Return the next question to the solver; None if evicting these units cannot help."""

    def offer(self, solution: Solution) -> Offer:
        """Return the nodes and the victims of a solution, a status if there is no answer, None
        without victims.
        """

    def learn(self, nodes: Mapping[str, str], rejection: AssignmentRejection) -> None:
        """Exclude the filters' rejections of an offer from the next instance."""
