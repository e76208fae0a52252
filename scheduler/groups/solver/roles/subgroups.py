"""Assign the pods of a placement to single parts (subgroups), or prove that it is impossible.

The pods of a part in a unit imply a lower and an upper bound of its copies there, and so for the
parts around it; every number in between is possible. Pods and inner parts of a unit are then
distributed in turn: the copies' shares differ by at most one, so each copy has its minimum if the
total suffices. Exact. scheduler.groups.solver.roles.heterogeneous calls it with a placement.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from scheduler.groups.problem import parts
from scheduler.groups.problem.parts import LikeParts, PlacedPart
from scheduler.groups.problem.roles import GroupProblem
from scheduler.groups.solver import tree
from scheduler.groups.solver.roles.colouring import dealt

Unit: TypeAlias = tuple[str, ...]
# The fewest and the most copies of a part in a unit.
Range: TypeAlias = tuple[int, int]
Rows: TypeAlias = Sequence[Sequence[int]]


def split(group: GroupProblem, counts: Rows) -> list[PlacedPart] | None:
    """Return the placed parts, the root first and each after its parent; None if impossible."""
    ranges = _Ranges(group, counts)
    roots = ranges.of(0)
    if roots is None or len(roots) != 1:
        return None
    ((unit, (fewest, _)),) = roots.items()
    if fewest > 1:
        return None
    pieces: list[PlacedPart] = [PlacedPart(0)]
    _Dealer(group, counts, ranges, pieces).deal(0, unit, [0])
    return pieces


class _Ranges:
    """The possible numbers of copies of each part in each unit, computed from the leaves up."""

    def __init__(self, group: GroupProblem, counts: Rows) -> None:
        self._group = group
        self._counts = counts
        self.inside = parts.inside(group.parts)
        self.depths = parts.depths(group.parts)
        self._totals = parts.totals(group.parts)
        self._has_fixed = parts.has_fixed(group.parts)
        depth = len(group.levels)
        self._paths = [tree.filled(path, depth) for path in group.paths]
        self._known: dict[int, dict[Unit, Range] | None] = {}

    def of(self, number: int) -> dict[Unit, Range] | None:
        """Return the range of copies of a part by unit, for units with any; None if impossible."""
        if number not in self._known:
            below = self.inside[number]
            self._known[number] = self._around(number) if below else self._own(number)
        return self._known[number]

    def leaves(self, number: int) -> dict[Unit, list[int]]:
        """Return by unit the leaves with pods of a part, fixed pods included."""
        one, found = self._group.parts[number], defaultdict(list)
        for leaf, path in enumerate(self._paths):
            is_fixed = bool(one.fixed) and one.fixed[leaf] > 0
            if is_fixed or any(self._counts[role][leaf] for role in one.roles):
                found[path[: self.depths[number]]].append(leaf)
        return dict(found)

    def below(self, number: int, unit: Unit) -> dict[int, dict[Unit, Range]]:
        """Return for each inner part its ranges by unit, within a unit of the outer part."""
        return {
            at: {own: each for own, each in (self.of(at) or {}).items() if own[: len(unit)] == unit}
            for at in self.inside[number]
        }

    def fits(self, number: int, many: int, below: dict[int, Range]) -> bool:
        """Return whether `many` copies of a part can contain inner parts in the ranges `below`."""
        every = self._group.parts
        most = [min(top, every[at].count * many) for at, (_, top) in below.items()]
        if any(low > every[at].count * many for at, (low, _) in below.items()):
            return False
        needed = 1 if self._has_fixed[number] else every[number].minimum
        return sum(most) >= needed * many

    def _own(self, number: int) -> dict[Unit, Range] | None:
        one = self._group.parts[number]
        found: dict[Unit, Range] = {}
        for unit, leaves in self.leaves(number).items():
            pods = [sum(self._counts[role][leaf] for leaf in leaves) for role in one.roles]
            new, fixed = sum(pods), sum(one.fixed[leaf] for leaf in leaves) if one.fixed else 0
            each = (-(-n // size) for n, size in zip(pods, one.sizes, strict=True))
            fewest, most = max(each, default=0), min(new // one.minimum, self._totals[number])
            fewest = max(fewest, self._in_one_place(one, leaves))
            if self._has_fixed[number]:
                if not fixed or fewest > 1 or 0 < new < one.minimum - fixed:
                    return None
                fewest = most = 1
            if fewest > most:
                return None
            found[unit] = (fewest, most)
        return None if self._has_fixed[number] and len(found) != 1 else found

    def place(self, one: LikeParts, leaf: int) -> Unit:
        """Return the unit of a leaf on which each copy of the part may have one pod."""
        return self._paths[leaf][: one.apart + 1]

    def _in_one_place(self, one: LikeParts, leaves: Sequence[int]) -> int:
        """Return the most pods on a unit where each copy may have one: the least copies."""
        pods = Counter[Unit]()
        for leaf in leaves if one.apart >= 0 else ():
            fixed = one.fixed[leaf] if one.fixed else 0
            pods[self.place(one, leaf)] += fixed + sum(
                self._counts[role][leaf] for role in one.roles
            )
        return max(pods.values(), default=0)

    def _around(self, number: int) -> dict[Unit, Range] | None:
        units: dict[Unit, dict[int, Range]] = defaultdict(dict)
        for at in self.inside[number]:
            own = self.of(at)
            if own is None:
                return None
            for unit, (low, top) in own.items():
                above = units[unit[: self.depths[number]]]
                before = above.get(at, (0, 0))
                above[at] = (before[0] + low, before[1] + top)
        found = {}
        for unit, below in units.items():
            total = self._totals[number]
            good = [many for many in range(1, total + 1) if self.fits(number, many, below)]
            if not good:
                return None
            found[unit] = (good[0], good[-1])
        return None if self._has_fixed[number] and len(found) != 1 else found


class _Dealer:
    """Assigns pods and inner parts to the copies of each part, from the root down."""

    def __init__(
        self, group: GroupProblem, counts: Rows, ranges: _Ranges, pieces: list[PlacedPart]
    ) -> None:
        self._parts = group.parts
        self._counts = counts
        self._ranges = ranges
        self._pieces = pieces

    def deal(self, number: int, unit: Unit, those: Sequence[int]) -> None:
        """Assign all pods and inner parts in a unit to the copies `those` of a part."""
        if not self._ranges.inside[number]:
            self._pods(number, unit, those)
            return
        below = self._ranges.below(number, unit)
        wanted = self._wanted(number, len(those), below)
        turn = 0
        for at, units in below.items():
            for own, many in _spread(units, wanted[at]):
                first = len(self._pieces)
                for _ in range(many):
                    self._pieces.append(PlacedPart(at, those[turn % len(those)]))
                    turn += 1
                self.deal(at, own, range(first, first + many))

    def _wanted(
        self, number: int, many: int, below: dict[int, dict[Unit, Range]]
    ) -> dict[int, int]:
        """Return how many copies of each inner part `many` copies get: the fewest that suffice."""
        ranges = {
            at: (sum(low for low, _ in units.values()), sum(top for _, top in units.values()))
            for at, units in below.items()
        }
        found = {at: low for at, (low, _) in ranges.items()}
        for at, (_, top) in ranges.items():
            while found[at] < min(top, self._parts[at].count * many) and not self._ranges.fits(
                number, many, {part: (n, n) for part, n in found.items()}
            ):
                found[at] += 1
        return found

    def _pods(self, number: int, unit: Unit, those: Sequence[int]) -> None:
        one = self._parts[number]
        leaves = self._ranges.leaves(number)[unit]
        if one.apart >= 0:
            self._pods_apart(one, leaves, those)
            return
        turn = 0
        pods: dict[int, list[tuple[int, int, int]]] = {piece: [] for piece in those}
        for role in one.roles:
            there = [[leaf, self._counts[role][leaf]] for leaf in leaves]
            number_of = sum(n for _, n in there)
            shares = [0] * len(those)
            for _ in range(number_of):
                shares[turn % len(those)] += 1
                turn += 1
            at = 0
            for piece, share in zip(those, shares, strict=True):
                left = share
                while left:
                    taken = min(left, there[at][1])
                    if taken:
                        pods[piece].append((role, there[at][0], taken))
                    there[at][1] -= taken
                    left -= taken
                    at += not there[at][1]
        for piece, found in pods.items():
            before = self._pieces[piece]
            self._pieces[piece] = PlacedPart(before.part, before.parent, tuple(found))

    def _pods_apart(self, one: LikeParts, leaves: Sequence[int], those: Sequence[int]) -> None:
        pods = [
            (role, leaf)
            for role in one.roles
            for leaf in leaves
            for _ in range(self._counts[role][leaf])
        ]
        places = [(role, self._ranges.place(one, leaf)) for role, leaf in pods]
        found = Counter(zip(dealt(places, len(those)), pods, strict=True))
        for at, piece in enumerate(those):
            own = tuple((*pod, n) for (whose, pod), n in sorted(found.items()) if whose == at)
            self._pieces[piece] = PlacedPart(
                self._pieces[piece].part, self._pieces[piece].parent, own
            )


def _spread(units: dict[Unit, Range], wanted: int) -> Iterator[tuple[Unit, int]]:
    """Yield (unit, copies) for `wanted` copies: minimums first, the rest in the first units."""
    more = wanted - sum(low for low, _ in units.values())
    for unit, (low, top) in sorted(units.items()):
        extra = min(more, top - low)
        more -= extra
        if low + extra:
            yield unit, low + extra
