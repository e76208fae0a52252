"""Assign pods to identical subgroups: at most one per node and subgroup, sizes within one.

Bipartite edge colouring: pods are edges between nodes and roles, subgroups are colours. A colouring
exists if no node has more pods than there are subgroups. Called by
scheduler.groups.solver.roles.subgroups.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from typing import TypeAlias

Pods: TypeAlias = Sequence[tuple[int, Hashable]]
_NO_POD = -1


def dealt(pods: Pods, many: int) -> list[int]:
    """Return the subgroup, 0 to `many` - 1, of each pod, given as (role, place).

    At most `many` pods are at one place. No subgroup gets two pods of one place; the subgroups'
    numbers of pods, in total and by role, differ by at most one.
    """
    coloured = _Coloured(pods, many)
    for number in range(len(pods)):
        coloured.add(number)
    coloured.level()
    return coloured.parts


class _Coloured:
    """Pods with their subgroups. A vertex has up to `many` pods of one role, one per subgroup."""

    def __init__(self, pods: Pods, many: int) -> None:
        self._many = many
        self.parts = [_NO_POD] * len(pods)
        before: Counter[int] = Counter()
        self._ends: list[tuple[Hashable, Hashable]] = []
        for role, place in pods:
            self._ends.append((("place", place), (role, before[role] // many)))
            before[role] += 1
        # Per vertex: subgroup -> pod.
        self._has: dict[Hashable, list[int]] = defaultdict(lambda: [_NO_POD] * many)
        self._sizes = [0] * many

    def add(self, number: int) -> None:
        """Add a pod to the smallest subgroup that its place and role allow; swap along a path if
        none.
        """
        place, role = (self._has[end] for end in self._ends[number])
        free = [part for part in range(self._many) if place[part] == _NO_POD]
        both = [part for part in free if role[part] == _NO_POD]
        if not both:
            other = role.index(_NO_POD)
            self._swap(self._path(self._ends[number][1], free[0], other), free[0], other)
        self._put(number, min(both, key=self._sizes.__getitem__) if both else free[0])

    def level(self) -> None:
        """Move pods from the largest subgroup to the smallest until they differ by at most one."""
        while max(self._sizes) - min(self._sizes) > 1:
            large, small = (self._sizes.index(edge(self._sizes)) for edge in (max, min))
            ends = (
                end for n, part in enumerate(self.parts) if part == large for end in self._ends[n]
            )
            starts = (end for end in ends if self._has[end][small] == _NO_POD)
            paths = (self._path(start, large, small) for start in starts)
            # Some path begins and ends in the larger subgroup, because that has more pods.
            self._swap(next(path for path in paths if len(path) % 2), large, small)

    def _path(self, start: Hashable, one: int, other: int) -> list[int]:
        """Return the alternating path of `one` and `other` from a vertex without `other`."""
        path: list[int] = []
        at, part = start, one
        while (number := self._has[at][part]) != _NO_POD:
            path.append(number)
            first, second = self._ends[number]
            at = second if at == first else first
            part = other if part == one else one
        return path

    def _swap(self, path: Sequence[int], one: int, other: int) -> None:
        before = [self.parts[number] for number in path]
        for number, part in zip(path, before, strict=True):
            self._sizes[part] -= 1
            for end in self._ends[number]:
                self._has[end][part] = _NO_POD
        for number, part in zip(path, before, strict=True):
            self._put(number, other if part == one else one)

    def _put(self, number: int, part: int) -> None:
        self.parts[number] = part
        self._sizes[part] += 1
        for end in self._ends[number]:
            self._has[end][part] = number
