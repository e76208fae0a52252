"""Plans for execution: the plan of a MovePlan, and the check before each of its moves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from scheduler.base.errors import InputError
from scheduler.moves.cluster import ProblemBuilder
from scheduler.moves.eligible import MoveRules
from scheduler.moves.evaluation import PlanEvaluator, Step
from scheduler.moves.facts import ClusterFacts
from scheduler.moves.finding import MoveOptions, find_moves
from scheduler.moves.goals import FitGoal, FreeGoal, LoadGoal, MoveGoal, RepairGoal, words
from scheduler.moves.pending import waiting_pods, with_nominated
from scheduler.moves.records import MovesReport, PodMove
from scheduler.objects.kinds import MOVE_PLAN
from scheduler.objects.moves.moveplan import (
    PLANNED,
    MoveOwner,
    MovePlanSpec,
    MovePlanStatus,
    PlanExclusion,
    PlanGoal,
    PlannedMove,
    first_step,
    ordinal_of,
)
from scheduler.objects.moves.movewire import PLAN, MoveAnswer, MoveCheck, MoveQuestion
from scheduler.objects.pod import ContainerPort, Pod
from scheduler.simulate.derive import with_derived_groups
from scheduler.simulate.stage import AnswerOptions, Setup
from scheduler.snapshot.documents import SourceFile, items_of
from scheduler.snapshot.snapshot import Snapshot, SnapshotReader
from scheduler.state.resources import pod_requests
from scheduler.state.shapes import host_ports

MOST_EXCLUSIONS = 50
MOST_TEXT = 1000


def answer(question: MoveQuestion, pages: list[bytes], setup: Setup) -> MoveAnswer:
    """Answer a question about a cluster; InputError for a goal or an object that is invalid."""
    snapshot, facts = read_pages(pages)
    others = tuple(one for one in snapshot.objects if not _is_plan(one, question.plan))
    snapshot = with_derived_groups(replace(snapshot, objects=others), setup.loaded)
    answer_options = AnswerOptions(now=question.now, release=setup.loaded.release)
    goal = goal_of(question.spec.goal)
    if question.what == PLAN:
        return MoveAnswer(status=_planned(snapshot, facts, setup, goal, question, answer_options))
    return MoveAnswer(check=_checked(snapshot, facts, setup, goal, question, answer_options))


def read_pages(pages: list[bytes]) -> tuple[Snapshot, ClusterFacts]:
    """Read lists of the API server, with the workloads from which groups are derived.

    Only existing pods count: the controllers of a running cluster create the others.
    """
    reader, facts = SnapshotReader(makes_pods=False), ClusterFacts()
    for number, page in enumerate(pages, 1):
        for item in items_of(SourceFile(f"page {number}", page)):
            facts.take(item)
            reader.read((item,), are_live=True)
    return reader.snapshot(), facts


def _is_plan(one: tuple[str, Any], name: str) -> bool:
    kind, obj = one
    return kind == MOVE_PLAN.kind and obj.metadata.name == name


def goal_of(goal: PlanGoal) -> MoveGoal:
    """Return the goal of a MovePlan; InputError if there is none."""
    if goal.waiting:
        return FitGoal(goal.waiting)
    if goal.free_nodes is not None:
        free = goal.free_nodes
        return FreeGoal(free.number, free.level, tuple(sorted(free.match_labels.items())))
    if goal.load_below is not None:
        return LoadGoal(goal.load_below.percent, goal.load_below.resource)
    if goal.repair is not None:
        return RepairGoal()
    raise InputError("name one goal: waiting, freeNodes, loadBelow or repair", where="spec.goal")


def _rules(spec: MovePlanSpec, cooling: tuple[str, ...]) -> MoveRules:
    return MoveRules(
        allowed=frozenset(spec.allow),
        namespaces=frozenset(spec.namespaces),
        least_age_s=float(spec.limits.min_age_seconds),
        cooling=frozenset(cooling),
    )


def _planned(
    snapshot: Snapshot,
    facts: ClusterFacts,
    setup: Setup,
    goal: MoveGoal,
    question: MoveQuestion,
    answer_options: AnswerOptions,
) -> MovePlanStatus:
    limits = question.spec.limits
    options = MoveOptions(
        _rules(question.spec, question.cooling), limits.max_moves, float(limits.search_seconds)
    )
    report = find_moves(snapshot, facts, setup, goal, options, answer_options)
    pods = {pod.key: pod for pod in snapshot.bound}
    moves = tuple(_move(one, pods[one.pod], report) for one in report.moves)
    return MovePlanStatus(
        phase="Proposed" if report.verdict in ("planned", "reached") else "Impossible",
        statement=report.statement[:MOST_TEXT],
        is_proven=report.proven,
        gap_percent=round(report.gap * 100),
        before=report.before[:MOST_TEXT],
        after=report.after[:MOST_TEXT],
        freed=report.freed[:MOST_TEXT],
        moves=moves,
        excluded=tuple(
            PlanExclusion(one.reason[:MOST_TEXT], one.pods, one.examples)
            for one in report.excluded[:MOST_EXCLUSIONS]
        ),
    )


def _move(planned: PodMove, pod: Pod, report: MovesReport) -> PlannedMove:
    owner = next((one for one in pod.metadata.owner_references if one.controller), None)
    known = MoveOwner() if owner is None else MoveOwner(owner.kind, owner.name, owner.uid)
    is_whole = sum(one.unit == planned.unit for one in report.moves) > 1
    return PlannedMove(
        pod.metadata.namespace,
        pod.metadata.name,
        pod.metadata.uid,
        planned.source,
        planned.target,
        known,
        "" if is_whole else ordinal_of(pod, known.kind),
        planned.unit if is_whole else "",
        pod.priority,
        planned.lost_seconds,
        f"so that {report.goal}"[:MOST_TEXT],
        {
            name: f"{amount}m" if name == "cpu" else str(amount)
            for name, amount in sorted(pod_requests(pod).items())
            if amount
        },
        tuple(
            ContainerPort(host_port=one.host_port, host_ip=one.host_ip, protocol=one.protocol)
            for one in host_ports(pod)
        ),
        PLANNED,
    )


def _checked(
    snapshot: Snapshot,
    facts: ClusterFacts,
    setup: Setup,
    goal: MoveGoal,
    question: MoveQuestion,
    answer_options: AnswerOptions,
) -> MoveCheck:
    """Return whether the first step of the remaining moves may start.

    All their pods must still be movable, so that no plan starts that cannot end.
    """
    pods = {pod.metadata.uid: pod for pod in snapshot.bound}
    missing = next((move for move in question.moves if move.uid not in pods), None)
    if missing is not None:
        return MoveCheck(stale=f"pod {missing.pod} with uid {missing.uid} is gone")
    moved = next((m for m in question.moves if pods[m.uid].spec.node_name != m.source), None)
    if moved is not None:
        return MoveCheck(stale=f"pod {moved.pod} is not on {moved.source}")
    steps = [Step(pods[move.uid], move.target) for move in question.moves]
    try:
        waiting = waiting_pods(snapshot, goal)
    except InputError as error:
        return MoveCheck(over=error.message)
    evaluator = PlanEvaluator(with_nominated(snapshot, waiting), setup, answer_options)
    if isinstance(goal, FitGoal):
        settled = _settled(evaluator, goal, waiting, steps)
        if settled is not None:
            return settled
    rules = _rules(question.spec, question.cooling)
    builder = ProblemBuilder(snapshot, facts, setup, answer_options, rules, waiting)
    for step in steps:
        why = builder.eligibility.why_forbidden(step.pod)
        if why:
            return MoveCheck(stale=f"pod {step.pod.key} may not move: {why}")
    rejected = evaluator.rejected(steps)
    if rejected:
        return MoveCheck(stale=f"node {rejected[0].target} rejects {rejected[0].pod.key}")
    coming = [pods[move.uid] for move in first_step(question.moves)]
    return MoveCheck(later=builder.eligibility.why_unavailable(coming))


def _settled(
    evaluator: PlanEvaluator, goal: FitGoal, waiting: Sequence[Pod], steps: list[Step]
) -> MoveCheck | None:
    """Return a check result if the goal is reached or cannot be reached, None if the remaining
    moves reach it.
    """
    if evaluator.outcome(goal, waiting, ()).is_reached:
        return MoveCheck(over=f"{words(goal)} without further moves")
    after = evaluator.outcome(goal, waiting, steps)
    if after.is_reached:
        return None
    return MoveCheck(stale=f"the goal is not reached with the remaining moves: {after.message}")
