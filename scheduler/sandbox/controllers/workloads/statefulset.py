"""StatefulSets: pods with stable names, one after the other, each with its own claims.

`OrderedReady` and `Parallel`, rolling updates from the highest ordinal down to the partition,
`OnDelete`. Claims are created and kept; `persistentVolumeClaimRetentionPolicy` is ignored.
"""

from typing import Final

from scheduler.controlplane.statefulsets import (
    ordinal_of,
    ordinals,
    partition,
    stateful_pod,
    volume_claims,
)
from scheduler.controlplane.templates import CONTROLLER_REVISION
from scheduler.sandbox.api.status import Object, StatusError
from scheduler.sandbox.controllers.events import WARNING, record
from scheduler.sandbox.controllers.ownership import (
    dependents,
    enqueue_owner,
    enqueue_self,
    is_deleted,
    reference_to,
)
from scheduler.sandbox.controllers.pods import Count, is_available, is_ended
from scheduler.sandbox.controllers.workloads import revisions
from scheduler.sandbox.controllers.workqueue import Interest, WorkQueue
from scheduler.sandbox.kinds.kinds import PERSISTENTVOLUMECLAIMS, PODS, STATEFULSETS
from scheduler.sandbox.store.collection import Stored
from scheduler.sandbox.store.store import Deletion, ObjectStore

_NAME: Final = "statefulset-controller"


class StatefulSets:
    """The controller of StatefulSets."""

    def __init__(self, store: ObjectStore) -> None:
        self.work_queue = WorkQueue()
        self._store = store

    def interests(self) -> list[Interest]:
        """StatefulSets and pods."""
        return [
            (STATEFULSETS, enqueue_self(self.work_queue)),
            (PODS, enqueue_owner(self.work_queue, STATEFULSETS.kind)),
        ]

    def act(self, key: str, now: float) -> None:
        """Take the next step that the order allows, then write the status."""
        stored = self._store.collection(STATEFULSETS).items.get(key)
        if stored is None:
            return
        owner = stored.obj
        pods = {ordinal_of(pod.name): pod for pod in dependents(self._store, owner, PODS)}
        update = revisions.newest(self._store, STATEFULSETS, owner)
        current_name = (owner.get("status") or {}).get("currentRevision") or update.name
        current = revisions.named(self._store, owner, current_name) or update
        if not is_deleted(owner):
            self._step(owner, pods, current, update, now)
            pods = {ordinal_of(pod.name): pod for pod in dependents(self._store, owner, PODS)}
        self._write_status(key, pods, current, update, now)

    def _step(
        self,
        owner: Object,
        pods: dict[int, Stored],
        current: revisions.Revision,
        update: revisions.Revision,
        now: float,
    ) -> None:
        spec = owner["spec"]
        ordered = spec.get("podManagementPolicy") != "Parallel"
        wanted = ordinals(spec)
        min_ready_s = spec.get("minReadySeconds", 0)
        for ordinal in wanted:
            pod = pods.get(ordinal)
            if pod is None:
                kept = ordinal < wanted.start + partition(spec) and current.name != update.name
                self._create(owner, ordinal, current if kept else update)
                healthy = False
            elif is_ended(pod.obj) and not is_deleted(pod.obj):
                self._delete(pod)
                healthy = False
            else:
                healthy = not is_deleted(pod.obj) and is_available(pod.obj, min_ready_s, now)
            if ordered and not healthy:
                return
        for ordinal in sorted((found for found in pods if found not in wanted), reverse=True):
            if not is_deleted(pods[ordinal].obj):
                self._delete(pods[ordinal])
            if ordered:
                return
        self._update(owner, pods, wanted, update, now)

    def _update(
        self,
        owner: Object,
        pods: dict[int, Stored],
        wanted: range,
        update: revisions.Revision,
        now: float,
    ) -> None:
        """Replace one pod of an old revision, the highest ordinal first."""
        spec = owner["spec"]
        if (spec.get("updateStrategy") or {}).get("type") == "OnDelete":
            return
        lowest = wanted.start + partition(spec)
        for ordinal in reversed(wanted):
            pod = pods.get(ordinal)
            if pod is None or ordinal < lowest:
                return
            if _revision_of(pod) != update.name and not is_deleted(pod.obj):
                self._delete(pod)
                return
            if not is_available(pod.obj, spec.get("minReadySeconds", 0), now):
                return

    def _create(self, owner: Object, ordinal: int, revision: revisions.Revision) -> None:
        meta = owner["metadata"]
        reference = reference_to(STATEFULSETS, owner)
        pod = stateful_pod(owner, revision.template, ordinal, revision.name, reference)
        name = pod["metadata"]["name"]
        try:
            for claim in volume_claims(owner, ordinal):
                claim_name = claim["metadata"]["name"]
                if self._store.find(PERSISTENTVOLUMECLAIMS, meta["namespace"], claim_name) is None:
                    self._store.create(PERSISTENTVOLUMECLAIMS, claim, meta["namespace"])
            self._store.create(PODS, pod, meta["namespace"], owned=True)
        except StatusError as refusal:
            text = (
                f"create Pod {name} in StatefulSet {meta['name']} failed error: {refusal.message}"
            )
            record(self._store, owner, _NAME, "FailedCreate", text, WARNING)
            raise
        text = f"create Pod {name} in StatefulSet {meta['name']} successful"
        record(self._store, owner, _NAME, "SuccessfulCreate", text)

    def _delete(self, pod: Stored) -> None:
        self._store.delete(PODS, pod.namespace, pod.name, Deletion(uid=pod.uid))

    def _write_status(
        self,
        key: str,
        pods: dict[int, Stored],
        current: revisions.Revision,
        update: revisions.Revision,
        now: float,
    ) -> None:
        namespace, name = key.split("/")
        owner = self._store.get(STATEFULSETS, namespace, name).obj
        spec = owner["spec"]
        live = [pod for pod in pods.values() if not is_deleted(pod.obj)]
        count = Count((pod.obj for pod in live), spec.get("minReadySeconds", 0), now)
        if count.due < float("inf"):
            self.work_queue.add_at(key, count.due)
        updated = sum(1 for pod in live if _revision_of(pod) == update.name)
        on_current = sum(1 for pod in live if _revision_of(pod) == current.name)
        done = updated == count.ready == spec["replicas"] == len(pods)
        if done:
            current, on_current = update, updated
        status = {
            "observedGeneration": owner["metadata"].get("generation", 1),
            "replicas": len(pods),
            "readyReplicas": count.ready,
            "availableReplicas": count.available,
            "currentReplicas": on_current,
            "updatedReplicas": updated,
            "currentRevision": current.name,
            "updateRevision": update.name,
            "collisionCount": 0,
        }
        self._store.update(STATEFULSETS, {**owner, "status": status}, subresource="status")
        if done:
            revisions.prune(self._store, owner, {update.name})


def _revision_of(pod: Stored) -> str:
    return str((pod.obj["metadata"].get("labels") or {}).get(CONTROLLER_REVISION, ""))
