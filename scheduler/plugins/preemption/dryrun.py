"""The dry run: the nodes on which evictions free enough capacity, and how many nodes to examine.

On each node all units of lower priority are removed; if the pod then fits, they are restored one by
one, most important first, while it still fits. All nodes of a block take each step together. Evicts
nothing.
"""

from collections.abc import Iterator

import msgspec
import numpy as np

from scheduler.framework import BoolColumn, IntColumn, Placed, Rows
from scheduler.framework.hypothetical.fitmessage import ReasonCounts
from scheduler.framework.hypothetical.rowpods import Nominated
from scheduler.framework.postfilter import FilterRerun
from scheduler.plugins.preemption.victims import Victims


class Block(msgspec.Struct, frozen=True):
    """The dry run's result on some nodes.

    `places` are the entries of `pods.rows` that are candidates, `leaving` the units to evict,
    `violations` how many of their pods violate a disruption budget, per row.
    """

    pods: Victims
    places: Rows
    leaving: BoolColumn
    violations: IntColumn

    def victims(self, place: int) -> tuple[Placed, ...]:
        """Return the victims for `pods.rows[place]`, most important first.

        Includes pods elsewhere that are evicted together with some of that row.
        """
        numbers = (number for number in self.pods.pods_of(place) if self.leaving[number])
        return tuple(placed for number in numbers for placed in self.pods.everyone(number))


class Walk:
    """The order in which nodes are examined, and the condition for enough candidates.

    Starts at `offset` and wraps. Ends when `wanted` candidates are found, at least one of them
    without a violated budget; of others no more than `wanted` are kept.
    """

    def __init__(self, rows: Rows, offset: int, wanted: int) -> None:
        self._rows = np.roll(rows, -offset)
        self._wanted = wanted
        self._clean = 0
        self._violating = 0
        self.is_over = False

    def blocks(self) -> Iterator[Rows]:
        """Yield the next nodes to examine until there are enough candidates."""
        for first in range(0, len(self._rows), max(self._wanted, 1)):
            if self.is_over:
                return
            yield self._rows[first : first + self._wanted]

    def keep(self, found: Block) -> Block:
        """Return `found` without the candidates past the end of the walk."""
        admitted = self.admits(found.violations[found.places])
        return msgspec.structs.replace(found, places=found.places[admitted])

    def admits(self, violations: IntColumn) -> BoolColumn:
        """Return which of the next candidates are kept, given how many budgets each violates, in
        order of evaluation.
        """
        is_clean = violations == 0
        clean = self._clean + is_clean.cumsum()
        violating = self._violating + (~is_clean).cumsum()
        enough = (clean > 0) & (clean + np.minimum(violating, self._wanted) >= self._wanted)
        kept: BoolColumn = is_clean | (violating <= self._wanted)
        if enough.any():
            self.is_over = True
            kept[int(enough.argmax()) + 1 :] = False
        elif len(kept):
            self._clean, self._violating = int(clean[-1]), int(violating[-1])
        return kept


def examine(
    attempted: FilterRerun,
    nominated: Nominated,
    pods: Victims,
    violating: IntColumn,
    reasons: ReasonCounts,
) -> Block:
    """Return the candidates among the rows of `pods`; reasons of the others go to `reasons`.

    `violating` is how many pods of each unit violate a budget by their eviction; such units are the
    first to be restored. Surplus members are not restored if the rest of their group is evicted.
    """
    order: Rows | None = None
    rest = pods.rest
    if violating.any():
        is_first = violating > 0
        # Surplus members of a group are restored after the rest of it, or not at all.
        is_first[rest[is_first & (rest >= 0)]] = True
        order = np.lexsort((np.arange(len(pods)), ~is_first, pods.index))
        rest = np.where(rest >= 0, np.argsort(order)[rest], -1)[order]
    dry_run = attempted.dry_run(pods if order is None else pods.reordered(order), nominated)
    fits, rejections = dry_run.verdict(np.ones(len(pods.rows), dtype=np.bool_))
    reasons.add_rejections(rejections)
    for step in range(int(pods.counts[fits].max(initial=0))):
        dry_run.offer(step)
        among = fits & (pods.counts > step)
        numbers = pods.starts[:-1][among] + step
        among[among] = ~((rest[numbers] >= 0) & dry_run.gone[rest[numbers]])
        kept, _ = dry_run.verdict(among, again=True)
        dry_run.keep(kept)
    leaving = dry_run.gone
    if order is not None:
        leaving = np.empty_like(leaving)
        leaving[order] = dry_run.gone
    count = np.bincount(pods.index[leaving], minlength=len(pods.rows))
    violations = np.zeros(len(pods.rows), dtype=np.int64)
    np.add.at(violations, pods.index[leaving], violating[leaving])
    return Block(pods, np.flatnonzero(fits & (count > 0)), leaving, violations)
