"""`Decider`: where the members of a group go, whom to evict for them, or why they have to wait.

Asks the solver, tries its answer with every filter while all members are in place, and asks again with
what that teaches. Changes nothing but the group's record; the engine carries out what it returns.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from typing import TypeAlias

import msgspec
import numpy as np

from scheduler.base.arrays import IntColumn
from scheduler.base.errors import ObjectError
from scheduler.framework.calls import CallResult, SolverCall
from scheduler.framework.groups import Fits, GroupPlan, GroupRelease, GroupRoom, Outcome
from scheduler.framework.handle import Handle
from scheduler.framework.status import Status, unresolvable, unschedulable
from scheduler.objects.pod import Pod
from scheduler.plugins.sakkara import between, eviction, planning, topology
from scheduler.plugins.sakkara.args import ClusterTopologyPlacementGroupArgs
from scheduler.plugins.sakkara.conflicts import conflicts
from scheduler.plugins.sakkara.describing import Descriptions
from scheduler.plugins.sakkara.group import GroupSpec, check_levels
from scheduler.plugins.sakkara.life import BOUND, FAILED, Record
from scheduler.plugins.sakkara.members import GroupMembers
from scheduler.plugins.sakkara.thinning import LeafRows
from scheduler.plugins.sakkara.topology import Topology
from scheduler.solver.instance import Limits
from scheduler.solver.questions import Evict, Place, Solution
from scheduler.state.podindex import Placed
from scheduler.state.resources import PODS
from scheduler.state.shapes import host_ports

ROUNDS = 8
Steps: TypeAlias = Generator[SolverCall, CallResult, Outcome]


class Decider:
    """Plans groups for one profile; `records` and `trees` keep what was found out, by group."""

    def __init__(
        self,
        args: ClusterTopologyPlacementGroupArgs,
        handle: Handle,
        members: GroupMembers,
        described: Descriptions,
        records: dict[str, Record],
        trees: dict[str, Topology],
    ) -> None:
        self._args = args
        self._handle = handle
        self._members = members
        self._described = described
        self._records = records
        self._trees = trees
        self._leaf_rows = LeafRows()

    def leaving(self, key: str) -> bool:
        """Whether pods that were evicted for a group are still on their way out."""
        record = self._records.get(key)
        found = () if record is None else map(self._handle.pods.get, record.awaited)
        return any(placed is not None and placed.pod.is_terminating for placed in found)

    def hold(self, key: str, message: str) -> None:
        """Keep why a group cannot be decided at all."""
        record = self._records.setdefault(key, Record())
        record.status, record.message = FAILED, message

    def plan(self, key: str, room: GroupRoom) -> Steps:
        """Decide where all members go, whom to evict for them, or why they have to wait."""
        record = self._records.setdefault(key, Record())
        try:
            spec = self._described.group(key)
            tree = self._described.topology(room.nodes)
            if spec is None:
                return unresolvable(f"no ConfigMap or PodGroup describes the group {key}")
            check_levels(spec, tree.levels)
            requests = planning.requests(room.members)
        except ObjectError as error:
            self.hold(key, error.message)
            return unresolvable(f"the group {key} is held: {error.message}")
        unlike = planning.unlike(room.members, requests)
        if unlike:
            self.hold(key, unlike)
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

    def _placed(self, key: str, spec: GroupSpec, tree: Topology, room: GroupRoom) -> Steps:
        """Ask the solver, try its answer with all filters, and ask again with what that teaches."""
        most: IntColumn | None = None
        why = ""
        asked = [between.without_spread(pod) for pod in room.members]
        is_thin = between.is_free(room.members[0])
        for attempt in range(ROUNDS):
            fits = room.fits(asked)
            slots = fits.slots if most is None else np.minimum(fits.slots, most)
            site = self._site(key, spec, tree, room, slots, is_thin=is_thin)
            if not site.instance.leaves:
                text = topology.nowhere(tree, room.nodes, fits.rows) or fits.message
                return unschedulable(f"the group {key} does not fit: {text}")
            # A second answer must not come too late again: nothing else is placed until it is there.
            answer = yield self._question(site, holds=attempt > 0, advise=not is_thin)
            if not self._is_unchanged(key, spec):
                return unschedulable(f"the group {key} changed while it was planned")
            solution = _solution(answer)
            if is_thin and solution is not None and solution.placed.outcome == "infeasible":
                # What would help is a question about all leaves.
                is_thin = False
                continue
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
        self,
        key: str,
        spec: GroupSpec,
        tree: Topology,
        room: GroupRoom,
        slots: IntColumn,
        *,
        is_thin: bool,
    ) -> planning.Site:
        """Return what is asked about; a thin one has only the leaves that the group can use."""
        nodes = room.nodes
        standing, count = self._members.standing(key), len(room.members)
        among = None
        if is_thin:
            on_them = nodes.rows_named(one.node for one in standing)
            among = self._leaf_rows.useful(tree, nodes, slots, on_them, count + len(standing))
        found = planning.site(spec, tree, nodes, slots, standing, count, among=among)
        there = set(found.names)
        held = {one.pod.metadata.uid for one in standing if one.node in there}
        return self._with_rules(found, room, held)

    def _with_rules(
        self, found: planning.Site, room: GroupRoom, held: Collection[str] = ()
    ) -> planning.Site:
        """Return the site with the rules that the members' own specs make for one another."""
        pod, nodes = room.members[0], room.nodes
        domains = between.members(pod, nodes, found.rows, self._handle.pods)
        domains += between.spread(pod, nodes, found.rows, self._handle.pods, held)
        instance = msgspec.structs.replace(found.instance, domains=domains)
        return msgspec.structs.replace(found, instance=instance)

    def _question(self, site: planning.Site, *, holds: bool, advise: bool) -> SolverCall:
        limits = self._limits(self._args.solver_time_limit_seconds)
        question = Place(site.instance, limits, self._args.solver, advise)
        return SolverCall(question, 2 * limits.total_s, holds)

    def _limits(self, limit_s: float) -> Limits:
        workers = max(1, self._args.solver_workers)
        return Limits(stage_s=limit_s, total_s=limit_s, workers=workers)

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

    def _may_evict(self, spec: GroupSpec, record: Record, room: GroupRoom) -> bool:
        """Whether members may evict: not while the last victims are leaving, not with policy Never."""
        still = {uid for uid in record.awaited if self._handle.pods.get(uid) is not None}
        record.awaited = frozenset(still)
        if still or self._args.preemption == "Disabled" or self._members.standing(spec.key):
            return False
        promised = {pod.status.nominated_node_name for pod in room.members} - {""}
        for node in sorted(promised):
            if any(placed.pod.is_terminating for placed in self._handle.pods.on(node).values()):
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
        nodes, pod = room.nodes, room.members[0]
        priority = _priority(spec, room.members)
        lower = eviction.lower(self._handle.pods, priority, self._described.priority_of)
        if not lower:
            return None
        fits = room.fits([between.without_spread(member) for member in room.members])
        # Members that ask for a host port cannot stand beside one another.
        alone = 1 if host_ports(pod) else len(room.members)
        most = np.where(fits.evictable, alone, 0)
        blocked: set[str] = set()
        for _ in range(ROUNDS):
            site = planning.site(spec, tree, nodes, most, (), len(room.members))
            if not site.instance.leaves:
                return None
            offer = yield from self._offer(
                self._with_rules(site, room), room, request, lower, blocked
            )
            if offer is None:
                return None
            where, victims = offer
            misfit = room.would_hold(where, victims)
            if misfit is None:
                return self._agreed(key, where, victims)
            if misfit.node in blocked:
                most = np.minimum(most, misfit.most)
            blocked.add(misfit.node)
        return None

    def _offer(
        self,
        site: planning.Site,
        room: GroupRoom,
        request: dict[str, int],
        lower: eviction.Candidates,
        blocked: Collection[str],
    ) -> Generator[SolverCall, CallResult, tuple[dict[str, str], tuple[Placed, ...]] | None]:
        """Ask the solver where the members go and who leaves for them; None when nothing helps.

        On the nodes in `blocked` a member needs everybody gone who can be.
        """
        whole = frozenset(leaf for leaf, name in enumerate(site.names) if name in blocked)
        who = {one.pod.metadata.uid for _, _, pods in lower for one in pods}
        in_the_way = conflicts(
            room.members[0], room.nodes, site.rows, self._handle.pods, whole, who
        )
        budgets = self._handle.objects("PodDisruptionBudget").values()
        lineup = eviction.lineup(
            site.instance, site.names, room.nodes, request, lower, budgets,
            forbid=self._args.pdb == "Forbid", conflicts=in_the_way,
            counted=between.counted(room.members[0], room.nodes, self._handle.pods),
        )  # fmt: skip
        limits = self._limits(self._args.preemption_time_limit_seconds)
        answer = yield SolverCall(Evict(lineup.problem, limits), 2 * limits.total_s)
        solution = _solution(answer)
        found = None if solution is None else solution.victims
        if found is None or found.outcome != "placed":
            return None
        victims = lineup.victims(found.evicted)
        if not all(self._is_placed(victim) for victim in victims):
            return None
        return planning.assign(site, found.placement.counts, room.members), victims

    def _agreed(
        self, key: str, where: dict[str, str], victims: tuple[Placed, ...]
    ) -> GroupPlan | None:
        """Note whom the group waits for; None when nobody has to go: then it is no question of room."""
        if not victims:
            return None
        record = self._records[key]
        record.victims = victims
        record.awaited = frozenset(victim.pod.metadata.uid for victim in victims)
        text = f"the group {key} waits for {len(victims)} pods of lower priority to leave"
        return GroupPlan(where, victims, text)

    def _is_placed(self, victim: Placed) -> bool:
        now = self._handle.pods.get(victim.pod.metadata.uid)
        return now is not None and now.node == victim.node


def _priority(spec: GroupSpec, members: Sequence[Pod]) -> int:
    """Return a group's effective priority: never above that of its members (D30)."""
    lowest = min(pod.priority for pod in members)
    return lowest if spec.priority is None else min(spec.priority, lowest)


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
