"""`GroupRun`: a group that is being planned, or waits for that."""

import msgspec

from scheduler.engine.queue.pod import QueuedPod
from scheduler.engine.queue.queues import Place
from scheduler.framework.groups import GroupPlanner
from scheduler.groups.cycle.context import GroupContext
from scheduler.groups.cycle.counts import GroupAttempt


class GroupRun(msgspec.Struct, eq=False):
    """A group that is being planned or waits for it.

    `place` is its place in the queue: the sort key and the arrival of the member that was popped.
    While `is_strict`, later pods use no node that the group could use. With `is_evicting` the plan
    may evict pods of a lower priority. `waits_for` is a group before it that could use the same
    nodes.
    """

    key: str
    planner: GroupPlanner
    members: tuple[QueuedPod, ...]
    context: GroupContext
    attempt: GroupAttempt
    place: Place
    is_strict: bool = False
    is_evicting: bool = False
    waits_for: "GroupRun | None" = None

    @property
    def name(self) -> str:
        """Return the key of the suspended cycle; it differs from every uid."""
        return f"group {self.key}"
