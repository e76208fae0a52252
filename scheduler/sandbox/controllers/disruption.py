"""PodDisruptionBudgets: how many of their pods may be disrupted now.

The eviction subresource reads and lowers `disruptionsAllowed`; this controller recomputes it
whenever pods or budgets change.
"""

from collections import Counter
from typing import Final

from scheduler.base.clock import parse_rfc3339
from scheduler.controlplane.objects import controller_of
from scheduler.controlplane.rollout import share
from scheduler.sandbox.api.status import Object
from scheduler.sandbox.controllers.ownership import enqueue_self, is_deleted
from scheduler.sandbox.controllers.pods import is_active, is_ready
from scheduler.sandbox.controllers.workqueue import Interest, WorkQueue
from scheduler.sandbox.kinds.kinds import (
    DEPLOYMENTS,
    PODDISRUPTIONBUDGETS,
    PODS,
    REPLICASETS,
    REPLICATIONCONTROLLERS,
    STATEFULSETS,
)
from scheduler.sandbox.kinds.objectchecks import selects
from scheduler.sandbox.store.collection import DELETED, StoreChange, Stored
from scheduler.sandbox.store.store import ObjectStore

# kube-controller-manager: an eviction that did not lead to a deletion expires after this time.
_EVICTION_LIMIT_S: Final = 120.0
_SCALED: Final = {
    kind.kind: kind for kind in (DEPLOYMENTS, REPLICASETS, REPLICATIONCONTROLLERS, STATEFULSETS)
}


class _Cover:
    """The pods of one budget, counted as they change, without a full recount."""

    def __init__(self) -> None:
        self.healthy = 0
        self.active = 0
        self.single = 0
        self.owners: Counter[tuple[str, str, str]] = Counter()

    def add(self, pod: Object, sign: int) -> None:
        """Count a pod in (1) or out (-1)."""
        self.healthy += sign * is_healthy(pod)
        self.active += sign * is_active(pod)
        owner = controller_of(pod)
        if owner is None:
            self.single += sign * is_active(pod)
            return
        key = (owner["kind"], owner["name"], owner["uid"])
        self.owners[key] += sign
        if not self.owners[key]:
            del self.owners[key]


class DisruptionBudgets:
    """The controller of PodDisruptionBudgets."""

    def __init__(self, store: ObjectStore) -> None:
        self.work_queue = WorkQueue()
        self._store = store
        self._covers: dict[str, _Cover] = {}

    def interests(self) -> list[Interest]:
        """Return its interests: budgets, their pods and the owners that set these pods' number."""
        return [
            (PODDISRUPTIONBUDGETS, enqueue_self(self.work_queue)),
            (PODDISRUPTIONBUDGETS, self._observe_budget),
            (PODS, self._observe_pod),
            *((kind, self._observe_scale) for kind in _SCALED.values()),
        ]

    def act(self, key: str, now: float) -> None:
        """Write one budget's status."""
        namespace, name = key.split("/")
        stored = self._store.find(PODDISRUPTIONBUDGETS, namespace, name)
        if stored is None or is_deleted(stored.obj):
            return
        budget = stored.obj
        cover = self._covers.get(key) or self._count(key, budget)
        expected, desired = self._wanted(namespace, budget, cover)
        evicted, lost = self._evicted(key, budget, now)
        healthy = cover.healthy - lost
        allowed = max(0, healthy - desired) if expected > 0 else 0
        status: Object = {
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "disruptionsAllowed": allowed,
            "expectedPods": expected,
            "observedGeneration": budget["metadata"].get("generation", 1),
        }
        if evicted:
            status["disruptedPods"] = evicted
        status["conditions"] = [_condition(budget, self._store.now(), allowed=allowed > 0)]
        self._store.update(PODDISRUPTIONBUDGETS, {**budget, "status": status}, subresource="status")

    def _observe_budget(self, change: StoreChange) -> None:
        """Drop counts of another selector, and read an eviction's change of the status."""
        key, old = change.stored.key, change.previous
        if (
            change.type == DELETED
            or old is None
            or _selector(old.obj) != _selector(change.stored.obj)
        ):
            self._covers.pop(key, None)
            return
        before, now = old.obj.get("status") or {}, change.stored.obj.get("status") or {}
        if before.get("disruptedPods") != now.get("disruptedPods"):
            self.work_queue.add(key)

    def _observe_pod(self, change: StoreChange) -> None:
        for budget in self._store.list(PODDISRUPTIONBUDGETS, change.stored.namespace):
            before, after = change.previous, change.stored
            was = before is not None and _covers(budget.obj, before.obj)
            current = change.type != DELETED and _covers(budget.obj, after.obj)
            if not was and not current:
                continue
            self.work_queue.add(budget.key)
            cover = self._covers.get(budget.key)
            if cover is None:
                continue  # counted at the next act
            if was and before is not None:
                cover.add(before.obj, -1)
            if current:
                cover.add(after.obj, 1)

    def _count(self, key: str, budget: Object) -> _Cover:
        cover = self._covers[key] = _Cover()
        for pod in self._store.list(PODS, budget["metadata"]["namespace"]):
            if _covers(budget, pod.obj):
                cover.add(pod.obj, 1)
        return cover

    def _observe_scale(self, change: StoreChange) -> None:
        old, new = change.previous, change.stored
        if old is not None and old.obj["spec"].get("replicas") == new.obj["spec"].get("replicas"):
            return
        for budget in self._store.list(PODDISRUPTIONBUDGETS, new.namespace):
            self.work_queue.add(budget.key)

    def _wanted(self, namespace: str, budget: Object, cover: _Cover) -> tuple[int, int]:
        """Return the expected number of pods, and the number that must stay healthy."""
        spec = budget["spec"]
        least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
        if isinstance(least, int):
            return cover.active, least
        expected = cover.single + self._scale(namespace, cover)
        if most is not None:
            return expected, max(0, expected - share(most, expected, round_up=True))
        return expected, share(least or 0, expected, round_up=True)

    def _scale(self, namespace: str, cover: _Cover) -> int:
        """Return the replicas that the controllers of the covered pods request."""
        total, seen = 0, set()
        for kind, name, uid in cover.owners:
            found = self._top(namespace, {"kind": kind, "name": name, "uid": uid})
            if found is not None and found.uid not in seen:
                seen.add(found.uid)
                total += int(found.obj["spec"].get("replicas", 1))
        return total

    def _top(self, namespace: str, owner: Object | None) -> Stored | None:
        """Return the object that sets the number of replicas: the owner, or the owner's owner."""
        kind = _SCALED.get(owner["kind"]) if owner is not None else None
        if owner is None or kind is None:
            return None
        found = self._store.find(kind, namespace, owner["name"])
        if found is None or found.uid != owner["uid"]:
            return None
        return self._top(namespace, controller_of(found.obj)) or found

    def _evicted(self, key: str, budget: Object, now: float) -> tuple[dict[str, str], int]:
        """Return pods with a granted eviction and no deletion yet.

        And the number of healthy pods.
        """
        current = (budget.get("status") or {}).get("disruptedPods") or {}
        kept, lost = {}, 0
        for name, when in current.items():
            end = (parse_rfc3339(when) or now) + _EVICTION_LIMIT_S
            pod = self._store.find(PODS, budget["metadata"]["namespace"], name)
            if pod is None or is_deleted(pod.obj) or now >= end:
                continue
            kept[name] = when
            lost += is_healthy(pod.obj) and _covers(budget, pod.obj)
            self.work_queue.add_at(key, end)
        return kept, lost


def is_healthy(pod: Object) -> bool:
    """Return whether a pod counts as healthy: Ready and not terminating."""
    return not is_deleted(pod) and is_ready(pod)


def _selector(budget: Object) -> Object | None:
    found: Object | None = budget["spec"].get("selector")
    return found


def _covers(budget: Object, pod: Object) -> bool:
    selector = budget["spec"].get("selector")
    if selector is None:
        return False
    return selects(selector, pod["metadata"].get("labels") or {}, empty=True)


def _condition(budget: Object, now: str, *, allowed: bool) -> Object:
    status = "True" if allowed else "False"
    current = (budget.get("status") or {}).get("conditions") or []
    same = current and current[0]["status"] == status
    return {
        "type": "DisruptionAllowed",
        "status": status,
        "observedGeneration": budget["metadata"].get("generation", 1),
        "lastTransitionTime": current[0]["lastTransitionTime"] if same else now,
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "message": "",
    }
