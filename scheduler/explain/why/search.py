"""Find conflicting requirements and minimal corrections: a search over trials (fits or not).

Requirements are numbers; `fits(removed)` returns whether the pod fits without these, None if that
is undecided. It need not be monotone (a pod without its node selector matches more domains for its
spread), so nothing is inferred: every result was tried. Pure; called by
`scheduler.explain.why.pending`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations

import msgspec

RequirementSet = frozenset[int]
MOST_GIVEN_UP = 3  # a remedy with more changes is useless
MOST_CORRECTIONS = 8


class FoundChanges(msgspec.Struct, frozen=True):
    """`conflict`: requirements that exclude one another, though any proper subset fits, and none is
    smaller.

    `corrections` are the sets of requirements without which the pod fits, all of minimal size (up
    to `MOST_CORRECTIONS`), in order. `is_smallest` is False where the trials were used up before
    all smaller sets had been tried, or a trial stayed open. Without a conflict the pod does not fit
    whatever its requirements, or none was found.
    """

    conflict: tuple[int, ...]
    corrections: tuple[tuple[int, ...], ...]
    is_smallest: bool


class _UsedUpError(Exception):
    """No trials are left, or one was undecided."""


class ChangeSearch:
    """One search in at most about `most` trials.

    Of equal results the one with the first of `requirements` is found.
    """

    def __init__(
        self, requirements: Sequence[int], fits: Callable[[RequirementSet], bool | None], most: int
    ) -> None:
        self._ordered = list(requirements)
        self._all = frozenset(requirements)
        self._fits, self._left = fits, most
        self._tried: dict[RequirementSet, bool] = {}

    def run(self) -> FoundChanges:
        """Return the result for a pod that does not fit with all requirements."""
        try:
            if not self._without(self._all):
                return FoundChanges((), (), is_smallest=True)
            conflict, is_smallest = self._conflict()
        except _UsedUpError:
            return FoundChanges((), (), is_smallest=False)
        return FoundChanges(conflict, self._corrections(frozenset(conflict)), is_smallest)

    def _without(self, removed: RequirementSet) -> bool:
        known = self._tried.get(removed)
        if known is None:
            self._left -= 1
            known = self._fits(removed)
            if known is None:
                raise _UsedUpError
            self._tried[removed] = known
        return known

    def _cannot_meet(self, kept: Iterable[int]) -> bool:
        return not self._without(self._all - frozenset(kept))

    def _among(self, sets: Iterable[tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
        """Yield `sets` until no trials are left."""
        for one in sets:
            if self._left <= 0:
                raise _UsedUpError
            yield one

    def _conflict(self) -> tuple[tuple[int, ...], bool]:
        everything = self._ordered
        for one in everything:
            if self._cannot_meet((one,)):
                return (one,), True
        kept = self._irreducible(everything)
        try:
            for size in range(2, len(kept)):
                for some in self._among(combinations(everything, size)):
                    if self._cannot_meet(some):
                        return some, True
        except _UsedUpError:
            return tuple(kept), False
        return tuple(kept), True

    def _irreducible(self, kept: list[int]) -> list[int]:
        """Remove requirements while the rest conflicts."""
        dropped = True
        while dropped:
            dropped = False
            for one in reversed(kept):
                rest = [other for other in kept if other != one]
                if rest and self._cannot_meet(rest):
                    kept, dropped = rest, True
        return kept

    def _corrections(self, conflict: RequirementSet) -> tuple[tuple[int, ...], ...]:
        # Corrections with a part of the conflict come first; others can only help by coincidence.
        order = sorted(self._ordered, key=lambda one: one not in conflict)
        found: list[tuple[int, ...]] = []
        try:
            for size in range(1, MOST_GIVEN_UP + 1):
                for some in self._among(combinations(order, size)):
                    if self._without(frozenset(some)):
                        found.append(some)
                        if len(found) == MOST_CORRECTIONS:
                            break
                if found:
                    return tuple(found)
        except _UsedUpError:
            pass  # those found so far
        try:
            return tuple(found) or (self._few(order),)
        except _UsedUpError:
            return ()

    def _few(self, order: list[int]) -> tuple[int, ...]:
        """Remove all, and restore each that is not needed for the conflict."""
        given_up = self._all
        for one in reversed(order):
            if self._without(given_up - {one}):
                given_up -= {one}
        return tuple(sorted(given_up))
