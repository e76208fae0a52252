"""`GroupedActiveQueue`: the active pods in the order of a sort plugin that keeps groups together.

Two levels of heaps: entities by rank, and inside each entity its pods by place. A rank improves
only when a pod is added and worsens only when one is removed, so an entry of the upper heap is
never too late, and is corrected when it reaches the top. Like `ActiveQueue`, it has a heap per
profile, since profiles can be blocked.
"""

import heapq
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from scheduler.engine.queue.pod import QueuedPod
from scheduler.objects.pod import Pod
from scheduler.state.change import Change

Key = tuple[Any, ...]


class Grouping(Protocol):
    """The sort plugin (`plugins.groupsort.GroupSort`): keys, and the active pods of each group."""

    def rank(self, name: str) -> Key | None: ...
    def enter(self, queued: QueuedPod) -> tuple[str, Key, Key]: ...
    def leave(self, queued: QueuedPod) -> None: ...
    def resorted_by(self, change: Change) -> Callable[[Pod], bool] | None: ...


class GroupedActiveQueue:
    """Pods by profile, entity and place; an entry is valid if its number equals the
    pod's `ticket`.
    """

    def __init__(self, grouping: Grouping) -> None:
        self._grouping = grouping
        self._lines: dict[str, _Line] = {}

    def __iter__(self) -> Iterator[QueuedPod]:
        """Yield the pods that are lined up, in no order."""
        for line in self._lines.values():
            yield from line.pods()

    def push(self, _key: Any, queued: QueuedPod) -> None:
        """Line a pod up."""
        line = self._lines.get(queued.profile)
        if line is None:
            line = self._lines[queued.profile] = _Line(self._grouping)
        name, place, rank = self._grouping.enter(queued)
        if not name:
            line.add_alone(rank, queued)
            return
        line.add_inside(name, place, queued)
        for one in self._lines.values():
            one.rank(name, rank, queued.ticket)

    def leave(self, queued: QueuedPod) -> None:
        """Note that a pod is active no more."""
        self._grouping.leave(queued)

    def resorted_by(self, change: Change) -> list[QueuedPod]:
        """Return the pods whose key a change of the cluster moved, in the order they came."""
        is_moved = self._grouping.resorted_by(change)
        if is_moved is None:
            return []
        return sorted((q for q in self if is_moved(q.pod)), key=lambda queued: queued.ticket)

    def pop(self, blocked: frozenset[str]) -> QueuedPod | None:
        """Remove and return the first pod whose profile is not in `blocked`; None without one."""
        first = self._first(blocked)
        return None if first is None else first.pop()

    def first(self, blocked: frozenset[str]) -> QueuedPod | None:
        """Return the pod that `pop` would return; None without one."""
        first = self._first(blocked)
        return None if first is None else first.first()

    def _first(self, blocked: frozenset[str]) -> "_Line | None":
        found: _Line | None = None
        best: Key = ()
        for profile, line in self._lines.items():
            key = line.head() if profile not in blocked else None
            if key is not None and (found is None or key < best):
                found, best = line, key
        return found


class _Line:
    """The entities of one profile."""

    def __init__(self, grouping: Grouping) -> None:
        self._grouping = grouping
        # (rank, ticket, entity, the pod if it is not in a group)
        self._entities: list[tuple[Key, int, str, QueuedPod | None]] = []
        self._ranks: dict[str, Key] = {}
        self._inside: dict[str, list[tuple[Key, int, QueuedPod]]] = {}

    def pods(self) -> Iterator[QueuedPod]:
        """Yield the pods whose entry is current: it has the pod's latest ticket."""
        for _, ticket, _, alone in self._entities:
            if alone is not None and alone.ticket == ticket:
                yield alone
        for line in self._inside.values():
            yield from (queued for _, ticket, queued in line if queued.ticket == ticket)

    def add_alone(self, rank: Key, queued: QueuedPod) -> None:
        """Add a pod that is an entity of its own."""
        heapq.heappush(self._entities, (rank, queued.ticket, "", queued))

    def add_inside(self, name: str, place: Key, queued: QueuedPod) -> None:
        """Add a pod of a group."""
        heapq.heappush(self._inside.setdefault(name, []), (place, queued.ticket, queued))

    def rank(self, name: str, rank: Key, ticket: int) -> None:
        """Move a group forward to its rank, if it has pods here and its entry is too far behind."""
        known = self._ranks.get(name)
        if name in self._inside and (known is None or rank < known):
            self._ranks[name] = rank
            heapq.heappush(self._entities, (rank, ticket, name, None))

    def head(self) -> Key | None:
        """Return the key of the first pod, after both heaps are corrected; None if empty."""
        while self._entities:
            rank, ticket, name, alone = self._entities[0]
            if alone is not None:
                if alone.ticket == ticket:
                    return rank, (), ticket
                heapq.heappop(self._entities)
                continue
            if self._ranks.get(name) != rank:
                heapq.heappop(self._entities)  # it is at another position by now
                continue
            line = self._inside[name]
            while line and line[0][2].ticket != line[0][1]:
                heapq.heappop(line)
            current = self._grouping.rank(name) if line else None
            if current is None:
                heapq.heappop(self._entities)
                del self._inside[name], self._ranks[name]
            elif current != rank:
                self._ranks[name] = current
                heapq.heapreplace(self._entities, (current, ticket, name, None))
            else:
                return rank, line[0][0], line[0][1]
        return None

    def first(self) -> QueuedPod:
        """Return the pod whose key `head` returned last."""
        _, _, name, alone = self._entities[0]
        return self._inside[name][0][2] if alone is None else alone

    def pop(self) -> QueuedPod | None:
        """Pop the pod that `head` returned last."""
        _, _, name, alone = self._entities[0]
        if alone is not None:
            heapq.heappop(self._entities)
            return alone
        return heapq.heappop(self._inside[name])[2]
