"""`Groups`: pods that are decided together, from the queue to the last bind.

A pod of a group is popped like any other; its group is then taken out of the queue as a whole and
planned by its plugin, which may call the solver and waits for the answer while other pods are
scheduled. Until it is decided, its possible nodes are reserved against later pods (`planned`).
Groups that could use the same nodes are planned one after the other, in queue order: a plan is
stale once another group is placed. A plan is carried out for all members or for none: they are
assumed at once, `bindings` does the rest. A rejection of many members is spread over several turns
of the engine.

Trees, rules and ConfigMaps belong to the plugin (framework.groups), writes to `writing`.
"""

from bisect import insort
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from scheduler.base.errors import PluginError
from scheduler.engine.attempt.suspended import CycleEnded, CycleSteps
from scheduler.engine.binding.inflight import InFlight
from scheduler.engine.effects import Leading
from scheduler.engine.groups import EngineParts, GroupEvent, GroupsState, MemberEnded, PlanAborted
from scheduler.engine.queue.pod import QueuedPod, Where
from scheduler.framework.calls import CallResult
from scheduler.framework.cycle import Cycle
from scheduler.framework.groups import (
    GroupPlan,
    GroupPlanner,
    GroupRelease,
    GroupStage,
    Outcome,
    UndecidedStatus,
)
from scheduler.framework.status import Code, Status, unschedulable
from scheduler.groups.cycle.bindings import AT_A_TIME, GroupBinding, GroupBindings
from scheduler.groups.cycle.context import GroupContext
from scheduler.groups.cycle.counts import GroupCounts
from scheduler.groups.cycle.inline import InlineSolver
from scheduler.groups.cycle.left import LeftMembers
from scheduler.groups.cycle.pace import GatePace
from scheduler.groups.cycle.planned import PlannedCapacity
from scheduler.groups.cycle.refusals import MemberRefusals
from scheduler.groups.cycle.run import GroupRun
from scheduler.groups.cycle.steps import GroupSteps
from scheduler.groups.cycle.writing import Writing
from scheduler.objects.pod import Pod


class Groups:
    """All groups with members that are to be placed, by key."""

    def __init__(self, parts: EngineParts) -> None:
        self._planners = planners = parts.planners
        # Called again for each decision: a group may become part of another one meanwhile.
        self._group_of = parts.group_of
        self._drain = parts.drain
        self._attempts = parts.attempts
        self._members = members = parts.members
        self._queues = queues = parts.queues
        self._suspended = parts.suspended
        self._engine = steps = GroupSteps(parts)
        self._planned = parts.attempts.planned = PlannedCapacity(queues)
        self._inline = InlineSolver(parts.observation.meters) if parts.solves_inline else None
        self._opened: set[str] = set()
        self._pace = GatePace(lambda key: len(members.uids(key)))
        self._blocked: dict[str, tuple[str, str]] = {}
        self._runs: dict[str, GroupRun] = {}
        self._line: list[
            GroupRun
        ] = []  # groups that wait until an earlier one is decided, in queue order
        self._is_new = True  # whether this process has just started to lead
        # Groups whose members or description changed since the last turn.
        self._changed: dict[str, GroupPlanner] = {}
        self._late: dict[str, set[str]] = {}  # members that waited while others were being bound
        self.first: set[str] = set()  # left half bound: before them no pod is tried
        self._refused = MemberRefusals(queues, steps)
        self._counts = GroupCounts(parts.observation)
        self._counts.watch(self.planners)
        self._writing = Writing(steps, self._counts)
        self._states = self._writing.states
        self._bindings = GroupBindings(steps, self._writing, planners)
        self.left = LeftMembers(self.planners, queues, self._bindings.by_key, steps)
        parts.bindings.group_objection = self._bindings.objection
        parts.bindings.member_ready = self._bindings.member_ready
        parts.bindings.awaited = self._bindings.awaited
        self.answer = self._writing.answer

    @property
    def planners(self) -> tuple[GroupPlanner, ...]:
        """Return the plugins that decide groups, in the order of their profiles."""
        return tuple(self._planners.values())

    def planner(self, profile: str) -> GroupPlanner | None:
        """Return the plugin that plans groups of a profile, None without one."""
        return self._planners.get(profile)

    @property
    def is_planning(self) -> bool:
        """Return whether a group is being planned, or waits for an earlier one."""
        return bool(self._runs or self._line)

    @property
    def has_work(self) -> bool:
        """Return whether the next turn takes a group further without any event."""
        is_reporting = bool(self._refused.pending or self._blocked)
        return is_reporting or self._may_start or self._bindings.has_work()

    @property
    def deadline(self) -> float | None:
        """Return the next time (seconds since the epoch) at which a group has work, or None."""
        if self._refused.pending or self._blocked or self._may_start:
            return self._engine.outbox.now
        owners = (self._bindings, self._writing, self._refused, self.left, self._pace)
        times = (one.next_deadline() for one in owners)
        return min((time for time in times if time is not None), default=None)

    @property
    def states(self) -> Mapping[str, str]:
        """Return the state of each group that is not pending, by key."""
        return self._states.known

    def observe(self, event: GroupEvent, now: float) -> None:
        """Take in how a member, or the planning of a group, ended, or that the leadership
        changed.
        """
        match event:
            case MemberEnded():
                self._member_ended(event, now)
            case CycleEnded():
                self._plan_ended(event.subject, event.outcome, now)
            case PlanAborted():
                self._plan_aborted(event.name, now)
            case Leading():
                self._leadership_changed(now)

    def describe(self) -> GroupsState:
        """Return the state of group scheduling."""
        return self

    def settle(self, now: float) -> None:
        """Open the gates of members whose groups are complete."""
        self._take_changed()
        # Called after each event; `_settle` has no work without one of these.
        if (
            self._changed
            or self._members.answers
            or self._opened
            or self._pace.resting
            or self._bindings.by_key
        ):
            self._settle(now)
            self._drain(now)

    def advance(self, now: float, *, may_decide: bool) -> None:
        """Take groups further: gates, messages, bindings, plans."""
        if self.is_idle:
            return
        self._settle(now)
        self._writing.compare(self._bindings.by_key, now, may_decide=may_decide)
        self._report_gated(now)
        self._drain(now)
        self._bindings.go_on(now)
        self._refused.go_on(now)
        self._start_next(now)
        self._drain(now)
        self.left.finish(now, may_decide=may_decide)
        if may_decide:
            self._resume(now)
            self._drain(now)

    @property
    def is_idle(self) -> bool:
        """Return whether no group has work left: no attempt, event or write. True if no pod is in a
        group.
        """
        self._take_changed()
        return not (
            self._changed
            or self._members.answers
            or self._opened
            or self._pace.resting
            or self._blocked
            or self._line
            or self._bindings.by_key
            or self._refused.pending
            or self._refused.due
            or self._writing.has_work
            or self.left.due
            or self._is_new
        )

    def _take_changed(self) -> None:
        """Take over the groups that changed since the last call."""
        for planner in self._planners.values():
            for key in sorted(planner.group_changed()):
                self._changed[key] = planner

    # Gates

    def _read_gates(self) -> None:
        """Record which gates opened and which members are gated; siblings of a changed member may
        be ungated as well.
        """
        answers = self._members.answers
        last = {queued.uid: status for queued, status in answers}
        for queued, status in answers:
            key = self._group_of(queued.pod)
            if status is None:
                self._opened.add(key)
            elif status.plugin == self._planners[queued.profile].name:
                self._blocked[queued.uid] = (key, status.message)
            elif last[queued.uid] is status:
                # The group cannot be decided with this member: the others would wait for it.
                self._members.drop(key, queued.uid)
        answers.clear()

    def _settle(self, now: float) -> None:
        """Ungate members of complete groups; release groups whose members have all
        reached permit.
        """
        self._read_gates()
        # A gate's verdict on members depends on the bound members and on the group's description.
        changed, self._changed = self._changed, {}
        self._writing.note(changed)
        self._opened.update(self._pace.due(changed, now))
        self._engine.nominations.regrouped(changed)
        self.left.note(changed, now)
        while self._opened:
            opened, self._opened = self._opened, set()
            for key in sorted(opened):
                self._queues.activate(self._members.gated(key), now)
            self._read_gates()
        self._bindings.settle(now)

    def _report_gated(self, now: float) -> None:
        """Report the gate's reason to gated members, a bounded number in each turn."""
        reported = {}
        for uid in list(self._blocked)[:AT_A_TIME]:
            key, message = self._blocked.pop(uid)
            queued = self._queues.get(uid)
            if queued is not None and queued.where is Where.GATED:
                self._engine.explain_wait(queued, message, now)
                reported[key] = self._planners[queued.profile]
        self.left.note(reported, now)
        for key, planner in reported.items():
            self._writing.report_stage(planner, key, GroupStage.ON_HOLD, now)

    def _leadership_changed(self, now: float) -> None:
        """Update the state when this process begins or ceases to lead."""
        self._is_new = True
        while self._line:
            self._put_back(self._line.pop(0), now)
        self._writing.leads(now)

    @property
    def _may_start(self) -> bool:
        """Return whether the next turn starts to plan a group of the line."""
        return not self._runs and any(map(self._is_next, self._line))

    # An attempt

    def _resume(self, now: float) -> None:
        """Plan the groups first that the previous leader left partially bound.

        The reservations of the previous process are lost, and no object in the cluster records
        them: a pod before them in the queue would take the capacity, and the group would never be
        complete.
        """
        if not self._is_new:
            return
        self._is_new = False
        for key in (key for planner in self.planners for key in planner.groups_partially_bound()):
            waiting = (one for one in self._members.waiting(key) if not one.is_terminating)
            taken = (self._queues.take(pod.metadata.uid, now) for pod in waiting)
            member = next((one for one in taken if one is not None), None)
            if member is not None:
                self.plan(member, now)
        self._hold_others({run.key for run in (*self._runs.values(), *self._line)})

    def plan(self, queued: QueuedPod, now: float) -> None:
        """Plan the group of a popped member."""
        planner, key = self._planners[queued.profile], self._group_of(queued.pod)
        if self._refused.has(key):
            # Its siblings are still being rejected; the last of them handles the change that woke
            # this one.
            self._queues.rejected(queued, (planner.name,), now)
            return
        self._read_gates()  # gated members do not take part
        wanted = planner.group_wanted(key, self._members.present(key, queued.pod))
        if isinstance(wanted, Status) or queued.uid not in wanted:
            status = wanted if isinstance(wanted, Status) else unschedulable("not needed now")
            self._refused.put(key, [queued], _by(planner, status), now)
            self._late.setdefault(key, set()).add(queued.uid)
            return
        members = [queued]
        for uid in wanted:
            other = self._queues.take(uid, now)
            if other is not None:
                members.append(other)
        if len(members) < len(wanted):
            # Other members are being bound, or on hold: these are retried when those are done.
            for member in members:
                self._queues.rejected(member, (planner.name,), now)
            self._late.setdefault(key, set()).update(member.uid for member in members)
            return
        place = {uid: number for number, uid in enumerate(wanted)}
        members.sort(key=lambda member: place[member.uid])
        attempt = self._counts.record_start(queued.profile, (one.pod for one in members), now)
        context = GroupContext(self._attempts, self._engine, members)
        place_in_queue = self._queues.place(queued)
        run = GroupRun(key, planner, tuple(members), context, attempt, place_in_queue)
        for member in members:
            self._queues.track(member)
        self._members.taken(key)
        self._planned.begin(run)
        # A later group frees no capacity for those in the line: only that group may start now.
        if self._is_free(run):
            self._start(run, now)
        else:
            self._keep_evictable(run)
            insort(self._line, run, key=lambda one: one.place)

    def _hold_others(self, first: set[str]) -> None:
        """Decide no other pod before these groups are decided."""
        self.first = first
        self._suspended.hold_all(is_exclusive=bool(first))

    def _start_next(self, now: float) -> None:
        """Start to plan the first group that competes with no undecided group before it."""
        for place, run in enumerate(self._line):
            if self._is_next(run):
                del self._line[place]
                self._start(run, now)
                return

    def _is_next(self, run: GroupRun) -> bool:
        """Return whether a group of the line can be planned before any pod is tried.

        When a group is decided, pods that were put off for it are active again: those that precede
        a group in the line are tried first.
        """
        is_ahead = self._queues.is_ahead(run.place, self._suspended.blocked)
        return not is_ahead and self._is_free(run)

    def _is_free(self, run: GroupRun) -> bool:
        """Return whether a group can be planned now: no attempt is in progress, and it does not
        compete with an undecided group before it.
        """
        return self._states.is_at_rest(run.key) and not self._planned.competes(run)

    def _start(self, run: GroupRun, now: float) -> None:
        if not all(self._is_intact(run, member) for member in run.members):
            self._put_back(run, now)
            return
        self._writing.report_stage(run.planner, run.key, GroupStage.STARTED, now)
        self._runs[run.name] = run
        self._suspended.begin(run.name, run.members[0].profile, self._steps(run), run, now)

    def _plan_aborted(self, key: str, now: float) -> None:
        """Requeue the members of a group whose planning was aborted; return False if it is
        unknown.
        """
        run = self._runs.pop(key, None)
        if run is not None:
            self._abandon(run, now)

    # Ends of members

    def _member_ended(self, ended: MemberEnded, now: float) -> None:
        """Note how a member ended after it was decided."""
        pod = ended.pod
        key = self._bindings.key_of(pod.uid)
        if (binding := self._bindings.member_ended(ended, now)) is not None:
            if not binding.has_bound_member:
                self._engine.give_up([self._queues.get(uid) for uid in binding.unsent], now)
            self._opened.add(key)  # members that arrived too late may be ungated one by one
            # Members that were recalled or arrived too late are retried without a change in the
            # cluster.
            if binding.is_error and not binding.has_bound_member:
                self._back_off([*binding.failed, *sorted(self._late.pop(key, ()))])
            else:
                self._queues.retry(binding.failed, "GroupBindingEnded", now)
                self._retry_late(key, now)
            stage = GroupStage.RELEASED if binding.is_broken else GroupStage.BOUND
            self._counts.ended(binding.attempt, "error" if binding.is_broken else "scheduled", now)
            self._writing.report_stage(binding.planner, key, stage, now)

    def _steps(self, run: GroupRun) -> CycleSteps:
        """Drive the plugin's plan; return None if the group changed since the plan began."""
        steps = run.planner.plan_group(run.key, run.context)
        result: CallResult | None = None
        try:
            while True:
                call = next(steps) if result is None else steps.send(result)
                result = None if self._inline is None else self._inline.answer(call)
                if result is not None:
                    continue
                run.is_strict = call.holds
                self._keep_evictable(run)
                (result,) = yield (call,)
                if not all(self._is_intact(run, member) for member in run.members):
                    return None
                if self._planned.competes(run):
                    return None  # a group that precedes it has arrived, and is decided first
        except StopIteration as stop:
            return stop.value
        except PluginError:
            raise
        except Exception as error:  # a planner may raise anything: its group waits with the error
            raise PluginError(run.planner.name, "PlanGroup", str(error)) from error
        finally:
            steps.close()

    def _keep_evictable(self, run: GroupRun) -> None:
        """Make later pods also leave the capacity free that the group could use beside its possible
        victims.

        Its plan without victims may fail after seconds. A pod of the group's own priority that was
        bound meanwhile could no longer be evicted.
        """
        if run.is_evicting:
            return
        context = run.context
        if context.sought_since_s is not None or (
            context.has_lower and run.planner.group_may_evict(run.key, context.members)
        ):
            run.is_evicting = True
            self._planned.renew(run)

    def _plan_ended(self, run: GroupRun, outcome: Any, now: float) -> None:
        """Carry out the outcome of a group's planning."""
        self._runs.pop(run.name, None)
        self._decided(run, now)
        if isinstance(outcome, Exception):
            run.context.release()
            self._engine.fault(run.planner.name, "PlanGroup", outcome)
            self._refused.put(run.key, run.members, Status(Code.ERROR, (str(outcome),)), now)
            self._counts.ended(run.attempt, "error", now)
            self._writing.abandon(run.planner, run.key)
        elif outcome is None:
            self._abandon(run, now)
        else:
            self._carry(run, outcome, now)

    def _carry(self, run: GroupRun, outcome: Outcome, now: float) -> None:
        self._counts.decided(run.attempt)
        if run.context.sought_since_s is not None:
            is_done = isinstance(outcome, GroupPlan) and bool(outcome.victims)
            self._counts.preempted(run.context.sought_since_s, is_done=is_done)
        if isinstance(outcome, Status):
            self._retry_late(run.key, now)
        if not isinstance(outcome, GroupPlan) or outcome.victims:
            self._counts.ended(run.attempt, "unschedulable", now)
        if isinstance(outcome, Status):
            run.context.release()
            keeps = isinstance(outcome, UndecidedStatus) and not outcome.gives_up
            is_final = outcome.is_rejected and not keeps
            status = _by(run.planner, outcome)
            rules = run.context.pod_rules
            self._refused.put(run.key, run.members, status, now, gives_up=is_final, pod_rules=rules)
            self._writing.report_stage(run.planner, run.key, GroupStage.REFUSED, now)
        elif isinstance(outcome, GroupRelease):
            run.context.release()
            status = _by(run.planner, unschedulable(outcome.message))
            self._refused.put(run.key, run.members, status, now)
            # The group's event comes first, then the evictions.
            self._writing.report_stage(run.planner, run.key, GroupStage.DISSOLVED, now)
            self._engine.dissolve(outcome.bound, run.key, outcome.message, now)
        elif outcome.victims:
            run.context.release()
            named = [member for member in run.members if member.uid in outcome.nodes]
            nominated = [(member, outcome.nodes[member.uid]) for member in named]
            status = _by(run.planner, unschedulable(outcome.message))
            decisions = self._engine.nominate(run.key, nominated, outcome, status)
            self._refused.extend(run.key, decisions, now)
            others = [member for member in run.members if member.uid not in outcome.nodes]
            self._leave_out(run, others, outcome.message, now)
            self._writing.report_stage(run.planner, run.key, GroupStage.PREEMPTING, now)
        else:
            self._carry_out(run, outcome, now)

    def _carry_out(self, run: GroupRun, plan: GroupPlan, now: float) -> None:
        attempts, count = run.context.attempts, run.context.nodes.count
        run.context.keep()
        self._writing.report_stage(run.planner, run.key, GroupStage.ASSIGNED, now)
        placed = [(one, attempts[one.uid]) for one in run.members if one.uid in plan.nodes]
        others = [one for one in run.members if one.uid not in plan.nodes]
        members = [
            InFlight(one, _of(its.cycle, one.pod), its.runner, its.states, plan.nodes[one.uid])
            for one, its in placed
        ]
        uids = [member.uid for member in members]
        binding = GroupBinding(run.key, run.planner, run.attempt, count, uids, now)
        binding.hold_s = plan.hold_s or binding.hold_s
        self._bindings.begin(binding, members, now)
        self._leave_out(run, others, plan.message, now)
        if not plan.is_proven:
            self._late.setdefault(run.key, set()).update(member.uid for member in others)

    def _leave_out(
        self, run: GroupRun, others: Sequence[QueuedPod], message: str, now: float
    ) -> None:
        """Requeue the members that a plan does not name."""
        if others:
            status = _by(run.planner, unschedulable(message))
            # Their earlier nominations would block nodes that placed members and other pods need.
            rules = run.context.pod_rules
            self._refused.put(run.key, others, status, now, gives_up=True, pod_rules=rules)

    def _retry_late(self, key: str, now: float) -> None:
        """Retry members that came while others of their group were being bound."""
        self._queues.retry(sorted(self._late.pop(key, ())), "GroupBindingEnded", now)

    def _back_off(self, uids: Sequence[str]) -> None:
        """Let members wait out their back-off after an error of one of them.

        A member that is popped takes its group out of the queue as a whole. If one were popped
        early, the group would reserve its nodes again before other pods are tried.
        """
        for uid in uids:
            queued = self._queues.get(uid)
            if queued is not None and queued.where is not Where.GATED:
                self._queues.hold_off(uid, "GroupBindingEnded")

    def _decided(self, run: GroupRun, now: float) -> None:
        """Release the pods and groups deferred for this group."""
        self._hold_others(self.first - {run.key})
        self._planned.end(run, now)

    def _abandon(self, run: GroupRun, now: float) -> None:
        """End the planning of a group without an outcome."""
        self._put_back(run, now)
        self._writing.abandon(run.planner, run.key)

    def _put_back(self, run: GroupRun, now: float) -> None:
        self._decided(run, now)
        run.context.release()
        for member in run.members:
            if self._refused.is_waiting(member):
                self._queues.put_back(member, now)

    def _is_intact(self, run: GroupRun, member: QueuedPod) -> bool:
        """Return whether a member is still to be placed, in the same group, and not terminating."""
        if not self._refused.is_waiting(member) or member.pod.is_terminating:
            return False
        return self._group_of(member.pod) == run.key


def _of(cycle: Cycle, pod: Pod) -> Cycle:
    """Return the cycle of one member: one attempt filters all members of one shape."""
    return cycle if cycle.pod is pod else msgspec.structs.replace(cycle, pod=pod)


def _by(planner: GroupPlanner, status: Status) -> Status:
    """Return a status with the planner as its plugin."""
    return msgspec.structs.replace(status, plugin=planner.name)
