"""The next action for a MovePlan: the rules of its execution, without clock and I/O.

A move is Planned → Reserved (the engine keeps its destination free) → Evicted → Done (the
replacement is Ready there). Pods that restart together are one step: all of them are in it. Every
transition is one write of status, and each state can be entered from the objects of the API server
alone, so a restart between any two actions continues.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from operators.moveplan.status import (
    ABORTED,
    COMPLETED,
    IMPOSSIBLE,
    INVALID,
    PROPOSED,
    Step,
    aborted,
    completed,
    moved_on,
    progressing,
    started,
)
from scheduler.base import reasons
from scheduler.base.clock import parse_rfc3339, rfc3339
from scheduler.objects.moves.moveplan import (
    DONE,
    EVICTED,
    EXECUTING,
    PLANNED,
    RESERVED,
    MovePlan,
    MovePlanSpec,
    PlanGoal,
    PlannedMove,
    first_step,
)
from scheduler.objects.moves.movewire import MoveCheck
from scheduler.objects.pod import Pod

RETRY_S = 10.0
# A controller creates a replacement within seconds, also after a fail-over of its own. A Job that
# counts the eviction as a failure waits up to ten minutes before it does.
REPLACEMENT_S = 60.0
MOST_REPLANS = 2
REFUSING = (400, 403, 405, 422)
SEVERAL_BUDGETS = "more than one PodDisruptionBudget"


class CalculatePlan(NamedTuple):
    """Calculate the plan and write it."""


class CheckMoves(NamedTuple):
    """Check the cluster, and evict the pods of a step if the check succeeds."""

    moves: tuple[PlannedMove, ...]


class RecordDepartures(NamedTuple):
    """Record that reserved pods have left or terminate, with the component that ended them."""

    moves: tuple[PlannedMove, ...]


class EvictRest(NamedTuple):
    """Evict the other pods of a step: they restart together with one that is evicted."""

    moves: tuple[PlannedMove, ...]


class WaitFor(NamedTuple):
    """Do nothing until this time, unless an object changes; None: until an object changes."""

    until: float | None = None


Action: TypeAlias = CalculatePlan | CheckMoves | RecordDepartures | EvictRest | Step | WaitFor


class Situation(NamedTuple):
    """The inputs of the next action besides the plan.

    By uid of the pods of the current step: `old` has those that are on their nodes, `arrived` the
    pods on the destination that may be the replacement, `siblings` the uids of these and of the
    owner's other pods on the source. `missing_since` is when a step without replacement was first
    seen, see `is_missing`; `is_owed` is whether its Job still creates one. `blocked_by` names a
    plan that goes first. `approves` are the goals that the configuration approves.
    """

    now: float
    old: Mapping[str, Pod] = {}
    arrived: Mapping[str, tuple[Pod, ...]] = {}
    siblings: Mapping[str, tuple[str, ...]] = {}
    missing_since: float | None = None
    is_owed: bool = False
    blocked_by: str = ""
    approves: Collection[str] = ()


def spec_hash(spec: MovePlanSpec) -> str:
    """Return the hash of the fields that a plan depends on."""
    fields = (spec.goal, spec.limits, sorted(spec.namespaces), sorted(spec.allow))
    return hashlib.sha256(msgspec.json.encode(fields)).hexdigest()[:16]


def plan_hash(for_spec: str, moves: Iterable[PlannedMove]) -> str:
    """Return the hash that approves these moves, for a spec with this hash."""
    named = [(move.uid, move.source, move.target) for move in moves]
    return hashlib.sha256(msgspec.json.encode((for_spec, named))).hexdigest()[:16]


def goal_name(goal: PlanGoal) -> str:
    """Return the name of the field that states the goal."""
    names = {
        "waiting": goal.waiting,
        "freeNodes": goal.free_nodes,
        "loadBelow": goal.load_below,
        "repair": goal.repair,
    }
    return next((name for name, value in names.items() if value), "")


def current(plan: MovePlan) -> tuple[PlannedMove, ...]:
    """Return the moves of the first step that is not done."""
    return first_step([move for move in plan.status.moves if move.state != DONE])


def is_approved(plan: MovePlan, approves: Collection[str]) -> bool:
    """Return whether this very plan may be executed."""
    by_user = bool(plan.spec.approved) and plan.spec.approved == plan.status.plan_hash
    return by_user or goal_name(plan.spec.goal) in approves


def may_start(plan: MovePlan, approves: Collection[str]) -> bool:
    """Return whether a proposed plan waits only for its turn."""
    status = plan.status
    return (
        status.phase == PROPOSED
        and status.planned_for == spec_hash(plan.spec)
        and is_approved(plan, approves)
        and not plan.spec.paused
        and not plan.spec.aborted
    )


def next_action(plan: MovePlan, seen: Situation) -> Action:
    """Return the next action."""
    phase = plan.status.phase
    is_outdated = plan.status.planned_for != spec_hash(plan.spec)
    if phase in (COMPLETED, ABORTED):
        return WaitFor()
    if phase in (IMPOSSIBLE, INVALID):
        return CalculatePlan() if is_outdated else WaitFor()
    if phase == EXECUTING:
        return _executing(plan, seen, is_outdated=is_outdated)
    if plan.spec.aborted:
        return aborted(plan, "AbortedByUser", "spec.aborted is true", seen.now)
    if not phase or is_outdated:
        return CalculatePlan()
    return _proposed(plan, seen)


def _proposed(plan: MovePlan, seen: Situation) -> Action:
    if not plan.status.moves:
        return completed(plan, "GoalReached", plan.status.statement, seen.now)
    if not may_start(plan, seen.approves):
        return WaitFor()
    opens, is_closed = _window(plan, seen.now)
    if is_closed:
        return aborted(plan, "WindowClosed", "spec.window has ended", seen.now)
    if opens is not None:
        return WaitFor(opens)
    return WaitFor() if seen.blocked_by else started(plan, seen.now)


def _window(plan: MovePlan, now: float) -> tuple[float | None, bool]:
    """Return when the window opens, None if it is open, and whether it has closed."""
    start = parse_rfc3339(plan.spec.window.start)
    end = parse_rfc3339(plan.spec.window.end)
    return (start if start is not None and now < start else None), end is not None and now >= end


def _executing(plan: MovePlan, seen: Situation, *, is_outdated: bool) -> Action:
    step = current(plan)
    if not step:
        return completed(plan, "AllMovesDone", f"{len(plan.status.moves)} pods moved", seen.now)
    gone = tuple(move for move in step if move.state == RESERVED and _leaves(move, seen))
    if gone:
        return RecordDepartures(gone)
    if any(move.state == EVICTED for move in step):
        return _after_eviction(plan, step, seen)
    if plan.spec.aborted:
        return aborted(plan, "AbortedByUser", "spec.aborted is true", seen.now)
    if is_outdated:
        return aborted(plan, "SpecChanged", "spec was changed during the execution", seen.now)
    if not is_approved(plan, seen.approves):
        return aborted(plan, "NotApproved", "the approval was withdrawn", seen.now)
    opens, is_closed = _window(plan, seen.now)
    if is_closed:
        return aborted(plan, "WindowClosed", "spec.window has ended", seen.now)
    is_reserved = step[0].state == RESERVED
    if plan.spec.paused or opens is not None:
        if is_reserved:
            return moved_on(plan, tuple(map(_released, step)), seen.now)
        return _paused(plan, seen, opens)
    if not is_reserved and _has_no_eviction(plan) and any(_leaves(move, seen) for move in step):
        return _stale(plan, f"{_pods(step)} deleted", seen.now)
    if not is_reserved:
        return moved_on(plan, tuple(_reserve(plan, move, seen) for move in step), seen.now)
    if _is_late(step, seen.now):
        return _timed_out(plan, f"{_pods(step)} not evicted", seen.now)
    if any(set(_siblings(move, seen)) - set(move.present) for move in step):
        # A pod that existed before the eviction, such as one of a scale-up, replaces none.
        known = tuple(replace(move, present=_siblings(move, seen)) for move in step)
        return moved_on(plan, known, seen.now)
    return CheckMoves(step)


def _leaves(move: PlannedMove, seen: Situation) -> bool:
    old = seen.old.get(move.uid)
    return old is None or old.is_terminating


def evicted(moves: Iterable[PlannedMove], now: float) -> tuple[PlannedMove, ...]:
    """Return moves whose pods are evicted from now on."""
    return tuple(replace(move, state=EVICTED, since=rfc3339(now)) for move in moves)


def _paused(plan: MovePlan, seen: Situation, opens: float | None) -> Action:
    """Return the action that waits, with the reason."""
    text = "spec.paused is true" if plan.spec.paused else "spec.window is not open"
    return progressing(plan, "Paused", text, seen.now) or WaitFor(opens)


def _reserve(plan: MovePlan, move: PlannedMove, seen: Situation) -> PlannedMove:
    """Return a move whose destination is reserved from now on."""
    limits = plan.spec.limits
    return replace(
        move,
        state=RESERVED,
        since=rfc3339(seen.now),
        deadline=rfc3339(seen.now + limits.step_seconds),
        present=_siblings(move, seen),
    )


def _siblings(move: PlannedMove, seen: Situation) -> tuple[str, ...]:
    return tuple(sorted(seen.siblings.get(move.uid, ())))


def _released(move: PlannedMove) -> PlannedMove:
    return replace(move, state=PLANNED, since=None, deadline=None, present=())


def _is_late(step: Iterable[PlannedMove], now: float) -> bool:
    return any(now >= (parse_rfc3339(move.deadline) or 0.0) for move in step)


def _timed_out(plan: MovePlan, what: str, now: float) -> Action:
    text = f"{what} within {plan.spec.limits.step_seconds} s"
    return aborted(plan, "StepTimedOut", text, now)


def _pods(step: Sequence[PlannedMove]) -> str:
    """Return the pods of a step with their verb."""
    if len(step) == 1:
        return f"{step[0].pod} was"
    return f"{len(step)} pods of {step[0].unit} were"


def _after_eviction(plan: MovePlan, step: tuple[PlannedMove, ...], seen: Situation) -> Action:
    """Return the next action of a step with an evicted pod: neither pause nor abort ends it."""
    rest = tuple(move for move in step if move.state == RESERVED)
    found = {} if rest else replacements(step, seen)
    if len(found) == len(step):
        done = tuple(
            replace(
                move,
                state=DONE,
                since=rfc3339(seen.now),
                replacement=found[move.uid].metadata.name,
                deadline=None,
            )
            for move in step
        )
        return moved_on(plan, done, seen.now)
    if _is_late(step, seen.now):
        if rest:
            return _timed_out(plan, f"{_pods(rest)} not evicted", seen.now)
        missing = next(move for move in step if move.uid not in found)
        text = f"no replacement of {missing.pod} was Ready on {missing.target}"
        return _timed_out(plan, text, seen.now)
    if rest:
        return EvictRest(rest)
    until = parse_rfc3339(step[0].deadline)
    if seen.missing_since is None:
        return WaitFor(until)
    patience = seen.missing_since + REPLACEMENT_S
    if seen.now >= patience and seen.is_owed:
        patience = seen.now + RETRY_S
    elif seen.now >= patience:
        text = (
            f"no pod of {step[0].owner.kind} {step[0].owner.name} came to {step[0].target} within "
            f"{REPLACEMENT_S:.0f} s: it was bound to another node, or its controller created none"
        )
        return aborted(plan, "ReplacementMissing", text, seen.now)
    return WaitFor(patience if until is None else min(patience, until))


def is_missing(step: Sequence[PlannedMove], seen: Situation) -> bool:
    """Return whether all pods of a step are gone, and a destination is without replacement."""
    is_gone = all(move.state == EVICTED and move.uid not in seen.old for move in step)
    return is_gone and len(_arrivals(step, seen)) < len(step)


def replacements(step: Iterable[PlannedMove], seen: Situation) -> dict[str, Pod]:
    """Return the Ready replacements by the uid of the pod that each of them replaces."""
    return {
        uid: pod
        for uid, pod in _arrivals(step, seen, ready_only=True).items()
        if uid not in seen.old
    }


def _arrivals(
    step: Iterable[PlannedMove], seen: Situation, *, ready_only: bool = False
) -> dict[str, Pod]:
    """Return the replacements on their destinations by the uid of the pod that each replaces."""
    found: dict[str, Pod] = {}
    taken: set[str] = set()
    for move in step:
        for pod in seen.arrived.get(move.uid, ()):
            ready, uid = pod.condition("Ready"), pod.metadata.uid
            is_new = uid not in move.present and uid not in taken and not pod.is_terminating
            is_ready = ready is not None and ready.status == "True"
            if is_new and (is_ready or not ready_only):
                found[move.uid] = pod
                taken.add(uid)
                break
    return found


def after_check(plan: MovePlan, check: MoveCheck, now: float) -> Action | None:
    """Return the action that follows from a check; None if the pod may be evicted now."""
    if check.over:
        return completed(plan, "GoalReached", check.over, now)
    if check.stale:
        return _stale(plan, check.stale, now)
    if check.later:
        return progressing(plan, "Waiting", check.later, now) or WaitFor(now + RETRY_S)
    return None


def _has_no_eviction(plan: MovePlan) -> bool:
    return all(move.state in (PLANNED, RESERVED) for move in plan.status.moves)


def _stale(plan: MovePlan, why: str, now: float) -> Step:
    """Drop a plan that is stale before its first eviction; the next plan needs its own approval.
    Abort it if an eviction has happened, or after MOST_REPLANS plans.
    """
    if not _has_no_eviction(plan) or plan.status.replans >= MOST_REPLANS:
        return aborted(plan, "PlanStale", why, now)
    status = replace(
        plan.status, phase="", moves=(), plan_hash="", replans=plan.status.replans + 1, summary=""
    )
    known = progressing(replace(plan, status=status), "PlanStale", why, now)
    found = status if known is None else known.status
    return Step(found, reasons.MOVE_PLAN_STALE, why)


def after_refusal(plan: MovePlan, pod: str, code: int, message: str, now: float) -> Action:
    """Return the action after the API server rejected the eviction of a step, `pod` first."""
    if code in REFUSING or SEVERAL_BUDGETS in message:
        text = f"the API server refuses the eviction of {pod}: {message}"
        return aborted(plan, "EvictionRefused", text, now)
    if code in (404, 409):
        return WaitFor(now + 1.0)  # the watch soon shows the deletion
    text = f"the eviction of {pod} is refused for now: {message}"
    return progressing(plan, "Waiting", text, now) or WaitFor(now + RETRY_S)
