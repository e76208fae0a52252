"""`QueuedPod`: a pod that is to be placed, its place, and its history; owned by
`engine.queue.queues`.
"""

from enum import StrEnum

import msgspec

from scheduler.objects.pod import Pod


class Where(StrEnum):
    """The place of a pod; the values are kube-scheduler's names of its queues."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    ERROR_BACKOFF = "error backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in flight"
    GONE = "gone"


class QueuedPod:
    """A pod that is to be placed, with its history; `Queues` is the only writer of `where`."""

    __slots__ = (
        "attempts",
        "errors",
        "failed_at",
        "first_active_at",
        "gated_by",
        "is_member",
        "is_pending",
        "lacked_capacity",
        "last_attempt",
        "nominated",
        "pod",
        "profile",
        "queued_at",
        "rejected_by",
        "rejections",
        "reported",
        "reported_at",
        "reported_since",
        "sequence",
        "skipped_backoff",
        "ticket",
        "uid",
        "was_flushed",
        "where",
        "woken_by",
    )

    def __init__(self, pod: Pod, sequence: int, now: float, *, is_member: bool = False) -> None:
        self.pod = pod
        self.uid = pod.metadata.uid
        self.is_member = is_member  # of a group that it is decided with
        self.profile = pod.spec.scheduler_name
        self.sequence = sequence
        self.queued_at = now
        self.first_active_at: float | None = None
        self.last_attempt = now
        self.failed_at = now  # the end of the last attempt: its binding may have taken minutes
        self.attempts = 0
        self.rejections = 0
        self.errors = 0
        self.rejected_by: tuple[str, ...] = ()
        self.is_pending = False
        # Whether the group lacked capacity, by amounts alone, when it was last rejected.
        self.lacked_capacity = False
        # Whether the last attempt began without the back-off of the one before it.
        self.skipped_backoff = False
        self.gated_by = ""
        # The status that this process wrote and the watch may not show yet.
        self.reported: tuple[str, str] | None = None
        self.reported_at = 0.0
        self.reported_since: str | None = None
        self.nominated: str | None = None
        self.where = Where.GONE
        self.ticket = 0
        self.was_flushed = False
        # The event that ended its wait, until the attempt that follows is over.
        self.woken_by = ""

    @property
    def priority(self) -> int:
        """Return the pod's priority."""
        return self.pod.spec.priority or 0

    def renew(self, pod: Pod) -> None:
        """Take in a newer version of the pod."""
        if pod.status.nominated_node_name != self.pod.status.nominated_node_name:
            self.nominated = None
        self.pod = pod

    def as_we_know_it(self) -> Pod:
        """Return the pod with the nomination that this process wrote and the watch has not shown
        yet.

        Without it, a preemptor that is retried early would not see its own preemption.
        """
        pod = self.pod
        if self.nominated is None or self.nominated == pod.status.nominated_node_name:
            return pod
        status = msgspec.structs.replace(pod.status, nominated_node_name=self.nominated)
        return msgspec.structs.replace(pod, status=status)


class QueuedPods(dict[str, QueuedPod]):
    """The pods to be placed, by uid; `Queues` alone writes to it.

    `removals` counts pods that left or began to: a derived list is stale when it has changed.
    """

    removals = 0
