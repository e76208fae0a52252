"""`Runner`: calls the plugins of a profile, point by point.

One loop (`_each`) serves all points: order, timing, and an exception of a plugin named with plugin
and point. What a point makes of the answers stands in the method of that point. The runner decides
nothing about pods beyond that and keeps nothing between attempts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from scheduler.base.arrays import BoolColumn, IntColumn
from scheduler.base.errors import PluginError
from scheduler.framework.calls import BindStep, CallResult
from scheduler.framework.cycle import Cycle
from scheduler.framework.measure import Instruments, Measure, measured
from scheduler.framework.narrow import Narrow, none_left
from scheduler.framework.nodes import Nodes
from scheduler.framework.plugin import POINT_NAMES
from scheduler.framework.profile import Bound, Profile
from scheduler.framework.scores import Total, check_range, normalize
from scheduler.framework.standing import StandingAnswers
from scheduler.framework.stateless import without_state
from scheduler.framework.status import SUCCESS, Code, Rejected, Status
from scheduler.framework.steps import bind, pre_bind

if TYPE_CHECKING:
    from scheduler.framework.postfilter import FitFailure, PostFiltered

_INT64 = np.dtype(np.int64)


class States:
    """What plugins returned from pre-filter and pre-score in one attempt, and who was skipped."""

    __slots__ = ("by_plugin", "scoring", "skipped", "skipped_scoring")

    def __init__(self) -> None:
        self.by_plugin: dict[str, Any] = {}
        self.scoring: dict[str, Any] = {}
        self.skipped: set[str] = set()
        self.skipped_scoring: set[str] = set()

    def for_score(self, plugin: str) -> Any:
        """Return the state that `score` of a plugin receives."""
        if plugin in self.scoring:
            return self.scoring[plugin]
        return self.by_plugin.get(plugin)


class PreFiltered(msgspec.Struct, frozen=True):
    """The outcome of pre-filter: a status, and the rows left if plugins narrowed them."""

    status: Status = SUCCESS
    rows: BoolColumn | None = None
    narrowed_by: tuple[str, ...] = ()


class Rejection(msgspec.Struct, frozen=True):
    """What one plugin rejected among the rows that had passed all plugins before it."""

    plugin: str
    rows: BoolColumn
    rejected: Rejected


class Scored(msgspec.Struct, frozen=True):
    """The scores of one plugin as full columns; only feasible rows mean anything."""

    plugin: str
    raw: IntColumn
    normalized: IntColumn
    weight: int


class Runner:
    """Runs the plugins of one profile."""

    def __init__(self, profile: Profile, instruments: Instruments | None = None) -> None:
        self.profile = profile
        self._measure = Measure(profile, instruments) if instruments is not None else None
        self._filters_without_state = _plugins_without_state(profile, "filter", "pre_filter")
        self._scores_without_state = _plugins_without_state(profile, "score", "pre_score")
        self._served = {point for point in POINT_NAMES if _bounds(profile, point)}
        self._filtering = StandingAnswers(profile, "pre_filter")
        self._scoring = StandingAnswers(profile, "pre_score")
        # By point and absent plugins: who is left.
        self._present: dict[tuple[str, frozenset[str]], tuple[Bound, ...]] = {}

    def pre_filter(self, cycle: Cycle, nodes: Nodes, states: States) -> PreFiltered:
        """Run pre-filter; see kube-scheduler's rules for U, UAU, Pending and Skip."""
        failed = SUCCESS
        rows: BoolColumn | None = None
        narrowed: list[str] = []
        answers: dict[str, Any] = {}
        standing = self._filtering.of(cycle.shape)
        states.skipped.update(standing.skipped)
        states.by_plugin.update(standing.states)

        def step(bound: Bound) -> bool:
            nonlocal failed, rows
            answer = answers[bound.name] = bound.call(cycle, nodes)
            if isinstance(answer, Status):
                if answer.code is Code.SKIP:
                    states.skipped.add(bound.name)
                elif not answer.is_success:
                    failed = _attributed(answer, bound, "pre_filter")
                    # Only a plain "unschedulable" lets the others run: they leave the state that
                    # preemption needs.
                    return answer.code is not Code.UNSCHEDULABLE
                return False
            if isinstance(answer, Narrow):
                narrowed.append(bound.name)
                rows = answer.rows if rows is None else rows & answer.rows
                # kube-scheduler: one plugin's names may be unknown, two that exclude each other not.
                if answer.is_empty or (len(narrowed) > 1 and not (rows & nodes.exists).any()):
                    failed = none_left(narrowed)
                    return True
                answer = answer.state
            states.by_plugin[bound.name] = answer
            return False

        self._each("pre_filter", standing.left, step, lambda: failed.code, skipped=states.skipped)
        if failed.is_success and not self._filtering.is_known(cycle.shape):
            self._filtering.learn(cycle.shape, answers)
        return PreFiltered(failed, rows, tuple(narrowed))

    def filter(
        self, cycle: Cycle, nodes: Nodes, states: States, feasible: BoolColumn
    ) -> tuple[BoolColumn, list[Rejection]]:
        """Return the rows of `feasible` that pass all filters, and who rejected the others."""
        rejections: list[Rejection] = []
        if not np.count_nonzero(feasible):
            return feasible, rejections  # no plugin is asked about no node: one could fail

        def step(bound: Bound) -> bool:
            nonlocal feasible
            rejected = self._call_filter(bound, cycle, nodes, states)
            if rejected is not None:
                fresh = rejected.rows & feasible
                if np.count_nonzero(fresh):
                    rejections.append(Rejection(bound.name, fresh, rejected))
                    feasible = feasible & ~fresh
                    return not np.count_nonzero(feasible)
            return False

        standing = self._filtering.of(cycle.shape)
        bounds = standing.after
        if states.skipped != standing.skipped:
            bounds = tuple(b for b in bounds if b.name not in states.skipped)
        self._each("filter", bounds, step)
        return feasible, rejections

    def post_filter(self, cycle: Cycle, nodes: Nodes, failure: FitFailure) -> list[PostFiltered]:
        """Ask the post-filter plugins in order until one says more than "unschedulable"."""
        answers: list[PostFiltered] = []

        def step(bound: Bound) -> bool:
            answer: PostFiltered = bound.call(cycle, nodes, failure)
            answers.append(answer)
            # kube-scheduler: after an error or a final "no" the others are not asked either.
            return answer.status.code is not Code.UNSCHEDULABLE

        self._each("post_filter", self.profile.post_filter, step, lambda: answers[-1].status.code)
        return answers

    def score(self, cycle: Cycle, nodes: Nodes, states: States) -> tuple[IntColumn, list[Scored]]:
        """Return the weighted totals, and each plugin's scores, of the feasible rows."""
        self._pre_score(cycle, nodes, states)
        total = Total(nodes.size)
        scores: list[Scored] = []

        def step(bound: Bound) -> bool:
            raw = self._call_score(bound, cycle, nodes, states)
            normalized = normalize(bound, cycle, nodes, raw)
            if not bound.plugin.bounded:
                check_range(bound.name, normalized, nodes)
            scores.append(Scored(bound.name, raw, normalized, bound.weight))
            total.add(normalized, bound.weight)
            return False

        standing = self._scoring.of(cycle.shape)
        bounds = standing.after
        if states.skipped_scoring != standing.skipped:
            bounds = tuple(b for b in bounds if b.name not in states.skipped_scoring)
        self._each("score", bounds, step)
        return total.column(), scores

    def reserve(self, cycle: Cycle, node: str, states: States) -> Status:
        """Run reserve; the first plugin that does not succeed ends it."""
        bounds = self._concerned("reserve", cycle)
        return self._until_rejected("reserve", bounds, cycle, node, states)

    def unreserve(self, cycle: Cycle, node: str, states: States) -> None:
        """Take all reservations back in reverse order; a plugin's exception is raised at the end."""

        def step(bound: Bound) -> bool:
            if bound.plugin.serves("unreserve"):
                bound.plugin.unreserve(cycle, node, *_state(bound, states))
            return False

        bounds = self._concerned("reserve", cycle)
        self._each("unreserve", bounds[::-1], step, to_the_end=True)

    def permit(self, cycle: Cycle, node: str) -> tuple[Status, dict[str, float]]:
        """Run permit; return the status and, for each plugin that waits, its timeout in seconds."""
        waits: dict[str, float] = {}
        rejected = SUCCESS

        def step(bound: Bound) -> bool:
            nonlocal rejected
            status = bound.call(cycle, node) or SUCCESS
            if status.code is Code.WAIT:
                waits[bound.name] = min(status.timeout_s, 900.0)
                return False
            if not status.is_success:
                rejected = _attributed(status, bound, "permit")
            return not status.is_success

        self._each("permit", self.profile.permit, step)
        if not rejected.is_success:
            return rejected, {}
        return (Status(Code.WAIT), waits) if waits else (SUCCESS, waits)

    def bind(
        self, cycle: Cycle, node: str, states: States
    ) -> Generator[BindStep, CallResult, Status]:
        """Run pre-bind, then the first binder that does not skip; yields what plugins ask for."""
        bounds = self._concerned("pre_bind", cycle)
        asking = [(bound, _state(bound, states)) for bound in bounds]
        status = yield from measured(self._measure, "pre_bind", pre_bind(asking, cycle, node))
        if status.code not in (Code.SUCCESS, Code.SKIP):
            return status
        return (yield from measured(self._measure, "bind", bind(self.profile.bind, cycle, node)))

    def post_bind(self, cycle: Cycle, node: str) -> None:
        """Tell all plugins that the pod is bound; a plugin's exception is raised at the end."""

        def step(bound: Bound) -> bool:
            bound.call(cycle, node)
            return False

        self._each("post_bind", self.profile.post_bind, step, to_the_end=True)

    def _pre_score(self, cycle: Cycle, nodes: Nodes, states: States) -> None:
        answers: dict[str, Any] = {}
        standing = self._scoring.of(cycle.shape)
        states.skipped_scoring.update(standing.skipped)
        states.scoring.update(standing.states)

        def step(bound: Bound) -> bool:
            answer = bound.call(cycle, nodes, *_state(bound, states))
            answers[bound.name] = answer
            if isinstance(answer, Status):
                if answer.code is Code.SKIP:
                    states.skipped_scoring.add(bound.name)
                elif not answer.is_success:
                    raise PluginError(bound.name, "PreScore", answer.message)
            elif answer is not None:
                states.scoring[bound.name] = answer
            return False

        self._each("pre_score", standing.left, step, skipped=states.skipped_scoring)
        if not self._scoring.is_known(cycle.shape):
            self._scoring.learn(cycle.shape, answers)

    def _concerned(self, point: str, cycle: Cycle) -> tuple[Bound, ...]:
        """Return the plugins of a point but for those that have nothing to do with such pods."""
        absent = self._filtering.of(cycle.shape).absent
        found = self._present.get((point, absent))
        if found is None:
            found = tuple(b for b in getattr(self.profile, point) if b.name not in absent)
            self._present[point, absent] = found
        return found

    def _call_filter(
        self, bound: Bound, cycle: Cycle, nodes: Nodes, states: States
    ) -> Rejected | None:
        if bound.name in self._filters_without_state:
            self._catch_up(bound, "pre_filter", cycle, nodes, states)
            if bound.name in states.skipped:
                return None
        result: Rejected | None = bound.call(cycle, nodes, *_state(bound, states))
        return result

    def _call_score(self, bound: Bound, cycle: Cycle, nodes: Nodes, states: States) -> IntColumn:
        if bound.name in self._scores_without_state:
            self._catch_up(bound, "pre_score", cycle, nodes, states)
        if bound.plugin.takes_score_state:
            raw = bound.call(cycle, nodes, states.for_score(bound.name))
        else:
            raw = bound.call(cycle, nodes)
        if not isinstance(raw, np.ndarray) or raw.dtype != _INT64 or len(raw) != nodes.size:
            raise TypeError(f"score must return an int64 column of {nodes.size} rows")
        return raw

    def _catch_up(
        self, bound: Bound, method: str, cycle: Cycle, nodes: Nodes, states: States
    ) -> None:
        """Serve a plugin whose pre-filter (pre-score) the profile disables."""
        if method.removeprefix("pre_") not in bound.plugin.on_the_spot:
            raise LookupError(without_state(bound.plugin, method))
        state = _state(bound, states) if method == "pre_score" else ()
        answer = getattr(bound.plugin, method)(cycle, nodes, *state)
        if isinstance(answer, Status):
            if answer.code is Code.ERROR:
                raise ValueError(answer.message)
            if answer.code is Code.SKIP and method == "pre_filter":
                states.skipped.add(bound.name)
            return
        kept = states.by_plugin if method == "pre_filter" else states.scoring
        kept[bound.name] = answer.state if isinstance(answer, Narrow) else answer

    def _until_rejected(
        self, point: str, bounds: tuple[Bound, ...], cycle: Cycle, node: str, states: States
    ) -> Status:
        outcome = SUCCESS

        def step(bound: Bound) -> bool:
            nonlocal outcome
            status = bound.call(cycle, node, *_state(bound, states)) or SUCCESS
            if not status.is_success:
                outcome = _attributed(status, bound, point)
            return not status.is_success

        self._each(point, bounds, step)
        return outcome

    def _each(
        self,
        point: str,
        bounds: tuple[Bound, ...],
        step: Callable[[Bound], bool],
        outcome: Callable[[], str] = lambda: "Success",
        *,
        skipped: Collection[str] = (),
        to_the_end: bool = False,
    ) -> None:
        """Call `step` for each plugin in order until it returns True or, mostly, raises."""
        if not bounds and point not in self._served:
            return
        measure = self._measure
        started_s = 0.0
        if measure is not None:
            step = measure.around(point, step)
            started_s = measure.now_s()
        result = "Error"
        asked = 0
        faults: list[PluginError] = []
        try:
            for bound in bounds:
                asked += 1
                try:
                    if step(bound):
                        break
                except PluginError:
                    raise
                except Exception as error:  # the one place where a plugin's fault is caught
                    fault = PluginError(bound.name, POINT_NAMES[point], str(error))
                    if not to_the_end:
                        raise fault from error
                    faults.append(fault)
            if faults:
                raise faults[0]
            result = outcome()
        finally:
            if measure is not None:
                measure.point(point, measure.now_s() - started_s, result)
                measure.count(point, bounds[:asked], skipped)


def _bounds(profile: Profile, point: str) -> tuple[Bound, ...]:
    bounds: tuple[Bound, ...] = getattr(profile, "reserve" if point == "unreserve" else point)
    return bounds


def _plugins_without_state(profile: Profile, point: str, before: str) -> frozenset[str]:
    served = {bound.name for bound in getattr(profile, before)}
    return frozenset(
        bound.name
        for bound in getattr(profile, point)
        if bound.plugin.serves(before) and bound.name not in served
    )


def _state(bound: Bound, states: States) -> tuple[Any, ...]:
    """Return the state argument of a plugin that has a pre-filter, nothing for one without."""
    return (states.by_plugin.get(bound.name),) if bound.plugin.takes_state else ()


def _attributed(status: Status, bound: Bound, point: str) -> Status:
    """Return a rejection with its plugin's name; PluginError for a status of code Error."""
    if status.code is Code.ERROR:
        raise PluginError(bound.name, POINT_NAMES[point], status.message)
    return msgspec.structs.replace(status, plugin=bound.name)
