"""States of a group and of its members: the table of all legal transitions.

`Writing` moves groups and `GroupBinding` moves members through this table; a transition that it
does not list is rejected. While no attempt is in progress, a group's state follows the members that
the API server reports. `python -m docs.generate` writes the table and its drawing to
docs/reference/group-states.md.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from scheduler.base.sweep import Sweep
from scheduler.framework.groups import GroupStage
from scheduler.groups.sources.configmap import BOUND


class GroupState(StrEnum):
    """The state of a group."""

    PENDING = "pending"
    GATED = "gated"
    PLANNING = "planning"
    RESERVED = "reserved"
    BINDING = "binding"
    BOUND = "bound"
    DISSOLVING = "dissolving"


class MemberState(StrEnum):
    """The state of one member of a group."""

    WAITING = "waiting"
    ASSIGNED = "assigned"
    PERMITTED = "permitted"
    READY = "ready"
    BINDING = "binding"
    BOUND = "bound"
    COMPLETED = "completed"
    LOST = "lost"


class Observed(StrEnum):
    """Causes of a group's transitions that are no stage of an attempt."""

    ABANDONED = "Abandoned"
    COMPLETE = "Complete"
    INCOMPLETE = "Incomplete"
    EMPTY = "Empty"


class MemberCause(StrEnum):
    """Causes of a member's transitions."""

    PLANNED = "Planned"
    PERMITTED = "Permitted"
    READY = "Ready"
    STARTED = "Started"
    BOUND = "Bound"
    REJECTED = "Rejected"
    FINISHED = "Finished"
    REMOVED = "Removed"


Cause: TypeAlias = GroupStage | Observed


class IllegalMoveError(ValueError):
    """A cause that the table does not list for the state."""


class GroupMove(msgspec.Struct, frozen=True):
    """One row of the table: in any of the states `before`, `cause` leads to `after` (None: the
    state stays).

    `by` is the component that causes the transition, `writes` what it writes. `status` is the
    group's status in later reports, by Sakkara's names; empty if the cause alone does not determine
    it.
    """

    before: tuple[GroupState, ...]
    cause: Cause
    after: GroupState | None
    by: str
    writes: str = "nothing"
    status: str = ""


class MemberMove(msgspec.Struct, frozen=True):
    """One row of the members' table; the fields are those of `GroupMove`."""

    before: tuple[MemberState, ...]
    cause: MemberCause
    after: MemberState
    by: str
    writes: str = "nothing"


# Statuses of a group in reports and in its ConfigMap, by Sakkara's names.
WAITING, READY, ASSIGNED, PERMITTED = "Waiting", "Ready", "Assigned", "Permitted"
PREEMPTING, PREEMPTED, FAILED = "Preempting", "Preempted", "Failed"

_G, _M, _S = GroupState, MemberState, GroupStage
# The states without an attempt in progress.
AT_REST: Final = (_G.PENDING, _G.GATED, _G.BOUND, _G.DISSOLVING)
IN_ATTEMPT: Final = (_G.PLANNING, _G.RESERVED, _G.BINDING)

GROUP_MOVES: Final = (
    GroupMove(
        (_G.PENDING, _G.GATED),
        _S.ON_HOLD,
        _G.GATED,
        "pre-enqueue of a member",
        "condition of each gated member; the group's object if its description is invalid",
    ),
    GroupMove(
        (_G.BOUND, _G.DISSOLVING, *IN_ATTEMPT),
        _S.ON_HOLD,
        None,
        "pre-enqueue of a member that this attempt does not include",
        "condition of each gated member",
    ),
    GroupMove(
        AT_REST,
        _S.STARTED,
        _G.PLANNING,
        "the queue: a member was popped, the wanted members are taken out with it",
        "`Waiting`, if the group's object says that an earlier run of it is bound",
        status=READY,
    ),
    GroupMove(
        (_G.PLANNING,),
        Observed.ABANDONED,
        _G.PENDING,
        "a member or the description changed, an earlier group came, the leadership ended, or a "
        "plugin failed",
        "a plugin's failure: condition and event of each member",
    ),
    GroupMove(
        (_G.PLANNING,),
        _S.REFUSED,
        _G.PENDING,
        "the plan: the members cannot be placed",
        "message and condition of the group's object, condition and event of each member",
    ),
    GroupMove(
        (_G.PLANNING,),
        _S.PREEMPTING,
        _G.PENDING,
        "the plan: victims have to leave first",
        "nominated node of each member, evictions with their events, `Preempting` on the object",
        status=PREEMPTING,
    ),
    GroupMove(
        (_G.PLANNING,),
        _S.DISSOLVED,
        _G.DISSOLVING,
        "the plan: the group was never complete and cannot become so",
        "event and message of the group's object, evictions of its bound members",
        status=WAITING,
    ),
    GroupMove(
        (_G.PLANNING,),
        _S.ASSIGNED,
        _G.RESERVED,
        "the plan: capacity is assumed for all its members at once",
        status=ASSIGNED,
    ),
    GroupMove(
        (_G.RESERVED,),
        _S.PERMITTED,
        _G.BINDING,
        "the last member passed reserve and permit",
        status=PERMITTED,
    ),
    GroupMove(
        (_G.RESERVED, _G.BINDING),
        _S.BOUND,
        _G.BOUND,
        "the last member of the plan is bound (by another client while reserved)",
        "status, placement, ranks and proof on the object, labels of members, event",
        status=BOUND,
    ),
    GroupMove(
        (_G.RESERVED, _G.BINDING),
        _S.RELEASED,
        _G.PENDING,
        "a member failed: the others that are not bound are recalled, and the last has ended",
        "`Waiting` on the group's object",
        status=WAITING,
    ),
    GroupMove(
        AT_REST,
        Observed.COMPLETE,
        _G.BOUND,
        "the API server reports that the minimum is bound or finished",
        "what the group's object lacks of the placement",
    ),
    GroupMove(
        (_G.BOUND,),
        Observed.INCOMPLETE,
        _G.PENDING,
        "an eviction, a deletion or the loss of a node left fewer than the minimum",
        "`Waiting` on a ConfigMap, counts on a PodGroup",
    ),
    GroupMove(
        (_G.PENDING, _G.GATED, _G.DISSOLVING),
        Observed.INCOMPLETE,
        None,
        "the API server reports fewer members than the minimum",
    ),
    GroupMove(
        (_G.BOUND, _G.DISSOLVING),
        Observed.EMPTY,
        _G.PENDING,
        "the last bound member is gone",
        "counts on a PodGroup",
    ),
    GroupMove(
        (_G.PENDING, _G.GATED),
        Observed.EMPTY,
        None,
        "the API server reports no bound member",
    ),
)

MEMBER_MOVES: Final = (
    MemberMove(
        (_M.WAITING,),
        MemberCause.PLANNED,
        _M.ASSIGNED,
        "the plan: its capacity is assumed on the node",
    ),
    MemberMove(
        (_M.ASSIGNED,),
        MemberCause.PERMITTED,
        _M.PERMITTED,
        "reserve and permit: no plugin but the group's keeps it waiting",
    ),
    MemberMove(
        (_M.PERMITTED,),
        MemberCause.READY,
        _M.READY,
        "pre-bind: its volumes and claims are there",
        "volumes and claims; after 30 s of waiting the pod's condition",
    ),
    MemberMove(
        (_M.READY,),
        MemberCause.STARTED,
        _M.BINDING,
        "enough members are ready for the group to begin",
        "the bind",
    ),
    MemberMove(
        (_M.WAITING, _M.ASSIGNED, _M.PERMITTED, _M.READY, _M.BINDING),
        MemberCause.BOUND,
        _M.BOUND,
        "the API server: answer to the bind, or the watch",
        "spec.nodeName, event `Scheduled`",
    ),
    MemberMove(
        (_M.ASSIGNED, _M.PERMITTED, _M.READY, _M.BINDING),
        MemberCause.REJECTED,
        _M.WAITING,
        "a plugin, a time-out, a refused bind, or the recall with its group",
        "condition and event of the pod",
    ),
    MemberMove(
        (_M.BOUND,),
        MemberCause.FINISHED,
        _M.COMPLETED,
        "the kubelet: phase Succeeded or Failed",
        "counts on a PodGroup",
    ),
    MemberMove(
        (
            _M.WAITING,
            _M.ASSIGNED,
            _M.PERMITTED,
            _M.READY,
            _M.BINDING,
            _M.BOUND,
            _M.COMPLETED,
        ),
        MemberCause.REMOVED,
        _M.LOST,
        "a deletion, an eviction, or a bind to another node by another client",
        "counts on a PodGroup",
    ),
)

_GROUP_AFTER: Final[Mapping[tuple[GroupState, Cause], GroupState]] = {
    (before, move.cause): move.after or before for move in GROUP_MOVES for before in move.before
}
_MEMBER_AFTER: Final[Mapping[tuple[MemberState, MemberCause], MemberState]] = {
    (before, move.cause): move.after for move in MEMBER_MOVES for before in move.before
}

STATUS_AFTER: Final[Mapping[Cause, str]] = {
    move.cause: move.status for move in GROUP_MOVES if move.status
}


def group_after(before: GroupState, cause: Cause) -> GroupState:
    """Return the state of a group after `cause`; raise `IllegalMoveError` if the table has no such
    row.
    """
    after = _GROUP_AFTER.get((before, cause))
    if after is None:
        raise IllegalMoveError(f"a group that is {before} cannot take {cause}")
    return after


def member_after(before: MemberState, cause: MemberCause) -> MemberState:
    """Return the state of a member after `cause`; raise `IllegalMoveError` if the table has no such
    row.
    """
    after = _MEMBER_AFTER.get((before, cause))
    if after is None:
        raise IllegalMoveError(f"a member that is {before} cannot take {cause}")
    return after


def observed(present: int, minimum: int) -> Observed:
    """Return the cause for a group at rest with this many bound or finished members."""
    if 0 < minimum <= present:
        return Observed.COMPLETE
    return Observed.INCOMPLETE if present else Observed.EMPTY


class GroupStates:
    """The state of each group by key; a group without an entry is pending."""

    def __init__(self) -> None:
        self._of: dict[str, GroupState] = {}
        self._sweep = Sweep()

    def of(self, key: str) -> GroupState:
        """Return the state of a group."""
        return self._of.get(key, GroupState.PENDING)

    @property
    def known(self) -> Mapping[str, GroupState]:
        """Return the states of groups that are not pending, by key."""
        return self._of

    def move(self, key: str, cause: Cause) -> None:
        """Move a group; raise `IllegalMoveError` and leave its state if the table has no such
        row.
        """
        after = group_after(self.of(key), cause)
        if after is GroupState.PENDING:
            self._of.pop(key, None)
        else:
            self._of[key] = after

    def is_at_rest(self, key: str) -> bool:
        """Return whether no attempt to place the group is in progress."""
        return self.of(key) in AT_REST

    def sweep(self, is_there: Callable[[str], bool]) -> None:
        """Drop groups at rest that have neither an object nor a pod, once there are many
        entries.
        """
        self._sweep.clear(self._of, lambda key: not self.is_at_rest(key) or is_there(key))
