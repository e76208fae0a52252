"""The scheduling queues: which pod is next, how long pods wait, and for which changes.

    gated ──gates open──▶ active ──pop──▶ in flight ──rejected──▶ unschedulable
                            ▲  ▲                    └──error──▶ error backoff ─┐
                            │  └───────────── time is up ──────────────────────┤
                            └── backoff ◀── an event that may help ── unschedulable

Rules are kube-scheduler's: order by the sort plugin, back-off by attempts, wake-up by the facts
that rejecting plugins read, popping from backoff when nothing is active, a flush after five
minutes. A pod is in exactly one queue. `now` is always an argument.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from itertools import count, islice
from typing import Any, TypeAlias

from scheduler.engine.queue.active import ActiveQueue
from scheduler.engine.queue.backoff import PodBackoff
from scheduler.engine.queue.groupactive import GroupedActiveQueue
from scheduler.engine.queue.hints import UnschedulablePods
from scheduler.engine.queue.missed import InFlightChanges
from scheduler.engine.queue.pod import QueuedPod, QueuedPods, Where
from scheduler.engine.queue.turnsactive import TurnsActiveQueue
from scheduler.framework.status import Status
from scheduler.objects.pod import Pod
from scheduler.state.change import Change

FLUSH_EVERY_S = 30.0
# At most this many at a time, the next ones a little later: a hundred thousand infeasible pods
# would otherwise be tried all at once, and delay the pods that arrived a moment later.
MOST_FLUSHED = 256
FLUSH_MORE_AFTER_S = 1.0
LONGEST_UNSCHEDULABLE_S = 300.0


SortKey = Callable[[QueuedPod], Any]
# The sort key of the queue; of equal keys the pod that arrived first goes first.
Place: TypeAlias = tuple[Any, int]
Gate = Callable[[QueuedPod], Status | None]
# Takes a pod, the queue that it enters, and the event that moved it.
Incoming = Callable[[QueuedPod, str, str], None]
Active: TypeAlias = ActiveQueue | GroupedActiveQueue | TurnsActiveQueue


def _alone(_pod: Pod) -> bool:
    return False


def _as_before(_change: Change) -> None:
    return None


class Queues:
    """All pods that are to be placed and have no node yet, by uid."""

    def __init__(
        self,
        *,
        sort_key: SortKey,
        gate: Gate,
        unschedulable_pods: UnschedulablePods,
        backoff: PodBackoff,
        incoming: Incoming,
        active: Active | None = None,
        pods: QueuedPods | None = None,
        is_member: Callable[[Pod], bool] = _alone,
        lacks_capacity: Callable[[Pod], bool | None] = _alone,
        regrouped_by: Callable[[Change], Callable[[Pod], bool] | None] = _as_before,
    ) -> None:
        self._sort_key = sort_key
        self._gate = gate
        self._is_member = is_member
        self._lacks_capacity = lacks_capacity
        self._regrouped_by = regrouped_by
        self._unschedulable_pods = unschedulable_pods
        self._may_help = unschedulable_pods.may_help
        self._backoff = backoff
        self._incoming = incoming
        self._pods = QueuedPods() if pods is None else pods
        self._active: Active = ActiveQueue() if active is None else active
        self._waiting: dict[Where, list[tuple[float, Any, int, QueuedPod]]] = {
            Where.BACKOFF: [],
            Where.ERROR_BACKOFF: [],
        }
        self._tickets = count(1)
        self._sequences = count()
        self._counts = dict.fromkeys(Where, 0)
        self._in_flight = InFlightChanges()
        self._next_flush: float | None = None

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(self._pods.values())

    def get(self, uid: str) -> QueuedPod | None:
        """Return a queued (or in-flight) pod, or None."""
        return self._pods.get(uid)

    def count(self, where: Where) -> int:
        """Return how many pods are in a place."""
        return self._counts[where]

    # Add and remove pods

    def add(self, pod: Pod, now: float, *, since: float | None = None) -> QueuedPod:
        """Take in a new pod, which is in the queue `since` a time or from now on; it becomes active
        unless a gate holds it.
        """
        queued = QueuedPod(pod, next(self._sequences), now, is_member=self._is_member(pod))
        self._pods[pod.metadata.uid] = queued
        self._enter(queued, "UnschedulablePodAdd", now, since=since)
        return queued

    def update(self, change: Change, now: float) -> None:
        """Take in a newer version of a queued pod; wake it if its own change may help."""
        queued = self._pods[change.pod.metadata.uid]
        old, meta = self._sort_key(queued), queued.pod.metadata
        self._pods.removals += change.pod.is_terminating and not queued.pod.is_terminating
        queued.renew(change.pod)
        queued.is_member = self._is_member(change.pod)
        # A pod with an unchanged key keeps its place among equals; a key that is no tuple refers to
        # the renewed pod and cannot show the old order.
        stays = isinstance(old, tuple) and self._sort_key(queued) == old
        is_same = meta.labels == queued.pod.metadata.labels
        is_same = is_same and meta.annotations == queued.pod.metadata.annotations
        if queued.where is Where.ACTIVE and not stays and not is_same:
            self._line_up(queued)
        if queued.where is Where.IN_FLIGHT:
            self._in_flight.note(change, queued.uid)
        elif queued.where is Where.GATED:
            self._enter(queued, change.label, now)
        elif queued.where is Where.UNSCHEDULABLE and self._may_help(queued, change):
            self._requeue(queued, change.label, now)

    def remove(self, uid: str) -> QueuedPod | None:
        """Remove a pod (deleted, or bound by another client); return it, or None."""
        queued = self._pods.pop(uid, None)
        if queued is not None:
            self._pods.removals += 1
            self._in_flight.drop(uid)
            self._move(queued, Where.GONE)
        return queued

    def pop(self, now: float, blocked: frozenset[str] = frozenset()) -> QueuedPod | None:
        """Return the next pod to try; it is in flight from now on.

        Pods whose profile is in `blocked` stay. When no pod is active, the one whose back-off ends
        first is taken early: an idle scheduler need not wait.
        """
        queued = self._active.pop(blocked) or self._pop_backoff(blocked, now)
        if queued is None:
            return None
        self._move(queued, Where.IN_FLIGHT)
        queued.attempts += 1
        queued.last_attempt = now
        return queued

    def take(self, uid: str, now: float) -> QueuedPod | None:
        """Remove a pod from any queue except the gated one, together with the rest of its group; it
        is in flight then.
        """
        queued = self._pods.get(uid)
        if queued is None or queued.where in (Where.GATED, Where.IN_FLIGHT):
            return None
        self._move(queued, Where.IN_FLIGHT)
        queued.attempts += 1
        queued.last_attempt = now
        return queued

    def has_next(self, blocked: frozenset[str] = frozenset()) -> bool:
        """Return whether `pop` would return a pod."""
        if self._counts[Where.ACTIVE]:
            return not blocked or self._active.first(blocked) is not None
        if not blocked or not self._counts[Where.BACKOFF]:
            return bool(self._counts[Where.BACKOFF])
        first = self._first_in_backoff()
        return first is not None and first.profile not in blocked

    def is_ahead(self, place: Place, blocked: frozenset[str]) -> bool:
        """Return whether an active pod whose profile is not in `blocked` precedes a place."""
        first = self._active.first(blocked)
        return first is not None and self.place(first) < place

    def track(self, queued: QueuedPod) -> None:
        """Record changes from now on for a pod whose attempt continues after this turn."""
        self._in_flight.enter(queued.uid)

    # After an attempt

    def rejected(
        self, queued: QueuedPod, plugins: Iterable[str], now: float, *, is_pending: bool = False
    ) -> None:
        """Add a pod that plugins rejected to the unschedulable pods until a change may help it."""
        missed = self._in_flight.leave(queued.uid)
        queued.rejected_by = tuple(dict.fromkeys(plugins))
        queued.is_pending = is_pending
        queued.rejections += 1
        queued.errors = 0
        queued.failed_at = now
        lacks = self._lacks_capacity(queued.pod) if queued.is_member else None
        queued.lacked_capacity = lacks is True
        helpful = next((c for c in missed if self._may_help(queued, c)), None)
        if helpful is not None:
            # A pending pod that releases its nomination has not ended.
            is_own = helpful.kind == "Pod" and helpful.pod.metadata.uid in self._pods
            came_during = lacks is False and not is_own
            self._requeue(queued, helpful.label, now, came_during=came_during)
            return
        self._move(queued, Where.UNSCHEDULABLE)
        queued.queued_at = now
        self._park(queued, now)
        self._incoming(queued, Where.UNSCHEDULABLE, "ScheduleAttemptFailure")

    def failed(self, queued: QueuedPod, now: float) -> None:
        """Put a pod whose attempt ended in an error into back-off."""
        self._in_flight.drop(queued.uid)
        queued.rejected_by = ()
        queued.is_pending = False
        queued.errors += 1
        queued.failed_at = now
        self._wait(queued, Where.ERROR_BACKOFF, "ScheduleAttemptFailure")

    def forget_reported(self) -> None:
        """Clear the record of reported statuses that the pods do not carry, so that they are
        reported again.
        """
        for queued in self._pods.values():
            queued.reported = queued.reported_since = queued.nominated = None

    def place(self, queued: QueuedPod) -> Place:
        """Return the place of a pod in the queue order, whichever queue it is in; smaller ones come
        first.
        """
        return self._sort_key(queued), queued.sequence

    def resume(self, queued: QueuedPod, now: float) -> None:
        """Make a popped pod active again that was put off for other pods, at its former place."""
        if self._pods.get(queued.uid) is queued and queued.where is Where.IN_FLIGHT:
            self._in_flight.drop(queued.uid)
            queued.attempts -= 1
            self._enter(queued, "GroupDecided", now, since=queued.queued_at)

    def put_back(self, queued: QueuedPod, now: float) -> None:
        """Make a pod active again whose attempt was broken off without a result, at the place that
        it had.
        """
        self._in_flight.drop(queued.uid)
        self._enter(queued, "ForceActivate", now, since=queued.queued_at)

    # Wake-ups

    def wake(self, change: Change, now: float, *, but: str = "") -> None:
        """Requeue the pods that a change of the cluster may help, except the one with uid `but`."""
        if not change.facts:
            return
        self._regroup(change, now)
        for queued in self._active.resorted_by(change):
            self._line_up(queued)
        self._in_flight.note(change)
        for queued in self._unschedulable_pods.helped_by(change):
            if queued.uid != but:
                self._requeue(queued, change.label, now)

    def _regroup(self, change: Change, now: float) -> None:
        """Run the gates again for pods whose group membership changed."""
        is_moved = self._regrouped_by(change)
        if is_moved is None:
            return
        for queued in [one for one in self._pods.values() if is_moved(one.pod)]:
            before, queued.is_member = queued.is_member, self._is_member(queued.pod)
            if before != queued.is_member and queued.where is not Where.IN_FLIGHT:
                self._enter(queued, change.label, now)

    def activate(self, uids: Iterable[str], now: float) -> None:
        """Activate waiting pods at once, regardless of their back-off."""
        for uid in uids:
            queued = self._pods.get(uid)
            if queued is not None and queued.where in (
                Where.UNSCHEDULABLE,
                Where.BACKOFF,
                Where.ERROR_BACKOFF,
                Where.GATED,
            ):
                self._enter(queued, "ForceActivate", now)

    def retry(self, uids: Iterable[str], event: str, now: float) -> None:
        """Requeue rejected pods after their back-off, without waiting for an event."""
        for uid in uids:
            queued = self._pods.get(uid)
            if queued is not None and queued.where is Where.UNSCHEDULABLE:
                self._requeue(queued, event, now)

    def hold_off(self, uid: str, event: str) -> None:
        """Let a waiting pod wait out its back-off, also if no other pod is to be tried
        meanwhile.
        """
        queued = self._pods.get(uid)
        if queued is not None and queued.where in (
            Where.UNSCHEDULABLE,
            Where.BACKOFF,
            Where.GATED,
        ):
            queued.errors = max(queued.errors + 1, queued.rejections)
            self._wait(queued, Where.ERROR_BACKOFF, event)

    def flush(self, now: float) -> None:
        """Activate pods whose back-off is over and, from time to time, those that waited too
        long.
        """
        for where, heap in self._waiting.items():
            while heap and heap[0][0] <= now:
                _, _, ticket, queued = heapq.heappop(heap)
                if queued.where is where and queued.ticket == ticket:
                    self._end_backoff(queued, "BackoffComplete", now)
        if self._next_flush is not None and self._next_flush <= now:
            late = (
                queued
                for queued in self._unschedulable_pods.parked()
                if now - queued.queued_at > LONGEST_UNSCHEDULABLE_S
            )
            some = list(islice(late, MOST_FLUSHED))
            for queued in some:
                queued.was_flushed = True
                self._requeue(queued, "UnschedulableTimeout", now)
            wait_s = FLUSH_EVERY_S if len(some) < MOST_FLUSHED else FLUSH_MORE_AFTER_S
            self._next_flush = now + wait_s if len(self._unschedulable_pods) else None

    def in_flight_changes(self) -> dict[str, int]:
        """Return how many changes are kept for pods in flight, by label."""
        return self._in_flight.count()

    def next_deadline(self) -> float | None:
        """Return the next time at which `flush` has work, or None."""
        times = [self._next_flush] if self._next_flush is not None else []
        for where, heap in self._waiting.items():
            while heap and (heap[0][3].where is not where or heap[0][3].ticket != heap[0][2]):
                heapq.heappop(heap)
            if heap:
                times.append(heap[0][0])
        return min(times, default=None)

    # Moves

    def _enter(
        self, queued: QueuedPod, event: str, now: float, *, since: float | None = None
    ) -> None:
        """Make a pod active unless a gate holds it; its time in the queue begins now or at
        `since`.
        """
        status = self._gate(queued)
        if since is None and queued.is_member and queued.where is Where.GATED:
            since = queued.queued_at  # the objects of a group may be listed after its pods
        queued.queued_at = now if since is None else since
        if status is not None:
            if queued.where is not Where.GATED:
                # kube-scheduler: gated pods count as unschedulable ones when they arrive.
                self._incoming(queued, Where.UNSCHEDULABLE, event)
            self._move(queued, Where.GATED)
            queued.gated_by = status.plugin
            self._park(queued, now)
            return
        if queued.first_active_at is None:
            queued.first_active_at = now
        self._line_up(queued)
        self._incoming(queued, Where.ACTIVE, event)

    def _line_up(self, queued: QueuedPod) -> None:
        """Make a pod active, or move an active one to the place of its present key."""
        self._move(queued, Where.ACTIVE)
        self._active.push(self._sort_key(queued), queued)

    def _end_backoff(self, queued: QueuedPod, event: str, now: float) -> None:
        """Make a pod active; a member of a group that would be rejected again keeps waiting.

        The back-off of such a member is over, so the next event that may help makes it active at
        once.
        """
        is_rejected = queued.is_member and queued.where is Where.BACKOFF
        if is_rejected and self._lacks_capacity(queued.pod):
            self._move(queued, Where.UNSCHEDULABLE)
            self._park(queued, now)
        else:
            self._enter(queued, event, now)

    def _requeue(
        self, queued: QueuedPod, event: str, now: float, *, came_during: bool = False
    ) -> None:
        """Make a pod active, or start its back-off.

        A group that lacked capacity becomes active without a back-off when the capacity is there.
        During a back-off, pods of lower order would take that capacity one by one. The same holds,
        once, for a group whose attempt did not see the event (`came_during`).
        """
        queued.woken_by = event
        is_ready = queued.is_pending or self.backoff_ends(queued) <= now
        may_skip = came_during and not queued.skipped_backoff
        if queued.lacked_capacity and self._lacks_capacity(queued.pod) is False:
            may_skip = True
        queued.skipped_backoff = may_skip and not is_ready
        if may_skip:
            self._enter(queued, event, now, since=queued.queued_at)  # at the place that it had
        elif is_ready:
            self._enter(queued, event, now)
        else:
            queued.queued_at = now
            self._wait(queued, Where.BACKOFF, event)

    def _wait(self, queued: QueuedPod, where: Where, event: str) -> None:
        self._move(queued, where)
        entry = (self.backoff_ends(queued), self._sort_key(queued), queued.ticket, queued)
        heapq.heappush(self._waiting[where], entry)
        self._incoming(queued, Where.BACKOFF, event)

    def backoff_ends(self, queued: QueuedPod) -> float:
        """Return when a pod may be tried again, counted from the end of its last attempt."""
        return self._backoff.ends(queued.failed_at, queued.errors or queued.rejections)

    def _park(self, queued: QueuedPod, now: float) -> None:
        self._unschedulable_pods.park(queued)
        if self._next_flush is None:
            self._next_flush = now + FLUSH_EVERY_S

    def _move(self, queued: QueuedPod, where: Where) -> None:
        if queued.where in (Where.UNSCHEDULABLE, Where.GATED):
            self._unschedulable_pods.unpark(queued)
            queued.gated_by = ""
        elif queued.where is Where.ACTIVE:
            self._active.leave(queued)
        self._counts[queued.where] -= 1
        self._counts[where] += 1
        queued.where = where
        queued.ticket = next(self._tickets)

    def _pop_backoff(self, blocked: frozenset[str], now: float) -> QueuedPod | None:
        if self._counts[Where.ACTIVE]:
            return None
        while (queued := self._first_in_backoff()) is not None and queued.profile not in blocked:
            heapq.heappop(self._waiting[Where.BACKOFF])
            self._end_backoff(queued, "PopFromBackoffQ", now)
            if queued.where is Where.ACTIVE:
                return self._active.pop(blocked)
        return None

    def _first_in_backoff(self) -> QueuedPod | None:
        """Return the pod whose back-off ends first; entries that hold no more are cleared away."""
        heap = self._waiting[Where.BACKOFF]
        while heap:
            _, _, ticket, queued = heap[0]
            if queued.where is Where.BACKOFF and queued.ticket == ticket:
                return queued
            heapq.heappop(heap)
        return None
