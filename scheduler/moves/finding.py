"""`find_moves`: a plan for a goal in a snapshot, judged by the scheduler, as a report."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from scheduler.moves.cluster import ClusterProblem, ProblemBuilder
from scheduler.moves.eligible import MoveRules, counted
from scheduler.moves.evaluation import Outcome, PlanEvaluator, Step
from scheduler.moves.facts import ClusterFacts
from scheduler.moves.goals import CapacityGoal, FitGoal, FreeGoal, MoveGoal, words
from scheduler.moves.pending import waiting_pods, with_nominated
from scheduler.moves.records import Exclusion, MovesReport, PlacedPods, PlanStage, PodMove
from scheduler.moves.solver.answer import PODS, UNITS, Answer, Move, Verdict
from scheduler.moves.solver.planner import SearchLimits, plan
from scheduler.moves.solver.problem import Fit, Free, Problem, Repair
from scheduler.simulate.stage import AnswerOptions, Setup
from scheduler.snapshot.snapshot import Snapshot
from scheduler.state.resources import CPU, EPHEMERAL, MEMORY

ROUNDS = 6  # plans that are verified before the search ends without one
EXAMPLES = 3
DEFAULT_MOST = 16


class MoveOptions(msgspec.Struct, frozen=True):
    """How to plan: rules for pods, at most `most` moves, seconds for the search."""

    rules: MoveRules = MoveRules()
    most: int = DEFAULT_MOST
    seconds: float = 10.0


def find_moves(
    snapshot: Snapshot,
    facts: ClusterFacts,
    setup: Setup,
    goal: MoveGoal,
    options: MoveOptions | None = None,
    answers: AnswerOptions | None = None,
) -> MovesReport:
    """Return the report of the best plan. InputError if the goal or the snapshot is invalid."""
    wanted, answer_options = options or MoveOptions(), answers or AnswerOptions()
    waiting = waiting_pods(snapshot, goal)
    builder = ProblemBuilder(snapshot, facts, setup, answer_options, wanted.rules, waiting)
    built = builder.build(goal, wanted.most)
    evaluator = PlanEvaluator(with_nominated(snapshot, waiting), setup, answer_options)
    return _Finding(built, goal, evaluator, wanted).report()


class _Finding:
    """One search for a plan that the scheduler's own filters confirm."""

    def __init__(
        self, built: ClusterProblem, goal: MoveGoal, evaluator: PlanEvaluator, options: MoveOptions
    ) -> None:
        self._built, self._goal, self._evaluator, self._options = built, goal, evaluator, options
        self._notices: list[str] = []
        self._seconds = 0.0

    def report(self) -> MovesReport:
        """Return the report."""
        before = self._outcome(())
        answer = self._agreed()
        steps = self._steps(answer)
        after = self._outcome(steps) if steps else before
        found = answer.verdict in (Verdict.PLANNED, Verdict.REACHED)
        if found and not after.is_reached:
            self._notices.append(f"the scheduler does not reach the goal with it: {after.message}")
            answer = Answer(Verdict.UNKNOWN)
            steps = ()
        return self._reported(answer, steps, before, after)

    def _agreed(self) -> Answer:
        """Plan, and plan again without destinations that the scheduler rejects."""
        problem = self._built.problem
        limits = SearchLimits(self._options.seconds)
        for _ in range(ROUNDS):
            answer = plan(problem, limits)
            self._seconds += answer.seconds
            rejected = self._evaluator.rejected(self._steps(answer))
            if not rejected:
                return answer
            self._notices.append(
                f"planned again: {rejected[0].target} is rejected for {rejected[0].pod.key}"
            )
            problem = self._without(problem, rejected)
        return Answer(Verdict.UNKNOWN)

    def _without(self, problem: Problem, rejected: Sequence[Step]) -> Problem:
        """Return the problem without rejected destinations."""
        numbers = {pod.key: at for at, pod in enumerate(self._built.pods)}
        names = {node.name: at for at, node in enumerate(problem.nodes)}
        pods, destination_sets = list(problem.pods), list(problem.destination_sets)
        for step in rejected:
            at = numbers[step.pod.key]
            destination_sets.append(destination_sets[pods[at].destinations] - {names[step.target]})
            pods[at] = pods[at]._replace(destinations=len(destination_sets) - 1)
        return problem._replace(pods=tuple(pods), destination_sets=tuple(destination_sets))

    def _steps(self, answer: Answer) -> tuple[Step, ...]:
        nodes = self._built.problem.nodes
        return tuple(
            Step(self._built.pods[move.pod], nodes[move.target].name) for move in answer.moves
        )

    def _outcome(self, steps: Sequence[Step]) -> Outcome:
        if isinstance(self._goal, FitGoal | CapacityGoal):
            return self._evaluator.outcome(self._goal, self._built.waiting, steps)
        return Outcome(0, 0)

    def _reported(
        self, answer: Answer, steps: Sequence[Step], before: Outcome, after: Outcome
    ) -> MovesReport:
        cut = bool(self._notices)
        proven = answer.proven and not cut
        return MovesReport(
            goal=words(self._goal),
            verdict=answer.verdict.value,
            statement=self._statement(answer, proven=proven),
            proven=proven,
            gap=round(answer.gap, 4),
            before=self._state(before, ()),
            after=self._state(after, answer.moves) if steps else "",
            moves=tuple(self._moves(answer)) if steps else (),
            placed=tuple(self._placed(answer)),
            freed=self._freed(answer),
            stages=tuple(PlanStage(*stage) for stage in answer.stages),
            movable=len(self._built.pods),
            excluded=tuple(
                Exclusion(reason, len(pods), tuple(sorted(pods)[:EXAMPLES]))
                for reason, pods in counted(self._built.excluded)
            ),
            notices=tuple(self._notices),
            seconds=round(self._seconds, 3),
        )

    def _moves(self, answer: Answer) -> list[PodMove]:
        problem = self._built.problem
        unit_of = {pod: unit for unit in problem.units for pod in unit.pods}
        return [
            PodMove(
                order,
                problem.pods[move.pod].name,
                problem.nodes[move.source].name,
                problem.nodes[move.target].name,
                unit_of[move.pod].name,
                self._built.pods[move.pod].priority,
                unit_of[move.pod].cost // len(unit_of[move.pod].pods),
            )
            for order, move in enumerate(answer.moves, 1)
        ]

    def _placed(self, answer: Answer) -> list[PlacedPods]:
        """Return where the waiting pods fit; members of one role are interchangeable."""
        if isinstance(self._goal, CapacityGoal):
            return []
        left = [list(pods) for pods in self._built.roles]
        nodes = self._built.problem.nodes
        found = [(left[one.role].pop(0).key, nodes[one.node].name) for one in answer.placed]
        return [PlacedPods(*one) for one in sorted(found)]

    def _freed(self, answer: Answer) -> tuple[str, ...]:
        goal, built = self._built.problem.goal, self._built
        if not isinstance(goal, Free):
            return ()
        if goal.level < 0:
            return tuple(built.problem.nodes[domain].name for domain in answer.freed)
        return tuple(built.level_names[goal.level][domain] for domain in answer.freed)

    def _state(self, outcome: Outcome, moves: Sequence[Move]) -> str:
        """Return how far the goal is reached, in one line."""
        problem = self._built.problem
        if isinstance(problem.goal, Fit):
            what = "copies" if isinstance(self._goal, CapacityGoal) else "waiting pods"
            return f"{outcome.fits} of {outcome.of} {what} fit"
        moved = {move.pod for move in moves}
        if isinstance(problem.goal, Free):
            free = _free_domains(problem, problem.goal, moves)
            return f"{free} free, {problem.goal.number} wanted"
        if isinstance(problem.goal, Repair):
            left = sum(not clause & moved for clause in problem.goal.clauses)
            return f"{left} pods violate a hard rule"
        hot = _hot_nodes(problem, moves)
        nodes = "1 node is" if hot == 1 else f"{hot} nodes are"
        return f"{nodes} above the threshold"

    def _statement(self, answer: Answer, *, proven: bool) -> str:
        """Return the sentence that states what the answer proves."""
        most = self._options.most
        if answer.shortage is not None:
            return self._short(answer)
        match answer.verdict:
            case Verdict.REACHED:
                return "the goal is reached without a move"
            case Verdict.IMPOSSIBLE:
                return (
                    f"no set of at most {most} moves reaches the goal (proven for the movable pods "
                    "and the nodes that accept them now)"
                )
            case Verdict.CHAINED:
                return (
                    "only moves that wait for one another reach the goal; such plans are not made"
                )
            case Verdict.UNKNOWN:
                return (
                    "neither a plan nor a proof that there is none was found within the time limit"
                )
        number = next(stage for stage in answer.stages if stage.name == PODS)
        moves = "1 move" if number.value == 1 else f"{number.value} moves"
        units = [one for one in answer.stages if one.name.startswith(UNITS) and one.value]
        if proven:
            mixed = len({unit.priority for unit in self._built.problem.units}) > 1
            by = " of these or lower priorities" if mixed and units else ""
            return f"{moves}; no plan with fewer moves{by} exists"
        if answer.gap:
            return f"{moves}; a plan with up to {answer.gap:.0%} fewer moves is not excluded"
        return f"{moves}; a plan with fewer moves is not excluded"

    def _short(self, answer: Answer) -> str:
        short = answer.shortage
        if short is None:
            return ""
        goal = self._built.problem.goal
        if isinstance(goal, Fit):
            roles = [role for claim in goal.claims for role in claim.roles]
            if not all(self._built.problem.destination_sets[role.destinations] for role in roles):
                return "no set of moves suffices: no node accepts the pods without the movable pods"
        if short.resource < 0:
            what = "domains" if isinstance(self._goal, FreeGoal) else "pods of this size"
            return (
                f"no set of moves suffices: {short.needed} {what} are needed, "
                f"{short.free} fit now and {short.most} if all movable pods left"
            )
        name, unit = (
            self._built.problem.resources[short.resource],
            self._built.units[short.resource],
        )
        return (
            f"no set of moves suffices: {amount(name, short.needed * unit)} of {name} are needed, "
            f"{amount(name, short.free * unit)} are free where the pods may run, and at most "
            f"{amount(name, short.most * unit)} with moves"
        )


def _free_domains(problem: Problem, goal: Free, moves: Sequence[Move]) -> int:
    gone = {move.pod for move in moves}
    busy = {pod.node for at, pod in enumerate(problem.pods) if at not in gone}
    busy |= {move.target for move in moves}
    busy |= {at for at, node in enumerate(problem.nodes) if node.pinned}
    members = problem.members(goal.level)
    return sum(busy.isdisjoint(members[domain]) for domain in goal.domains)


def _hot_nodes(problem: Problem, moves: Sequence[Move]) -> int:
    left = [node.headroom for node in problem.nodes]
    for move in moves:
        load = problem.pods[move.pod].load
        left[move.source] += load
        left[move.target] -= load
    return sum(one < 0 for one in left)


def amount(resource: str, number: int) -> str:
    """Return the text of an amount: cores of CPU, GiB of memory, units of other resources."""
    if resource == CPU:
        return f"{number / 1000:g}"
    if resource in (MEMORY, EPHEMERAL):
        return f"{number / 2**30:.3g}Gi"
    return str(number)
