"""`PreBindPlaces`: limits the pods in pre-bind, and records which ones wait for a place.

A pod whose volumes are not provisioned is in pre-bind for minutes. It does not count against the
limit of binds, and a namespace can have only a limited number of them, so that no tenant's pods
block the others'. A pod that only writes an object is through as soon as the API server answers,
and needs no place. `Bindings` calls it; it decides nothing else and owns no pod.
"""

from scheduler.engine.queue.queues import Queues

PRE_BIND = "PreBind"
MOST_OF_NAMESPACE = 500
MOST = 5000


class PreBindPlaces:
    """The pods that wait in pre-bind by namespace; a pod that gets a place later is activated in
    `queues`.
    """

    def __init__(self, queues: Queues) -> None:
        self._queues = queues
        self._inside: dict[str, set[str]] = {}
        self._count = 0
        self._outside: dict[str, dict[str, None]] = {}

    def __len__(self) -> int:
        return self._count

    def enter(self, namespace: str, uid: str, *, is_member: bool) -> str:
        """Take a place; return the reason why there is none, "" on success.

        A member of a group always gets one: the other members keep their capacity reserved until it
        is through.
        """
        there = self._inside.get(namespace, set())
        if uid in there:
            return ""
        if not is_member and (len(there) >= MOST_OF_NAMESPACE or self._count >= MOST):
            self._outside.setdefault(namespace, {})[uid] = None
            if len(there) >= MOST_OF_NAMESPACE:
                return (
                    f"{len(there)} pods of the namespace {namespace} wait for their "
                    "volumes or claims"
                )
            return f"{self._count} pods of all namespaces wait for their volumes or claims"
        self._inside.setdefault(namespace, there).add(uid)
        self._count += 1
        return ""

    def leave(self, namespace: str, uid: str, now: float) -> None:
        """Give a place back; a waiting pod of the namespace, else of another, is retried."""
        there = self._inside.get(namespace, set())
        if uid not in there:
            return
        there.discard(uid)
        self._count -= 1
        if not there:
            del self._inside[namespace]
        for name in (namespace, *self._outside):
            if self._let_in(name, now):
                break
        self._outside = {name: waiting for name, waiting in self._outside.items() if waiting}

    def _let_in(self, namespace: str, now: float) -> bool:
        if len(self._inside.get(namespace, ())) >= MOST_OF_NAMESPACE:
            return False
        waiting = self._outside.get(namespace, {})
        while waiting:
            uid = next(iter(waiting))
            del waiting[uid]
            if self._queues.get(uid) is not None:
                self._queues.activate((uid,), now)
                return True
        return False
