"""PrioritySort: the queue's order, highest priority first, then whoever entered the queue first."""

from scheduler.framework import NoArgs, Plugin, Queued


class PrioritySort(Plugin[NoArgs]):
    """Order pods by priority (none counts as 0), then by the time they entered the queue."""

    def less(self, first: Queued, second: Queued) -> bool:
        """Whether `first` is tried before `second`; False for equals."""
        return self.sort_key(first) < self.sort_key(second)

    def sort_key(self, queued: Queued) -> tuple[int, float]:
        """Return the key that orders the queue as `less` does."""
        return -queued.priority, queued.queued_at
