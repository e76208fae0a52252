"""NamespaceSort: the queue's order for tenants who do not know of one another: namespaces take turns."""

from scheduler.framework import NoArgs, Plugin, Queued


class NamespaceSort(Plugin[NoArgs]):
    """Order pods by priority; of one priority each namespace's oldest in turn, so that none waits for a flood of another."""

    def less(self, first: Queued, second: Queued) -> bool:
        """Whether `first` is tried before `second` of its own namespace; False for equals."""
        return self.sort_key(first) < self.sort_key(second)

    def sort_key(self, queued: Queued) -> tuple[int, float]:
        """Return the key that orders the pods of one namespace."""
        return -queued.priority, queued.queued_at

    def taking_turns(self, queued: Queued) -> tuple[int, str]:
        """Return the rank of a pod, smaller first, and who takes turns with others of this rank."""
        return -queued.priority, queued.pod.metadata.namespace
