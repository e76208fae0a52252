"""The plan of a group in seven steps: where its members go, which pods are evicted for them, or why
they wait.

    1 describe   objects and history → what the group asks for now, its minimum and its deadline
    2 tree       node labels, ConfigMap, HyperNodes or Topology → the tree with the group's levels
    3 capacity   filters → how many members each node takes, by role
    4 solve      a question to the solver, in the helper process unless it is small
    5 verify     all filters again, with all members in place; a rejection is learnt, back to 3
    6 reserve    the capacity of the accepted plan stays assumed → `GroupPlan`
    7 evict      if nothing fits: the fewest victims by 3 to 5 → `GroupPlan` with victims

Steps 3 to 5 differ between homogeneous and heterogeneous groups (`planning.placements`). A plan
changes nothing but the group's record; the group's cycle carries out what it returns.
docs/explanation/a-groups-way.md follows this file.
"""

from collections.abc import Callable, Generator, Sequence

import msgspec

from scheduler.base.errors import ObjectError
from scheduler.framework import groups
from scheduler.framework.calls import CallResult, SolverCall
from scheduler.framework.handle import Handle
from scheduler.framework.status import Status, unresolvable, unschedulable
from scheduler.groups.args import ClusterTopologyPlacementGroupArgs
from scheduler.groups.description import deadlines, ownrules
from scheduler.groups.description.describing import Descriptions
from scheduler.groups.description.history import GroupHistory
from scheduler.groups.description.members import GroupMembers
from scheduler.groups.description.spec import check_levels
from scheduler.groups.planning import (
    conditions,
    homogeneous,
    lastresort,
    ordering,
    planning,
    shapes,
)
from scheduler.groups.planning.conditions import GroupEvictor
from scheduler.groups.planning.eviction import with_stranded
from scheduler.groups.planning.placements import ROUNDS, Eviction, Placement, PlanningTools
from scheduler.groups.planning.recording import PlanOutcome, PlanRecorder
from scheduler.groups.planning.roles import heterogeneous, roles
from scheduler.groups.planning.task import (
    GroupTask,
    Steps,
    awaits_capacity,
    incomplete,
    is_refusal,
    solution_of,
    staying,
    unanswered,
    undecided,
)
from scheduler.groups.status.lifecycle import GroupRecord
from scheduler.groups.status.records import RecordStore
from scheduler.groups.topology import hypernodes, kueuelevels
from scheduler.groups.topology.trees import Trees
from scheduler.plugins.deviceclasses import DEVICE_CLASS


class Planner:
    """Plans the groups of one profile; `records` keep the findings by group."""

    def __init__(
        self,
        args: ClusterTopologyPlacementGroupArgs,
        handle: Handle,
        members: GroupMembers,
        described: Descriptions,
        history: GroupHistory,
        trees: Trees,
        records: RecordStore,
    ) -> None:
        self._args = args
        self._handle = handle
        self._members = members
        self._described = described
        self._history = history
        self._trees = trees
        self._records = records
        recorder = PlanRecorder(records, handle.pods)
        self._tools = PlanningTools(args, handle, recorder)
        self.evictor = GroupEvictor(args, handle, described)
        self._outcome = PlanOutcome(handle, members, self.evictor)

    def plan(self, key: str, context: groups.PlanningContext) -> Steps:
        """Return where all members go, which pods are evicted for them, or why they wait."""
        record = self._records.of(key)
        record.reporter = context.members[0].spec.scheduler_name
        record.refused = record.refused.union(one.metadata.uid for one in context.members)
        try:
            task = self._task(key, context)  # 1 describe, 2 tree
            text = "" if task is None else conditions.mismatch(task)
        except ObjectError as error:
            task, text = None, error.message
        if text:
            self._records.hold(key, text)
            return unresolvable(f"the group {groups.title(key)} is on hold: {text}")
        if task is None:
            return unresolvable(self._described.missing(key))
        record.begin(task.tree)
        if task.is_short:
            return undecided(incomplete(task.spec))
        record.is_partial = bool(task.bound)
        awaited = awaits_capacity(context, self._handle)
        plan = yield from self._decided(task, record)  # 3 to 7
        return self._outcome.concluded(task, record, plan, awaited=awaited)

    # 1 describe, 2 tree

    def _task(self, key: str, context: groups.PlanningContext) -> GroupTask | None:
        """Return what this attempt decides, None without a description; raise ObjectError."""
        described = self._described.group(key)
        if described is None:
            return None
        self._described.check(key, context.members)
        bound = staying(self._handle, self._members.bound(key))
        current, needed = self._history.current_spec(key, described, bound, context.members)
        spec, deadline = deadlines.at_time(current, context.members, context.now)
        tree = self._trees.of(spec, context.nodes)
        spec = kueuelevels.resolved(hypernodes.resolved(spec, tree), tree)
        check_levels(spec, tree.levels, tree.source)
        requests = planning.requests(context.members)
        task = GroupTask(key, spec, tree, context, requests, bound, [], described=described)
        task = msgspec.structs.replace(task, needs=needed, deadline=deadline)
        return self._with_roles(task)

    def _with_roles(self, task: GroupTask) -> GroupTask:
        """Return the task with its members by role; of a group of groups also by subgroup."""
        spec, context = task.spec, task.context
        if spec.tree is None:
            classes = self._handle.objects(DEVICE_CLASS)
            members = roles.members(context, spec, task.requests, classes)
            return msgspec.structs.replace(task, roles=members, shapes=())
        own = ownrules.by_group(spec.tree, task.tree.levels, spec.constraints)
        members, parts = shapes.members(spec.tree, own, context, task.requests, task.bound)
        return msgspec.structs.replace(task, roles=members, shapes=parts)

    # 3 capacity to 7 evict: which task is tried, and in which order

    def _decided(self, task: GroupTask, record: GroupRecord) -> Steps:
        """Return a plan that places the members or evicts pods for them, or why neither is
        possible.
        """
        obstacle = conditions.obstacle(task)
        if obstacle is not None:
            return obstacle
        # Place all members that the minimum lacks at once, if need be on the nodes that are used
        # last, rather than some of them.
        whole = task.to_minimum()
        if whole.spec != task.spec:
            if whole.spec.tree is not None and whole.spec.tree != task.spec.tree:
                whole = self._with_roles(whole)
            plan = yield from self._first_placed(lastresort.passes(whole, self._args))
            if not is_refusal(plan):
                return plan
        everywhere = lastresort.passes(task, self._args)
        plan = yield from self._first_placed(everywhere)
        if isinstance(plan, Status):
            plan = lastresort.with_forbidden(plan, everywhere[-1])
        if not isinstance(plan, Status) or not self.evictor.may_evict(whole, record):
            return plan
        if task.deadline is not None:
            # it soon turns a rule into a preference: evictions would serve a preference only
            return plan
        # Evictions are for the minimum, and never for a place on a node that is taken last.
        task = everywhere[0]
        for part in (whole,) if whole.spec == task.spec else (whole, task):
            kind = heterogeneous if part.is_heterogeneous else homogeneous
            evicting = yield from self._evicting(part, kind.eviction)
            if evicting is not None:
                return evicting
        return plan

    def _first_placed(self, everywhere: Sequence[GroupTask]) -> Steps:
        """Return the first plan that places members, or the last refusal.

        Capacity that is reserved for pods of lower priority is used only if the group does not fit
        otherwise: pods were already evicted for it.
        """
        task = everywhere[0]
        plan: groups.Outcome = unschedulable()
        has_lower = task.context.keep_nominations(all_of_them=True)
        for keeps in (True, False) if has_lower else (False,):
            task.context.keep_nominations(all_of_them=keeps)
            for part in (one.copy() for one in everywhere) if keeps else everywhere:
                kind = heterogeneous if part.is_heterogeneous else homogeneous
                plan = yield from kind.placed(part, self._tools, self._placed)
                if not is_refusal(plan):
                    return plan
        return plan

    def _placed(self, placement: Placement) -> Steps:
        """Steps 3 to 6: solve, verify the answer with all filters, solve again without the rejected
        choices.
        """
        task = placement.task
        while True:
            call = placement.question()  # 3 capacity
            if isinstance(call, Status):
                return call
            answer = yield call  # 4 solve
            if not self._is_unchanged(task):
                return undecided(f"the group {task.name} changed while it was planned")
            solution = solution_of(answer)
            if solution is None:
                return unanswered(task.name)
            found = placement.assigned(solution)
            if isinstance(found, Status):
                return found
            if found is None:
                continue
            members, orders = ordering.ordered(task, found.nodes)
            rejection = task.context.hold(members)  # 5 verify
            if rejection is None:
                self._records.of(task.key).orders = orders
                return task.plan(members, found.stages)  # 6 reserve: the members stay assumed
            placement.learn(members, rejection)

    def _evicting(
        self, task: GroupTask, eviction_of: Callable[[GroupTask, PlanningTools], Eviction]
    ) -> Generator[SolverCall, CallResult, groups.GroupPlan | Status | None]:
        """Step 7: return the plan with the fewest victims, None if evictions do not help."""
        eviction: Eviction | None = None
        for _ in range(ROUNDS):
            lower = self.evictor.lower(task)
            if not lower:
                return None
            task.context.seeks_victims()
            if eviction is None:
                eviction = eviction_of(task, self._tools)  # runs all filters again
            if self._args.prefer_victims_that_fit_elsewhere:
                lower = with_stranded(lower, task.context.elsewhere())
            call = eviction.question(lower)
            if call is None:
                return None
            solution = solution_of((yield call))
            offer = unanswered(task.name) if solution is None else eviction.offer(solution)
            if offer is None or isinstance(offer, Status):
                return offer
            nodes, orders = ordering.ordered(task, offer[0])
            victims = offer[1]
            disruption = self.evictor.disruption(task, victims)
            if disruption is None:
                continue  # the next question contains the changes since the solver was called
            rejection = task.context.would_hold(nodes, victims)
            if rejection is None:
                self._records.of(task.key).orders = orders
                plan = task.eviction_plan(nodes, victims, disruption)
                if plan is None or not self._args.prefer_victims_that_fit_elsewhere:
                    return plan
                expected = task.context.elsewhere().destinations(victims)
                return msgspec.structs.replace(plan, expected=expected)
            eviction.learn(nodes, rejection)
        return None

    def _is_unchanged(self, task: GroupTask) -> bool:
        """Return whether the objects still describe the group as they did when this plan began."""
        try:
            return self._described.group(task.key) == (task.described or task.spec)
        except ObjectError:
            return False
