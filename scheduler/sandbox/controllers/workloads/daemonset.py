"""DaemonSets: one pod on every eligible node, pinned by a node affinity on the node's name.

The scheduler binds the pods. `maxSurge` is treated as `maxUnavailable`: a node never has two pods
of a set.
"""

from collections import defaultdict
from typing import Final

from scheduler.controlplane import rollout
from scheduler.controlplane.daemonsets import daemon_pods, runs_on, target_of
from scheduler.controlplane.templates import CONTROLLER_REVISION
from scheduler.sandbox.api.status import Object, StatusError
from scheduler.sandbox.controllers.ownership import (
    enqueue_owner,
    enqueue_self,
    is_deleted,
    reference_to,
    sorted_dependents,
)
from scheduler.sandbox.controllers.pods import Count, create_pod, is_available, is_ended
from scheduler.sandbox.controllers.workloads import revisions
from scheduler.sandbox.controllers.workqueue import Interest, WorkQueue
from scheduler.sandbox.kinds.kinds import DAEMONSETS, NODES, PODS
from scheduler.sandbox.store.collection import StoreChange, Stored
from scheduler.sandbox.store.store import Deletion, ObjectStore

_BATCH: Final = 50
_NAME: Final = "daemonset-controller"


class DaemonSets:
    """The controller of DaemonSets."""

    def __init__(self, store: ObjectStore) -> None:
        self.work_queue = WorkQueue()
        self._store = store
        # Per set and node: the compared versions, and the verdict (new pod needed, old pod may
        # stay).
        self._verdicts: dict[str, dict[str, tuple[int, int, bool, bool]]] = {}

    def interests(self) -> list[Interest]:
        """DaemonSets, pods and nodes."""
        return [
            (DAEMONSETS, enqueue_self(self.work_queue)),
            (PODS, enqueue_owner(self.work_queue, DAEMONSETS.kind)),
            (NODES, self._observe_node),
        ]

    def act(self, key: str, now: float) -> None:
        """Create, remove or replace pods node by node, then write the status."""
        stored = self._store.collection(DAEMONSETS).items.get(key)
        if stored is None:
            self._verdicts.pop(key, None)
            return
        owner = stored.obj
        revision = revisions.newest(self._store, DAEMONSETS, owner)
        on_node = self._pods_by_node(owner)
        wanted, allowed = self._evaluate(key, owner)
        if not is_deleted(owner):
            refusal = self._step(key, owner, on_node, wanted, allowed, revision)
            self._replace(owner, on_node, wanted, revision, now)
            on_node = self._pods_by_node(owner)
        else:
            refusal = None
        self._write_status(key, on_node, wanted, revision, now)
        if refusal is not None:
            raise refusal

    def _observe_node(self, change: StoreChange) -> None:
        previous = change.previous
        if previous is not None:
            new, old = change.stored.obj, previous.obj
            same_labels = new["metadata"].get("labels") == old["metadata"].get("labels")
            if same_labels and new.get("spec") == old.get("spec") and change.type == "MODIFIED":
                return
        for stored in self._store.list(DAEMONSETS):
            self.work_queue.add(stored.key)

    def _pods_by_node(self, owner: Object) -> dict[str, list[Stored]]:
        found: dict[str, list[Stored]] = defaultdict(list)
        for pod in sorted_dependents(self._store, owner, PODS):
            found[target_of(pod.obj)].append(pod)
        return found

    def _evaluate(self, key: str, owner: Object) -> tuple[list[str], set[str]]:
        """Return the nodes that need a pod, and the nodes where an existing pod may stay."""
        existing = self._verdicts.setdefault(key, {})
        generation = owner["metadata"].get("generation", 1)
        spec = owner["spec"]["template"]["spec"]
        wanted, allowed = [], set()
        for node in self._store.list(NODES):
            verdict = existing.get(node.name)
            if verdict is None or verdict[:2] != (node.version, generation):
                verdict = (node.version, generation, *runs_on(spec, node.obj))
                existing[node.name] = verdict
            if verdict[2]:
                wanted.append(node.name)
            if verdict[3]:
                allowed.add(node.name)
        return wanted, allowed

    def _step(
        self,
        key: str,
        owner: Object,
        on_node: dict[str, list[Stored]],
        wanted: list[str],
        allowed: set[str],
        revision: revisions.Revision,
    ) -> StatusError | None:
        for node, pods in on_node.items():
            extra = pods if node not in allowed else pods[1:]
            for pod in [*extra, *(pod for pod in pods[:1] if is_ended(pod.obj))]:
                self._delete(pod)
        missing = [node for node in wanted if not on_node.get(node)]
        if not missing:
            return None
        current = {**owner, "spec": {**owner["spec"], "template": revision.template}}
        make = daemon_pods(current, reference_to(DAEMONSETS, owner), revision.hash)
        if len(missing) > _BATCH:
            self.work_queue.again(key)
        for node in missing[:_BATCH]:
            made = make(node)
            refusal = create_pod(self._store, owner, _NAME, made)
            if refusal is not None:
                return refusal
        return None

    def _replace(
        self,
        owner: Object,
        on_node: dict[str, list[Stored]],
        wanted: list[str],
        revision: revisions.Revision,
        now: float,
    ) -> None:
        """Delete pods of old revisions, up to maxUnavailable missing ones."""
        strategy = owner["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return
        rolling = strategy.get("rollingUpdate") or {}
        amounts = [rolling.get("maxUnavailable", 1), rolling.get("maxSurge", 0)]
        headroom = max(1, *(rollout.share(part, len(wanted), round_up=True) for part in amounts))
        seconds = owner["spec"].get("minReadySeconds", 0)
        old: list[Stored] = []
        for node in wanted:
            pod = next(iter(on_node.get(node, ())), None)
            if pod is None or is_deleted(pod.obj) or not is_available(pod.obj, seconds, now):
                headroom -= 1
            if pod is not None and not is_deleted(pod.obj) and _hash(pod) != revision.hash:
                old.append(pod)
        for pod in old:
            missing = not is_available(pod.obj, seconds, now)
            if missing or headroom > 0:
                self._delete(pod)
                headroom -= 0 if missing else 1

    def _delete(self, pod: Stored) -> None:
        if not is_deleted(pod.obj):
            self._store.delete(PODS, pod.namespace, pod.name, Deletion(uid=pod.uid))

    def _write_status(
        self,
        key: str,
        on_node: dict[str, list[Stored]],
        wanted: list[str],
        revision: revisions.Revision,
        now: float,
    ) -> None:
        namespace, name = key.split("/")
        owner = self._store.get(DAEMONSETS, namespace, name).obj
        suited = set(wanted)
        pods = [found[0] for node, found in on_node.items() if node in suited and found]
        live = [pod for pod in pods if not is_deleted(pod.obj)]
        count = Count((pod.obj for pod in live), owner["spec"].get("minReadySeconds", 0), now)
        if count.due < float("inf"):
            self.work_queue.add_at(key, count.due)
        unavailable = len(wanted) - count.available
        status: Object = {
            "currentNumberScheduled": len(pods),
            "numberMisscheduled": sum(1 for node in on_node if node not in suited),
            "desiredNumberScheduled": len(wanted),
            "numberReady": count.ready,
            "observedGeneration": owner["metadata"].get("generation", 1),
            "updatedNumberScheduled": sum(1 for pod in live if _hash(pod) == revision.hash),
            "numberAvailable": count.available,
        }
        if unavailable:
            status["numberUnavailable"] = unavailable
        self._store.update(DAEMONSETS, {**owner, "status": status}, subresource="status")
        if not unavailable:
            revisions.prune(self._store, owner, {revision.hash, *map(_hash, live)})


def _hash(pod: Stored) -> str:
    return str((pod.obj["metadata"].get("labels") or {}).get(CONTROLLER_REVISION, ""))
