"""`GatePace`: when gated members are checked again after a change of their group.

Each change of a group, or of any group in its tree, may ungate all its members, and a user who
creates ten thousand members can change their group a hundred times a second. So the delay grows
with the number of members: a millisecond for each, some ten times the cost of a check. Used by
`groups`, which checks members of small groups, and siblings of ungated ones, at once.
"""

from collections.abc import Callable, Iterable

FEW = 64
EACH_S = 0.001


class GatePace:
    """The large groups that were checked recently: the end of each delay, and whether a check is
    due then.
    """

    def __init__(self, size: Callable[[str], int]) -> None:
        self._size = size
        self.resting: dict[str, tuple[float, bool]] = {}

    def due(self, changed: Iterable[str], now: float) -> list[str]:
        """Return the groups to check now: small ones that have `changed`, and large ones whose
        delay is over.
        """
        over = [key for key, (until, _) in self.resting.items() if until <= now]
        wanted = [key for key in over if self.resting.pop(key)[1]]
        found = []
        for key in dict.fromkeys((*wanted, *changed)):
            size = self._size(key)
            if key in self.resting:
                self.resting[key] = self.resting[key][0], True
                continue
            if size > FEW:
                self.resting[key] = now + size * EACH_S, False
            found.append(key)
        return found

    def next_deadline(self) -> float | None:
        """Return the time of the next check, or None."""
        return min((until for until, is_wanted in self.resting.values() if is_wanted), default=None)
