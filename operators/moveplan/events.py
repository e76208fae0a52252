"""Events of MovePlans (events.k8s.io/v1): on the plan, and on the pods that it evicts."""

from typing import Any

from operators.moveplan.status import Step
from scheduler.base import reasons
from scheduler.base.clock import rfc3339
from scheduler.base.text import cut_bytes
from scheduler.objects.moveplan import MovePlan

CONTROLLER = "trellis.dev/moveplan"
NOTE_BYTES = 1024
WARNINGS = (reasons.MOVE_PLAN_STALE, reasons.MOVE_PLAN_ABORTED)


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
