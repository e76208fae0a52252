"""`Decider`: where the members of a group go, whom to evict for them, or why they have to wait.

Asks the solver, tries its answer with every filter while all members are in place, and asks again with
what that teaches. Changes nothing but the group's record; the engine carries out what it returns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from scheduler.base.arrays import IntColumn, lower_of
from scheduler.base.errors import ObjectError
from scheduler.framework import groups
from scheduler.framework.calls import SolverCall
from scheduler.framework.handle import Handle
from scheduler.framework.status import Code, Status, unresolvable, unschedulable
from scheduler.groups.args import ClusterTopologyPlacementGroupArgs
from scheduler.groups.capacity import Lack, lack_of
from scheduler.groups.cycle.states import FAILED
from scheduler.groups.description import deadlines, nesting, ownrules, past
from scheduler.groups.description.describing import Descriptions
from scheduler.groups.description.history import GroupHistory
from scheduler.groups.description.members import GroupMembers
from scheduler.groups.description.spec import GroupSpec, check_levels
from scheduler.groups.planning import (
    between,
    lastresort,
    messages,
    mixing,
    planning,
    preferences,
    repairs,
    shapes,
)
from scheduler.groups.planning.evicting import GroupEvictor
from scheduler.groups.planning.mixer import MixedPlanner
from scheduler.groups.planning.recording import PlanRecorder
from scheduler.groups.planning.task import (
    ROUNDS,
    GroupTask,
    Steps,
    awaits_room,
    incomplete,
    leaving,
    limits_of,
    solution_of,
    staying,
    unanswered,
    undecided,
    with_rules,
)
from scheduler.groups.problem.answer import SolvedStage
from scheduler.groups.solver.questions import Place
from scheduler.groups.sources import configmap
from scheduler.groups.sources import registry as sources
from scheduler.groups.status.lifecycle import GroupRecord
from scheduler.groups.status.records import RecordStore
from scheduler.groups.topology import hypernodes, kueuelevels
from scheduler.groups.topology.leafrows import LeafRows
from scheduler.groups.topology.tree import Topology
from scheduler.groups.topology.trees import Trees
from scheduler.objects.pod import Pod
from scheduler.plugins.deviceclasses import DEVICE_CLASS
from scheduler.state.podindex import Placed
from scheduler.state.resources import Amounts

RELEASE_AGAIN_S = 60.0


class Decider:
    """Plans groups for one profile; `records` keep the findings by group."""

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
        self._recorder = PlanRecorder(records, handle.pods)
        self._mixer = MixedPlanner(solution_of, self._recorder.solved, self._recorder.refusal)
        self._evictor = GroupEvictor(args, handle, described, self._mixer)
        self._leaf_rows = LeafRows()

    def leaving(self, key: str) -> bool:
        """Whether pods that were evicted for a group are still on their way out."""
        record = self._records.get(key)
        return record is not None and bool(leaving(self._handle, record.awaited))

    def may_ever_evict(
        self, spec: GroupSpec, pods: Sequence[Pod], standing: Sequence[Placed]
    ) -> bool:
        """Whether others may be evicted for waiting members of a group of which these stand."""
        return self._evictor.may_ever_evict(spec, pods, standing)

    def hold(self, key: str, message: str) -> None:
        """Keep why a group cannot be decided at all."""
        record = self._records.of(key)
        record.status, record.message = FAILED, message

    def plan(self, key: str, context: groups.PlanningContext) -> Steps:
        """Decide where all members go, whom to evict for them, or why they have to wait."""
        record = self._records.of(key)
        record.reporter = context.members[0].spec.scheduler_name
        record.refused = record.refused.union(one.metadata.uid for one in context.members)
        name = groups.title(key)
        try:
            described = self._described.group(key)
            if described is None:
                return unresolvable(sources.missing(key))
            self._described.check(key, context.members)
            standing = staying(self._handle, self._members.standing(key))
            asked, needed = self._history.asked(key, described, standing, context.members)
            spec, deadline = deadlines.at_time(asked, context.members, context.now)
            tree = self._trees.of(spec, context.nodes)
            spec = kueuelevels.resolved(hypernodes.resolved(spec, tree), tree)
            check_levels(spec, tree.levels, tree.source)
            requests = planning.requests(context.members)
        except ObjectError as error:
            self.hold(key, error.message)
            return unresolvable(f"the group {name} is held: {error.message}")
        try:
            members, parts = self._kinds(context, spec, tree, requests, standing)
        except ObjectError as error:
            self.hold(key, error.message)
            return unresolvable(f"the group {name} is held: {error.message}")
        unlike = planning.misclassed(spec, context.members)
        unlike = unlike or ("" if spec.has_classes else planning.unlike(context.members, requests))
        if unlike:
            self.hold(key, unlike)
            return unresolvable(f"the group {name} is held: {unlike}")
        record.tree = tree
        record.retries += 1
        record.conflict, record.would_fit, record.is_final = (), 0, False
        record.lack = None
        if (
            spec.tree is None and len(standing) + len(context.members) < spec.size
        ):  # some went while it stood in the line
            return undecided(incomplete(spec))
        task = GroupTask(
            key,
            spec,
            tree,
            context,
            requests,
            standing,
            members,
            described=described,
            needs=needed,
            deadline=deadline,
            shapes=parts,
        )
        record.is_partial = bool(task.standing)
        awaited = awaits_room(context, self._handle)
        plan = yield from self._decided(task, record)
        if isinstance(plan, Status) and (awaited or awaits_room(context, self._handle)):
            # Whom it waits for makes room that nothing was planned with yet, or was not when the solver was asked.
            plan = undecided(plan.message) if plan.is_rejected else plan
        if deadline is not None and isinstance(plan, Status) and plan.is_rejected:
            text = messages.sentences(plan.message, deadline.told(context.now))
            plan = undecided(text, deadline.at)
        record.refused = task.still_refused(record.refused, plan, self._handle)
        record.lack = self._lack(task, plan)
        if isinstance(plan, Status):
            record.message, record.is_error = plan.message, plan.code is Code.ERROR
            half = self._members.standing(key)
            is_proven = not isinstance(plan, groups.UndecidedStatus)
            if is_proven and self._may_release(key, needed, half, context):
                record.released_at = context.now
                return groups.GroupRelease(tuple(half), plan.message)
        elif isinstance(plan, groups.GroupPlan) and plan.victims:
            record.victims, record.message = plan.victims, plan.message
            record.awaited = frozenset(victim.pod.metadata.uid for victim in plan.victims)
        return plan

    def _lack(self, task: GroupTask, plan: groups.Outcome) -> Lack | None:
        """Return what a refused group lacks at least; None where that cannot be said by amounts alone."""
        spec, pods = task.spec, task.context.members
        missing = spec.size - len(task.standing)
        is_refused = isinstance(plan, Status) and plan.is_rejected
        if not is_refused or missing < 1 or spec.tree is not None:
            return None
        if self._evictor.may_ever_evict(spec, pods, task.standing):
            return None
        return lack_of(missing, task.requests.values())

    def _kinds(
        self,
        context: groups.PlanningContext,
        spec: GroupSpec,
        tree: Topology,
        requests: Mapping[str, Amounts],
        standing: Sequence[Placed],
    ) -> tuple[list[mixing.AlikeMembers], tuple[shapes.GroupShape, ...]]:
        """Return the members by kind, none where all are alike, and of a group of groups whose they are."""
        if spec.tree is None:
            return mixing.members(context, spec, requests, self._handle.objects(DEVICE_CLASS)), ()
        own = ownrules.by_group(spec.tree, tree.levels, spec.constraints)
        return shapes.members(spec.tree, own, context, requests, standing)

    def _decided(self, task: GroupTask, record: GroupRecord) -> Steps:
        """Place the members, or evict others for them, or say why neither can be."""
        outside = self._outside(task)
        if outside is not None:
            return outside
        is_mixed = len(task.kinds) > 1 or task.spec.classes is not None or bool(task.shapes)
        # All members that the minimum lacks at once, also on nodes that are taken last, before some of them.
        whole = self._to_minimum(task)
        if whole.spec != task.spec:
            passes = lastresort.passes(whole, self._args)
            plan = yield from self._first_placed(passes, is_mixed=is_mixed)
            if not isinstance(plan, Status) or not plan.is_rejected:
                return plan
        everywhere = lastresort.passes(task, self._args)
        plan = yield from self._first_placed(everywhere, is_mixed=is_mixed)
        if isinstance(plan, Status):
            plan = lastresort.told(plan, everywhere[-1])
        task = everywhere[0]  # nobody is evicted for a place on a node that is taken last
        # Evictions are for the minimum: all members that it lacks, else those that can be had.
        if not isinstance(plan, Status) or not self._evictor.may_evict(whole, record):
            return plan
        if task.deadline is not None:
            return plan  # nobody is evicted for what is a wish in a while
        for part in (whole,) if whole.spec == task.spec else (whole, task):
            evicting = yield from (
                self._evictor.evicting_mixed if is_mixed else self._evictor.evicting
            )(part)
            if evicting is not None:
                return evicting
        return plan

    def _to_minimum(self, task: GroupTask) -> GroupTask:
        """Return the task of bringing a group to its minimum at once."""
        whole = task.to_minimum()
        if whole.spec.tree is None or whole.spec.tree == task.spec.tree:
            return whole
        members, parts = self._kinds(
            task.context, whole.spec, task.tree, task.requests, task.standing
        )
        return msgspec.structs.replace(whole, kinds=members, shapes=parts)

    def _first_placed(self, everywhere: Sequence[GroupTask], *, is_mixed: bool) -> Steps:
        """Return the first plan that places members, or the last refusal.

        Room that somebody else is promised is left to them as long as the group is placed without it, though it
        may be more important: others have gone for that room, and would have gone in vain.
        """
        task = everywhere[0]
        plan: groups.Outcome = unschedulable()
        spares = task.context.spare(promised=True)
        for promised in (True, False) if spares else (False,):
            task.context.spare(promised=promised)
            for part in map(_apart, everywhere) if promised else everywhere:
                plan = yield from (self._placed_mixed if is_mixed else self._placed)(part)
                if not isinstance(plan, Status) or not plan.is_rejected:
                    return plan
        return plan

    def _outside(self, task: GroupTask) -> Status | None:
        """Return why nothing can be placed whatever the room: members in the wrong place, or needs."""
        spec, tree = task.spec, task.tree
        if spec.key_label and task.standing:
            where = {name: path[0] for path, name in tree.leaves}
            found = {where.get(one.node, nesting.NOWHERE) for one in task.standing}
            if len(found) > 1 or nesting.NOWHERE in found:
                text = messages.apart(spec.key_label, task.standing, where)
                # kube-scheduler: an error, which it tries again and again. A member that goes ends it, or a label.
                return groups.HeldStatus(Code.ERROR, (f"the group {task.name} is held: {text}",))
        misplaced = "" if spec.tree is None else shapes.torn(spec.tree, tree, task.standing)
        if misplaced:
            return groups.HeldStatus(Code.ERROR, (f"the group {task.name} is held: {misplaced}",))
        asked = [task.requests[pod.metadata.uid] for pod in task.context.members]
        lacking = planning.lacking(spec, task.context, task.standing, asked)
        if lacking:
            return unschedulable(f"the group {task.name} does not fit: {lacking}")
        if spec.classes is not None:
            lacking = spec.classes.lacking(
                (*task.context.members, *(one.pod for one in task.standing))
            )
            if lacking:
                return undecided(f"the group {task.name} waits: {lacking}")
        return None

    def _placed(self, task: GroupTask) -> Steps:
        """Place the members: the group's own terms first, then what claims prefer, then few units."""
        if task.context.members[0].spec.resource_claims:
            plan = yield from self._placed_as_preferred(
                msgspec.structs.replace(task, wants_all=True)
            )
            if not isinstance(plan, Status) or not plan.is_rejected:
                return plan
        return (yield from self._placed_within(task, None))

    def _placed_as_preferred(self, task: GroupTask) -> Steps:
        """Place the members where claims get what they prefer; a refusal if no such plan is as good otherwise."""
        members = task.context.members
        fits = task.context.fits([between.without_spread(pod) for pod in members])
        if fits.costs is None:
            return unschedulable()
        slots = task.allowed(fits.slots)
        own: tuple[SolvedStage, ...] = ()
        if task.spec.constraints:
            site = self._site(task, slots, fits.reach, may_be_thin=False)
            if not site.instance.leaves:
                return unschedulable()
            solution = solution_of((yield self._question(site, holds=False, advise=False)))
            if solution is None or solution.placed.outcome != "placed":
                return unschedulable()
            own = preferences.own_stages(task.spec, solution.placed.stages)
        return (yield from preferences.placed(task, fits, own, self._placed_within))

    def _placed_within(
        self, task: GroupTask, preferred: preferences.PreferredPlaces | None
    ) -> Steps:
        """Ask the solver, try its answer with all filters, and ask again with what that teaches."""
        key, context = task.key, task.context
        most: IntColumn | None = None
        why = ""
        asked = [between.without_spread(pod) for pod in context.members]
        may_be_thin = between.is_free(context.members[0])
        homes = repairs.homes(task.spec, task.tree, task.standing, context.members)
        refused: Status | None = None  # by the rules as they are
        for attempt in range(ROUNDS):
            fits = context.fits(asked)
            slots = task.allowed(fits.slots if most is None else lower_of(fits.slots, most))
            slots = slots if preferred is None else lower_of(slots, preferred.slots)
            site = self._site(task, slots, fits.reach, may_be_thin=may_be_thin)
            if preferred is not None:
                site = preferences.preferring(site, preferred)
            if not site.instance.leaves:
                return self._recorder.no_node(task, site, fits)
            # A second answer must not come too late again: nothing else is placed until it is there.
            if refused is not None:
                site = repairs.mended(site, homes)
            answer = yield self._question(
                site, holds=attempt > 0, advise=preferred is None and not site.is_thin
            )
            if not self._is_unchanged(task):
                return undecided(f"the group {task.name} changed while it was planned")
            solution = solution_of(answer)
            if site.is_thin and solution is not None and solution.placed.outcome == "infeasible":
                # What would help is a question about all leaves.
                may_be_thin = False
                continue
            if solution is None:
                return unanswered(task.name)
            self._recorder.solved(key, solution)
            if solution.placed.outcome != "placed":
                if preferred is not None:
                    return unschedulable()
                if refused is not None:
                    return refused
                refused = self._recorder.refused(task, site, fits, solution, tried=most is not None)
                if repairs.mended(site, homes) is site:
                    return refused
                continue
            if preferred is not None and not preferred.keeps(task.spec, solution.placed.stages):
                return unschedulable()
            nodes = repairs.assign(site, solution.placed.counts, context.members, homes)
            if not nodes:
                return task.left_open(f"has no room for more: {fits.message}")
            misfit = context.hold(nodes)
            if misfit is None:
                return task.plan(nodes, solution.placed.stages)
            most = misfit.most if most is None else lower_of(most, misfit.most)
            why = f"{misfit.reason} on {misfit.node}"
        return task.left_open(f"does not fit: the rules between its members do not hold: {why}")

    def _site(
        self, task: GroupTask, slots: IntColumn, reach: IntColumn | None, *, may_be_thin: bool
    ) -> planning.Site:
        """Return what is asked about: in a large tree only the leaves that the group can use."""
        standing, nodes, count = task.standing, task.context.nodes, len(task.context.members)
        # Any number is a placement that brings the group to its minimum, or one more beyond it.
        is_elastic = task.spec.is_minimum and not task.wants_all
        minimum = max(task.spec.size, len(standing) + 1) if is_elastic else 0
        among = None
        if may_be_thin and reach is None:
            on_them = nodes.rows_named(one.node for one in standing)
            most = count + len(standing)
            among = self._leaf_rows.useful(task.tree, nodes, slots, on_them, most)
        found = planning.site(
            task.spec, task.tree, nodes, slots, standing, count, minimum, among=among
        )
        return with_rules(found, task, self._handle.pods, reach)

    def _question(self, site: planning.Site, *, holds: bool, advise: bool) -> SolverCall:
        limits = limits_of(self._args, self._args.solver_time_limit_seconds)
        question = Place(site.instance, limits, self._args.solver, advise)
        return SolverCall(question, 2 * limits.total_s, holds)

    def _is_unchanged(self, task: GroupTask) -> bool:
        try:
            return self._described.group(task.key) == (task.described or task.spec)
        except ObjectError:
            return False

    def _may_release(
        self, key: str, spec: GroupSpec, half: Sequence[Placed], context: groups.PlanningContext
    ) -> bool:
        """Whether bound members may be let go: the objects prove that the group was never whole.

        Only for groups that are ours to end: a PodGroup's members belong to its controller.
        """
        described_by = self._members.described_by(key)
        is_ours = any(kind == configmap.KIND for kind, _ in described_by)
        if not half or not is_ours or past.was_whole([one.pod for one in half], described_by):
            return False
        if self._records.of(key).released_at > context.now - RELEASE_AGAIN_S:
            return False  # they were told already and are on their way
        waiting = self._handle.group_members(key, context.members[0])
        since = [
            configmap.SOURCE.said_since(obj)
            if kind == configmap.KIND
            else obj.metadata.creation_timestamp
            for kind, obj in described_by
        ]
        return past.never_whole(self._members.placed(key), waiting, spec.size, since)

    def _placed_mixed(self, task: GroupTask) -> Steps:
        """Place members that differ."""
        limits = limits_of(self._args, self._args.solver_time_limit_seconds)

        def is_unchanged() -> bool:
            return self._is_unchanged(task)

        def placed(task: GroupTask) -> Steps:
            return (yield from self._mixer.placed(task, limits, is_unchanged))

        return (yield from preferences.placed_mixed(task, placed))


def _apart(task: GroupTask) -> GroupTask:
    """Return a task with kinds of members of its own: what is learnt of nodes for it holds for no other."""
    kinds = [msgspec.structs.replace(one) for one in task.kinds]
    return msgspec.structs.replace(task, kinds=kinds)
