"""`TurnsActiveQueue`: an active queue that serves owners in turns among pods of one rank.

Pods are ordered by rank, by profile (since profiles can be blocked) and by owner; within an owner,
by the sort plugin's key. A namespace that had its turn moves behind the waiting ones; a new one
starts there. Like `ActiveQueue`, it keeps entries of pods that left until their turn comes.
"""

import heapq
from bisect import insort
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from scheduler.engine.queue.pod import QueuedPod
from scheduler.state.change import Change

# The owners of one rank in the order of their turns; smaller ranks come first.
TakingTurns = Callable[[QueuedPod], tuple[int, str]]
_Line = list[tuple[Any, int, QueuedPod]]
# By profile and by owner; the next one is first in both.
_Rank = OrderedDict[str, OrderedDict[str, _Line]]


class TurnsActiveQueue:
    """Pods by rank, profile and owner; an entry is valid if its number equals the pod's
    `ticket`.
    """

    def __init__(self, taking_turns: TakingTurns) -> None:
        self._taking_turns = taking_turns
        self._ranks: dict[int, _Rank] = {}
        self._in_order: list[int] = []

    def __iter__(self) -> Iterator[QueuedPod]:
        """Yield the pods that are lined up, in no order."""
        for profiles in self._ranks.values():
            for owners in profiles.values():
                for line in owners.values():
                    yield from (queued for _, ticket, queued in line if queued.ticket == ticket)

    def push(self, key: Any, queued: QueuedPod) -> None:
        """Add a pod; among the pods of one owner smaller keys come first."""
        rank, owner = self._taking_turns(queued)
        if rank not in self._ranks:
            self._ranks[rank] = OrderedDict()
            insort(self._in_order, rank)
        owners = self._ranks[rank].setdefault(queued.profile, OrderedDict())
        heapq.heappush(owners.setdefault(owner, []), (key, queued.ticket, queued))

    def leave(self, queued: QueuedPod) -> None:
        """Mark a pod as no longer active; its entry becomes invalid by its ticket."""

    def resorted_by(self, _change: Change) -> list[QueuedPod]:
        """Return the pods whose key a change of the cluster moved: a key here is the pod's own."""
        return []

    def pop(self, blocked: frozenset[str]) -> QueuedPod | None:
        """Remove and return the next pod whose profile is not in `blocked`; None without one."""
        found = self._next(blocked)
        if found is None:
            return None
        rank, profile, owner = found
        profiles = self._ranks[rank]
        owners = profiles[profile]
        queued = heapq.heappop(owners[owner])[2]
        profiles.move_to_end(profile)
        owners.move_to_end(owner)
        return queued

    def first(self, blocked: frozenset[str]) -> QueuedPod | None:
        """Return the pod that `pop` would return; None without one."""
        found = self._next(blocked)
        if found is None:
            return None
        rank, profile, owner = found
        return self._ranks[rank][profile][owner][0][2]

    def _next(self, blocked: frozenset[str]) -> tuple[int, str, str] | None:
        """Return the rank, profile and owner of the next turn; remove owners without pods."""
        for rank in tuple(self._in_order):
            profiles = self._ranks[rank]
            for profile in tuple(profiles):
                if profile in blocked:
                    continue
                owners = profiles[profile]
                while owners:
                    owner, line = next(iter(owners.items()))
                    while line and line[0][2].ticket != line[0][1]:
                        heapq.heappop(line)
                    if line:
                        return rank, profile, owner
                    del owners[owner]
                del profiles[profile]
            if not profiles:
                del self._ranks[rank]
                self._in_order.remove(rank)
        return None
