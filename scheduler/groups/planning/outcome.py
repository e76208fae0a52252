"""`PlanOutcome`: the findings of a plan in the group's record, and whether its bound members are
dissolved.
"""

from collections.abc import Sequence

from scheduler.framework import groups
from scheduler.framework.handle import Handle
from scheduler.framework.status import Code, Status
from scheduler.groups.description.members import GroupMembers
from scheduler.groups.planning import conditions, messages
from scheduler.groups.planning.evicting import GroupEvictor
from scheduler.groups.planning.task import GroupTask, awaits_room, is_refusal, undecided
from scheduler.groups.status.lifecycle import GroupRecord
from scheduler.state.podindex import Placed

RELEASE_AGAIN_S = 60.0


class PlanOutcome:
    """Concludes the plans of one profile."""

    def __init__(self, handle: Handle, members: GroupMembers, evictor: GroupEvictor) -> None:
        self._handle = handle
        self._members = members
        self._evictor = evictor

    def concluded(
        self, task: GroupTask, record: GroupRecord, plan: groups.Outcome, *, awaited: bool
    ) -> groups.Outcome:
        """Keep the findings in the group's record; return the outcome of the attempt."""
        context, deadline = task.context, task.deadline
        if is_refusal(plan) and (awaited or awaits_room(context, self._handle)):
            # The victims of these members free capacity that the plan, or the solver's question,
            # lacked.
            plan = undecided(plan.message)
        if deadline is not None and is_refusal(plan):
            text = messages.sentences(plan.message, deadline.told(context.now))
            plan = undecided(text, deadline.at)
        record.refused = task.still_refused(record.refused, plan, self._handle)
        may_evict = self._evictor.may_ever_evict(task.spec, context.members, task.standing)
        record.lack = conditions.lack(task, plan, may_evict=may_evict)
        if isinstance(plan, groups.GroupPlan) and plan.victims:
            record.expect(plan.victims, plan.message)
        elif isinstance(plan, Status):
            record.message, record.is_error = plan.message, plan.code is Code.ERROR
            bound = self._members.standing(task.key)
            is_proven = not isinstance(plan, groups.UndecidedStatus)
            if is_proven and self._may_dissolve(task, record, bound):
                record.released_at = context.now
                return groups.GroupRelease(tuple(bound), plan.message)
        return plan

    def _may_dissolve(self, task: GroupTask, record: GroupRecord, bound: Sequence[Placed]) -> bool:
        if record.released_at > task.context.now - RELEASE_AGAIN_S:
            return False  # their evictions are under way
        waiting = self._handle.group_members(task.key, task.context.members[0])
        needed = task.needs or task.spec
        return conditions.may_dissolve(task.key, needed, bound, self._members, waiting)
