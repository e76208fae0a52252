"""`GatePace`: when the members that a gate holds are asked for anew after something about their
group has changed.

Each change of a group, or of any group in its tree, may open the gate for all its members, and who
makes ten thousand members can change their group a hundred times a second. So the more members a
group has, the longer it is until they are asked again: a millisecond for each, some ten times what
asking takes. Used by `groups`, which asks the members of small groups, and those whose siblings
were let in, at once.
"""

from collections.abc import Callable, Iterable

FEW = 64
EACH_S = 0.001


class GatePace:
    """Large groups that were asked a moment ago: until when they rest, and whether they are to be
    asked then.
    """

    def __init__(self, size: Callable[[str], int]) -> None:
        self._size = size
        self.resting: dict[str, tuple[float, bool]] = {}

    def due(self, changed: Iterable[str], now: float) -> list[str]:
        """Return the groups whose members are to be asked now, of those that have `changed` and
        those that rested.
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
        """Return when a group is next to be asked, or None."""
        return min((until for until, is_wanted in self.resting.values() if is_wanted), default=None)
