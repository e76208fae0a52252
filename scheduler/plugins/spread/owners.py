"""The selector of a pod's owners: its services and its controller.

The constraints of a profile have no selector of their own; they count the pods that the pod's
services and its controlling ReplicaSet, ReplicationController or StatefulSet select together.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scheduler.framework import Change, Pod
from scheduler.objects.meta import LabelSelector, OwnerReference
from scheduler.plugins.podselection import selector_fault
from scheduler.state.selection import Expressions, canonical, expressions_of, pair

if TYPE_CHECKING:
    from scheduler.state.cluster import Cluster

_CONTROLLERS = {
    ("v1", "ReplicationController"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
}

Selector = LabelSelector | dict[str, str] | None


class Services:
    """The selectors of services by namespace.

    `generation` moves when one of a namespace changes, `version` when any does.
    """

    kinds: tuple[str, ...] = ("Service",)
    follows = frozenset(("Service",))

    def __init__(self) -> None:
        self.version = 0
        self._selectors: dict[str, dict[str, dict[str, str]]] = {}
        self._generations: dict[str, int] = {}

    def __bool__(self) -> bool:
        """Return whether any service selects pods."""
        return bool(self._selectors)

    def generation(self, namespace: str) -> int:
        """Return a number that changes with the selectors of a namespace; 0 if it never had any."""
        return self._generations.get(namespace, 0)

    def selecting(self, pod: Pod) -> dict[str, str]:
        """Return the label pairs by which services select a pod, all together."""
        labels = pod.metadata.labels
        merged: dict[str, str] = {}
        for selector in self._selectors.get(pod.metadata.namespace, {}).values():
            if all(labels.get(key) == value for key, value in selector.items()):
                merged.update(selector)
        return merged

    def rebuild(self, cluster: "Cluster") -> None:
        """Rebuild all state from `cluster`."""
        self.version += 1
        self._selectors = {}
        for service in cluster.store.of("Service").values():
            self._put(service)

    def apply(self, change: Change) -> None:
        """Apply one change."""
        if change.kind != "Service":
            return
        if change.new is not None:
            self._put(change.new)
            return
        meta = change.old.metadata
        selectors = self._selectors.get(meta.namespace, {})
        if selectors.pop(meta.name, None) is not None:
            self._moved(meta.namespace)
            if not selectors:
                del self._selectors[meta.namespace]

    def columns(self) -> Mapping[str, Any]:
        """Return the selectors by namespace and name."""
        return {
            f"{namespace}/{name}": sorted(selector.items())
            for namespace, selectors in self._selectors.items()
            for name, selector in selectors.items()
        }

    def _put(self, service: Any) -> None:
        meta, selector = service.metadata, service.spec.selector
        if not selector:
            # A service without a selector selects no pod; it may have had a selector before.
            if self._selectors.get(meta.namespace, {}).pop(meta.name, None) is not None:
                self._moved(meta.namespace)
            return
        selectors = self._selectors.setdefault(meta.namespace, {})
        if selectors.get(meta.name) != selector:
            selectors[meta.name] = selector
            self._moved(meta.namespace)

    def _moved(self, namespace: str) -> None:
        self.version += 1
        self._generations[namespace] = self._generations.get(namespace, 0) + 1


def controller_of(pod: Pod) -> OwnerReference | None:
    """Return the owner that controls a pod, if it is of a kind whose selector counts."""
    for owner in pod.metadata.owner_references:
        if owner.controller:
            known = (owner.api_version, owner.kind) in _CONTROLLERS
            return owner if known else None
    return None


def selected_by(pairs: Mapping[str, str], controller: Selector) -> Expressions:
    """Return the label pairs of services and a controller's selector as one, ANDed."""
    expressions = [pair(key, value) for key, value in pairs.items()]
    if isinstance(controller, LabelSelector):
        if not selector_fault(controller):
            expressions += expressions_of(controller)
    elif controller is not None:
        # As kube-scheduler merges them: the controller's value wins over a service's.
        merged = {**pairs, **controller}
        expressions = [pair(key, value) for key, value in merged.items()]
    return canonical(expressions)
