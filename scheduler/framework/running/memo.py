"""`Memo`: results of `filter` and `score` for all rows, cached for the next pod with the same key.

Between two pods with one key few rows change: the row on which a pod was placed, or rows with new
labels. The same method runs for these alone, on `nodes.only(rows)`, and the result is patched into
a copy of the cached one. A score that serves cells is computed row by row in plain numbers, which
for a few rows is several times faster than numpy. All results are read-only. `reads` determines
what makes a result stale. If a verdict depends on more than its row (`local` is false), all rows
are recomputed. Invariant: attempts end as without the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any
from weakref import WeakValueDictionary

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.base.arrays import IntColumn, Rows
from scheduler.framework.cycle import Cycle
from scheduler.framework.nodes import Nodes
from scheduler.framework.plugin import Plugin
from scheduler.framework.running.answertypes import rejection_of, scores_of
from scheduler.framework.running.scores import MAX_SCORE, is_constant, largest_unsigned
from scheduler.framework.status import Reason, Rejected
from scheduler.objects.kinds import BY_KIND
from scheduler.state import facts
from scheduler.state.counts.touched import Touched

# Up to this number of rows cells are faster than columns. Above this share of all rows everything
# is recomputed.
FEW = 16
MOST_CHANGED = 0.25
# Keys with cached results, per plugin and point.
MOST_KINDS = 64

_AMOUNTS = frozenset(
    (facts.NODE_ALLOCATABLE, facts.POD_ADDED, facts.POD_DELETED, facts.POD_REQUESTS)
)
_UNSEEN = frozenset((facts.POD_LABELS, facts.POD_TERMINATING))

State = tuple[Any, ...]
Cells = Callable[[int], int]


class Kept(msgspec.Struct):
    """A cached result, and the positions of the change logs up to which it is valid."""

    facts: Touched
    facts_mark: int
    amounts: Touched
    amounts_mark: int
    versions: tuple[int, ...]
    size: int
    answer: Any
    is_bounded: bool = False
    cells: Cells | None = None
    layout: tuple[int, int] = (0, 0)


class PodKind:
    """The cached results of a plugin for the pods of one key."""

    __slots__ = ("__weakref__", "_filtered", "_scored", "keeper")

    def __init__(self, keeper: Keeper) -> None:
        self.keeper = keeper
        self._filtered: Kept | None = None
        self._scored: Kept | None = None

    def filtered(self, cycle: Cycle, nodes: Nodes, state: State) -> Rejected | None:
        """Return what `filter` returns for all current nodes."""
        keeper, kept = self.keeper, self._filtered
        changed = None if kept is None else keeper.changed(kept, nodes)
        if (
            kept is None
            or changed is None
            or not keeper.refilter(kept, cycle, nodes, state, changed)
        ):
            keeper.use(self, "filter")
            self._filtered = kept = keeper.filter(cycle, nodes, state)
        answer: Rejected | None = kept.answer
        return answer

    def scored(self, cycle: Cycle, nodes: Nodes, state: State) -> tuple[IntColumn, bool]:
        """Return what `score` returns for all current nodes, and whether all scores are in
        0..100.
        """
        keeper, kept = self.keeper, self._scored
        changed = None if kept is None else keeper.changed(kept, nodes)
        if (
            kept is None
            or changed is None
            or not keeper.rescore(kept, cycle, nodes, state, changed)
        ):
            keeper.use(self, "score")
            self._scored = kept = keeper.score(cycle, nodes, state)
        return kept.answer, kept.is_bounded

    def forget(self, point: str) -> None:
        """Drop the cached result of a point."""
        if point == "filter":
            self._filtered = None
        else:
            self._scored = None


class Memo:
    """The cached keys of all plugins of a profile."""

    def __init__(self) -> None:
        self._kinds: WeakValueDictionary[tuple[str, Hashable], PodKind] = WeakValueDictionary()
        self._keepers: dict[str, Keeper | None] = {}

    def kind(self, plugin: Plugin[Any], key: Hashable) -> PodKind | None:
        """Return the cache of a key; None if `reads` contains a fact that has no log by row."""
        if plugin.name not in self._keepers:
            self._keepers[plugin.name] = None if _UNSEEN & {*plugin.reads} else Keeper(plugin)
        keeper = self._keepers[plugin.name]
        if keeper is None:
            return None
        kind = self._kinds.get((plugin.name, key))
        if kind is None:
            kind = self._kinds[plugin.name, key] = PodKind(keeper)
        return kind


class Keeper:
    """Computes and updates the results of one plugin."""

    def __init__(self, plugin: Plugin[Any]) -> None:
        self._plugin: Any = plugin
        self._follows_amounts = not _AMOUNTS.isdisjoint(plugin.reads)
        self._follows_facts = any(
            fact.startswith("node") and fact not in _AMOUNTS for fact in plugin.reads
        )
        self._objects = tuple(
            plugin.handle.objects(fact) for fact in plugin.reads if fact in BY_KIND
        )
        self._score_cells = plugin.serves("score_cells")
        # The keys with results, by point; the least recently computed one is dropped first.
        self._used: dict[str, dict[PodKind, None]] = {"filter": {}, "score": {}}

    @property
    def is_by_row(self) -> bool:
        """Return whether the plugin's verdict on a row changes only with that row."""
        return self._plugin.local and not self._objects

    def use(self, kind: PodKind, point: str) -> None:
        """Record that a key has a result of its own; drop the oldest one above the limit."""
        used = self._used[point]
        used.pop(kind, None)
        if len(used) >= MOST_KINDS:
            oldest = next(iter(used))
            del used[oldest]
            oldest.forget(point)
        used[kind] = None

    def filter(self, cycle: Cycle, nodes: Nodes, state: State) -> Kept:
        """Run `filter` for all rows."""
        answer = rejection_of(self._plugin.filter(cycle, nodes, *state), nodes.size)
        return self._kept(nodes, None if answer is None else _own(answer))

    def score(self, cycle: Cycle, nodes: Nodes, state: State) -> Kept:
        """Run `score` for all rows."""
        column = scores_of(self._plugin.score(cycle, nodes, *state), nodes.size)
        kept = self._kept(nodes, column if is_constant(column) else _sealed(column.copy()))
        kept.is_bounded = largest_unsigned(column) <= MAX_SCORE
        return kept

    def changed(self, kept: Kept, nodes: Nodes) -> Sequence[int] | None:
        """Return the rows to recompute; None for all rows."""
        if nodes.facts_touched is not kept.facts:
            return None  # another table
        if self._objects and kept.versions != tuple([one.version for one in self._objects]):
            return None
        rows: list[int] | None = None
        if self._follows_amounts:
            mark = kept.amounts.mark
            if mark != kept.amounts_mark:
                rows = kept.amounts.since(kept.amounts_mark)
                if rows is None:
                    return None
                kept.amounts_mark = mark
        if self._follows_facts:
            mark = kept.facts.mark
            if mark != kept.facts_mark:
                more = kept.facts.since(kept.facts_mark)
                if more is None:
                    return None
                kept.facts_mark = mark
                rows = list(dict.fromkeys((*rows, *more))) if rows else more
        if not rows:
            return ()
        is_much = len(rows) > max(FEW, MOST_CHANGED * nodes.size)
        return None if is_much or not self._plugin.local or kept.size != nodes.size else rows

    def refilter(
        self, kept: Kept, cycle: Cycle, nodes: Nodes, state: State, changed: Sequence[int]
    ) -> bool:
        """Update the result of `filter`; return False if all rows must be recomputed."""
        if not changed:
            return True
        before: Rejected | None = kept.answer
        rows: Rows = np.array(changed, dtype=np.intp)
        few = nodes.only(rows)
        fresh = rejection_of(self._plugin.filter(cycle, few, *state), len(rows))
        if fresh is None and before is None:
            return True
        answer = None if before is None else _patched(before, fresh, rows)
        if answer is None:
            return False
        kept.answer = answer
        return True

    def rescore(
        self, kept: Kept, cycle: Cycle, nodes: Nodes, state: State, changed: Sequence[int]
    ) -> bool:
        """Update the result of `score`; return False if all rows must be recomputed."""
        if not changed:
            return True
        column: IntColumn = kept.answer
        if self._score_cells and len(changed) <= FEW:
            cells = self._cells(kept, cycle, nodes, state)
            values = list(map(cells, changed))
            if [column.item(row) for row in changed] == values:
                return True
            fresh: Any = values
            is_bounded = min(values) >= 0 and max(values) <= MAX_SCORE
            rows: Any = changed
        else:
            rows = np.array(changed, dtype=np.intp)
            fresh = scores_of(self._plugin.score(cycle, nodes.only(rows), *state), len(rows))
            if is_constant(fresh):
                before = column[:1] if is_constant(column) else column[rows]
                if (before == fresh.item(0)).all():
                    return True
            is_bounded = largest_unsigned(fresh) <= MAX_SCORE
        column = column.copy()
        if len(rows) == 1:
            column[rows[0]] = fresh[0]  # several times faster than a list of one
        else:
            column[rows] = fresh
        kept.answer = _sealed(column)
        kept.is_bounded = kept.is_bounded and is_bounded
        return True

    def _kept(self, nodes: Nodes, answer: Any) -> Kept:
        facts_log, amounts_log = nodes.facts_touched, nodes.amounts_touched
        assert facts_log is not None  # noqa: S101 - this method is called for live nodes only
        assert amounts_log is not None  # noqa: S101
        return Kept(
            facts_log,
            facts_log.mark,
            amounts_log,
            amounts_log.mark,
            tuple([one.version for one in self._objects]),
            nodes.size,
            answer,
        )

    def _cells(self, kept: Kept, cycle: Cycle, nodes: Nodes, state: State) -> Cells:
        """Return the plugin's cells, which are valid while the arrays of amounts are the same."""
        if kept.cells is None or kept.layout != nodes.layout:
            kept.cells, kept.layout = (
                self._plugin.score_cells(cycle, nodes, *state),
                nodes.layout,
            )
        return kept.cells


def _sealed(column: NDArray[Any]) -> NDArray[Any]:
    column.flags.writeable = False
    return column


def _own(rejected: Rejected) -> Rejected:
    """Return a rejection with read-only columns that share no memory with the table."""
    final = rejected.rows if rejected.final is rejected.rows else rejected.final
    rows = _sealed(rejected.rows.copy())
    reasons = tuple(
        Reason(rows if one.rows is rejected.rows else _sealed(one.rows.copy()), one.text)
        for one in rejected.reasons
    )
    return Rejected(rows, rows if final is rejected.rows else _sealed(final.copy()), reasons)


def _patched(before: Rejected, fresh: Rejected | None, rows: Rows) -> Rejected | None:
    """Return `before` with the results for `rows` from `fresh`; None if `fresh` has other reasons.

    Reasons are in the plugin's order, and a new reason has no defined position in it.
    """
    now = {} if fresh is None else {one.text: one.rows for one in fresh.reasons}
    texts = [one.text for one in before.reasons]
    if not set(now).issubset(texts) or len(set(texts)) < len(texts):
        return None

    def put(column: NDArray[Any], values: Any) -> NDArray[Any]:
        column = column.copy()
        column[rows] = values
        return _sealed(column)

    return Rejected(
        put(before.rows, False if fresh is None else fresh.rows),
        put(before.final, False if fresh is None else fresh.final),
        tuple(Reason(put(one.rows, now.get(one.text, False)), one.text) for one in before.reasons),
    )
