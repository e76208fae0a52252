"""The changes during a pod's attempt, kept so that no wake-up is lost.

Used by `engine.queue.queues` alone, which runs the hints on them when the attempt has ended.
"""

import itertools
from collections import Counter, deque

from scheduler.state.change import Change


class InFlightChanges:
    """The changes since each in-flight pod's attempt began; kept only while an attempt needs them.

    A group is in flight with a thousand members: each finds its own changes without looking at
    theirs.
    """

    def __init__(self) -> None:
        self._since: dict[str, int] = {}  # in order of arrival
        self._changes: deque[tuple[int, Change]] = deque()
        self._own: dict[str, list[tuple[int, Change]]] = {}
        self._number = 0

    def enter(self, uid: str) -> None:
        """Keep changes for a pod from now on."""
        self._since.setdefault(uid, self._number)

    def note(self, change: Change, uid: str = "") -> None:
        """Keep a change for all pods in flight, or for one pod alone (its own update)."""
        if not self._since:
            return
        self._number += 1
        if not uid:
            self._changes.append((self._number, change))
        elif uid in self._since:
            self._own.setdefault(uid, []).append((self._number, change))

    def count(self) -> dict[str, int]:
        """Return how many changes are kept, by label."""
        own = itertools.chain.from_iterable(self._own.values())
        return Counter(change.label for _, change in (*self._changes, *own))

    def leave(self, uid: str) -> list[Change]:
        """Return the changes that a pod missed in their order, and stop keeping them for it."""
        since = self._since.get(uid)
        if since is None:
            return []
        recent = itertools.takewhile(lambda one: one[0] > since, reversed(self._changes))
        missed = sorted((*recent, *self._own.get(uid, ())), key=lambda one: one[0])
        self.drop(uid)
        return [change for _, change in missed]

    def drop(self, uid: str) -> None:
        """Stop keeping changes for a pod; it needs none of them."""
        if self._since.pop(uid, None) is None:
            return
        self._own.pop(uid, None)
        changes = self._changes
        if changes:
            oldest = next(iter(self._since.values()), self._number)
            while changes and changes[0][0] <= oldest:
                changes.popleft()
