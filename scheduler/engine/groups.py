"""`GroupScheduler`: the six methods by which the engine schedules groups, and the parts it lends to
them.

The engine knows nothing else of groups. A profile's plugin that serves `plan_group` returns the
scheduler (`group_scheduler`); one scheduler serves all profiles. Without such a plugin no pod is a
member of a group.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

import msgspec

from scheduler.engine.attempt.attempt import Attempts
from scheduler.engine.attempt.suspended import CycleEnded, SuspendedCycles
from scheduler.engine.binding.bindings import Bindings
from scheduler.engine.binding.inflight import InFlight
from scheduler.engine.binding.nominations import Nominations
from scheduler.engine.binding.preemption import Preemptions
from scheduler.engine.effects import Answer, Leading
from scheduler.engine.intake import Intake
from scheduler.engine.observation import Observation
from scheduler.engine.outbox import Outbox
from scheduler.engine.queue.membership import GroupMembership
from scheduler.engine.queue.pod import QueuedPod
from scheduler.engine.queue.queues import Queues
from scheduler.framework.groups import GroupPlanner
from scheduler.objects.pod import Pod


class MemberEnded(msgspec.Struct, frozen=True):
    """A member of a group has left the bindings: bound, rejected or failed with a message."""

    pod: InFlight
    is_bound: bool
    message: str = ""
    is_error: bool = False


class PlanAborted(msgspec.Struct, frozen=True):
    """The suspended cycle of this name was dropped; its answer may never arrive."""

    name: str


GroupEvent: TypeAlias = MemberEnded | CycleEnded | PlanAborted | Leading


class GroupsState(Protocol):
    """The state of group scheduling, computed when it is read: the engine reads it each turn."""

    @property
    def is_planning(self) -> bool:
        """Return whether a group is being planned, or waits for an earlier one."""

    @property
    def has_work(self) -> bool:
        """Return whether the next turn advances a group even without an event."""

    @property
    def deadline(self) -> float | None:
        """Return the next time (seconds since the epoch) at which a group has work, or None."""

    @property
    def states(self) -> Mapping[str, str]:
        """Return the state of each group that is not pending, by key."""


class GroupScheduler(Protocol):
    """Plans groups and executes their plans; the engine calls it."""

    def observe(self, event: GroupEvent, now: float) -> None:
        """Process the end of a member's binding, a dropped planning cycle, or a change of
        leadership.
        """

    def plan(self, member: QueuedPod, now: float) -> None:
        """Take the group of a popped member out of the queue and begin to plan it."""

    def answer(self, event: Answer, now: float) -> bool:
        """Process the answer to a write about a group; return whether a group waited for it."""

    def settle(self, now: float) -> None:
        """Open the gates of members whose groups are complete. Called after each event."""

    def advance(self, now: float, *, may_decide: bool) -> None:
        """Advance all groups: gates, messages, bindings, plans. Called once a turn."""

    def describe(self) -> GroupsState:
        """Return the state of group scheduling."""


class NoGroups:
    """The group scheduler of an engine without a plugin for groups."""

    is_planning = False
    has_work = False
    deadline: float | None = None
    states: Mapping[str, str] = MappingProxyType({})

    def observe(self, event: GroupEvent, now: float) -> None:
        """Do nothing."""

    def plan(self, member: QueuedPod, now: float) -> None:
        """Do nothing: no pod is a member."""

    def answer(self, _event: Answer, _now: float) -> bool:
        """Return False."""
        return False

    def settle(self, now: float) -> None:
        """Do nothing."""

    def advance(self, now: float, *, may_decide: bool) -> None:
        """Do nothing."""

    def describe(self) -> GroupsState:
        """Return a state without work."""
        return self


class EngineParts(msgspec.Struct, frozen=True):
    """The parts of the engine that a group scheduler works with.

    `drain` hands the queued changes to their owners; `group_of` returns the key of a pod's group,
    or "". `solves_inline` is that of `EngineSettings`.
    """

    attempts: Attempts
    bindings: Bindings
    intake: Intake
    members: GroupMembership
    nominations: Nominations
    observation: Observation
    outbox: Outbox
    planners: Mapping[str, GroupPlanner]
    preemptions: Preemptions
    queues: Queues
    suspended: SuspendedCycles
    drain: Callable[[float], None]
    group_of: Callable[[Pod], str]
    solves_inline: bool


def group_scheduler(parts: EngineParts) -> GroupScheduler:
    """Return the scheduler of all groups, made by the first profile's plugin that plans groups."""
    plugin: Any = next(iter(parts.planners.values()), None)
    if plugin is None:
        return NoGroups()
    found: GroupScheduler = plugin.group_scheduler(parts)
    return found
