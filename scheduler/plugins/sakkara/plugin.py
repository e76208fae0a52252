"""ClusterTopologyPlacementGroup: the plugin by which groups are held, planned and written about.

Its name and its points are Sakkara's, so existing configurations load. Only pre-enqueue and
`plan_group` do anything: the whole group is decided in one step, so there is nothing to be said about
single members at the other points.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import msgspec
import numpy as np

from scheduler.base.arrays import IntColumn
from scheduler.base.errors import ObjectError
from scheduler.framework.calls import ApiCall, CallResult, SolverCall
from scheduler.framework.cycle import Cycle
from scheduler.framework.groups import (
    Fits,
    GroupPlan,
    GroupRelease,
    GroupReport,
    GroupRoom,
    Outcome,
    Stage,
)
from scheduler.framework.handle import Handle
from scheduler.framework.nodes import Nodes
from scheduler.framework.plugin import Plugin
from scheduler.framework.postfilter import FitFailure, PostFiltered
from scheduler.framework.status import SKIP, Status, unresolvable, unschedulable
from scheduler.objects.pod import Pod
from scheduler.plugins.sakkara import between, eviction, planning
from scheduler.plugins.sakkara.args import ClusterTopologyPlacementGroupArgs
from scheduler.plugins.sakkara.describing import TOPOLOGY_KIND, Descriptions
from scheduler.plugins.sakkara.group import GroupSpec, check_levels
from scheduler.plugins.sakkara.life import BOUND, FAILED, Record
from scheduler.plugins.sakkara.members import (
    GROUP_KIND,
    POD_GROUP_KIND,
    GroupMembers,
    group_of,
)
from scheduler.plugins.sakkara.telling import Teller
from scheduler.plugins.sakkara.topology import Topology
from scheduler.solver.instance import Limits
from scheduler.solver.questions import Evict, Place, Solution
from scheduler.state.change import Change
from scheduler.state.podindex import Placed
from scheduler.state.resources import PODS, counted, pod_requests

ROUNDS = 8
_Steps = Generator[SolverCall, CallResult, Outcome]


class ClusterTopologyPlacementGroup(Plugin[ClusterTopologyPlacementGroupArgs]):
    """Place groups of pods in a tree of racks and nodes, all members or none."""

    reads = (
        "node",
        "node.labels",
        "node.taints",
        "node.allocatable",
        "pod.deleted",
        "pod.requests",
        "self.labels",
        GROUP_KIND,
        POD_GROUP_KIND,
        TOPOLOGY_KIND,
    )

    def __init__(self, args: ClusterTopologyPlacementGroupArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._members = handle.tracker(GroupMembers)
        self._described = Descriptions(
            handle, self._members, args.topology_config_map_name_space, args.topology_labels
        )
        self._records: dict[str, Record] = {}
        self._trees: dict[str, Topology] = {}
        self._since: dict[str, float] = {}
        self._teller = Teller(self._members, self._records, self._trees)

    # In the queue

    def sort_key(self, queued: Any) -> tuple[int, float, str, int, float]:
        """Return the order of the queue: groups and single pods by priority, then by first come.

        A group stands where its effective priority and its oldest member put it.
        """
        key = group_of(queued.pod)
        own = -queued.priority, queued.queued_at
        if not key:
            return (*own, "", *own)
        since = self._since.setdefault(key, queued.queued_at)
        limit = self._priority_of(key)
        priority = queued.priority if limit is None else min(limit, queued.priority)
        return -priority, since, key, *own

    def less(self, first: Any, second: Any) -> bool:
        """Return whether the first pod comes before the second."""
        return self.sort_key(first) < self.sort_key(second)

    # At the gate

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Hold a member until its group can be decided."""
        key = group_of(pod)
        if not key:
            return None
        wanted = self.group_wanted(key, self.handle.group_members(key, pod))
        if isinstance(wanted, Status):
            return wanted
        if pod.metadata.uid in wanted:
            return None
        return unschedulable(f"the group {key} has all its members")

    def hint(self, change: Change, pod: Pod) -> bool:
        """Say whether a change can help this member's group."""
        key = group_of(pod)
        if change.kind in (GROUP_KIND, POD_GROUP_KIND):
            return any(
                obj is not None and obj.metadata.namespace == pod.metadata.namespace
                for obj in (change.old, change.new)
            )
        if change.kind == "Pod" and change.old is not None and group_of(change.old) == key:
            return True
        record = self._records.get(key)
        return (
            change.kind == TOPOLOGY_KIND
            or (record is not None and record.status == FAILED)
            or (record is not None and bool(record.awaited))
        )

    def group_of(self, pod: Pod) -> str:
        """Return the key of the pod's group, or an empty text."""
        return group_of(pod)

    def group_wanted(self, key: str, pods: Sequence[Pod]) -> tuple[str, ...] | Status:
        """Return whom to decide now, or why the group has to wait."""
        try:
            spec = self._described.group(key)
        except ObjectError as error:
            self._hold(key, error.message)
            return unresolvable(f"the group {key} is held: {error.message}")
        if spec is None:
            text = f"no ConfigMap or PodGroup describes the group {key}"
            return unresolvable(text)
        waiting = [pod for pod in pods if self.handle.pods.get(pod.metadata.uid) is None]
        if any(self.handle.is_preempting(pod.metadata.uid) for pod in waiting):
            return unschedulable(f"the group {key} waits for evictions")
        missing = spec.size - len(self._members.standing(key))
        if missing <= 0 and spec.is_minimum and waiting:
            missing = 1
        if missing <= 0:
            return unschedulable(f"the group {key} has all its {spec.size} members")
        staying = [pod for pod in waiting if not pod.is_terminating]
        if len(staying) < missing:
            text = f"the group {key} is not complete: it needs {spec.size} members"
            return unschedulable(text)
        return tuple(pod.metadata.uid for pod in staying[:missing])

    # The plan

    def plan_group(self, key: str, room: GroupRoom) -> _Steps:
        """Decide where all members go, whom to evict for them, or why they have to wait."""
        record = self._records.setdefault(key, Record())
        try:
            spec = self._described.group(key)
            tree = self._described.topology(room.nodes)
            if spec is None:
                return unresolvable(f"no ConfigMap or PodGroup describes the group {key}")
            check_levels(spec, tree.levels)
            requests = {pod.metadata.uid: counted(pod_requests(pod)) for pod in room.members}
        except ObjectError as error:
            self._hold(key, error.message)
            return unresolvable(f"the group {key} is held: {error.message}")
        unlike = planning.unlike(room.members, requests)
        if unlike:
            self._hold(key, unlike)
            return unresolvable(f"the group {key} is held: {unlike}")
        self._trees[key] = tree
        record.retries += 1
        record.conflict = ()
        plan = yield from self._placed(key, spec, tree, room)
        if isinstance(plan, Status) and self._may_evict(spec, record, room):
            request = {**requests[room.members[0].metadata.uid], PODS: 1}
            evicting = yield from self._evicting(key, spec, tree, room, request)
            plan = plan if evicting is None else evicting
        if isinstance(plan, Status):
            record.message = plan.message
            half = self._members.standing(key)
            if half and not self._was_whole(key):
                return GroupRelease(tuple(half), plan.message)
        return plan

    def _placed(self, key: str, spec: GroupSpec, tree: Topology, room: GroupRoom) -> _Steps:
        """Ask the solver, try its answer with all filters, and ask again with what that teaches."""
        most: IntColumn | None = None
        why = ""
        for attempt in range(ROUNDS):
            fits = room.fits()
            slots = fits.slots if most is None else np.minimum(fits.slots, most)
            site = self._site(key, spec, tree, room, slots)
            if not site.instance.leaves:
                return unschedulable(f"the group {key} does not fit: {fits.message}")
            # A second answer must not come too late again: nothing else is placed until it is there.
            answer = yield self._question(site, holds=attempt > 0)
            if not self._is_unchanged(key, spec):
                return unschedulable(f"the group {key} changed while it was planned")
            solution = _solution(answer)
            if solution is None:
                return unschedulable(f"the group {key} waits: no answer came from the solver")
            self._remember(key, solution)
            if solution.placed.outcome != "placed":
                return unschedulable(_refusal(key, fits, solution, tried=most is not None))
            nodes = planning.assign(site, solution.placed.counts, room.members)
            misfit = room.hold(nodes)
            if misfit is None:
                return GroupPlan(nodes)
            most = misfit.most if most is None else np.minimum(most, misfit.most)
            why = f"{misfit.reason} on {misfit.node}"
        text = f"the rules between its members do not hold: {why}"
        return unschedulable(f"the group {key} does not fit: {text}")

    def _site(
        self, key: str, spec: GroupSpec, tree: Topology, room: GroupRoom, slots: IntColumn
    ) -> planning.Site:
        nodes = room.nodes
        standing = self._members.standing(key)
        found = planning.site(spec, tree, nodes, slots, standing, len(room.members))
        pod = room.members[0]
        domains = between.members(pod, nodes, found.rows, self.handle.pods)
        domains += between.spread(pod, nodes, found.rows, self.handle.pods)
        if not domains or standing:
            return found
        instance = msgspec.structs.replace(found.instance, domains=domains)
        return msgspec.structs.replace(found, instance=instance)

    def _question(self, site: planning.Site, *, holds: bool) -> SolverCall:
        limit_s = self.args.solver_time_limit_seconds
        limits = Limits(stage_s=limit_s, total_s=limit_s)
        return SolverCall(Place(site.instance, limits, self.args.solver), 2 * limit_s, holds)

    def _is_unchanged(self, key: str, spec: GroupSpec) -> bool:
        try:
            return self._described.group(key) == spec
        except ObjectError:
            return False

    def _was_whole(self, key: str) -> bool:
        """Whether all members were bound once: those that are left then stay, whatever happens."""
        record = self._records.get(key)
        if record is not None and record.was_bound:
            return True
        return any((m.data or {}).get("status") == BOUND for m in self._members.config_maps(key))

    def _remember(self, key: str, solution: Solution) -> None:
        record, placed = self._records[key], solution.placed
        record.solver_s = placed.seconds
        record.optimal = placed.optimal
        record.objective = tuple(stage.value for stage in placed.stages)
        record.bound = tuple(stage.bound for stage in placed.stages)
        advice = solution.advice
        if advice is not None:
            record.conflict = tuple(
                f"{one.level}: {one.rule} {one.value}" if one.level else f"{one.rule} {one.value}"
                for one in advice.conflict
            )

    # Evictions

    def _may_evict(self, spec: GroupSpec, record: Record, room: GroupRoom) -> bool:
        """Whether members may evict: not while the last victims are leaving, not with policy Never."""
        still = {uid for uid in record.awaited if self.handle.pods.get(uid) is not None}
        record.awaited = frozenset(still)
        if still or self.args.preemption == "Disabled" or self._members.standing(spec.key):
            return False
        promised = {pod.status.nominated_node_name for pod in room.members} - {""}
        for node in sorted(promised):
            if any(placed.pod.is_terminating for placed in self.handle.pods.on(node).values()):
                return False
        return all(pod.spec.preemption_policy != "Never" for pod in room.members)

    def _evicting(
        self,
        key: str,
        spec: GroupSpec,
        tree: Topology,
        room: GroupRoom,
        request: dict[str, int],
    ) -> Generator[SolverCall, CallResult, GroupPlan | None]:
        """Return the plan with the fewest victims, None when evicting does not help."""
        nodes = room.nodes
        priority = self._priority(spec, room.members)
        lower = eviction.lower(self.handle.pods, priority, self._priority_of)
        if not lower:
            return None
        everywhere = np.where(room.fits().evictable, len(room.members), 0)
        site = planning.site(spec, tree, nodes, everywhere, (), len(room.members))
        if not site.instance.leaves:
            return None
        budgets = self.handle.objects("PodDisruptionBudget").values()
        lineup = eviction.lineup(
            site.instance, site.names, nodes, request, lower, budgets,
            forbid=self.args.pdb == "Forbid",
        )  # fmt: skip
        limit_s = self.args.preemption_time_limit_seconds
        limits = Limits(stage_s=limit_s, total_s=2 * limit_s)
        answer = yield SolverCall(Evict(lineup.problem, limits), 3 * limit_s)
        solution = _solution(answer)
        if solution is None or solution.victims is None:
            return None
        found = solution.victims
        if found.outcome != "placed" or not found.evicted:
            return None
        victims = lineup.victims(found.evicted)
        where = planning.assign(site, found.placement.counts, room.members)
        here = all(self._is_placed(victim) for victim in victims)
        if not here or not room.would_hold(where, victims):
            return None
        record = self._records[key]
        record.victims = victims
        record.awaited = frozenset(victim.pod.metadata.uid for victim in victims)
        text = f"the group {key} waits for {len(victims)} pods of lower priority to leave"
        return GroupPlan(where, victims, text)

    def _is_placed(self, victim: Placed) -> bool:
        now = self.handle.pods.get(victim.pod.metadata.uid)
        return now is not None and now.node == victim.node

    def _priority(self, spec: GroupSpec, members: Sequence[Pod]) -> int:
        """Return a group's effective priority: never above that of its members (D30)."""
        lowest = min(pod.priority for pod in members)
        return lowest if spec.priority is None else min(spec.priority, lowest)

    def _priority_of(self, key: str) -> int | None:
        try:
            spec = self._described.group(key)
        except ObjectError:
            return None
        return None if spec is None else spec.priority

    # Afterwards

    def group_whole(self, victims: Sequence[Placed]) -> tuple[Placed, ...]:
        """Return victims with the bound members of their groups: one alone would leave a torso."""
        found = {victim.pod.metadata.uid: victim for victim in victims}
        for key in dict.fromkeys(group_of(victim.pod) for victim in victims):
            if key and self._priority_of(key) is not None:
                found |= {one.pod.metadata.uid: one for one in self._members.standing(key)}
        return tuple(found.values())

    def group_told(self, key: str, stage: Stage, now: float) -> Sequence[ApiCall]:
        """Keep the group's state, and return the requests that write it down."""
        if stage is Stage.BOUND:
            self._since.pop(key, None)
            self._records[key].was_bound = True
        return self._teller.told(key, stage, now)

    def group_reports(self) -> Sequence[GroupReport]:
        """Return what is to be said of every group that is described or was tried."""
        reports = []
        for key in dict.fromkeys((*self._members.keys(), *self._records)):
            try:
                spec = self._described.group(key)
            except ObjectError:
                spec = None
            reports.append(self._teller.report(key, 0 if spec is None else spec.size))
        return reports

    def _hold(self, key: str, message: str) -> None:
        record = self._records.setdefault(key, Record())
        record.status, record.message = FAILED, message

    # Points that old configurations enable: a group is decided in one step, before them.

    def post_filter(self, cycle: Cycle, nodes: Nodes, failure: FitFailure) -> PostFiltered:
        """Leave single pods to the other post-filter plugins."""
        del cycle, nodes, failure
        return PostFiltered(unschedulable())

    def pre_score(self, cycle: Cycle, nodes: Nodes) -> Status:
        """Say that single pods are not scored here."""
        del cycle, nodes
        return SKIP

    def score(self, cycle: Cycle, nodes: Nodes, state: Any = None) -> IntColumn:
        """Treat all nodes alike."""
        del cycle, state
        return nodes.constant(0)

    def reserve(self, cycle: Cycle, node: str) -> None:
        """Do nothing: members are counted by the tracker."""

    def permit(self, cycle: Cycle, node: str) -> None:
        """Do nothing: the engine holds members until all are there."""

    def post_bind(self, cycle: Cycle, node: str) -> None:
        """Do nothing: the engine tells when the whole group is bound."""


def _solution(answer: CallResult) -> Solution | None:
    """Return the solver's answer, None when it gave none."""
    if answer.code != 200:
        return None
    if isinstance(answer.body, Solution):
        return answer.body
    return msgspec.convert(answer.body, Solution, str_keys=True)


def _refusal(key: str, fits: Fits, solution: Solution, *, tried: bool) -> str:
    if solution.placed.outcome == "unknown":
        return f"the group {key} waits: the solver found nothing within its time"
    text = f"the group {key} does not fit: {solution.says}"
    if tried:
        text += "; rules between members were counted as well"
    if not (fits.slots > 0).any():
        text += f" ({fits.message})"
    return text
