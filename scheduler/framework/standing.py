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
    """Standing answers: `lasting` ones, and `guarded` ones as long as the guards stand still.

    `now` is both together; `certain`, the lasting ones alone, is made when it is first needed.
    """

    __slots__ = ("certain", "guarded", "guards", "lasting", "now")

    def __init__(self, lasting: Mapping[str, Any]) -> None:
        self.lasting = lasting
        self.certain: Standing | None = None
        self.now: Standing | None = None
        self.guarded: dict[str, NotConcernedWhile] = {}
        self.guards: tuple[tuple[Any, int], ...] = ()


class StandingAnswers:
    """The standing answers at one point (pre_filter or pre_score) of a profile.

    Per shape, and those of plugins with `by_spec` per spec, for shapes that come for the first time.
    """

    def __init__(self, profile: Profile, point: str) -> None:
        self._bounds: tuple[Bound, ...] = getattr(profile, point)
        self._after: tuple[Bound, ...] = getattr(profile, point.removeprefix("pre_"))
        self._nothing_known = Standing(self._bounds, self._after)
        self._by_shape = {bound.name for bound in self._bounds if point in bound.plugin.by_shape}
        self._by_spec = {bound.name for bound in self._bounds if bound.plugin.by_spec}
        self._key = object()
        # Shapes with the same plugins answered have these in common.
        self._without: dict[tuple[str, frozenset[str]], tuple[Bound, ...]] = {}

    def of(self, shape: Shape, nodes: Nodes) -> Standing:
        """Return what is known of a shape; what guards stand for only of the nodes as they are."""
        known: _Known | None = shape.kept.get(self._key) or shape.spec.kept.get(self._key)
        if known is None:
            return self._nothing_known
        if not nodes.is_live or known.now is None:
            return self._certain(known)
        for guard, version in known.guards:
            if guard.version != version:
                return self._certain(known)
        return known.now

    def learn(
        self, shape: Shape, nodes: Nodes, standing: Standing, answers: Mapping[str, Any]
    ) -> Standing:
        """Take in what the plugins answered that `standing` left to be asked; return what is known."""
        if not any(self._is_kept(name, answer) for name, answer in answers.items()):
            return standing
        known: _Known | None = shape.kept.get(self._key)
        if known is None:
            is_new = self._key not in shape.spec.kept
            of_spec = self._of_spec(shape, nodes, standing, answers)
            if not is_new and self._key not in shape.kept:
                # One of many shapes of a spec: whether it comes again remains to be seen.
                shape.kept[self._key] = None
                return standing
            known = shape.kept[self._key] = self._known(of_spec.lasting, answers)
            held = of_spec.guarded if standing is of_spec.now else {}
        else:
            held = known.guarded if standing is known.now else {}
        self._guard(known, nodes, held, answers)
        return known.now or self._certain(known)

    def _certain(self, known: _Known) -> Standing:
        if known.certain is None:
            known.certain = self._standing(known.lasting, {})
        return known.certain

    def _of_spec(
        self, shape: Shape, nodes: Nodes, standing: Standing, answers: Mapping[str, Any]
    ) -> _Known:
        known: _Known | None = shape.spec.kept.get(self._key)
        if known is None or standing is not known.now:
            mine = {
                name: answer
                for name, answer in answers.items()
                if (answer.by_spec if type(answer) is NotConcernedWhile else name in self._by_spec)
            }
            if known is None:
                known = shape.spec.kept[self._key] = self._known({}, mine)
            self._guard(known, nodes, {}, mine)
        return known

    def _known(self, lasting: Mapping[str, Any], answers: Mapping[str, Any]) -> _Known:
        more = {
            bound.name: answers[bound.name]
            for bound in self._bounds
            if bound.name in answers and self._lasts(bound.name, answers[bound.name])
        }
        if lasting:
            more |= lasting
        return _Known(more)

    def _guard(
        self,
        known: _Known,
        nodes: Nodes,
        held: Mapping[str, NotConcernedWhile],
        answers: Mapping[str, Any],
    ) -> None:
        """Let answers that guards stand for hold from now on, together with those `held` already."""
        fresh = {n: one for n, one in answers.items() if type(one) is NotConcernedWhile}
        if not nodes.is_live:
            return
        guarded = {**held, **fresh}
        if not fresh and guarded.keys() == known.guarded.keys():
            return  # nothing was said that is not held already
        if guarded.keys() != known.guarded.keys():
            known.now = self._standing(known.lasting, guarded) if guarded else None
        known.guarded = guarded
        known.guards = tuple((g, g.version) for one in guarded.values() for g in one.guards)

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

    def _is_kept(self, name: str, answer: Any) -> bool:
        return type(answer) is NotConcernedWhile or self._lasts(name, answer)

    def _lasts(self, name: str, answer: Any) -> bool:
        if answer is NOT_CONCERNED:
            return True
        if name not in self._by_shape or isinstance(answer, Narrow):
            return False
        return not isinstance(answer, Status) or answer.code is Code.SKIP
