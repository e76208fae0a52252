"""`GroupEvictor`: who has to go for a group that does not fit, and where its members go then.

Asks the solver for the fewest victims and tries its answer with every filter: the victims gone, the
members in place. Called by `deciding` when a group cannot be placed; changes nothing but the record of
whom the group waits for.
"""

from collections.abc import Collection, Generator, Iterable, Sequence

import msgspec
import numpy as np

from scheduler.base.arrays import lower_of
from scheduler.framework.calls import CallResult, SolverCall
from scheduler.framework.groups import GroupPlan
from scheduler.framework.handle import Handle
from scheduler.framework.status import Status
from scheduler.groups.args import ClusterTopologyPlacementGroupArgs
from scheduler.groups.description import quorum
from scheduler.groups.description.describing import Descriptions
from scheduler.groups.description.spec import GroupSpec
from scheduler.groups.planning import between, eviction, mixing, planning, shapes
from scheduler.groups.planning.conflicts import conflicts
from scheduler.groups.planning.mixer import MixedPlanner
from scheduler.groups.planning.task import (
    ROUNDS,
    GroupTask,
    Offer,
    awaits_room,
    leaving,
    limits_of,
    solution_of,
    unanswered,
    with_rules,
)
from scheduler.groups.solver.questions import EvictQuestion
from scheduler.groups.status.lifecycle import GroupRecord
from scheduler.objects.pod import Pod
from scheduler.state.podindex import Placed
from scheduler.state.resources import PODS
from scheduler.state.shapes import host_ports


class GroupEvictor:
    """Chooses victims for the groups of one profile."""

    def __init__(
        self,
        args: ClusterTopologyPlacementGroupArgs,
        handle: Handle,
        described: Descriptions,
        mixer: MixedPlanner,
    ) -> None:
        self._args = args
        self._handle = handle
        self._described = described
        self._mixer = mixer

    def may_evict(self, task: GroupTask, record: GroupRecord) -> bool:
        """Whether members may evict now: not while the last victims are leaving."""
        still = record.awaited = leaving(self._handle, record.awaited)
        if still or awaits_room(task.context, self._handle):
            return False
        return self.may_ever_evict(task.spec, task.context.members, task.standing)

    def may_ever_evict(
        self, spec: GroupSpec, members: Iterable[Pod], standing: Sequence[Placed]
    ) -> bool:
        """Whether these members may evict, of a group of which others stand: not with policy Never.

        Members beyond the minimum never do: the group runs without them.
        """
        if self._args.preemption == "Disabled" or not spec.may_evict:
            return False
        if standing and (spec.is_ours or quorum.has_minimum(spec, standing)):
            return False
        return all(pod.spec.preemption_policy != "Never" for pod in members)

    def evicting(
        self, task: GroupTask
    ) -> Generator[SolverCall, CallResult, GroupPlan | Status | None]:
        """Return the plan with the fewest victims, None when evicting does not help."""
        context, nodes, wanted = task.context, task.context.nodes, task.needed
        fits = context.fits([between.without_spread(member) for member in context.members])
        # Members that ask for a host port cannot stand beside one another.
        alone = 1 if host_ports(wanted[0]) else len(wanted)
        most = task.allowed(np.where(fits.evictable, alone, 0))
        blocked: set[str] = set()
        for _ in range(ROUNDS):
            lower = self._lower(task)
            site = planning.site(task.spec, task.tree, nodes, most, task.standing, len(wanted))
            if not lower or not site.instance.leaves:
                return None
            offer = yield from self._offer(
                with_rules(site, task, self._handle.pods), task, lower, blocked
            )
            if offer is None or isinstance(offer, Status):
                return offer
            where, victims = offer
            if not self._may_go(task, victims):
                continue  # what moved while the solver worked, the next question has right
            misfit = context.would_hold(where, victims)
            if misfit is None:
                return self._agreed(task, where, victims)
            if misfit.node in blocked:
                most = lower_of(most, misfit.most)
            blocked.add(misfit.node)
        return None

    def _offer(
        self,
        site: planning.Site,
        task: GroupTask,
        lower: eviction.Candidates,
        blocked: Collection[str],
    ) -> Generator[SolverCall, CallResult, Offer]:
        """Ask the solver where the members go and who leaves for them; None when nothing helps.

        On the nodes in `blocked` a member needs everybody gone who can be.
        """
        pod, nodes = task.needed[0], task.context.nodes
        whole = frozenset(leaf for leaf, name in enumerate(site.names) if name in blocked)
        who = {one.pod.metadata.uid for each in lower for one in each.pods}
        in_the_way = conflicts(pod, nodes, site.rows, self._handle.pods, whole, who)
        budgets = self._handle.objects("PodDisruptionBudget").values()
        request = {**task.requests[pod.metadata.uid], PODS: 1}
        asked = eviction.victim_problem(
            site.instance, site.names, site.rows, task.context.free(request), request,
            lower, budgets, forbid=self._args.pdb == "Forbid", conflicts=in_the_way,
            counted=between.counted(pod, nodes, self._handle.pods),
        )  # fmt: skip
        limits = limits_of(self._args, self._args.preemption_time_limit_seconds)
        answer = yield SolverCall(EvictQuestion(asked.problem, limits), 2 * limits.total_s)
        solution = solution_of(answer)
        if solution is None:
            return unanswered(task.name)
        found = solution.victims
        if found is None or found.outcome != "placed":
            return None
        victims = asked.victims(found.evicted)
        return planning.assign(site, found.placement.counts, task.needed), victims

    def _agreed(
        self, task: GroupTask, where: dict[str, str], victims: tuple[Placed, ...]
    ) -> GroupPlan | None:
        """Return the plan to evict these; None when nobody has to go: then it is no question of room."""
        if not victims:
            return None
        text = f"the group {task.name} waits for {len(victims)} pods of lower priority to leave"
        return GroupPlan(where, victims, text)

    def evicting_mixed(
        self, task: GroupTask
    ) -> Generator[SolverCall, CallResult, GroupPlan | Status | None]:
        """Return the plan with the fewest victims for members that differ, None without one."""
        budgets = tuple(self._handle.objects("PodDisruptionBudget").values())
        limits = limits_of(self._args, self._args.preemption_time_limit_seconds)
        forbid = self._args.pdb == "Forbid"
        kinds, parts = task.kinds, task.shapes
        if parts:
            kinds, parts = shapes.needed(kinds, parts, task.standing)
            if not kinds:
                return None
        kinds = [msgspec.structs.replace(one) for one in kinds]  # what is learnt is not for all
        task = msgspec.structs.replace(task, kinds=kinds, shapes=parts)
        learnt: list[mixing.KindConflict] = []
        for attempt in range(ROUNDS):
            lower = self._lower(task)
            if not lower:
                return None
            found = yield from self._mixer.victims(
                task, lower, budgets, limits, forbid=forbid, holds=attempt > 0, learnt=learnt
            )
            if found is None or isinstance(found, Status):
                return found
            victims, where = found
            if not self._may_go(task, victims):
                continue  # what moved while the solver worked, the next question has right
            misfit = task.context.would_hold(where, victims)
            if misfit is None:
                return self._agreed(task, where, victims)
            if misfit.conflict:
                learnt.append(mixing.kind_conflict(task.kinds, misfit))
            else:
                mixing.learn(task.kinds, where, task.context.nodes, misfit)
        return None

    def _lower(self, task: GroupTask) -> list[eviction.EvictionUnit]:
        """Return who may be evicted for a group."""
        priority = task.context.priority
        return eviction.lower(self._handle.pods, priority, self._described, own=task.key)

    def _may_go(self, task: GroupTask, victims: Collection[Placed]) -> bool:
        """Whether these may go now: groups were edited and members joined since they were asked about."""
        going = {victim.pod.metadata.uid: victim.node for victim in victims}
        found = 0
        for unit in self._lower(task):
            here = sum(going.get(one.pod.metadata.uid) == one.node for one in unit.pods)
            if unit.spare < here < len(unit.pods):
                return False  # what is left of the group would be less than it needs
            found += here
        return found == len(going)
