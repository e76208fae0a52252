"""`LeftMembers`: members that stand although their group was evicted.

The API server may refuse to delete one of a group's pods when the others are gone already, and a process may
die between two of them. What is left does no work and keeps its room. Who they are follows from the objects
(a mark on each, fewer than the group needs), so whoever leads finishes what was begun, however often that is
refused. Called by the engine once a turn; decides nothing else.
"""

from collections.abc import Iterable, Sequence

from scheduler.engine.attempt.failure import left_event
from scheduler.engine.effects import Evict
from scheduler.engine.group.steps import GroupSteps
from scheduler.framework.groups import GroupPlanner, title
from scheduler.state.podindex import Placed

# While an eviction is under way members go one after the other.
FIRST_S = 10.0
AGAIN_S = 60.0


class LeftMembers:
    """The groups that may have been evicted in part; `due` is when each is looked at."""

    def __init__(self, planners: Sequence[GroupPlanner], steps: GroupSteps) -> None:
        self._planners = planners
        self._engine = steps
        self.due: dict[str, float] = {}

    def note(self, changed: Iterable[str], now: float) -> None:
        """Take note of groups that changed."""
        for key in changed:
            if key not in self.due and self._left(key):
                self.due[key] = now + FIRST_S

    def next_deadline(self) -> float | None:
        """Return when `finish` will next have something to look at, or None."""
        return min(self.due.values(), default=None)

    def finish(self, now: float, *, may_decide: bool) -> None:
        """Evict who is left of groups that have been so for long enough; tell each before it goes."""
        for key in [key for key, due in self.due.items() if due <= now]:
            left = self._left(key)
            if not left:
                del self.due[key]
                continue
            self.due[key] = now + AGAIN_S
            for placed in left if may_decide else ():
                if not self._engine.preemptions.is_evicting(placed.pod.metadata.uid):
                    self._evict(placed, key, now)

    def _left(self, key: str) -> list[Placed]:
        return [one for planner in self._planners for one in planner.group_left(key)]

    def _evict(self, placed: Placed, key: str, now: float) -> None:
        meta, outbox = placed.pod.metadata, self._engine.outbox
        outbox.put(left_event(placed.pod, title(key), now))
        message = f"{placed.pod.spec.scheduler_name}: the group {title(key)} was evicted"
        outbox.put(Evict(outbox.new_id(), meta.namespace, meta.name, meta.uid, message))
