"""Deployments: one ReplicaSet per revision of the pod template, and the rollout from one to the
next.

Sizes come from `rollout.py`, conditions and counts from `deployment_status.py`. `kubectl rollout
status, history, undo, pause, resume, restart` and `kubectl scale` work on the objects written here.
"""

from typing import Final

from scheduler.controlplane import rollout
from scheduler.controlplane.replicasets import replica_set
from scheduler.controlplane.templates import same_revision, template_hash
from scheduler.sandbox.api.status import Object
from scheduler.sandbox.controllers import ownership
from scheduler.sandbox.controllers.claims import ControllerRefs
from scheduler.sandbox.controllers.events import record
from scheduler.sandbox.controllers.pods import is_ended
from scheduler.sandbox.controllers.workloads import deployment_status
from scheduler.sandbox.controllers.workqueue import Interest, WorkQueue
from scheduler.sandbox.kinds.kinds import DEPLOYMENTS, PODS, REPLICASETS
from scheduler.sandbox.store.collection import Stored
from scheduler.sandbox.store.store import Deletion, ObjectStore

REVISION: Final = "deployment.kubernetes.io/revision"
HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MAXIMUM: Final = "deployment.kubernetes.io/max-replicas"
_NOT_COPIED: Final = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        REVISION,
        HISTORY,
        DESIRED,
        MAXIMUM,
        "deprecated.deployment.rollback.to",
    }
)
_NAME: Final = "deployment-controller"


class Deployments:
    """The controller of Deployments."""

    def __init__(self, store: ObjectStore) -> None:
        self.work_queue = WorkQueue()
        self._store = store
        self._claims = ControllerRefs(store, self.work_queue, DEPLOYMENTS, REPLICASETS)

    def interests(self) -> list[Interest]:
        """Return its interests: Deployments and ReplicaSets.

        Pods through the ReplicaSets' status.
        """
        return [
            (DEPLOYMENTS, ownership.enqueue_self(self.work_queue)),
            (REPLICASETS, ownership.enqueue_owner(self.work_queue, DEPLOYMENTS.kind)),
            *self._claims.interests(),
        ]

    def act(self, key: str, now: float) -> None:
        """Take one step of the rollout; its changes requeue the Deployment."""
        stored = self._store.collection(DEPLOYMENTS).items.get(key)
        if stored is None:
            return
        owner = stored.obj
        self._claims.settle(key, owner)
        sets = ownership.dependents(self._store, owner, REPLICASETS)
        sets.sort(key=lambda found: (found.obj["metadata"]["creationTimestamp"], found.name))
        new = _current(owner, sets)
        if not ownership.is_deleted(owner):
            moved, new = self._step(owner, sets, new)
            if moved:
                # The write is observed and continues the rollout with new counts.
                self.work_queue.add(key)
                return
            sets = self._prune(owner, sets, new)
            self._note_revision(owner, new)
        self._write_status(key, sets, new, now)

    def _step(
        self, owner: Object, sets: list[Stored], new: Stored | None
    ) -> tuple[bool, Stored | None]:
        spec = owner["spec"]
        if self._scale_all(owner, sets, new):
            return True, new
        if spec.get("paused"):
            return False, new
        if new is None:
            if _recreates(spec) and self._clear(owner, sets):
                return False, None
            return True, self._create(owner, sets)
        new = self._mark(owner, sets, new)
        old = [found for found in sets if found.name != new.name]
        if _recreates(spec):
            waits = self._clear(owner, old)
            return not waits and self._resize(owner, new, spec["replicas"]), new
        surge, unavailable = rollout.limits(spec)
        total = sum(_replicas(found) for found in sets)
        size = rollout.grown(_replicas(new), total, spec["replicas"], surge)
        if self._resize(owner, new, size):
            return True, new
        sizes = rollout.shrunk([_size(s) for s in old], _size(new), spec["replicas"], unavailable)
        resized = [self._resize(owner, s, sizes[s.name]) for s in old if s.name in sizes]
        return any(resized), new

    def _create(self, owner: Object, sets: list[Stored]) -> Stored:
        """Return the ReplicaSet of the current template."""
        meta, spec = owner["metadata"], owner["spec"]
        template = spec["template"]
        collisions = (owner.get("status") or {}).get("collisionCount", 0)
        label = template_hash(template, collisions)
        name = f"{meta['name']}-{label}"
        while self._store.find(REPLICASETS, meta["namespace"], name) is not None:
            collisions += 1
            label = template_hash(template, collisions)
            name = f"{meta['name']}-{label}"
        surge, _ = rollout.limits(spec)
        total = sum(_replicas(found) for found in sets)
        replicas = spec["replicas"]
        if not _recreates(spec):
            replicas = rollout.grown(0, total, replicas, surge)
        made = replica_set(owner, label, replicas)
        made["metadata"]["annotations"] = self._notes(owner, {}, _next_revision(sets))
        created = self._store.create(REPLICASETS, made, meta["namespace"])
        self._say_scaled(owner, name, 0, replicas)
        return created

    def _mark(self, owner: Object, sets: list[Stored], new: Stored) -> Stored:
        """Keep annotations and minReadySeconds of the new ReplicaSet up to date."""
        current = new.obj["metadata"].get("annotations") or {}
        others = [found for found in sets if found.name != new.name]
        revision = max(_next_revision(others), _revision(new))
        notes = self._notes(owner, current, revision)
        seconds = owner["spec"].get("minReadySeconds", 0)
        spec = new.obj["spec"]
        if notes == current and spec.get("minReadySeconds", 0) == seconds:
            return new
        meta = {**new.obj["metadata"], "annotations": notes}
        changed = {**new.obj, "metadata": meta, "spec": {**spec, "minReadySeconds": seconds}}
        return self._store.update(REPLICASETS, changed)

    @staticmethod
    def _notes(owner: Object, current: dict[str, str], revision: int) -> dict[str, str]:
        own = owner["metadata"].get("annotations") or {}
        notes = {**current, **{key: text for key, text in own.items() if key not in _NOT_COPIED}}
        before = current.get(REVISION)
        if before and before != str(revision):
            past = [part for part in current.get(HISTORY, "").split(",") if part]
            notes[HISTORY] = ",".join([*past, before])
        notes[REVISION] = str(revision)
        return notes | _sizing(owner)

    def _scale_all(self, owner: Object, sets: list[Stored], new: Stored | None) -> bool:
        """Distribute a changed number of replicas over the ReplicaSets of a rollout in progress."""
        active = [found for found in sets if _replicas(found)]
        wanted = str(owner["spec"]["replicas"])
        stale = [s for s in active if _annotation(s, DESIRED) not in ("", wanted)]
        if not stale:
            return False
        if len(active) == 1 and (active[0] is new or owner["spec"].get("paused")):
            return self._resize(owner, active[0], owner["spec"]["replicas"])
        if _recreates(owner["spec"]):
            return False
        surge, _ = rollout.limits(owner["spec"])
        allowed = owner["spec"]["replicas"] + surge if owner["spec"]["replicas"] else 0
        before = int(_annotation(stale[0], MAXIMUM) or allowed)
        sizes = rollout.scaled([_size(found) for found in active], before, allowed)
        for found in active:
            self._resize(owner, found, sizes.get(found.name, _replicas(found)))
        return True

    def _clear(self, owner: Object, old: list[Stored]) -> bool:
        """Recreate: delete all old pods; return True while some still run."""
        for found in old:
            self._resize(owner, found, 0)
        return any(
            not is_ended(pod.obj)
            for found in old
            for pod in ownership.dependents(self._store, found.obj, PODS)
        )

    def _resize(self, owner: Object, stored: Stored, replicas: int) -> bool:
        before = _replicas(stored)
        sizing = _sizing(owner)
        meta = stored.obj["metadata"]
        notes = {**(meta.get("annotations") or {}), **sizing}
        if before == replicas and notes == meta.get("annotations"):
            return False
        changed = {
            **stored.obj,
            "metadata": {**meta, "annotations": notes},
            "spec": {**stored.obj["spec"], "replicas": replicas},
        }
        self._store.update(REPLICASETS, changed)
        if before != replicas:
            self._say_scaled(owner, stored.name, before, replicas)
        return before != replicas

    def _say_scaled(self, owner: Object, name: str, before: int, after: int) -> None:
        way = "up" if after > before else "down"
        text = f"Scaled {way} replica set {name} from {before} to {after}"
        record(self._store, owner, _NAME, "ScalingReplicaSet", text)

    def _prune(self, owner: Object, sets: list[Stored], new: Stored | None) -> list[Stored]:
        """Delete the oldest empty revisions beyond the history limit."""
        limit = owner["spec"].get("revisionHistoryLimit", 10)
        empty = [
            found
            for found in sets
            if found is not new
            and not _replicas(found)
            and not (found.obj.get("status") or {}).get("replicas")
            and not ownership.is_deleted(found.obj)
            and (new is None or found.name != new.name)
        ]
        if not deployment_status.is_complete(owner) or len(empty) <= limit:
            return sets
        empty.sort(key=_revision)
        gone = {found.name for found in empty[: len(empty) - limit]}
        for found in empty[: len(empty) - limit]:
            self._store.delete(REPLICASETS, found.namespace, found.name, Deletion(uid=found.uid))
        return [found for found in sets if found.name not in gone]

    def _note_revision(self, owner: Object, new: Stored | None) -> None:
        if new is None:
            return
        revision = _annotation(new, REVISION)
        meta = owner["metadata"]
        notes = meta.get("annotations") or {}
        if revision and notes.get(REVISION) != revision:
            changed = {**meta, "annotations": {**notes, REVISION: revision}}
            self._store.update(DEPLOYMENTS, {**owner, "metadata": changed})

    def _write_status(self, key: str, sets: list[Stored], new: Stored | None, now: float) -> None:
        namespace, name = key.split("/")
        owner = self._store.get(DEPLOYMENTS, namespace, name).obj
        status, due = deployment_status.status_of(
            owner, [found.obj for found in sets], new.obj if new else None, now
        )
        self._store.update(DEPLOYMENTS, {**owner, "status": status}, subresource="status")
        if due is not None:
            self.work_queue.add_at(key, due)


def _current(owner: Object, sets: list[Stored]) -> Stored | None:
    wanted = owner["spec"]["template"]
    return next((s for s in sets if same_revision(s.obj["spec"]["template"], wanted)), None)


def _recreates(spec: Object) -> bool:
    return bool((spec.get("strategy") or {}).get("type") == "Recreate")


def _sizing(owner: Object) -> dict[str, str]:
    wanted = owner["spec"]["replicas"]
    surge, _ = rollout.limits(owner["spec"])
    return {DESIRED: str(wanted), MAXIMUM: str(wanted + surge)}


def _replicas(stored: Stored) -> int:
    return int(stored.obj["spec"].get("replicas", 1))


def _size(stored: Stored) -> rollout.Size:
    available = (stored.obj.get("status") or {}).get("availableReplicas", 0)
    return rollout.Size(stored.name, _replicas(stored), available)


def _annotation(stored: Stored, name: str) -> str:
    return str((stored.obj["metadata"].get("annotations") or {}).get(name, ""))


def _revision(stored: Stored) -> int:
    text = _annotation(stored, REVISION)
    return int(text) if text.isdecimal() else 0


def _next_revision(sets: list[Stored]) -> int:
    return max((_revision(found) for found in sets), default=0) + 1
