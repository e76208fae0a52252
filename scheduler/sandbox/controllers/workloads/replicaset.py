"""ReplicaSets: create missing pods, and delete surplus ones in a fixed order.

Creates at most `_BATCH` pods per turn, so that a set of ten thousand does not block the loop; for
the same reason pods are counted as they change. `fullyLabeledReplicas` equals `replicas`: pods that
the selector no longer matches are released at once.
"""

from collections import Counter
from typing import Final

import msgspec

from scheduler.controlplane.objects import controller_of
from scheduler.controlplane.replicasets import removal_rank
from scheduler.controlplane.templates import pod_maker
from scheduler.sandbox.api.status import Object, StatusError
from scheduler.sandbox.controllers import ownership
from scheduler.sandbox.controllers.claims import ControllerRefs
from scheduler.sandbox.controllers.events import NORMAL, record
from scheduler.sandbox.controllers.pods import (
    Count,
    condition_of,
    create_pod,
    is_active,
    is_ready,
)
from scheduler.sandbox.controllers.workqueue import Interest, WorkQueue
from scheduler.sandbox.kinds.kinds import PODS, REPLICASETS
from scheduler.sandbox.store.collection import DELETED, StoreChange, Stored
from scheduler.sandbox.store.store import Deletion, ObjectStore

_BATCH: Final = 50
_NAME: Final = "replicaset-controller"


class Tally(msgspec.Struct, eq=False):
    """The number of pods of one set, by state."""

    pods: int = 0
    active: int = 0
    ready: int = 0
    terminating: int = 0

    def add(self, pod: Object, sign: int) -> None:
        """Count a pod in (1) or out (-1)."""
        self.pods += sign
        if ownership.is_deleted(pod):
            self.terminating += sign
        elif is_active(pod):
            self.active += sign
            if is_ready(pod):
                self.ready += sign


class ReplicaSets:
    """The controller of ReplicaSets."""

    def __init__(self, store: ObjectStore) -> None:
        self.work_queue = WorkQueue()
        self._store = store
        self._claims = ControllerRefs(store, self.work_queue, REPLICASETS, PODS)
        self._tallies: dict[str, Tally] = {}

    def interests(self) -> list[Interest]:
        """ReplicaSets and pods."""
        return [
            (REPLICASETS, ownership.enqueue_self(self.work_queue)),
            (PODS, self._observe_pod),
            *self._claims.interests(),
        ]

    def act(self, key: str, now: float) -> None:
        """Create or delete pods up to the requested number; then write the status."""
        stored = self._store.collection(REPLICASETS).items.get(key)
        if stored is None:
            return
        owner = stored.obj
        self._claims.settle(key, owner)
        tally = self._tallies.get(stored.uid) or Tally()
        excess = tally.active - owner["spec"].get("replicas", 1)
        if not ownership.is_deleted(owner) and excess > 0:
            self._remove(owner, excess)
            return
        refusal = None
        if not ownership.is_deleted(owner) and excess < 0:
            refusal = self._create(owner, min(-excess, _BATCH))
            if refusal is None:
                self.work_queue.again(key)
                return
        self._write_status(stored, tally, now, refusal)
        if refusal is not None and refusal.code != 404:
            raise refusal

    def _observe_pod(self, change: StoreChange) -> None:
        """Count the pod in its set, so that no set is ever recounted."""
        if change.previous is not None:
            self._add(change.previous, -1)
        if change.type != DELETED:
            self._add(change.stored, 1)

    def _add(self, stored: Stored, sign: int) -> None:
        owner = controller_of(stored.obj)
        if owner is None or owner["kind"] != REPLICASETS.kind:
            return
        uid = owner["uid"]
        tally = self._tallies.get(uid)
        if tally is None:
            tally = self._tallies[uid] = Tally()
        tally.add(stored.obj, sign)
        if not tally.pods:
            del self._tallies[uid]
        self.work_queue.add(f"{stored.namespace}/{owner['name']}")

    def _create(self, owner: Object, count: int) -> StatusError | None:
        make = pod_maker(owner["spec"]["template"], ownership.reference_to(REPLICASETS, owner))
        for _ in range(count):
            pod = make()
            pod["metadata"]["generateName"] = owner["metadata"]["name"] + "-"
            refusal = create_pod(self._store, owner, _NAME, pod)
            if refusal is not None:
                return refusal
        message = f"Created {count} pod(s)" if count > 1 else "Created 1 pod"
        record(self._store, owner, _NAME, "SuccessfulCreate", message, NORMAL)
        return None

    def _remove(self, owner: Object, count: int) -> None:
        pods = ownership.dependents(self._store, owner, PODS)
        active = [pod for pod in pods if is_active(pod.obj)]
        for pod in removal_order(active)[:count]:
            self._store.delete(PODS, pod.namespace, pod.name, Deletion(uid=pod.uid))
        message = f"Deleted {count} pod(s)" if count > 1 else "Deleted 1 pod"
        record(self._store, owner, _NAME, "SuccessfulDelete", message, NORMAL)

    def _write_status(
        self, stored: Stored, tally: Tally, now: float, refusal: StatusError | None
    ) -> None:
        owner = stored.obj
        available = tally.ready
        seconds = owner["spec"].get("minReadySeconds", 0)
        if seconds and tally.ready:
            pods = ownership.dependents(self._store, owner, PODS)
            count = Count((pod.obj for pod in pods if is_active(pod.obj)), seconds, now)
            available = count.available
            if count.due < float("inf"):
                self.work_queue.add_at(stored.key, count.due)
        status: Object = {
            "replicas": tally.active,
            "fullyLabeledReplicas": tally.active,
            "readyReplicas": tally.ready,
            "availableReplicas": available,
            "terminatingReplicas": tally.terminating,
            "observedGeneration": owner["metadata"].get("generation", 1),
        }
        if refusal is not None:
            status["conditions"] = [_failure(owner, refusal, self._store.now())]
        self._store.update(REPLICASETS, {**owner, "status": status}, subresource="status")


def removal_order(pods: list[Stored]) -> list[Stored]:
    """Return pods in the order of deletion: the least useful first."""
    on_node = Counter(pod.obj["spec"].get("nodeName", "") for pod in pods)

    return sorted(
        pods, key=lambda pod: removal_rank(pod.obj, on_node[pod.obj["spec"].get("nodeName", "")])
    )


def _failure(owner: Object, refusal: StatusError, now: str) -> Object:
    current = condition_of(owner, "ReplicaFailure")
    if current is not None and current.get("message") == refusal.message:
        return current
    return {
        "type": "ReplicaFailure",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "FailedCreate",
        "message": refusal.message,
    }
