"""`Deadlines`: one deadline per key, on a heap; replaced and dropped deadlines cost nothing
later.
"""

from heapq import heapify, heappop, heappush

# Obsolete entries are removed once there are this many and they are the majority.
_MANY = 64


class Deadlines:
    """One deadline per key, in seconds; the earliest is found without visiting all of them."""

    def __init__(self) -> None:
        self._when: dict[str, float] = {}
        # Every deadline that was set; an entry that is not its key's current deadline is ignored.
        self._heap: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._when)

    def __contains__(self, key: object) -> bool:
        return key in self._when

    def set(self, key: str, when: float) -> None:
        """Set the deadline of `key`, replacing an earlier one."""
        if self._when.get(key) == when:
            return
        self._when[key] = when
        if len(self._heap) >= _MANY + 2 * len(self._when):
            self._heap = [(moment, one) for one, moment in self._when.items()]
            heapify(self._heap)
        else:
            heappush(self._heap, (when, key))

    def set_earlier(self, key: str, when: float) -> None:
        """Set the deadline of `key` unless it has an earlier one."""
        self.set(key, min(when, self._when.get(key, when)))

    def drop(self, key: str) -> None:
        """Remove the deadline of `key`."""
        self._when.pop(key, None)

    def next(self) -> float | None:
        """Return the earliest deadline, or None."""
        heap = self._heap
        while heap:
            when, key = heap[0]
            if self._when.get(key) == when:
                return when
            heappop(heap)
        return None

    def take(self, now: float) -> list[str]:
        """Remove and return the keys whose deadline is at or before `now`, the earliest first."""
        due: list[str] = []
        while (when := self.next()) is not None and when <= now:
            _, key = heappop(self._heap)
            del self._when[key]
            due.append(key)
        return due
