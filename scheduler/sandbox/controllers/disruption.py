"""PodDisruptionBudgets: how many of the pods they cover may be disrupted now.

The eviction subresource reads and lowers `disruptionsAllowed`; this controller computes it anew whenever pods or budgets change.
"""

from typing import Final

from scheduler.base.clock import parse_rfc3339
from scheduler.sandbox.collection import Change, Stored
from scheduler.sandbox.controllers.ownership import controller_of, hear_itself, is_deleted
from scheduler.sandbox.controllers.pods import is_active, ready_since
from scheduler.sandbox.controllers.rollout import share
from scheduler.sandbox.kinds import (
    DEPLOYMENTS,
    PODDISRUPTIONBUDGETS,
    PODS,
    REPLICASETS,
    REPLICATIONCONTROLLERS,
    STATEFULSETS,
)
from scheduler.sandbox.objectchecks import selects
from scheduler.sandbox.status import Object
from scheduler.sandbox.store import Store
from scheduler.sandbox.turns import Agenda, Interest

# kube-controller-manager: an eviction that did not lead to a deletion is forgotten after this.
_EVICTION_LIMIT_S: Final = 120.0
_SCALED: Final = {
    kind.kind: kind for kind in (DEPLOYMENTS, REPLICASETS, REPLICATIONCONTROLLERS, STATEFULSETS)
}


class DisruptionBudgets:
    """The actor for PodDisruptionBudgets."""

    def __init__(self, store: Store) -> None:
        self.agenda = Agenda()
        self._store = store

    def interests(self) -> list[Interest]:
        """Budgets, the pods they cover and what sets these pods' number."""
        return [
            (PODDISRUPTIONBUDGETS, hear_itself(self.agenda)),
            (PODDISRUPTIONBUDGETS, self._hear_status),
            (PODS, self._hear_pod),
            *((kind, self._hear_scale) for kind in _SCALED.values()),
        ]

    def act(self, key: str, now: float) -> None:
        """Write one budget's status."""
        namespace, name = key.split("/")
        stored = self._store.find(PODDISRUPTIONBUDGETS, namespace, name)
        if stored is None or is_deleted(stored.obj):
            return
        budget = stored.obj
        pods = [pod for pod in self._store.list(PODS, namespace) if _covers(budget, pod.obj)]
        expected, desired = self._wanted(budget, pods)
        evicted = self._evicted(key, budget, pods, now)
        healthy = sum(
            1
            for pod in pods
            if pod.name not in evicted
            and not is_deleted(pod.obj)
            and ready_since(pod.obj) is not None
        )
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

    def _hear_status(self, change: Change) -> None:
        """An eviction wrote into the status."""
        old = (change.previous.obj.get("status") or {}) if change.previous else {}
        new = change.stored.obj.get("status") or {}
        if old.get("disruptedPods") != new.get("disruptedPods"):
            self.agenda.add(change.stored.key)

    def _hear_pod(self, change: Change) -> None:
        budgets = self._store.list(PODDISRUPTIONBUDGETS, change.stored.namespace)
        for budget in budgets:
            before = change.previous
            if _covers(budget.obj, change.stored.obj) or (
                before and _covers(budget.obj, before.obj)
            ):
                self.agenda.add(budget.key)

    def _hear_scale(self, change: Change) -> None:
        old, new = change.previous, change.stored
        if old is not None and old.obj["spec"].get("replicas") == new.obj["spec"].get("replicas"):
            return
        for budget in self._store.list(PODDISRUPTIONBUDGETS, new.namespace):
            self.agenda.add(budget.key)

    def _wanted(self, budget: Object, pods: list[Stored]) -> tuple[int, int]:
        """How many pods there should be, and how many of them must stay healthy."""
        spec = budget["spec"]
        least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
        if isinstance(least, int):
            return len([pod for pod in pods if is_active(pod.obj)]), least
        expected = self._scale(pods)
        if most is not None:
            return expected, max(0, expected - share(most, expected, round_up=True))
        return expected, share(least or 0, expected, round_up=True)

    def _scale(self, pods: list[Stored]) -> int:
        """The replicas that the controllers of these pods ask for."""
        total, seen = 0, set()
        for pod in pods:
            owner = controller_of(pod.obj)
            found = self._top(pod.namespace, owner)
            if found is None:
                total += owner is None and is_active(pod.obj)
            elif found.uid not in seen:
                seen.add(found.uid)
                total += int(found.obj["spec"].get("replicas", 1))
        return total

    def _top(self, namespace: str, owner: Object | None) -> Stored | None:
        """The object that sets the number of replicas: the owner, or the owner's owner."""
        kind = _SCALED.get(owner["kind"]) if owner is not None else None
        if owner is None or kind is None:
            return None
        found = self._store.find(kind, namespace, owner["name"])
        if found is None or found.uid != owner["uid"]:
            return None
        return self._top(namespace, controller_of(found.obj)) or found

    def _evicted(self, key: str, budget: Object, pods: list[Stored], now: float) -> dict[str, str]:
        """Pods whose eviction was granted and who are not yet seen going."""
        held = (budget.get("status") or {}).get("disruptedPods") or {}
        names = {pod.name for pod in pods if not is_deleted(pod.obj)}
        kept = {}
        for name, when in held.items():
            end = (parse_rfc3339(when) or now) + _EVICTION_LIMIT_S
            if name in names and now < end:
                kept[name] = when
                self.agenda.add_at(key, end)
        return kept


def _covers(budget: Object, pod: Object) -> bool:
    selector = budget["spec"].get("selector")
    if selector is None:
        return False
    return selects(selector, pod["metadata"].get("labels") or {}, empty=True)


def _condition(budget: Object, now: str, *, allowed: bool) -> Object:
    status = "True" if allowed else "False"
    held = (budget.get("status") or {}).get("conditions") or []
    same = held and held[0]["status"] == status
    return {
        "type": "DisruptionAllowed",
        "status": status,
        "observedGeneration": budget["metadata"].get("generation", 1),
        "lastTransitionTime": held[0]["lastTransitionTime"] if same else now,
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "message": "",
    }
