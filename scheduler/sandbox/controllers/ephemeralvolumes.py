"""Generic ephemeral volumes: a PersistentVolumeClaim for each, created with its pod and owned by
it.
"""

from scheduler.controlplane.claims import ephemeral_volume_claims
from scheduler.sandbox.controllers.ownership import is_deleted
from scheduler.sandbox.controllers.workqueue import Interest, WorkQueue
from scheduler.sandbox.kinds.kinds import PERSISTENTVOLUMECLAIMS, PODS
from scheduler.sandbox.store.collection import StoreChange
from scheduler.sandbox.store.store import ObjectStore


class EphemeralVolumes:
    """The controller of generic ephemeral volumes."""

    def __init__(self, store: ObjectStore) -> None:
        self.work_queue = WorkQueue()
        self._store = store

    def interests(self) -> list[Interest]:
        """Return its one interest: pods."""
        return [(PODS, self._observe_pod)]

    def act(self, key: str, now: float) -> None:
        """Create the claims that a pod lacks; an existing claim of that name stays."""
        del now
        stored = self._store.collection(PODS).items.get(key)
        if stored is None or is_deleted(stored.obj):
            return
        for claim in ephemeral_volume_claims(stored.obj):
            name = claim["metadata"]["name"]
            if self._store.find(PERSISTENTVOLUMECLAIMS, stored.namespace, name) is None:
                self._store.create(PERSISTENTVOLUMECLAIMS, claim, stored.namespace)

    def _observe_pod(self, change: StoreChange) -> None:
        volumes = change.stored.obj["spec"].get("volumes") or ()
        if change.previous is None and any(volume.get("ephemeral") for volume in volumes):
            self.work_queue.add(change.stored.key)
