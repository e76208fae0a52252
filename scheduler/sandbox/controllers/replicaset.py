"""ReplicaSets: as many pods as asked for, and which of them go first when there are too many.

Creates at most `_BATCH` pods per turn, so that a set of ten thousand does not hold up the loop.
"""

from collections import Counter
from typing import Any, Final

from scheduler.sandbox.collection import Stored
from scheduler.sandbox.controllers.claims import Claims
from scheduler.sandbox.controllers.events import NORMAL, WARNING, record
from scheduler.sandbox.controllers.ownership import (
    dependents,
    hear_itself,
    hear_owned,
    is_deleted,
    reference_to,
)
from scheduler.sandbox.controllers.pods import Count, is_active, mould, phase, ready_since
from scheduler.sandbox.kinds import PODS, REPLICASETS
from scheduler.sandbox.status import Object, StatusError
from scheduler.sandbox.store import Deletion, Store
from scheduler.sandbox.turns import Agenda, Interest

_BATCH: Final = 200
_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_NAME: Final = "replicaset-controller"


class ReplicaSets:
    """The actor for ReplicaSets."""

    def __init__(self, store: Store) -> None:
        self.agenda = Agenda()
        self._store = store
        self._claims = Claims(store, self.agenda, REPLICASETS, PODS)

    def interests(self) -> list[Interest]:
        """ReplicaSets and pods."""
        return [
            (REPLICASETS, hear_itself(self.agenda)),
            (PODS, hear_owned(self.agenda, REPLICASETS.kind)),
            *self._claims.interests(),
        ]

    def act(self, key: str, now: float) -> None:
        """Make or remove pods until there are as many as asked for; then write the status."""
        namespace, name = key.split("/")
        stored = self._store.find(REPLICASETS, namespace, name)
        if stored is None:
            return
        owner = stored.obj
        self._claims.settle(key, owner)
        pods = dependents(self._store, owner, PODS)
        active = [pod for pod in pods if is_active(pod.obj)]
        excess = len(active) - owner["spec"].get("replicas", 1)
        if not is_deleted(owner) and excess > 0:
            self._remove(owner, active, excess)
            return
        refusal = None
        if not is_deleted(owner) and excess < 0:
            refusal = self._create(owner, min(-excess, _BATCH))
            if refusal is None:
                return
        self._write_status(stored, pods, active, now, refusal)
        if refusal is not None and refusal.code != 404:
            raise refusal

    def _create(self, owner: Object, count: int) -> StatusError | None:
        meta = owner["metadata"]
        make = mould(owner["spec"]["template"], reference_to(REPLICASETS, owner))
        for _ in range(count):
            pod = make()
            pod["metadata"]["generateName"] = meta["name"] + "-"
            try:
                self._store.create(PODS, pod, meta["namespace"], owned=True)
            except StatusError as refusal:
                message = f"Error creating: {refusal.message}"
                record(self._store, owner, _NAME, "FailedCreate", message, WARNING)
                return refusal
        message = f"Created {count} pod(s)" if count > 1 else "Created 1 pod"
        record(self._store, owner, _NAME, "SuccessfulCreate", message, NORMAL)
        return None

    def _remove(self, owner: Object, active: list[Stored], count: int) -> None:
        for pod in removal_order(active)[:count]:
            self._store.delete(PODS, pod.namespace, pod.name, Deletion(uid=pod.uid))
        message = f"Deleted {count} pod(s)" if count > 1 else "Deleted 1 pod"
        record(self._store, owner, _NAME, "SuccessfulDelete", message, NORMAL)

    def _write_status(
        self,
        stored: Stored,
        pods: list[Stored],
        active: list[Stored],
        now: float,
        refusal: StatusError | None,
    ) -> None:
        owner = stored.obj
        spec = owner["spec"]
        count = Count((pod.obj for pod in active), spec.get("minReadySeconds", 0), now)
        if count.due < float("inf"):
            self.agenda.add_at(stored.key, count.due)
        labels = (spec["template"].get("metadata") or {}).get("labels") or {}
        status: Object = {
            "replicas": count.total,
            "fullyLabeledReplicas": sum(1 for pod in active if _carries(pod.obj, labels)),
            "readyReplicas": count.ready,
            "availableReplicas": count.available,
            "terminatingReplicas": sum(1 for pod in pods if is_deleted(pod.obj)),
            "observedGeneration": owner["metadata"].get("generation", 1),
        }
        if refusal is not None:
            status["conditions"] = [_failure(owner, refusal, self._store.now())]
        self._store.update(REPLICASETS, {**owner, "status": status}, subresource="status")


def removal_order(pods: list[Stored]) -> list[Stored]:
    """Pods in the order in which they go: those that do least first."""
    on_node = Counter(pod.obj["spec"].get("nodeName", "") for pod in pods)

    def rank(pod: Stored) -> tuple[Any, ...]:
        obj = pod.obj
        node = obj["spec"].get("nodeName", "")
        since = ready_since(obj)
        notes = obj["metadata"].get("annotations") or {}
        return (
            bool(node),
            {"Pending": 0, "Unknown": 1}.get(phase(obj), 2),
            since is not None,
            _number(notes.get(_COST, "0")),
            -on_node[node] if node else 0,
            -(since or 0.0),
            _reversed_time(obj["metadata"]["creationTimestamp"]),
            pod.name,
        )

    return sorted(pods, key=rank)


def _reversed_time(text: str) -> tuple[int, ...]:
    """Sorts a later time first."""
    return tuple(-ord(letter) for letter in text)


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return 0


def _carries(pod: Object, labels: dict[str, str]) -> bool:
    held = pod["metadata"].get("labels") or {}
    return all(held.get(key) == text for key, text in labels.items())


def _failure(owner: Object, refusal: StatusError, now: str) -> Object:
    for held in (owner.get("status") or {}).get("conditions") or ():
        if held["type"] == "ReplicaFailure" and held.get("message") == refusal.message:
            kept: Object = held
            return kept
    return {
        "type": "ReplicaFailure",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "FailedCreate",
        "message": refusal.message,
    }
