"""`LeftMembers`: members that stand although their group was evicted, and room promised to those
that it cannot take.

The API server may refuse to delete one of a group's pods when the others are gone already, and a
process may die between two of them. What is left does no work and keeps its room. Who they are
follows from the objects (a mark on each, fewer than the group needs), so the leading process
finishes what was begun, however often that is refused.

A group may lose members that no controller replaces, to others that evict them or with their nodes.
Those that wait keep their promised room for a while, for controllers replace members; then it is
for others to have. Called by the engine once a turn; decides nothing else.
"""

from collections.abc import Container, Iterable, Sequence

from scheduler.engine.attempt.failure import left_event
from scheduler.engine.effects import Evict
from scheduler.engine.queue.pod import QueuedPod, Where
from scheduler.engine.queue.queues import Queues
from scheduler.framework.groups import GroupPlanner, title
from scheduler.groups.cycle.steps import GroupSteps
from scheduler.state.podindex import Placed

# While an eviction is under way members go one after the other.
FIRST_S = 10.0
AGAIN_S = 60.0


class LeftMembers:
    """The groups that may have been evicted in part, or hold room in vain; `due` is when each is
    looked at.

    `binding` has the keys of groups whose members are on their way to nodes.
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
        """Take note of groups that changed, or whose members a gate holds."""
        for key in changed:
            if key in self.due:
                continue
            if self._left(key):
                self.due[key] = now + FIRST_S
            elif self._promised(key):
                self.due[key] = now + AGAIN_S

    def next_deadline(self) -> float | None:
        """Return when `finish` will next have something to look at, or None."""
        return min(self.due.values(), default=None)

    def finish(self, now: float, *, may_decide: bool) -> None:
        """Evict who is left of groups that have been so for long enough; tell each before it goes.

        Let others have the room that is promised to members which a gate has held for as long.
        """
        for key in [key for key, due in self.due.items() if due <= now]:
            left, promised = self._left(key), self._promised(key)
            if not left and not promised:
                del self.due[key]
                continue
            self.due[key] = now + AGAIN_S
            if not may_decide:
                continue
            self._engine.give_up(promised, now)
            for placed in left:
                if not self._engine.preemptions.is_evicting(placed.pod.metadata.uid):
                    self._evict(placed, key, now)

    def _promised(self, key: str) -> list[QueuedPod]:
        """Return the members that are promised room while a gate holds all that wait, and none is
        on its way.
        """
        uids = self._engine.nominations.members_of(key)
        waiting = [one for uid in uids if (one := self._queues.get(uid)) is not None]
        is_held = all(one.where is Where.GATED for one in waiting) and key not in self._binding
        return waiting if is_held else []

    def _left(self, key: str) -> list[Placed]:
        return [one for planner in self._planners for one in planner.group_left(key)]

    def _evict(self, placed: Placed, key: str, now: float) -> None:
        meta, outbox = placed.pod.metadata, self._engine.outbox
        outbox.put(left_event(placed.pod, title(key), now))
        message = f"{placed.pod.spec.scheduler_name}: the group {title(key)} was evicted"
        outbox.put(Evict(outbox.new_id(), meta.namespace, meta.name, meta.uid, message))
