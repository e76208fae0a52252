"""`InFlight`: one pod between decision and binding, and how far it has come; `Ended`: how it ended.

`Bindings` alone changes it; the attempt or the group creates it. Binds wait for the rate limit, for
a busy API server, or for the answer to an earlier bind. Meanwhile the node may have been deleted or
have shrunk, or other pods may have been bound to it; so `objection` checks the node again before a
bind is sent.
"""

from collections.abc import Generator

import msgspec

from scheduler.engine.queue.pod import QueuedPod
from scheduler.framework.calls import BindPod, BindStep, CallResult
from scheduler.framework.cycle import Cycle
from scheduler.framework.running.answers import States
from scheduler.framework.running.runner import Runner
from scheduler.framework.status import Status
from scheduler.state.cluster import Cluster

# Reasons of an extender's failure whose outcome is unknown.
UNKNOWN = frozenset(("Timeout", "Disconnected"))


class InFlight(msgspec.Struct, eq=False):
    """A pod between decision and binding."""

    queued: QueuedPod
    cycle: Cycle
    runner: Runner
    states: States
    node: str
    started_s: float = 0.0
    steps: Generator[BindStep, CallResult, Status] | None = None
    step: BindStep | None = None
    effect: int = 0
    binds: int = 0
    doubt_until: float = 0.0
    failure: CallResult = CallResult(0)
    has_place: bool = False  # among the pods that wait in pre-bind
    is_looking: bool = False
    is_lost: bool = False
    is_member: bool = False
    is_binding: bool = False  # pre-bind has ended, and its group may begin with the pod
    is_recalled: bool = False  # it ends because another member of its group failed
    # The resources that its node had over-committed when chosen, and whether more came since.
    short: frozenset[str] = frozenset()
    is_outdated: bool = False
    # Its bind was not sent although its node has capacity: its group must not begin to bind.
    is_unsent: bool = False
    ends_at: float = 0.0
    seen_on: str = ""
    is_nomination_written: bool = False

    @property
    def uid(self) -> str:
        """Return the pod's uid."""
        return self.queued.uid


class Ended(msgspec.Struct, frozen=True):
    """A pod has left `Bindings`: bound when `status` is a success."""

    pod: InFlight
    status: Status


def is_doubtful(step: BindPod, result: CallResult) -> bool:
    """Return whether a bind that failed may have succeeded, or may still succeed."""
    if step.extender is not None:
        return result.reason in UNKNOWN
    return result.code == 0


def short_of(pod: InFlight, cluster: Cluster) -> frozenset[str]:
    """Return the requested resources that the assumed pod's node lacks for its pods."""
    placed = cluster.pods.get(pod.uid)
    row = cluster.table.rows.get(pod.node)
    if placed is None or row is None:
        return frozenset()
    return cluster.table.short(row, placed.requests)


def objection(pod: InFlight, cluster: Cluster) -> str:
    """Return why a pod must not be bound to its node any more, or an empty text.

    Resources that were short already when the node was chosen are exempt: no plugin of the profile
    checks them.
    """
    if pod.node not in cluster.table.rows:
        return f"node {pod.node} has gone since it was chosen"
    short = sorted(short_of(pod, cluster) - pod.short)
    if not short:
        return ""
    return f"node {pod.node} has no free capacity left since it was chosen: {', '.join(short)}"
