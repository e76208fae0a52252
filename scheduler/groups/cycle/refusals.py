"""`MemberRefusals`: members to reject, some in each turn of the engine, so that no turn takes long.

`groups` decides which members are rejected; a member's state changes when its turn comes.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from scheduler.engine.decision import Decision
from scheduler.engine.queue.pod import QueuedPod, Where
from scheduler.engine.queue.queues import Queues
from scheduler.framework.groups import UndecidedStatus
from scheduler.framework.status import Status
from scheduler.groups.cycle.bindings import AT_A_TIME
from scheduler.groups.cycle.steps import GroupSteps


class MemberRefusals:
    """Members by the key of their group, each with its decision, in `pending`, in order.

    `due` is, by group, the time of an unconditional retry, and the uids of its members.
    """

    def __init__(self, queues: Queues, steps: GroupSteps) -> None:
        self._queues = queues
        self._engine = steps
        self.pending: deque[tuple[str, QueuedPod, Decision]] = deque()
        self.due: dict[str, tuple[float, tuple[str, ...]]] = {}

    def has(self, key: str) -> bool:
        """Return whether members of a group are still queued for rejection."""
        return any(key == refused for refused, _, _ in self.pending)

    def put(
        self,
        key: str,
        members: Sequence[QueuedPod],
        status: Status,
        now: float,
        *,
        gives_up: bool = False,
        pod_rules: Iterable[str] = (),
    ) -> None:
        """Reject members; with `gives_up` also clear their nominations.

        Claims that an earlier attempt allocated for tried members are released: they may be the
        cause of the rejection. `pod_rules` are the plugins with rules about other pods that the
        plan had to keep. A pod that is bound elsewhere may change what they allow: their hints
        requeue the members too.
        """
        nominated = "" if gives_up else None
        decision = Decision(
            status=status,
            message=status.message,
            nominated_node=nominated,
            prevented_by=tuple(pod_rules),
        )
        if isinstance(status, UndecidedStatus) and status.retry_at:
            self.due[key] = (status.retry_at, tuple(member.uid for member in members))
        calls = self._engine.release_allocations(members) if status.is_rejected else ()
        # The first member's condition is also reported for the group.
        first = msgspec.structs.replace(decision, calls=calls) if calls else decision
        decisions = (decision if place else first for place in range(len(members)))
        self.extend(key, zip(members, decisions, strict=True), now)

    def extend(self, key: str, decisions: Iterable[tuple[QueuedPod, Decision]], now: float) -> None:
        """Queue members to be rejected, each with its own decision."""
        self.pending.extend((key, *decided) for decided in decisions)
        self.go_on(now)

    def go_on(self, now: float) -> None:
        """Reject up to AT_A_TIME more members, and retry groups whose retry time has passed."""
        for key in [key for key, (at, _) in self.due.items() if at <= now]:
            self._queues.retry(self.due.pop(key)[1], "GroupDeadline", now)
        for _ in range(min(AT_A_TIME, len(self.pending))):
            _, member, decision = self.pending.popleft()
            if self.is_waiting(member):
                self._engine.refuse(member, decision, now)

    def next_deadline(self) -> float | None:
        """Return the earliest time at which a rejected group is retried without an event,
        or None.
        """
        return min((at for at, _ in self.due.values()), default=None)

    def is_waiting(self, member: QueuedPod) -> bool:
        """Return whether a member is still to be placed or rejected."""
        known: Any = self._queues.get(member.uid)
        return known is member and member.where is Where.IN_FLIGHT
