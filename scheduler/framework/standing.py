"""`Standing`: what plugins answer at pre-filter and pre-score to every pod of a shape.

Most plugins of a profile have nothing to do with most pods, or read nothing but the pod's spec. Such
an answer is asked for once per shape: one that a plugin declares with `by_shape`, or the status
`NOT_CONCERNED`. `NotConcernedWhile` is asked for again when one of its guards has moved. The runner
asks only who is left. Law: with and without, attempts end alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from scheduler.framework.narrow import Narrow
from scheduler.framework.nodes import Nodes
from scheduler.framework.profile import Bound, Profile
from scheduler.framework.status import NOT_CONCERNED, Code, NotConcernedWhile, Status
from scheduler.state.shapes import Shape


class Standing(msgspec.Struct, frozen=True):
    """What is known of a shape at one point: who still has to be asked, who skips, and states.

    `after` are those of filter (of score) that do not skip. `absent` are the plugins that have nothing
    to do with such pods at any later point that goes with their pre-filter.
    """

    left: tuple[Bound, ...]
    after: tuple[Bound, ...]
    skipped: frozenset[str] = frozenset()
    states: Mapping[str, Any] = {}
    absent: frozenset[str] = frozenset()


class _Known:
    """The standing answers to one shape: `now` while the guards stand still, `certain` for all time."""

    __slots__ = ("certain", "guarded", "guards", "lasting", "now")

    def __init__(self, certain: Standing, lasting: Mapping[str, Any]) -> None:
        self.certain = self.now = certain
        self.lasting = lasting
        self.guarded: dict[str, NotConcernedWhile] = {}
        self.guards: tuple[tuple[Any, int], ...] = ()


class StandingAnswers:
    """The standing answers at one point (pre_filter or pre_score) of a profile, per shape."""

    def __init__(self, profile: Profile, point: str) -> None:
        self._point = point
        self._bounds: tuple[Bound, ...] = getattr(profile, point)
        self._after: tuple[Bound, ...] = getattr(profile, point.removeprefix("pre_"))
        self._nothing_known = Standing(self._bounds, self._after)
        self._key = object()
        # Shapes with the same plugins answered have these in common.
        self._without: dict[tuple[str, frozenset[str]], tuple[Bound, ...]] = {}

    def of(self, shape: Shape, nodes: Nodes) -> Standing:
        """Return what is known of a shape; what guards stand for only of the nodes as they are."""
        known: _Known | None = shape.kept.get(self._key)
        if known is None:
            return self._nothing_known
        if not nodes.is_live:
            return known.certain
        for guard, version in known.guards:
            if guard.version != version:
                return known.certain
        return known.now

    def learn(
        self, shape: Shape, nodes: Nodes, standing: Standing, answers: Mapping[str, Any]
    ) -> Standing:
        """Take in what the plugins answered that `standing` left to be asked; return what is known."""
        known: _Known | None = shape.kept.get(self._key)
        guarded = {n: one for n, one in answers.items() if type(one) is NotConcernedWhile}
        if known is None:
            lasting = {
                bound.name: answers[bound.name]
                for bound in self._bounds
                if bound.name in answers and self._lasts(bound, answers[bound.name])
            }
            known = _Known(self._standing(lasting, {}), lasting)
            shape.kept[self._key] = known
        elif not guarded:
            return standing
        elif standing is known.now:
            guarded = known.guarded | guarded
        if guarded and nodes.is_live:
            if guarded.keys() != known.guarded.keys():
                known.now = self._standing(known.lasting, guarded)
            known.guarded = guarded
            known.guards = tuple((g, g.version) for one in guarded.values() for g in one.guards)
        return known.now

    def _standing(
        self, lasting: Mapping[str, Any], guarded: Mapping[str, NotConcernedWhile]
    ) -> Standing:
        skipped = frozenset(name for name, one in lasting.items() if isinstance(one, Status))
        absent = frozenset(name for name, answer in lasting.items() if answer is NOT_CONCERNED)
        skipped, absent = skipped.union(guarded), absent.union(guarded)
        return Standing(
            self._left("at", self._bounds, frozenset((*lasting, *guarded))),
            self._left("after", self._after, skipped),
            skipped,
            {name: one for name, one in lasting.items() if not isinstance(one, Status)},
            absent,
        )

    def _left(
        self, which: str, bounds: tuple[Bound, ...], without: frozenset[str]
    ) -> tuple[Bound, ...]:
        found = self._without.get((which, without))
        if found is None:
            found = tuple(bound for bound in bounds if bound.name not in without)
            self._without[which, without] = found
        return found

    def _lasts(self, bound: Bound, answer: Any) -> bool:
        if answer is NOT_CONCERNED:
            return True
        if self._point not in bound.plugin.by_shape or isinstance(answer, Narrow):
            return False
        return not isinstance(answer, Status) or answer.code is Code.SKIP
