"""The results of a plan in the group's record: proofs of the solver, why the group does not fit,
and whether its bound members are dissolved.

The texts of refusals are made here.
"""

from collections.abc import Sequence

from scheduler.framework import groups
from scheduler.framework.handle import Handle
from scheduler.framework.status import Code, Status, unschedulable
from scheduler.groups.description.members import GroupMembers
from scheduler.groups.planning import conditions, messages, planning
from scheduler.groups.planning.conditions import GroupEvictor
from scheduler.groups.planning.task import GroupTask, awaits_capacity, is_refusal, undecided
from scheduler.groups.problem.answer import Advice, Conflict
from scheduler.groups.solver.questions import Solution
from scheduler.groups.status.lifecycle import GroupRecord
from scheduler.groups.status.records import RecordStore
from scheduler.groups.topology import tree as topology
from scheduler.state.podindex import Placed, PodIndex


class PlanRecorder:
    """Writes `records`, by group; `pods` are those on nodes."""

    def __init__(self, records: RecordStore, pods: PodIndex) -> None:
        self._records = records
        self._pods = pods

    def no_node(self, task: GroupTask, problem: planning.NodeProblem, fits: groups.Fits) -> Status:
        """Return why no node takes any member."""
        text = topology.nowhere(task.tree, task.context.nodes, fits.rows)
        if not text:
            size = Advice((Conflict("", "size", str(problem.instance.least)),))
            found = messages.refusal(task, problem, fits, size, self._pods)
            self.refusal(task.key, found)
            text = found.text
        return unschedulable(f"the group {task.name} does not fit: {text}")

    def refused(
        self,
        task: GroupTask,
        problem: planning.NodeProblem,
        fits: groups.Fits,
        solution: Solution,
        *,
        tried: bool,
    ) -> Status:
        """Return why the solver's answer places no member; `tried` if it relies on learnt
        bounds.
        """
        if solution.placed.outcome == "unknown" or solution.advice is None:
            return task.left_open("waits: the solver found nothing within its time")
        found = messages.refusal(task, problem, fits, solution.advice, self._pods)
        self.refusal(task.key, found)
        text = f"does not fit: {found.text}"
        if tried:
            # Bounds that were learnt from a rejection may be tighter than the rules: no proof.
            return task.left_open(
                messages.sentences(text, "rules between members were counted as well")
            )
        return unschedulable(f"the group {task.name} {text}")

    def solved(self, key: str, solution: Solution) -> None:
        """Store the proof of a solve for reports about the group."""
        record, found = self._records.of(key), solution.roles or solution.placed
        record.solver_s = found.seconds
        before = record.proof
        record.proof = before.after(
            found.outcome, found.stages, optimal=found.optimal, is_partial=record.is_partial
        )
        if record.proof is not before:
            record.is_whole = bool(record.proof.bound) and not record.is_partial

    def refusal(self, key: str, found: messages.GroupRefusal) -> None:
        """Record why a group does not fit."""
        record = self._records.of(key)
        record.conflict, record.would_fit = found.conflict, found.would_fit
        record.is_final = found.is_final


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
        if is_refusal(plan) and (awaited or awaits_capacity(context, self._handle)):
            # Concludes the plans of one profile.
            plan = undecided(plan.message)
        if deadline is not None and is_refusal(plan):
            text = messages.sentences(plan.message, deadline.text(context.now))
            plan = undecided(text, deadline.at)
        record.refused = task.still_refused(record.refused, plan, self._handle)
        may_evict = self._evictor.may_ever_evict(task.spec, context.members, task.bound)
        record.lack = conditions.lack(task, plan, may_evict=may_evict)
        if isinstance(plan, groups.GroupPlan) and plan.victims:
            record.expect(plan.victims, plan.message)
        elif isinstance(plan, Status):
            record.message, record.is_error = plan.message, plan.code is Code.ERROR
            bound = self._members.bound(task.key)
            is_proven = not isinstance(plan, groups.UndecidedStatus)
            if is_proven and self._may_dissolve(task, record, bound):
                record.released_at = context.now
                return groups.GroupRelease(tuple(bound), plan.message)
        return plan

    def _may_dissolve(self, task: GroupTask, record: GroupRecord, bound: Sequence[Placed]) -> bool:
        if record.released_at > task.context.now - RELEASE_AGAIN_S:
            return False  # their evictions are in progress
        waiting = self._handle.group_members(task.key, task.context.members[0])
        needed = task.needs or task.spec
        return conditions.may_dissolve(task.key, needed, bound, self._members, waiting)
