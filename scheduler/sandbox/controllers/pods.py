"""Facts about pods that several controllers need.

Readiness and availability as the real controllers define them.
"""

from collections.abc import Iterable
from typing import Final

from scheduler.base.clock import parse_rfc3339
from scheduler.sandbox.api.status import Object, StatusError
from scheduler.sandbox.controllers.events import WARNING, record
from scheduler.sandbox.controllers.ownership import is_deleted
from scheduler.sandbox.kinds.kinds import PODS
from scheduler.sandbox.store.store import ObjectStore

_ENDED: Final = ("Succeeded", "Failed")
_NEVER: Final = float("inf")


def condition_of(obj: Object, *types: str) -> Object | None:
    """Return the first condition of one of these types in the status, None without one."""
    conditions: list[Object] = (obj.get("status") or {}).get("conditions") or []
    return next((found for found in conditions if found["type"] in types), None)


def phase(pod: Object) -> str:
    """Return `status.phase`, Pending if there is none yet."""
    return str((pod.get("status") or {}).get("phase", "Pending"))


def is_ended(pod: Object) -> bool:
    """Return whether the containers have ended permanently."""
    return phase(pod) in _ENDED


def is_active(pod: Object) -> bool:
    """Return whether the pod counts for its controller: not ended, not being deleted."""
    return not is_deleted(pod) and not is_ended(pod)


def is_ready(pod: Object) -> bool:
    """Return whether the condition Ready is True."""
    return _ready_condition(pod) is not None


def ready_since(pod: Object) -> float | None:
    """Return since when the pod is Ready (seconds since the epoch), None when it is not."""
    condition = _ready_condition(pod)
    if condition is None:
        return None
    return parse_rfc3339(condition.get("lastTransitionTime")) or 0.0


def _ready_condition(pod: Object) -> Object | None:
    found = condition_of(pod, "Ready")
    return found if found is not None and found["status"] == "True" else None


class Count:
    """How many of some pods are ready and available at `now`; `due` is when that may change."""

    def __init__(self, pods: Iterable[Object], min_ready_s: float, now: float) -> None:
        self.total = 0
        self.ready = 0
        self.available = 0
        self.due = _NEVER
        for pod in pods:
            self.total += 1
            since = ready_since(pod)
            if since is None:
                continue
            self.ready += 1
            if since + min_ready_s <= now:
                self.available += 1
            else:
                self.due = min(self.due, since + min_ready_s)


def is_available(pod: Object, min_ready_s: float, now: float) -> bool:
    """Return whether the pod has been Ready for `min_ready_s`."""
    since = ready_since(pod)
    return since is not None and since + min_ready_s <= now


def create_pod(
    store: ObjectStore, owner: Object, component: str, pod: Object
) -> StatusError | None:
    """Create a pod for its owner; a rejection is returned, and reported in an event."""
    try:
        store.create(PODS, pod, owner["metadata"]["namespace"], owned=True)
    except StatusError as refusal:
        text = f"Error creating: {refusal.message}"
        record(store, owner, component, "FailedCreate", text, WARNING)
        return refusal
    return None
