"""The active pods in the queue's order, one line per profile, so that `pop` can skip a profile.

Used by `engine.queue.queues` alone. An entry whose pod has left stays in its line; `pop` skips it
when it reaches the front.
"""

import heapq
from collections.abc import Iterator
from typing import Any

from scheduler.engine.queue.pod import QueuedPod
from scheduler.state.change import Change

# Key, the time of arrival (of pods woken together the older goes first), ticket, pod.
_Entry = tuple[Any, int, int, QueuedPod]


class ActiveQueue:
    """Pods by profile; an entry is valid if its number equals the pod's `ticket`."""

    def __init__(self) -> None:
        self._lines: dict[str, list[_Entry]] = {}

    def __iter__(self) -> Iterator[QueuedPod]:
        """Yield the pods that are lined up, in no order."""
        for line in self._lines.values():
            yield from (queued for *_, ticket, queued in line if queued.ticket == ticket)

    def push(self, key: Any, queued: QueuedPod) -> None:
        """Add a pod to the line of its profile; smaller keys come first."""
        line = self._lines.get(queued.profile)
        if line is None:
            line = self._lines[queued.profile] = []
        heapq.heappush(line, (key, queued.sequence, queued.ticket, queued))

    def leave(self, queued: QueuedPod) -> None:
        """Mark a pod as no longer active; its entry becomes invalid by its ticket."""

    def resorted_by(self, _change: Change) -> list[QueuedPod]:
        """Return the pods whose key a change of the cluster moved: a key here is the pod's own."""
        return []

    def pop(self, blocked: frozenset[str]) -> QueuedPod | None:
        """Remove and return the first pod whose profile is not in `blocked`; None without one."""
        first = self._first(blocked)
        return None if first is None else heapq.heappop(first)[-1]

    def first(self, blocked: frozenset[str]) -> QueuedPod | None:
        """Return the pod that `pop` would return; None without one."""
        first = self._first(blocked)
        return None if first is None else first[0][-1]

    def _first(self, blocked: frozenset[str]) -> list[_Entry] | None:
        """Return the heap whose first entry is the next pod."""
        found: list[_Entry] | None = None
        for profile, line in self._lines.items():
            if profile in blocked:
                continue
            while line and line[0][-1].ticket != line[0][-2]:
                heapq.heappop(line)
            if line and (found is None or line[0] < found[0]):
                found = line
        return found
