"""`LeftMembers`: members left bound after their group was evicted, and nominations that the group
cannot use.

The API server may refuse to delete one of a group's pods when the others are deleted already, and a
process may end between two deletions. The remaining members do no work and occupy capacity. The
objects show them (each is marked as evicted, and they are fewer than the minimum), so the leader
finishes the eviction, however often the server refuses it.

A group may lose members that no controller replaces, by preemption or with their nodes. The
nominations of its waiting members are kept for a while, since controllers replace members; then
they are cleared. Called by the engine once a turn; decides nothing else.
"""

from collections.abc import Container, Iterable, Sequence

from scheduler.engine.attempt.failure import left_event
from scheduler.engine.binding.preemption import eviction
from scheduler.engine.queue.pod import QueuedPod, Where
from scheduler.engine.queue.queues import Queues
from scheduler.framework.groups import GroupPlanner, title
from scheduler.groups.cycle.steps import GroupSteps
from scheduler.state.podindex import Placed

# Members are deleted one after the other while an eviction is in progress.
FIRST_S = 10.0
AGAIN_S = 60.0


class LeftMembers:
    """The groups that may be partially evicted, or have unusable nominations; `due` is the time of
    each group's next check.

    `binding` has the keys of groups whose members are being bound.
    """

    def __init__(
        self,
        planners: Sequence[GroupPlanner],
        queues: Queues,
        binding: Container[str],
        steps: GroupSteps,
    ) -> None:
        self._planners = planners
        self._queues = queues
        self._binding = binding
        self._engine = steps
        self.due: dict[str, float] = {}

    def note(self, changed: Iterable[str], now: float) -> None:
        """Record groups that changed, or whose members are gated."""
        for key in changed:
            if key in self.due:
                continue
            if self._left(key):
                self.due[key] = now + FIRST_S
            elif self._nominated_members(key):
                self.due[key] = now + AGAIN_S

    def next_deadline(self) -> float | None:
        """Return the next time at which `finish` has work, or None."""
        return min(self.due.values(), default=None)

    def finish(self, now: float, *, may_decide: bool) -> None:
        """Evict the remaining members of groups that have had them for long enough; emit each one's
        event first.

        Also clear the nominations of members that have been gated for as long.
        """
        for key in [key for key, due in self.due.items() if due <= now]:
            left, nominated = self._left(key), self._nominated_members(key)
            if not left and not nominated:
                del self.due[key]
                continue
            self.due[key] = now + AGAIN_S
            if not may_decide:
                continue
            self._engine.give_up(nominated, now)
            for placed in left:
                if not self._engine.preemptions.is_evicting(placed.pod.metadata.uid):
                    self._evict(placed, key, now)

    def _nominated_members(self, key: str) -> list[QueuedPod]:
        """Return the nominated members if all that wait are gated and none is being bound."""
        uids = self._engine.nominations.members_of(key)
        waiting = [one for uid in uids if (one := self._queues.get(uid)) is not None]
        is_gated = all(one.where is Where.GATED for one in waiting) and key not in self._binding
        return waiting if is_gated else []

    def _left(self, key: str) -> list[Placed]:
        return [one for planner in self._planners for one in planner.group_left(key)]

    def _evict(self, placed: Placed, key: str, now: float) -> None:
        outbox = self._engine.outbox
        outbox.put(left_event(placed.pod, title(key), now))
        message = f"{placed.pod.spec.scheduler_name}: the group {title(key)} was evicted"
        outbox.put(eviction(outbox.new_id(), placed.pod, message))
