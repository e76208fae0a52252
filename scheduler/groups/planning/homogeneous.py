"""Place a group whose members all have one role, and evict for it."""

from collections.abc import Callable, Mapping

import msgspec
import numpy as np

from scheduler.base.arrays import IntColumn, lower_of
from scheduler.framework.calls import SolverCall
from scheduler.framework.groups import AssignmentRejection, Fits
from scheduler.framework.status import Status, unschedulable
from scheduler.groups.planning import between, planning, preferences, repairs
from scheduler.groups.planning.conflicts import conflicts
from scheduler.groups.planning.eviction import Candidates, victim_problem
from scheduler.groups.planning.placements import ROUNDS, Assigned, Placement, PlanningTools
from scheduler.groups.planning.task import (
    GroupTask,
    Offer,
    Steps,
    limits_of,
    solution_of,
    with_rules,
)
from scheduler.groups.problem.answer import SolvedStage
from scheduler.groups.solver.questions import EvictQuestion, Place, Solution
from scheduler.groups.topology import leafrows
from scheduler.state.resources import PODS
from scheduler.state.shapes import host_ports


def placed(task: GroupTask, tools: PlanningTools, place: Callable[[Placement], Steps]) -> Steps:
    """Place the members: the group's own terms first, then what claims prefer, then few units."""
    if task.context.members[0].spec.resource_claims:
        plan = yield from _as_preferred(msgspec.structs.replace(task, wants_all=True), tools, place)
        if not isinstance(plan, Status) or not plan.is_rejected:
            return plan
    return (yield from place(HomogeneousPlacement(task, tools)))


def _as_preferred(
    task: GroupTask, tools: PlanningTools, place: Callable[[Placement], Steps]
) -> Steps:
    """Place the members with the preferred devices of their claims; a refusal if that worsens
    another stage.
    """
    members = task.context.members
    fits = task.context.fits([between.without_spread(pod) for pod in members])
    if fits.costs is None:
        return unschedulable()
    slots = task.allowed(fits.slots)
    own: tuple[SolvedStage, ...] = ()
    if task.spec.constraints:
        problem = _node_problem(task, tools, slots, fits.shared_domain, may_be_thin=False)
        if not problem.instance.leaves:
            return unschedulable()
        answer = yield _question(problem, tools, holds=False, advise=False)
        solution = solution_of(answer)
        if solution is None or solution.placed.outcome != "placed":
            return unschedulable()
        own = preferences.own_stages(task.spec, solution.placed.stages)

    def within(task: GroupTask, preferred: preferences.PreferredPlaces) -> Steps:
        return (yield from place(HomogeneousPlacement(task, tools, preferred)))

    return (yield from preferences.placed(task, fits, own, within))


def eviction(task: GroupTask, tools: PlanningTools) -> "HomogeneousEviction":
    """Return the search for the victims of a task."""
    return HomogeneousEviction(task, tools)


class HomogeneousPlacement:
    """A `Placement`; limited to `preferred` places if there are any."""

    def __init__(
        self,
        task: GroupTask,
        tools: PlanningTools,
        preferred: preferences.PreferredPlaces | None = None,
    ) -> None:
        self.task = task
        self._tools = tools
        self._preferred = preferred
        self._most: IntColumn | None = None
        self._why = ""
        self._relaxed = [between.without_spread(pod) for pod in task.context.members]
        self._may_be_thin = between.is_free(task.context.members[0])
        self._homes = repairs.homes(task.spec, task.tree, task.bound, task.context.members)
        # Why the rules as they are exclude every placement; repairs are tried next.
        self._refused: Status | None = None
        self._rounds = 0

    def question(self) -> SolverCall | Status:
        """Return the solver call for the current state of the nodes."""
        task, preferred = self.task, self._preferred
        if self._rounds == ROUNDS:
            rules = f"the rules between its members do not hold: {self._why}"
            return task.left_open(f"does not fit: {rules}")
        self._fits = fits = task.context.fits(self._relaxed)
        slots = fits.slots if self._most is None else lower_of(fits.slots, self._most)
        slots = task.allowed(slots)
        slots = slots if preferred is None else lower_of(slots, preferred.slots)
        problem = _node_problem(
            task, self._tools, slots, fits.shared_domain, may_be_thin=self._may_be_thin
        )
        if preferred is not None:
            problem = preferences.preferring(problem, preferred)
        if not problem.instance.leaves:
            return self._tools.recorder.no_node(task, problem, fits)
        self._problem = problem if self._refused is None else repairs.mended(problem, self._homes)
        # While a second answer is awaited nothing else is placed: the answer must not be stale
        # again.
        holds, self._rounds = self._rounds > 0, self._rounds + 1
        advise = preferred is None and not self._problem.is_thin
        return _question(self._problem, self._tools, holds=holds, advise=advise)

    def assigned(self, solution: Solution) -> Assigned | Status | None:
        """Return the assignment of a solution; without one, solve with all leaves, then with
        repairs.
        """
        task, problem, found = self.task, self._problem, solution.placed
        if problem.is_thin and found.outcome == "infeasible":
            self._may_be_thin = False  # advice needs all leaves
            return None
        self._tools.recorder.solved(task.key, solution)
        if found.outcome != "placed":
            return self._without_placement(solution)
        if self._preferred is not None and not self._preferred.keeps(task.spec, found.stages):
            return unschedulable()
        nodes = repairs.assign(problem, found.counts, task.context.members, self._homes)
        if not nodes:
            return task.left_open(f"has no free capacity for more: {self._fits.message}")
        return Assigned(nodes, found.stages)

    def learn(self, nodes: Mapping[str, str], rejection: AssignmentRejection) -> None:
        """Lower each row's capacity by the filters' rejections."""
        del nodes
        self._most = rejection.most if self._most is None else lower_of(self._most, rejection.most)
        self._why = f"{rejection.reason} on {rejection.node}"

    def _without_placement(self, solution: Solution) -> Status | None:
        if self._preferred is not None:
            return unschedulable()
        if self._refused is not None:
            return self._refused
        problem, has_learnt = self._problem, self._most is not None
        self._refused = self._tools.recorder.refused(
            self.task, problem, self._fits, solution, tried=has_learnt
        )
        return self._refused if repairs.mended(problem, self._homes) is problem else None


class HomogeneousEviction:
    """The search for victims of a group whose members are identical; implements `Eviction`."""

    def __init__(self, task: GroupTask, tools: PlanningTools) -> None:
        self._task = task
        self._tools = tools
        self._wanted = task.needed
        fits: Fits = task.context.fits(
            [between.without_spread(one) for one in task.context.members]
        )
        # A host port is taken by one member of a node.
        alone = 1 if host_ports(self._wanted[0]) else len(self._wanted)
        self._most = task.allowed(np.where(fits.evictable, alone, 0))
        self._blocked: set[str] = set()

    def question(self, lower: Candidates) -> SolverCall | None:
        """Return the instance; on blocked nodes a member requires the eviction of every
        candidate.
        """
        task, nodes, args = self._task, self._task.context.nodes, self._tools.args
        pods = self._tools.handle.pods
        found = planning.node_problem(
            task.spec, task.tree, nodes, self._most, task.bound, len(self._wanted)
        )
        if not found.instance.leaves:
            return None
        self._problem = problem = with_rules(found, task, pods)
        pod = self._wanted[0]
        whole = frozenset(leaf for leaf, name in enumerate(problem.names) if name in self._blocked)
        uids = {one.pod.metadata.uid for each in lower for one in each.pods}
        request = {**task.requests[pod.metadata.uid], PODS: 1}
        self._freeing = victim_problem(
            problem.instance,
            problem.names,
            problem.rows,
            task.context.free(request),
            request,
            lower,
            self._tools.handle.objects("PodDisruptionBudget").values(),
            forbid=args.pdb == "Forbid",
            conflicts=conflicts(pod, nodes, problem.rows, pods, whole, uids),
            counted=between.counted(pod, nodes, pods),
        )
        limits = limits_of(args, args.preemption_time_limit_seconds)
        return SolverCall(EvictQuestion(self._freeing.problem, limits), 2 * limits.total_s)

    def offer(self, solution: Solution) -> Offer:
        """Return the nodes of the members up to the minimum, and the victims."""
        found = solution.victims
        if found is None or found.outcome != "placed":
            return None
        victims = self._freeing.victims(found.evicted)
        return planning.assign(self._problem, found.placement.counts, self._wanted), victims

    def learn(self, nodes: Mapping[str, str], rejection: AssignmentRejection) -> None:
        """Block the node; the second time, lower each row's capacity."""
        del nodes
        if rejection.node in self._blocked:
            self._most = lower_of(self._most, rejection.most)
        self._blocked.add(rejection.node)


def _node_problem(
    task: GroupTask,
    tools: PlanningTools,
    slots: IntColumn,
    shared_domain: IntColumn | None,
    *,
    may_be_thin: bool,
) -> planning.NodeProblem:
    """Return the instance for the solver: in a large tree only the leaves that the group can
    use.
    """
    bound, nodes, count = task.bound, task.context.nodes, len(task.context.members)
    # Any number is valid that brings the group to its minimum, or above it by one or more.
    is_elastic = task.spec.is_minimum and not task.wants_all
    minimum = max(task.spec.size, len(bound) + 1) if is_elastic else 0
    among = None
    if may_be_thin and shared_domain is None:
        on_them = nodes.rows_named(one.node for one in bound)
        among = leafrows.useful(task.tree, nodes, slots, on_them, count + len(bound))
    found = planning.node_problem(
        task.spec, task.tree, nodes, slots, bound, count, minimum, among=among
    )
    return with_rules(found, task, tools.handle.pods, shared_domain)


def _question(
    problem: planning.NodeProblem, tools: PlanningTools, *, holds: bool, advise: bool
) -> SolverCall:
    limits = limits_of(tools.args, tools.args.solver_time_limit_seconds)
    question = Place(problem.instance, limits, tools.args.solver, advise)
    return SolverCall(question, 2 * limits.total_s, holds)
