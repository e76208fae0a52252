"""Shorten a run with a violation: remove actions while the same invariant is violated."""

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def shrunk(steps: Sequence[T], is_broken: Callable[[tuple[T, ...]], bool], most: int) -> list[T]:
    """Return fewer steps with the same violation, after a limited number of trials.

    Halves are removed first, then smaller parts, from the end: steps after the violation go at
    once.
    """
    kept, part = list(steps), max(1, len(steps) // 2)
    while most > 0:
        end, is_shorter = len(kept), False
        while end > 0 and most > 0:
            begin = max(0, end - part)
            without = kept[:begin] + kept[end:]
            most -= 1
            if is_broken(tuple(without)):
                kept, is_shorter = without, True
            end = begin
        if part == 1 and not is_shorter:
            break
        part = max(1, part // 2)
    return kept
