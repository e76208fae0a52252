"""Place groups of several roles: members that request or prefer different things; evict for them.

If a filter rejects an answer, the next request excludes it: either the rejected node takes fewer
pods of that role, or the combination of roles on that node is excluded.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from scheduler.framework.calls import SolverCall
from scheduler.framework.groups import AssignmentRejection
from scheduler.framework.status import Status, unschedulable
from scheduler.groups.planning import messages, preferences, shapes
from scheduler.groups.planning.eviction import Candidates, Freed, candidates_of, chosen
from scheduler.groups.planning.placements import ROUNDS, Assigned, Placement, PlanningTools
from scheduler.groups.planning.roles import rolemessages
from scheduler.groups.planning.roles.roles import learn
from scheduler.groups.planning.roles.rolesproblem import (
    RoleConflict,
    RolesProblem,
    assign,
    role_conflict,
    roles_problem,
)
from scheduler.groups.planning.task import (
    GroupTask,
    Offer,
    Steps,
    limits_of,
    unanswered,
    undecided,
)
from scheduler.groups.problem.instance import Budget, Candidate
from scheduler.groups.problem.roles import GroupAnswer, GroupPreemption, GroupProblem
from scheduler.groups.solver.questions import EvictRoles, PlaceRoles, Solution
from scheduler.groups.solver.roles.linkflows import parts_of

# Conflicts between roles are learnt one combination at a time, each for all nodes of equal state.
MOST_CONFLICTS = 64
# Of an application whose links are counted per pair of zones.
MOST_AREAS = 500


def placed(task: GroupTask, tools: PlanningTools, place: Callable[[Placement], Steps]) -> Steps:
    """Place the members, with the preferred devices of their claims if possible."""

    def place_task(task: GroupTask) -> Steps:
        return (yield from place(HeterogeneousPlacement(task, tools)))

    return (yield from preferences.placed_roles(task, place_task))


def eviction(task: GroupTask, tools: PlanningTools) -> "HeterogeneousEviction":
    """Return the search for the victims of a task."""
    return HeterogeneousEviction(task, tools)


class HeterogeneousPlacement:
    """A `Placement` of as many members as fit, at least those that are needed."""

    def __init__(self, task: GroupTask, tools: PlanningTools) -> None:
        self.task = task
        self._tools = tools
        self._learnt: list[RoleConflict] = []
        self._why = ""
        self._rounds = 0

    def question(self) -> SolverCall | Status:
        """Return the question for the nodes as they are now."""
        task, learnt = self.task, len(self._learnt)
        if self._rounds - learnt >= ROUNDS or learnt >= MOST_CONFLICTS:
            rules = f"the rules between its members do not hold: {self._why}"
            return unschedulable(f"the group {task.name} does not fit: {rules}")
        self._problem = found = self._current_problem()
        if not found.names:
            return unschedulable(
                f"the group {task.name} does not fit: {rolemessages.nowhere(task)}"
            )
        if uncounted := _uncounted(found.group):
            return undecided(f"the group {task.name} waits: {uncounted}")
        limits = limits_of(self._tools.args, self._tools.args.solver_time_limit_seconds)
        holds, self._rounds = self._rounds > 0, self._rounds + 1
        return SolverCall(PlaceRoles(found.group, limits), 2 * limits.total_s, holds)

    def assigned(self, solution: Solution) -> Assigned | Status | None:
        """Return the assignment of a solution."""
        task, found = self.task, solution.roles
        if found is None:
            return unanswered(task.name)
        self._tools.recorder.solved(task.key, solution)
        if found.outcome != "placed":
            return self._refusal(solution, found)
        return Assigned(_assignment(self._problem, task, found), found.stages)

    def learn(self, nodes: Mapping[str, str], rejection: AssignmentRejection) -> None:
        """Exclude a combination of roles on a node, or lower the number of pods of one role
        there.
        """
        task = self.task
        if rejection.conflict:
            self._learnt.append(role_conflict(task.roles, rejection))
        elif self._current_problem().group == self._problem.group:
            # Where amounts changed while the solver worked, the next question has them right.
            learn(task.roles, nodes, task.context.nodes, rejection)
        self._why = f"{rejection.reason} on {rejection.node}"

    def _current_problem(self) -> RolesProblem:
        return _problem(self.task, self._tools, self._learnt, evicting=False)

    def _refusal(self, solution: Solution, found: GroupAnswer) -> Status:
        task = self.task
        if found.outcome == "unknown":
            return task.left_open("waits: the solver found nothing within its time")
        refusal = rolemessages.refusal(task, solution.advice)
        self._tools.recorder.refusal(task.key, refusal)
        text = f"does not fit: {refusal.text}"
        if not self._why:
            return unschedulable(f"the group {task.name} {text}")
        # The rules learnt from a rejection may exclude too much: no proof.
        return task.left_open(messages.sentences(text, f"what was tried last: {self._why}"))


class HeterogeneousEviction:
    """The search for victims of a group with several roles; implements `Eviction`."""

    def __init__(self, task: GroupTask, tools: PlanningTools) -> None:
        self._tools = tools
        self._learnt: list[RoleConflict] = []
        self._rounds = 0
        roles, parts = task.roles, task.shapes
        if parts:
            roles, parts = shapes.needed(roles, parts, task.bound)
        # The rules that this eviction learns about nodes do not hold for placements of the same
        # task.
        roles = [msgspec.structs.replace(one) for one in roles]
        self._task = msgspec.structs.replace(task, roles=roles, shapes=parts)

    def question(self, lower: Candidates) -> SolverCall | None:
        """Return the question for the nodes as they are now."""
        task, args = self._task, self._tools.args
        if not task.roles:
            return None
        self._problem = found = _problem(task, self._tools, self._learnt, evicting=True)
        if not found.names:
            return None
        where = {name: leaf for leaf, name in enumerate(found.names)}
        freed = Freed(where, found.resources, {}, 0, found.counted)
        budgets = tuple(self._tools.handle.objects("PodDisruptionBudget").values())
        candidates, self._pods, elastic = candidates_of(lower, freed, budgets)
        allowed = tuple(
            Budget(
                f"{one.metadata.namespace}/{one.metadata.name}",
                max(0, one.status.disruptions_allowed),
            )
            for one in budgets
        )
        self._candidates: Sequence[Candidate] = candidates
        problem = GroupPreemption(
            found.group, tuple(candidates), allowed, args.pdb == "Forbid", elastic
        )
        limits = limits_of(args, args.preemption_time_limit_seconds)
        holds, self._rounds = self._rounds > 0, self._rounds + 1
        return SolverCall(EvictRoles(problem, limits), 2 * limits.total_s, holds)

    def offer(self, solution: Solution) -> Offer:
        """Return the nodes of the members that are needed, and the victims."""
        found = solution.roles
        if found is None:
            return unanswered(self._task.name)
        if found.outcome != "placed" or not found.evicted:
            return None
        victims = chosen(self._candidates, self._pods, found.evicted)
        return _assignment(self._problem, self._task, found), victims

    def learn(self, nodes: Mapping[str, str], rejection: AssignmentRejection) -> None:
        """Exclude a combination of roles on a node, or lower the number of pods of one role
        there.
        """
        task = self._task
        if rejection.conflict:
            self._learnt.append(role_conflict(task.roles, rejection))
        else:
            learn(task.roles, nodes, task.context.nodes, rejection)


def _problem(
    task: GroupTask, tools: PlanningTools, learnt: Sequence[RoleConflict], *, evicting: bool
) -> RolesProblem:
    """Return the problem of a task for the nodes as they are now."""
    found = roles_problem(
        task.spec,
        task.tree,
        task.context,
        task.roles,
        task.bound,
        task.least or len(task.context.members),
        placed=tools.handle.pods,
        evicting=evicting,
        learnt=learnt,
    )
    return shapes.with_parts(found, task.shapes, task.bound)


def _assignment(problem: RolesProblem, task: GroupTask, found: GroupAnswer) -> dict[str, str]:
    if task.shapes:
        return shapes.assign(task.shapes, task.roles, problem.names, found.pieces)
    return assign(problem, task.roles, found.counts)


def _uncounted(group: GroupProblem) -> str:
    """Return the property of an application that cannot be counted exactly, '' if there is none."""
    areas = len(group.costs.matrix)
    if areas > MOST_AREAS:
        return (
            f"its nodes are in {areas} zones (each without a label is one), {MOST_AREAS} "
            "are the most"
        )
    if group.links and not parts_of(group):
        # Pod shares of this many different counts have no common unit.
        return "minBandwidth is kept exactly only for about as many pods as minMembers ask for"
    return ""
