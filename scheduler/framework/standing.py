"""`Standing`: what plugins answer at pre-filter and pre-score to every pod of a shape.

Most plugins of a profile have nothing to do with most pods, or read nothing but the pod's spec. Such
an answer is asked for once per shape: one that a plugin declares with `by_shape`, or the status
`NOT_CONCERNED`. The runner asks only who is left. Law: with and without, attempts end alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from scheduler.framework.narrow import Narrow
from scheduler.framework.profile import Bound, Profile
from scheduler.framework.status import NOT_CONCERNED, Code, Status
from scheduler.state.shapes import Shape


class Standing(msgspec.Struct, frozen=True):
    """What is known of a shape at one point: who still has to be asked, who skips, and states.

    `after` are those of filter (of score) that do not skip for all time. `absent` are the plugins that have nothing to do with such pods at any later point that goes with
    their pre-filter.
    """

    left: tuple[Bound, ...]
    after: tuple[Bound, ...]
    skipped: frozenset[str] = frozenset()
    states: Mapping[str, Any] = {}
    absent: frozenset[str] = frozenset()


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

    def of(self, shape: Shape) -> Standing:
        """Return what is known of a shape."""
        known: Standing = shape.kept.get(self._key, self._nothing_known)
        return known

    def is_known(self, shape: Shape) -> bool:
        """Whether the plugins were asked about the shape before."""
        return self._key in shape.kept

    def learn(self, shape: Shape, answers: Mapping[str, Any]) -> None:
        """Take in the answers of all plugins that were asked about the first pod of a shape."""
        lasting = {
            bound.name: answers[bound.name]
            for bound in self._bounds
            if bound.name in answers and self._lasts(bound, answers[bound.name])
        }
        skipped = frozenset(name for name, one in lasting.items() if isinstance(one, Status))
        shape.kept[self._key] = Standing(
            self._left("at", self._bounds, frozenset(lasting)),
            self._left("after", self._after, skipped),
            skipped,
            {name: one for name, one in lasting.items() if not isinstance(one, Status)},
            frozenset(name for name, answer in lasting.items() if answer is NOT_CONCERNED),
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
