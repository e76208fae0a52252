"""The ServiceAccount `default` of every namespace, created again after its deletion."""

from scheduler.sandbox.controllers.ownership import is_deleted
from scheduler.sandbox.controllers.workqueue import Interest, WorkQueue
from scheduler.sandbox.kinds.kinds import NAMESPACES, SERVICEACCOUNTS
from scheduler.sandbox.store.collection import DELETED, StoreChange
from scheduler.sandbox.store.store import ObjectStore

_NAME = "default"


class Namespaces:
    """The controller of namespaces; the collector empties deleted ones."""

    def __init__(self, store: ObjectStore) -> None:
        self.work_queue = WorkQueue()
        self._store = store

    def interests(self) -> list[Interest]:
        """Namespaces and service accounts."""
        return [(NAMESPACES, self._observe_namespace), (SERVICEACCOUNTS, self._observe_account)]

    def act(self, key: str, now: float) -> None:
        """Create the account if it is missing."""
        del now
        namespace = self._store.find(NAMESPACES, "", key)
        if namespace is None or is_deleted(namespace.obj):
            return
        if self._store.find(SERVICEACCOUNTS, key, _NAME) is None:
            self._store.create(SERVICEACCOUNTS, {"metadata": {"name": _NAME}}, key)

    def _observe_namespace(self, change: StoreChange) -> None:
        if change.previous is None:
            self.work_queue.add(change.stored.name)

    def _observe_account(self, change: StoreChange) -> None:
        if change.type == DELETED and change.stored.name == _NAME:
            self.work_queue.add(change.stored.namespace)
