"""`Grounds`: where pods of a kind may go and how well they would do there, kept between attempts.

Of all that a profile works out for a pod it has worked out nearly everything for the one before: in
between a pod landed on one row. Plugins that have a `RowRule` for a shape are asked together for the
first pods of a kind; what they made of all rows, and the sum of their scores, stays, and is redone for
rows whose amounts have changed. The kind is the combination of the rules' keys, so pods of many
shapes may share a ground. Law: with and without, attempts end alike.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from sys import getrefcount
from weakref import WeakValueDictionary

import msgspec

from scheduler.base.arrays import BoolColumn, IntColumn, is_any
from scheduler.base.errors import StateError
from scheduler.framework.answers import Rejection, Scored
from scheduler.framework.cycle import Cycle
from scheduler.framework.nodes import Nodes
from scheduler.framework.profile import Bound, Profile
from scheduler.framework.rowrule import CellRule, RowRule
from scheduler.framework.scores import Total, is_constant
from scheduler.framework.status import Rejected
from scheduler.state.touched import Touched

# More rows than these are left to the plugins, who redo them with columns.
_FEW = 16
# Grounds kept, and kinds that came once: of many kinds in turn none is worth keeping.
_MOST_KEPT = 64
_MOST_ONCE = 256
# How many hold what nobody was lent. The total: its owner, the writer, and the call that counts; a
# plugin's scores: list, owner, loop, and the call; their column: both names, the writer, and the call.
_TOTAL_HELD, _SCORED_HELD, _COLUMN_HELD = 3, 4, 4


class _Kind(msgspec.Struct, eq=False, weakref=True):
    """The rules of pods alike: those of their first filters in order, and of scores by plugin."""

    filters: tuple[Bound, ...]
    rules: tuple[RowRule, ...]
    scores: Mapping[str, RowRule]
    ground: Ground | None = None


# No plugin has a rule.
_NOTHING_KEPT = _Kind((), (), {})


class Sifted(msgspec.Struct, frozen=True):
    """What filters made of all rows; `by` are those that were asked, the first of the profile."""

    by: tuple[Bound, ...]
    feasible: BoolColumn
    rejections: tuple[Rejection, ...]
    is_any_left: bool


class _Cells:
    """One plugin's scores that a rule works out row by row."""

    __slots__ = ("place", "rule", "scored", "writer")

    def __init__(self, place: int, scored: Scored, rule: CellRule) -> None:
        self.place = place
        self.rule = rule
        self.renew(scored)

    def renew(self, scored: Scored) -> None:
        """Go on with a copy of the column."""
        column = scored.raw.copy()
        self.scored = Scored(scored.plugin, column, column, scored.weight)
        self.writer = _writer(column)


class KeptScores:
    """The scores of plugins with rules, in the profile's order, and their weighted sum.

    `by` are these plugins, `names` theirs. All is lent: whoever keeps it keeps it as it is now.
    """

    __slots__ = ("_cells", "_writer", "by", "names", "scores", "total")

    def __init__(self, kept: Sequence[tuple[Bound, Scored, CellRule | None]], size: int) -> None:
        self.by = tuple(bound for bound, _, _ in kept)
        self.names = frozenset(bound.name for bound in self.by)
        self.scores = [scored for _, scored, _ in kept]
        self._cells = [
            _Cells(place, scored, rule)
            for place, (_, scored, rule) in enumerate(kept)
            if rule is not None
        ]
        total = Total(size)
        for scored in self.scores:
            total.add(scored.normalized, scored.weight)
        for cells in self._cells:
            self.scores[cells.place] = cells.scored
        self._renew_total(total.column())

    def redo(self, rows: Sequence[int]) -> None:
        """Work these rows out again."""
        if getrefcount(self.total) > _TOTAL_HELD:
            self._renew_total(self.total)
        total = self._writer
        for cells in self._cells:
            scored = cells.scored
            if getrefcount(scored) > _SCORED_HELD or getrefcount(scored.raw) > _COLUMN_HELD:
                cells.renew(scored)
                scored = self.scores[cells.place] = cells.scored
            rule, column = cells.rule, cells.writer
            for row in rows:
                score = rule(row)
                before = column[row]
                if score != before:
                    total[row] += scored.weight * (score - before)
                    column[row] = score

    def _renew_total(self, column: IntColumn) -> None:
        self.total = column.copy()
        self._writer = _writer(self.total)


def _writer(column: IntColumn) -> memoryview:
    """Make a column read-only for everybody but who writes through this.

    Single cells are read and written several times faster so than through numpy.
    """
    writer = memoryview(column)  # type: ignore[arg-type] # mypy does not know that arrays are buffers
    column.flags.writeable = False
    return writer


class Ground:
    """What is kept for one kind of pods; `sifted` and `scored` are None where they must be redone."""

    __slots__ = ("_facts", "_layout", "_marks", "_passes", "kind", "scored", "sifted")

    def __init__(self, kind: _Kind) -> None:
        self.kind = kind
        self.sifted: Sifted | None = None
        self.scored: KeptScores | None = None
        self._passes: list[tuple[BoolColumn | None, CellRule]] = []
        self._layout = (0, 0)
        self._facts: Touched | None = None
        self._marks = (0, 0)

    def catch_up(self, nodes: Nodes) -> None:
        """Redo the rows that changed since the last time; drop what cannot be redone so.

        `nodes` are all nodes as they are.
        """
        amounts, facts = nodes.amounts_touched, nodes.facts_touched
        if amounts is None or facts is None:
            raise StateError("only what is kept of all nodes as they are can be brought up to date")
        marks = (amounts.mark, facts.mark)
        if marks == self._marks and facts is self._facts:
            return
        changed = None
        if facts is self._facts and marks[1] == self._marks[1] and nodes.layout == self._layout:
            changed = amounts.since(self._marks[0])
        self._facts, self._marks, self._layout = facts, marks, nodes.layout
        if changed is None or len(changed) > _FEW:
            self.sifted = self.scored = None
            return
        if self.sifted is not None and not self._still_pass(changed):
            self.sifted = None
        if self.scored is not None:
            self.scored.redo(changed)

    def sift(self, nodes: Nodes, said: Mapping[str, Rejected | None]) -> None:
        """Keep what the filters with rules said of all rows; the others come after them."""
        feasible, rejections, asked = nodes.exists.copy(), [], []
        self._passes = []
        for bound, rule in zip(self.kind.filters, self.kind.rules, strict=True):
            if bound.name not in said:
                break
            asked.append(bound)
            rejected = said[bound.name]
            if rule.cells is not None:
                rows = None if rejected is None else rejected.rows
                self._passes.append((rows, rule.cells(nodes)))
            if rejected is not None:
                fresh = rejected.rows & feasible
                if is_any(fresh):
                    rejections.append(Rejection(bound.name, fresh, rejected))
                    feasible ^= fresh
        feasible.flags.writeable = False
        is_any_left = is_any(feasible)
        self.sifted = Sifted(tuple(asked), feasible, tuple(rejections), is_any_left)

    def score(self, nodes: Nodes, by: Sequence[Bound], scored: Sequence[Scored]) -> None:
        """Keep the scores that follow from rules; not those that depend on who is feasible."""
        kept: list[tuple[Bound, Scored, CellRule | None]] = []
        for bound, one in zip(by, scored, strict=True):
            rule = self.kind.scores.get(one.plugin)
            if rule is not None and rule.cells is not None:
                kept.append((bound, one, rule.cells(nodes)))
            elif rule is not None and (one.raw is one.normalized or is_constant(one.raw)):
                kept.append((bound, one, None))
        self.scored = KeptScores(kept, nodes.size) if kept else None

    def _still_pass(self, rows: Sequence[int]) -> bool:
        """Whether rows that filters with cells passed before pass them now; not for others."""
        for rejected, passes in self._passes:
            for row in rows:
                if (rejected is not None and rejected[row]) or not passes(row):
                    return False
        return True


class Grounds:
    """The grounds of a profile, those that were used last."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._key = object()
        self._kinds: WeakValueDictionary[Hashable, _Kind] = WeakValueDictionary()
        # Kinds with a ground and kinds that came once, the longest unused first.
        self._kept: dict[_Kind, None] = {}
        self._once: dict[_Kind, None] = {}

    def of(self, cycle: Cycle, nodes: Nodes, filters: tuple[Bound, ...]) -> Ground | None:
        """Return the ground of a pod's kind, up to date; None for a kind that is not kept.

        `filters` are those that the pod meets; who has a rule must be the first of them as ever.
        """
        if not nodes.is_live or cycle.pod.spec.node_name:
            return None  # specs are compared without the name of a node
        kept = cycle.shape.spec.kept
        kind: _Kind | None = kept.get(self._key)
        if kind is None:
            kind = kept[self._key] = self._kind(cycle, filters)
        if kind is _NOTHING_KEPT or kind.filters != filters[: len(kind.filters)]:
            return None
        ground = kind.ground
        if ground is None:
            ground = self._met(kind)
        else:
            # To the end: who was not used for longest goes first.
            del self._kept[kind]
            self._kept[kind] = None
        if ground is not None:
            ground.catch_up(nodes)
        return ground

    def _met(self, kind: _Kind) -> Ground | None:
        """Give a kind that has come before a ground."""
        if kind not in self._once:
            if len(self._once) >= _MOST_ONCE:
                self._once.pop(next(iter(self._once)))
            self._once[kind] = None
            return None
        del self._once[kind]
        if len(self._kept) >= _MOST_KEPT:
            unused = next(iter(self._kept))
            del self._kept[unused]
            unused.ground = None
        self._kept[kind] = None
        kind.ground = Ground(kind)
        return kind.ground

    def _kind(self, cycle: Cycle, filters: tuple[Bound, ...]) -> _Kind:
        sifting: dict[str, RowRule] = {}
        for bound in filters:
            rule = bound.plugin.filter_rule(cycle)
            if rule is None:
                break
            sifting[bound.name] = rule
        scoring = {
            bound.name: rule
            for bound in self._profile.score
            if (rule := bound.plugin.score_rule(cycle)) is not None
        }
        if not sifting and not scoring:
            return _NOTHING_KEPT
        keys = [(name, rule.key) for rules in (sifting, scoring) for name, rule in rules.items()]
        key = (len(sifting), *keys)
        kind = self._kinds.get(key)
        if kind is None:
            first = filters[: len(sifting)]
            kind = self._kinds[key] = _Kind(first, tuple(sifting.values()), scoring)
        return kind
