"""NamespaceSort: a queue order that is fair between namespaces, which take turns."""

from scheduler.framework import NoArgs, Plugin, Queued


class NamespaceSort(Plugin[NoArgs]):
    """Order pods by priority; at equal priority the namespaces' oldest pods in turn.

    So a namespace with many pods does not delay the others.
    """

    def less(self, first: Queued, second: Queued) -> bool:
        """Return whether `first` is scheduled before `second` of the same namespace.

        False for equals.
        """
        return self.sort_key(first) < self.sort_key(second)

    def sort_key(self, queued: Queued) -> tuple[int, float]:
        """Return the sort key of the pods of one namespace."""
        return -queued.priority, queued.queued_at

    def taking_turns(self, queued: Queued) -> tuple[int, str]:
        """Return the rank of a pod, smaller first, and the namespace that takes turns within this
        rank.
        """
        return -queued.priority, queued.pod.metadata.namespace
