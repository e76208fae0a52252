"""Taint evictions: delete pods that do not tolerate a NoExecute taint, at once or at their
deadline.

Also removes the pods of nodes that no longer exist, after their quarantine; pods that never ran
stay.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from scheduler.base.clock import parse_rfc3339
from scheduler.controlplane.nodematch import NO_EXECUTE, tolerates
from scheduler.sandbox.api.status import Object
from scheduler.sandbox.controllers.ownership import is_deleted
from scheduler.sandbox.controllers.pods import is_ended, phase
from scheduler.sandbox.controllers.workqueue import Interest, WorkQueue
from scheduler.sandbox.kinds.kinds import NODES, PODS
from scheduler.sandbox.store.collection import DELETED, StoreChange, Stored
from scheduler.sandbox.store.store import Deletion, ObjectStore

QUARANTINE_S: Final = 40.0


class TaintEvictions:
    """The controller of pods on tainted or deleted nodes; keys are node names."""

    def __init__(self, store: ObjectStore) -> None:
        self.work_queue = WorkQueue()
        self._store = store
        self._pods_of: dict[str, set[str]] = defaultdict(set)
        # Per node the keys of NoExecute taints, and since when: not every taint states its time.
        self._tainted: dict[str, dict[str, float]] = {}
        self._gone: dict[str, float] = {}

    def interests(self) -> list[Interest]:
        """Nodes and pods."""
        return [(NODES, self._observe_node), (PODS, self._observe_pod)]

    def act(self, key: str, now: float) -> None:
        """Delete the pods of one node whose deadline has passed."""
        pods = self._store.collection(PODS).items
        current = [pods[name] for name in sorted(self._pods_of.get(key, ())) if name in pods]
        node = self._store.find(NODES, "", key)
        if node is None:
            self._clear(key, current, now)
            return
        self._gone.pop(key, None)
        taints = _executing(node.obj)
        for pod in current:
            if is_deleted(pod.obj) or is_ended(pod.obj):
                continue
            due = _due(pod.obj, taints, self._tainted.get(key, {}), now)
            if due is None:
                continue
            if due > now:
                self.work_queue.add_at(key, due)
            else:
                self._evict(
                    pod, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"
                )

    def _observe_node(self, change: StoreChange) -> None:
        name = change.stored.name
        if change.type == DELETED:
            self._tainted.pop(name, None)
            self._gone[name] = self._store.clock.now()
            self.work_queue.add(name)
            return
        taints = _executing(change.stored.obj)
        current = self._tainted.pop(name, {})
        if taints:
            now = self._store.clock.now()
            self._tainted[name] = {
                taint["key"]: parse_rfc3339(taint.get("timeAdded"))
                or current.get(taint["key"], now)
                for taint in taints
            }
            self.work_queue.add(name)

    def _observe_pod(self, change: StoreChange) -> None:
        node = change.stored.obj["spec"].get("nodeName")
        if not node:
            return
        if change.type == DELETED:
            self._pods_of[node].discard(change.stored.key)
            return
        self._pods_of[node].add(change.stored.key)
        if node in self._tainted:
            self.work_queue.add(node)

    def _clear(self, node: str, pods: list[Stored], now: float) -> None:
        """Delete the pods of a deleted node after a quarantine, without waiting for a kubelet."""
        since = self._gone.get(node)
        if since is None:
            return
        if now < since + QUARANTINE_S:
            self.work_queue.add_at(node, since + QUARANTINE_S)
            return
        for pod in pods:
            if phase(pod.obj) != "Pending" or is_deleted(pod.obj):
                self._evict(pod, "DeletionByPodGC", "PodGC: node no longer exists", grace_s=0)

    def _evict(self, pod: Stored, reason: str, message: str, grace_s: int | None = None) -> None:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": self._store.now(),
            "reason": reason,
            "message": message,
        }
        status = pod.obj.get("status") or {}
        others = [c for c in status.get("conditions") or () if c["type"] != "DisruptionTarget"]
        fresh = {**status, "conditions": [*others, condition]}
        self._store.update(PODS, {**pod.obj, "status": fresh}, subresource="status")
        options = Deletion(grace_period_s=grace_s, uid=pod.uid)
        self._store.delete(PODS, pod.namespace, pod.name, options)


def _executing(node: Object) -> list[Object]:
    taints = (node.get("spec") or {}).get("taints") or ()
    return [taint for taint in taints if taint["effect"] == NO_EXECUTE]


def _due(pod: Object, taints: list[Object], since: Mapping[str, float], now: float) -> float | None:
    """Return the pod's deadline; None when it may stay."""
    tolerations = pod["spec"].get("tolerations") or ()
    found: float | None = None
    for taint in taints:
        matching = [toleration for toleration in tolerations if tolerates(toleration, taint)]
        if not matching:
            return now
        limits = [
            t["tolerationSeconds"] for t in matching if t.get("tolerationSeconds") is not None
        ]
        if not limits:
            continue
        due = since.get(taint["key"], now) + max(0, min(limits))
        found = due if found is None else min(found, due)
    return found
