"""The statuses that a MovePlan gets: phases, moves, conditions, and the event of each step.

Events (events.k8s.io/v1) are on the plan and on the pods that it evicts.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from operators.conditions import condition_of, with_condition
from operators.moveplan.departures import Departure
from scheduler.base import reasons
from scheduler.base.clock import rfc3339
from scheduler.base.text import cut_bytes
from scheduler.objects.meta import Condition
from scheduler.objects.moves.moveplan import DONE, EXECUTING, MovePlan, MovePlanStatus, PlannedMove

PROPOSED, COMPLETED, ABORTED, IMPOSSIBLE, INVALID = (
    "Proposed",
    "Completed",
    "Aborted",
    "Impossible",
    "Invalid",
)
PROGRESSING, FINISHED, PLANNED_CONDITION, APPROVED = (
    "Progressing",
    "Finished",
    "Planned",
    "Approved",
)
MOST_TEXT = 1000
CONTROLLER = "trellis.dev/moveplan"
NOTE_BYTES = 1024
WARNINGS = (reasons.MOVE_PLAN_STALE, reasons.MOVE_PLAN_ABORTED)


class Step(NamedTuple):
    """A status to write, and the event that states it; `moves` are those that changed.

    `doubt` states who else may have caused the change.
    """

    status: MovePlanStatus
    reason: str
    message: str
    moves: tuple[PlannedMove, ...] = ()
    doubt: str = ""


def with_conditions(plan: MovePlan, status: MovePlanStatus, now: float, *new: Condition) -> Any:
    """Return a status with more conditions, of this generation."""
    found = status.conditions
    for one in new:
        known = replace(one, observed_generation=plan.metadata.generation)
        found = with_condition(found, known, rfc3339(now))
    return replace(status, conditions=found, observed_generation=plan.metadata.generation)


def condition(type_: str, reason: str, message: str, *, is_true: bool = True) -> Condition:
    """Return a condition; its message is cut to the bound of the schema."""
    return Condition(type_, str(is_true), reason=reason, message=message[:MOST_TEXT])


def planned(plan: MovePlan, found: MovePlanStatus, hashes: tuple[str, str], now: float) -> Step:
    """Return the status of a plan that was calculated; `hashes` are those of spec and plan."""
    for_spec, own = hashes
    status = replace(
        found,
        planned_for=for_spec,
        plan_hash=own if found.moves else "",
        planned_at=rfc3339(now),
        replans=plan.status.replans,
        summary=f"0/{len(found.moves)}",
        conditions=plan.status.conditions,
    )
    is_found = found.phase == PROPOSED
    reason = {PROPOSED: "PlanFound", IMPOSSIBLE: "NoPlan"}.get(found.phase, "InvalidPlan")
    new = condition(PLANNED_CONDITION, reason, found.statement, is_true=is_found)
    return Step(
        with_conditions(plan, status, now, new), reasons.MOVE_PLAN_CALCULATED, found.statement
    )


def started(plan: MovePlan, now: float) -> Step:
    """Return the status of an execution that begins."""
    status = replace(plan.status, phase=EXECUTING, started_at=rfc3339(now))
    by = "spec.approved" if plan.spec.approved == status.plan_hash else "the configuration"
    text = f"plan {status.plan_hash} is approved by {by}"
    new = (
        condition(APPROVED, "Approved", text),
        condition(PROGRESSING, "Executing", f"0 of {len(status.moves)} moves are done"),
    )
    return Step(with_conditions(plan, status, now, *new), reasons.MOVE_PLAN_APPROVED, text)


def moved_on(plan: MovePlan, changed: Sequence[PlannedMove], now: float) -> Step:
    """Return the status with the moves of one step in their next state."""
    return _moved_on(plan, changed, _words(changed), now)


def departed(plan: MovePlan, changed: Sequence[PlannedMove], why: Departure, now: float) -> Step:
    """Return the status with moves whose pods have left; `why` is that of the first one."""
    text, reason = _words(changed)
    if not why.text:
        return _moved_on(plan, changed, (text, reason), now)
    if why.is_evicted:
        step = _moved_on(plan, changed, (f"{text} ({why.text})", reason), now)
        return step._replace(doubt=why.text)
    which = changed[0].pod if len(changed) == 1 else f"{len(changed)} pods of {changed[0].unit}"
    left = f"{which} left {changed[0].source} without an eviction by this plan: {why.text}"
    return _moved_on(plan, changed, (left, reasons.MOVE_POD_LEFT), now)


def _moved_on(
    plan: MovePlan, changed: Sequence[PlannedMove], words: tuple[str, str], now: float
) -> Step:
    by_uid = {move.uid: move for move in changed}
    moves = tuple(by_uid.get(one.uid, one) for one in plan.status.moves)
    done = sum(one.state == DONE for one in moves)
    text, reason = words
    new = condition(PROGRESSING, "Executing", f"{done} of {len(moves)} moves are done; {text}")
    status = replace(plan.status, moves=moves, summary=f"{done}/{len(moves)}")
    return Step(with_conditions(plan, status, now, new), reason, text, tuple(changed))


def _words(moves: Sequence[PlannedMove]) -> tuple[str, str]:
    move = moves[0]
    if len(moves) > 1:
        which = f"{len(moves)} pods of {move.unit}"
        texts = {
            "Reserved": (f"reserved the nodes for {which}", reasons.MOVE_RESERVED),
            "Evicted": (f"evicted {which}, {move.reason}", reasons.MOVE_EVICTED),
            "Done": (f"moved {which}: the replacements are Ready", reasons.MOVE_DONE),
        }
        return texts.get(move.state, (f"released the nodes for {which}", reasons.MOVE_RELEASED))
    path = f"{move.pod} from {move.source} to {move.target}"
    texts = {
        "Reserved": (
            f"reserved {move.target} for the replacement of {move.pod}",
            reasons.MOVE_RESERVED,
        ),
        "Evicted": (f"evicted {path}, {move.reason}", reasons.MOVE_EVICTED),
        "Done": (f"moved {path}: {move.replacement} is Ready", reasons.MOVE_DONE),
    }
    return texts.get(move.state, (f"released {move.target}", reasons.MOVE_RELEASED))


def progressing(plan: MovePlan, reason: str, message: str, now: float) -> Step | None:
    """Return the status with a reason for the wait; None if it states that already."""
    known = condition_of(plan.status.conditions, PROGRESSING)
    new = condition(PROGRESSING, reason, message, is_true=False)
    if known is not None and (known.reason, known.message) == (new.reason, new.message):
        return None
    return Step(with_conditions(plan, plan.status, now, new), reasons.MOVE_PLAN_WAITING, message)


def completed(plan: MovePlan, reason: str, message: str, now: float) -> Step:
    """Return the status of a plan that reached its end."""
    return _ended(plan, COMPLETED, reason, message, now)


def aborted(plan: MovePlan, reason: str, message: str, now: float) -> Step:
    """Return the status of a plan that ends early; finished moves stay."""
    return _ended(plan, ABORTED, reason, message, now)


def _ended(plan: MovePlan, phase: str, reason: str, message: str, now: float) -> Step:
    status = replace(plan.status, phase=phase, finished_at=rfc3339(now))
    new = (
        condition(FINISHED, reason, message, is_true=True),
        condition(PROGRESSING, reason, message, is_true=False),
    )
    is_done = phase == COMPLETED
    event = reasons.MOVE_PLAN_COMPLETED if is_done else reasons.MOVE_PLAN_ABORTED
    return Step(with_conditions(plan, status, now, *new), event, f"{reason}: {message}")


def merge_patch(before: MovePlanStatus, after: MovePlanStatus) -> dict[str, Any]:
    """Return the fields of status to write, with null for removed ones."""
    old, new = msgspec.to_builtins(before), msgspec.to_builtins(after)
    found: dict[str, Any] = {key: value for key, value in new.items() if old.get(key) != value}
    return found | {key: None for key in old if key not in new}


def events(plan: MovePlan, step: Step, now: float) -> list[tuple[str, dict[str, Any]]]:
    """Return path and body of the events of a step."""
    meta = plan.metadata
    regarding = {
        "apiVersion": "trellis.dev/v1alpha1",
        "kind": "MovePlan",
        "name": meta.name,
        "uid": meta.uid,
    }
    found = [_event("default", regarding, step, step.message, now)]
    for move in step.moves if step.reason == reasons.MOVE_EVICTED else ():
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": move.namespace,
            "name": move.name,
            "uid": move.uid,
        }
        note = f"MovePlan {meta.name}: evicted from {move.source} to {move.target}, {move.reason}"
        if step.doubt:
            note = f"{note} ({step.doubt})"
        found.append(_event(move.namespace, pod, step, note, now))
    return found


def _event(
    namespace: str, regarding: dict[str, Any], step: Step, note: str, now: float
) -> tuple[str, dict[str, Any]]:
    micros = int(now * 1e6)
    body = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{regarding['name'][:200]}.{micros:x}", "namespace": namespace},
        "eventTime": f"{rfc3339(int(now))[:-1]}.{micros % 1_000_000:06d}Z",
        "reportingController": CONTROLLER,
        "reportingInstance": CONTROLLER,
        "action": "Move",
        "reason": step.reason,
        "regarding": regarding,
        "note": cut_bytes(note, NOTE_BYTES),
        "type": "Warning" if step.reason in WARNINGS else "Normal",
    }
    return f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", body
