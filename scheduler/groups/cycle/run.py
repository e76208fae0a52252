"""`GroupRun`: a group that is being planned, or waits for that."""

import msgspec

from scheduler.engine.queue.pod import QueuedPod
from scheduler.framework.groups import GroupPlanner
from scheduler.groups.cycle.context import GroupContext
from scheduler.groups.cycle.counts import GroupAttempt


class GroupRun(msgspec.Struct):
    """A group that is being planned."""

    key: str
    planner: GroupPlanner
    members: tuple[QueuedPod, ...]
    context: GroupContext
    attempt: GroupAttempt

    @property
    def name(self) -> str:
        """Return what the suspended cycle goes by; no uid looks like it."""
        return f"group {self.key}"
