"""`GroupBindings`: the members of decided groups, from assumed capacity to the last bind.

The steps of a binding: all members are assumed; they pass reserve and permit; when all wait at
permit they are released to pre-bind; when enough of them have done their pre-bind (volumes, claims)
for the group to begin, they are bound. At most `AT_A_TIME` members take a step in one turn of the
engine: a thousand at once would delay other pods. When a member fails before the first bind of the
binding, all are recalled.
"""

from collections.abc import Collection, Iterator, KeysView, Mapping, Sequence
from enum import StrEnum

import msgspec

from scheduler.engine.binding.inflight import InFlight, objection
from scheduler.engine.groups import MemberEnded
from scheduler.framework.groups import GroupPlanner, GroupStage, title
from scheduler.framework.status import unschedulable
from scheduler.groups.cycle.counts import GroupAttempt
from scheduler.groups.cycle.states import GroupState, MemberCause, MemberState, member_after
from scheduler.groups.cycle.steps import GroupSteps
from scheduler.groups.cycle.writing import Writing
from scheduler.groups.sources.registry import group_of

PERMIT_TIMEOUT_S = 60.0
MOST_NAMED = 3
AT_A_TIME = 64  # how many members one turn of the engine advances: other pods need the turn as well


class GroupStep(StrEnum):
    """The step that the members in `GroupBinding.left` have to take."""

    RESERVE = "reserve"
    PRE_BIND = "pre-bind"
    BIND = "bind"
    RECALL = "recall"


class GroupBinding(msgspec.Struct, eq=False):
    """The members of a group between decision and bind; `left` still have to take the step.

    `unsent` are the failed members whose bind was not sent, because the group would have begun
    in part. `members` is the state of those in flight by uid, `ended` that of the others, in the
    order in which they ended. `has_newly_ready`: a member has become ready since the last check
    whether the group may begin. `why` is the first failure, `is_error` whether it was an error.
    """

    key: str
    planner: GroupPlanner
    attempt: GroupAttempt
    nodes: int
    left: list[str]
    since: float
    step: GroupStep = GroupStep.RESERVE
    is_broken: bool = False
    hold_s: float = PERMIT_TIMEOUT_S
    unsent: list[str] = msgspec.field(default_factory=list)
    members: dict[str, MemberState] = msgspec.field(default_factory=dict)
    ended: dict[str, MemberState] = msgspec.field(default_factory=dict)
    has_newly_ready: bool = False
    why: str = ""
    is_error: bool = False

    def __post_init__(self) -> None:
        for uid in self.left:
            self.members[uid] = member_after(MemberState.WAITING, MemberCause.PLANNED)

    @property
    def uids(self) -> KeysView[str]:
        """Return the members between decision and bind."""
        return self.members.keys()

    def those(self, *states: MemberState) -> list[str]:
        """Return the members in one of these states."""
        return [uid for uid, state in self.members.items() if state in states]

    @property
    def failed(self) -> list[str]:
        """Return the members that ended without a node."""
        return [uid for uid, state in self.ended.items() if state is not MemberState.BOUND]

    @property
    def has_bound_member(self) -> bool:
        """Return whether a member is bound."""
        return MemberState.BOUND in self.ended.values()

    def end(self, uid: str, cause: MemberCause) -> None:
        """Set the final state of a member by `cause`: bound, or returned to the queue."""
        self.ended[uid] = member_after(self.members.pop(uid), cause)
        self.has_newly_ready = MemberState.READY in self.members.values()

    def move(self, uid: str, cause: MemberCause) -> None:
        """Move a member that stays between decision and bind."""
        self.members[uid] = member_after(self.members[uid], cause)

    def turn_to(self, step: GroupStep, uids: Sequence[str], now: float) -> None:
        """Begin another step with these members."""
        self.step, self.left, self.since = step, list(uids), now


class GroupBindings:
    """All groups between decision and bind, by the group's key; `writing` reports them."""

    def __init__(
        self, steps: GroupSteps, writing: Writing, planners: Mapping[str, GroupPlanner]
    ) -> None:
        self._engine = steps
        self._planners = planners
        self._bindings = steps.bindings
        self._writing = writing
        self._states = writing.states
        self._cluster = steps.attempts.cluster
        self.by_key: dict[str, GroupBinding] = {}
        self._key_of: dict[str, str] = {}

    def begin(self, binding: GroupBinding, members: Sequence[InFlight], now: float) -> None:
        """Carry out a plan for members that are assumed already."""
        self.by_key[binding.key] = binding
        self._key_of.update(dict.fromkeys(binding.uids, binding.key))
        for member in members:
            self._engine.enter(member, now)
        own = binding.planner.name
        at_once = any(_books_more(member, own) for member in members)
        self._go_on(binding, len(members) if at_once else AT_A_TIME, now)
        self.settle(now)

    def settle(self, now: float) -> None:
        """Release groups to pre-bind whose members all wait at permit."""
        for binding in list(self.by_key.values()):
            is_reserved = self._states.of(binding.key) is GroupState.RESERVED
            can_go = is_reserved and not binding.is_broken and not binding.left
            if can_go and self._is_complete(binding):
                binding.turn_to(GroupStep.PRE_BIND, sorted(binding.uids), now)
                self._writing.report_stage(binding.planner, binding.key, GroupStage.PERMITTED, now)

    def go_on(self, now: float) -> None:
        """Advance some members of each group; request another turn of the engine for the rest."""
        for binding in list(self.by_key.values()):
            most = AT_A_TIME - self._go_on(binding, AT_A_TIME, now)
            self._begin_binds(binding, now)
            if binding.step is GroupStep.BIND and len(binding.left) <= most:
                self._go_on(binding, most, now)
        self.settle(now)

    def member_ready(self, uid: str) -> bool:
        """Note that the pre-bind of a member is done; return whether it waits for its group."""
        binding = self.by_key.get(self.key_of(uid))
        if binding is None:
            return False
        binding.move(uid, MemberCause.READY)
        binding.has_newly_ready = True
        return True

    def awaited(self, uid: str) -> str:
        """Return the members whose pre-bind a member waits for, of many the first few."""
        binding = self.by_key.get(self.key_of(uid))
        if binding is None:
            return ""
        pods = (self._bindings.get(one) for one in binding.those(MemberState.PERMITTED))
        names = sorted(one.queued.pod.key for one in pods if one is not None)
        rest = len(names) - MOST_NAMED
        return ", ".join(names[:MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")

    def key_of(self, uid: str) -> str:
        """Return the group of a member, or an empty text."""
        return self._key_of.get(uid, "")

    def member_ended(self, ended: MemberEnded, now: float) -> GroupBinding | None:
        """Note how a member ended; return its group's binding if it was the last one, else None."""
        pod, is_bound = ended.pod, ended.is_bound
        binding = self.by_key.get(self._key_of.pop(pod.uid, ""))
        if binding is None:
            return None
        binding.end(pod.uid, _ending(pod, is_bound=is_bound))
        if pod.is_unsent and not is_bound:
            binding.unsent.append(pod.uid)
        if not is_bound and not binding.is_broken:
            binding.is_broken = True
            binding.why = f"{pod.queued.pod.key} failed: {ended.message}"
            binding.is_error = ended.is_error
            # A bind may be sent long after its decision: other binds fail, members are deleted, and
            # descriptions change.
            has_bound_member = binding.has_bound_member or binding.step is GroupStep.BIND
            stay = binding.left if has_bound_member else sorted(binding.uids)
            binding.turn_to(GroupStep.RECALL, stay, now)
            self._go_on(binding, AT_A_TIME, now)
        if binding.uids or self.by_key.get(binding.key) is not binding:
            return None
        del self.by_key[binding.key]
        return binding

    def objection(self, uid: str) -> str:
        """Return why a member must not be bound now, or an empty text: it would begin a group in
        part.
        """
        binding = self.by_key.get(self.key_of(uid))
        if binding is None:
            return self._joined(uid)
        # the result for one member applies to equivalent ones on its node
        displaced = self._without_place(binding)
        return binding.planner.group_short(binding.key, uid, binding.uids, displaced)

    def _joined(self, uid: str) -> str:
        """Return why a pod that was decided alone must not be bound: it has become a member of a
        group.
        """
        member = self._bindings.get(uid)
        planner = None if member is None else self._planners.get(member.queued.profile)
        key = "" if member is None or planner is None else planner.group_of(member.queued.pod)
        if planner is None or not key:
            return ""
        unbound = {one.pod.metadata.uid for one in self._cluster.pods if one.assumed}
        return planner.group_short(key, uid, unbound, ())

    def _without_place(self, binding: GroupBinding) -> Iterator[str]:
        """Yield the unreleased members whose node was deleted or lacks capacity now."""
        if binding.is_broken:
            yield from binding.left
        lost: dict[tuple[str, int], bool] = {}  # the same for all pods of one subgroup
        for uid in binding.uids:
            member = self._bindings.get(uid)
            if member is None:
                continue
            place = (member.node, member.cycle.shape.id)
            if place not in lost:
                lost[place] = bool(objection(member, self._cluster))
            if lost[place]:
                yield uid

    def next_deadline(self) -> float | None:
        """Return since when members wait for their next step, or None."""
        waiting = (one for one in self.by_key.values() if one.left or one.has_newly_ready)
        return min((one.since for one in waiting), default=None)

    def has_work(self) -> bool:
        """Return whether members wait only for the next turn."""
        return any(binding.left or binding.has_newly_ready for binding in self.by_key.values())

    def _begin_binds(self, binding: GroupBinding, now: float) -> None:
        """Turn to the binds of the members that are ready, if the group may begin with them."""
        if binding.left or not binding.has_newly_ready:
            return
        binding.has_newly_ready = False
        starting = list(self._starting(binding, frozenset(binding.those(MemberState.PERMITTED))))
        if starting:
            for uid in starting:
                binding.move(uid, MemberCause.STARTED)
            binding.turn_to(GroupStep.BIND, sorted(starting), now)

    def _starting(self, binding: GroupBinding, pending: Collection[str]) -> Iterator[str]:
        """Yield the ready members that may be bound before the `pending` ones have done their
        pre-bind.
        """
        short: dict[str, str] = {}  # a member has failed: all are recalled
        for uid in binding.those(MemberState.READY):
            member = self._bindings.get(uid)
            own = "" if member is None else group_of(member.queued.pod)
            if pending and own not in short:
                short[own] = binding.planner.group_short(binding.key, uid, binding.uids, pending)
            if not short.get(own):
                yield uid

    def _go_on(self, binding: GroupBinding, most: int, now: float) -> int:
        """Let up to `most` members take the step; return how many were taken."""
        step, some = binding.step, binding.left[:most]
        del binding.left[:most]
        for uid in some:
            if step is GroupStep.PRE_BIND:
                self._bindings.allow(uid, binding.planner.name, now)
            elif step is GroupStep.BIND:
                self._bindings.resume(uid, now)
            elif step is GroupStep.RECALL:
                text = f"the group {title(binding.key)} is bound together, and {binding.why}"
                status = msgspec.structs.replace(unschedulable(text), plugin=binding.planner.name)
                self._bindings.recall(uid, status, now)
            elif not self._reserve(binding, uid, now):
                break  # it has failed: all are recalled
        return len(some)

    def _reserve(self, binding: GroupBinding, uid: str, now: float) -> bool:
        """Reserve for a member and run permit; return False if either fails."""
        member = self._bindings.get(uid)
        if member is None:
            return True
        if member.queued.pod.is_terminating:
            self._bindings.abandon(uid, now)
        else:
            hold = (binding.planner.name, binding.hold_s)
            self._engine.carry_out(member, binding.nodes, hold, now)
        return self._bindings.get(uid) is not None

    def _is_complete(self, binding: GroupBinding) -> bool:
        """Return whether all members have reached permit and only the group's plugin keeps them
        there.
        """
        waiting = self._bindings.waiting
        for uid, state in binding.members.items():
            if state is not MemberState.ASSIGNED:
                continue
            if not waiting.waits_only_for(uid, binding.planner.name):
                return False
            binding.members[uid] = member_after(state, MemberCause.PERMITTED)
        return True


def _ending(pod: InFlight, *, is_bound: bool) -> MemberCause:
    """Return the cause by which a member left the bindings."""
    if is_bound:
        return MemberCause.BOUND
    return MemberCause.REMOVED if pod.is_lost else MemberCause.REJECTED


def _books_more(member: InFlight, own: str) -> bool:
    """Return whether reserve allocates what the cluster does not count: all members then reserve in
    one turn.
    """
    skipped = member.states.skipped
    return any(
        bound.name != own and bound.name not in skipped for bound in member.runner.profile.reserve
    )
