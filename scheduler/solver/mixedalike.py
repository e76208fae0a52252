"""What a group of unlike members could be at best if its pods were alike, and that placement with its own pods.

Were they alike, each taking as little as the least of them, every placement of the group would still be
one. So what the exact program finds for them, in milliseconds, bounds the stages that speak of all pods, as
long as those before them are as good. Mostly the pods themselves can stand like that: then nothing is better,
and there is nothing to search for. Called by scheduler.solver.mixed before CP-SAT is.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from scheduler.solver import solve
from scheduler.solver.instance import Limits
from scheduler.solver.kinds import Mixed
from scheduler.solver.mixedstages import ALL, Stage
from scheduler.solver.tree import Ints

# It has this part of the time that is left.
PART = 0.25
_OF_ALL = ("leftOut", "units", "large", "squares")


class Alike(msgspec.Struct, frozen=True):
    """The best values of the first stages for pods that are alike, and the group's own pods like that, if found.

    A value is a lower limit while all before it are as good as theirs. Nothing at all fits if `is_none`.
    """

    values: tuple[int, ...] = ()
    counts: Ints | None = None
    is_none: bool = False


def best(group: Mixed, stages: Sequence[Stage], limits: Limits, left_s: float) -> Alike:
    """Return what is proven of a group whose stages are these; nothing where time is too short."""
    if group.unwished:
        return Alike()  # what is not wished for comes into it
    least = Limits(limits.stage_s, left_s * PART, limits.workers)
    answer = solve.solve(group.alike(), least, "Exact")
    if not answer.optimal:
        return Alike()
    if answer.outcome != "placed":
        return Alike(is_none=True)
    of_all = [one.of == ALL and one.measure in _OF_ALL for one in stages]
    leading = of_all.index(False) if False in of_all else len(stages)
    values = tuple(stage.value for stage in answer.stages[:leading])
    held = np.array(group.held or (0,) * len(group.paths), dtype=np.int64)
    return Alike(values, _own(group, np.array(answer.counts, dtype=np.int64) - held))


def _own(group: Mixed, totals: Ints) -> Ints | None:
    """Return pods of each kind so that every leaf has its number, None where that is not found.

    The largest first, each where most is left beside what the others of its leaf take at least.
    """
    requests = np.array([kind.request for kind in group.kinds], dtype=np.int64)
    free = np.array(group.free, dtype=np.int64).clip(min=0)
    smallest, left = requests.min(axis=0), totals.copy()
    scale = np.maximum(free.max(axis=0, initial=1), 1)
    counts = np.zeros((len(group.kinds), len(totals)), dtype=np.int64)
    for number in np.argsort(-(requests / scale).max(axis=1, initial=0), kind="stable").tolist():
        kind, more = group.kinds[number], requests[number] - smallest
        slots = np.array(kind.slots, dtype=np.int64)
        wanted = min(kind.count, int(left.sum()))
        while wanted:
            spare = free - left[:, None] * smallest
            fits = (left > 0) & (slots > counts[number]) & (spare >= more).all(axis=1)
            open_ones = np.flatnonzero(fits)
            if not len(open_ones):
                break
            leaf = int(open_ones[int((spare[open_ones] / scale).min(axis=1, initial=1).argmax())])
            most = min(wanted, int(left[leaf]), int(slots[leaf] - counts[number, leaf]))
            if more.any():
                most = min(most, int((spare[leaf][more > 0] // more[more > 0]).min()))
            counts[number, leaf] += most
            free[leaf] -= most * requests[number]
            left[leaf] -= most
            wanted -= most
    return None if left.any() else counts
