"""`NamespaceNames`: the namespaces that a namespace selector selects, cached until a namespace
changes.

Many pods have the same few selectors; a cluster has many namespaces, and they rarely change.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scheduler.objects.selectors import requirements_match
from scheduler.state.change import Change

if TYPE_CHECKING:
    from scheduler.state.cluster import Cluster
    from scheduler.state.selection import Expressions

_NONE: Mapping[str, str] = {}
_MOST = 1024


class NamespaceNames:
    """The labels of namespaces, and the names that selectors select; `version` changes with the
    labels.
    """

    kinds: tuple[str, ...] = ("Namespace",)
    follows = frozenset(("Namespace",))

    def __init__(self) -> None:
        self.version = 0
        self._labels: dict[str, Mapping[str, str]] = {}
        self._matching: dict[Expressions, frozenset[str]] = {}

    def labels(self, name: str) -> Mapping[str, str]:
        """Return the labels of a namespace; empty if it is unknown."""
        return self._labels.get(name, _NONE)

    def matching(self, expressions: "Expressions") -> frozenset[str]:
        """Return the names of the namespaces whose labels satisfy all expressions."""
        found = self._matching.get(expressions)
        if found is None:
            if len(self._matching) >= _MOST:
                self._matching.clear()
            found = self._matching[expressions] = frozenset(
                name
                for name, labels in self._labels.items()
                if requirements_match(expressions, labels)
            )
        return found

    def rebuild(self, cluster: "Cluster") -> None:
        """Rebuild all state from `cluster`."""
        self.version += 1
        self._labels = {
            name: namespace.metadata.labels
            for name, namespace in cluster.store.of("Namespace").items()
        }
        self._matching.clear()

    def apply(self, change: Change) -> None:
        """Apply one change."""
        if change.kind != "Namespace":
            return
        if change.new is None:
            self._labels.pop(change.old.metadata.name, None)
        else:
            meta = change.new.metadata
            if self._labels.get(meta.name) == meta.labels:
                return
            self._labels[meta.name] = meta.labels
        self.version += 1
        self._matching.clear()

    def columns(self) -> Mapping[str, Any]:
        """Return the labels by namespace."""
        return {name: sorted(labels.items()) for name, labels in self._labels.items()}
