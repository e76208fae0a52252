"""Deciding groups whose members differ: the questions to the solver, and trying its answers.

The counterpart of what `deciding` does for like members. What filters refuse of an answer is learnt by
lowering what a node takes of that kind of member, and asked again.
"""

from collections.abc import Callable, Generator, Sequence

from scheduler.framework.calls import CallResult, SolverCall
from scheduler.framework.groups import Outcome
from scheduler.framework.status import Status, unschedulable
from scheduler.groups.planning import eviction, messages, mixing, rolemessages, shapes
from scheduler.groups.planning.task import GroupTask, unanswered, undecided
from scheduler.groups.problem.instance import Budget, SolveLimits
from scheduler.groups.problem.roles import Mixed, MixedAnswer, MixedPreemption
from scheduler.groups.solver.mixedflows import parts_of
from scheduler.groups.solver.questions import EvictMixed, PlaceMixed, Solution
from scheduler.objects.policy import PodDisruptionBudget
from scheduler.state.podindex import Placed

ROUNDS = 8
# What cannot be together is learnt one combination at a time, each for all nodes in a like situation.
MOST_CONFLICTS = 64
# Of an application between whose zones ways are counted one by one.
MOST_AREAS = 500
Victims = tuple[tuple[Placed, ...], dict[str, str]]


class MixedPlanner:
    """Plans groups of unlike members.

    `read` makes a solution of an answer, None of a bad one; `remember` keeps what is proven of a group,
    `refused` why it does not fit.
    """

    def __init__(
        self,
        read: Callable[[CallResult], Solution | None],
        remember: Callable[[str, Solution], None],
        refused: Callable[[str, messages.GroupRefusal], None],
    ) -> None:
        self._read = read
        self._remember = remember
        self._refused = refused

    def placed(
        self, task: GroupTask, limits: SolveLimits, is_unchanged: Callable[[], bool]
    ) -> Generator[SolverCall, CallResult, Outcome]:
        """Place as many members as fit, at least those that are needed, or say why not."""
        why = ""
        learnt: list[mixing.KindConflict] = []
        attempt = 0
        while attempt - len(learnt) < ROUNDS and len(learnt) < MOST_CONFLICTS:
            found = self._site(task, learnt)
            if not found.names:
                return unschedulable(
                    f"the group {task.name} does not fit: {rolemessages.nowhere(task)}"
                )
            if uncounted := _uncounted(found.group):
                return undecided(f"the group {task.name} waits: {uncounted}")
            question = PlaceMixed(found.group, limits)
            answer = yield SolverCall(question, 2 * limits.total_s, attempt > 0)
            if not is_unchanged():
                return undecided(f"the group {task.name} changed while it was planned")
            solution = self._read(answer)
            if solution is None or solution.mixed is None:
                return unanswered(task.name)
            mixed = solution.mixed
            self._remember(task.key, solution)
            if mixed.outcome != "placed":
                return self._refusal(task, solution, mixed, why)
            nodes = self._assigned(found, task, mixed)
            misfit = task.context.hold(nodes)
            if misfit is None:
                return task.plan(nodes, mixed.stages)
            if misfit.conflict:
                learnt.append(mixing.kind_conflict(task.kinds, misfit))
            elif self._site(task, learnt).group == found.group:
                # Where amounts changed while the solver worked, the next question has them right.
                mixing.learn(task.kinds, nodes, task.context.nodes, misfit)
            attempt += 1
            why = f"{misfit.reason} on {misfit.node}"
        text = f"the rules between its members do not hold: {why}"
        return unschedulable(f"the group {task.name} does not fit: {text}")

    def victims(
        self,
        task: GroupTask,
        lower: eviction.Candidates,
        budgets: Sequence[PodDisruptionBudget],
        limits: SolveLimits,
        *,
        forbid: bool,
        holds: bool,
        learnt: Sequence[mixing.KindConflict] = (),
    ) -> Generator[SolverCall, CallResult, Victims | Status | None]:
        """Return who has to go for the members that are needed, and where those go then."""
        found = mixing.site(
            task.spec, task.tree, task.context, task.kinds, task.standing,
            task.least or len(task.context.members), evicting=True, learnt=learnt,
        )  # fmt: skip
        found = shapes.with_parts(found, task.shapes, task.standing)
        if not found.names:
            return None
        where = {name: leaf for leaf, name in enumerate(found.names)}
        freed = eviction.Freed(where, found.resources, {}, 0, {})
        candidates, pods, elastic = eviction.candidates_of(lower, freed, budgets)
        allowed = tuple(
            Budget(
                f"{b.metadata.namespace}/{b.metadata.name}", max(0, b.status.disruptions_allowed)
            )
            for b in budgets
        )
        problem = MixedPreemption(found.group, tuple(candidates), allowed, forbid, elastic)
        answer = yield SolverCall(EvictMixed(problem, limits), 2 * limits.total_s, holds)
        mixed = self._mixed(answer)
        if mixed is None:
            return unanswered(task.name)
        if mixed.outcome != "placed" or not mixed.evicted:
            return None
        chosen = eviction.chosen(problem.candidates, pods, mixed.evicted)
        return chosen, self._assigned(found, task, mixed)

    def _site(self, task: GroupTask, learnt: Sequence[mixing.KindConflict]) -> mixing.MixedSite:
        least = task.least or len(task.context.members)
        found = mixing.site(
            task.spec, task.tree, task.context, task.kinds, task.standing, least, learnt=learnt
        )
        return shapes.with_parts(found, task.shapes, task.standing)

    def _assigned(
        self, found: mixing.MixedSite, task: GroupTask, answer: MixedAnswer
    ) -> dict[str, str]:
        if task.shapes:
            return shapes.assign(task.shapes, task.kinds, found.names, answer.pieces)
        return mixing.assign(found, task.kinds, answer.counts)

    def _mixed(self, answer: CallResult) -> MixedAnswer | None:
        solution = self._read(answer)
        return None if solution is None else solution.mixed

    def _refusal(self, task: GroupTask, solution: Solution, mixed: MixedAnswer, why: str) -> Status:
        if mixed.outcome == "unknown":
            return task.left_open("waits: the solver found nothing within its time")
        found = rolemessages.refusal(task, solution.advice)
        self._refused(task.key, found)
        text = f"does not fit: {found.text}"
        if not why:
            return unschedulable(f"the group {task.name} {text}")
        # What was learnt from a misfit may exclude too much: no proof.
        return task.left_open(messages.sentences(text, f"what was tried last: {why}"))


def _uncounted(group: Mixed) -> str:
    """Return what of an application could not be counted exactly, an empty text where all can."""
    areas = len(group.costs.matrix)
    if areas > MOST_AREAS:
        return f"its nodes are in {areas} zones (each without a label is one), {MOST_AREAS} are the most"
    if group.links and not parts_of(group):
        # Shares of so many numbers of pods have no common part that could be counted in.
        return "minBandwidth is kept exactly only for about as many pods as minMembers ask for"
    return ""
