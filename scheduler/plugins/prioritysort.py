"""PrioritySort: the queue's order by priority, then by queue time."""

from scheduler.framework import NoArgs, Plugin, Queued


class PrioritySort(Plugin[NoArgs]):
    """Order pods by priority (default 0), then by the time they entered the queue."""

    def less(self, first: Queued, second: Queued) -> bool:
        """Return whether `first` is scheduled before `second`; False for equals."""
        return self.sort_key(first) < self.sort_key(second)

    def sort_key(self, queued: Queued) -> tuple[int, float]:
        """Return a sort key with the order of `less`."""
        return -queued.priority, queued.queued_at
