"""`Runner`: calls the plugins of a profile, point by point.

One loop (`_each`) serves all points: order, timing, and an exception of a plugin named with plugin and
point. What a point makes of the answers stands in the method of that point; the runner decides nothing
about pods beyond that. What it keeps between attempts, in `Concerns` and their `Memo`, changes none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from typing import TYPE_CHECKING, Any

import msgspec

from scheduler.base.arrays import BoolColumn, IntColumn, is_any
from scheduler.base.errors import PluginError
from scheduler.framework.answers import PreFiltered, Rejection, Scored, States
from scheduler.framework.calls import ApiCall, BindStep, CallResult
from scheduler.framework.concern import Concerns
from scheduler.framework.cycle import Cycle
from scheduler.framework.measure import Instruments, Measure, measured
from scheduler.framework.narrow import Narrow, none_left
from scheduler.framework.nodes import Nodes
from scheduler.framework.plugin import POINT_NAMES
from scheduler.framework.profile import Bound, Profile
from scheduler.framework.returned import post_filtered_of, rejection_of, scores_of, status_of
from scheduler.framework.scores import Total, check_range, normalize
from scheduler.framework.status import SUCCESS, Code, Rejected, Status
from scheduler.framework.steps import bind, pre_bind

if TYPE_CHECKING:
    from scheduler.framework.postfilter import FitFailure, PostFiltered

_NOTHING_SAID = PreFiltered()


class Runner:
    """Runs the plugins of one profile.

    Without `keeps` it asks every plugin about every pod, for tests of a plugin's own verdict.
    """

    def __init__(
        self, profile: Profile, instruments: Instruments | None = None, *, keeps: bool = True
    ) -> None:
        self.profile = profile
        self._measure = Measure(profile, instruments) if instruments is not None else None
        self._served = {point for point in POINT_NAMES if _bounds(profile, point)}
        self._filters_without_state = _plugins_without_state(profile, "filter", "pre_filter")
        self._scores_without_state = _plugins_without_state(profile, "score", "pre_score")
        self._concerns = Concerns(profile, keeps=keeps)

    def pre_filter(self, cycle: Cycle, nodes: Nodes, states: States) -> PreFiltered:
        """Run pre-filter; see kube-scheduler's rules for U, UAU, Pending and Skip."""
        concern = self._concerns.of(cycle, nodes)
        asked = states.asked = concern.asked
        states.kinds = concern.kinds
        states.skipped.update(asked.skip_filtering)
        states.filters = asked.filter
        if not asked.pre_filter:
            self._nobody_asked("pre_filter")
            return _NOTHING_SAID
        absent = len(states.skipped)
        failed = SUCCESS
        rows: BoolColumn | None = None
        narrowed: list[str] = []

        def step(bound: Bound) -> bool:
            nonlocal failed, rows
            answer = bound.call(cycle, nodes)
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

        stopped_by = self._each(
            "pre_filter", asked.pre_filter, step, lambda: failed.code, skipped=states.skipped
        )
        if len(states.skipped) != absent:
            states.filters = tuple([b for b in asked.filter if b.name not in states.skipped])
        return PreFiltered(failed, rows, tuple(narrowed), stopped_by)

    def filter(
        self, cycle: Cycle, nodes: Nodes, states: States, feasible: BoolColumn
    ) -> tuple[BoolColumn, list[Rejection]]:
        """Return the rows of `feasible` that pass all filters, and who rejected the others."""
        is_all = feasible is nodes.exists
        if not (nodes.count if is_all else is_any(feasible)):
            return feasible, []  # no plugin is asked about no node: one could fail
        bounds = states.filters
        if bounds is None:
            bounds = tuple(b for b in self.profile.filter if b.name not in states.skipped)
        rejections: list[Rejection] = []

        def step(bound: Bound) -> bool:
            nonlocal feasible
            is_kept = bound.name in states.kinds  # by its law it looks at no `feasible`
            view = nodes if is_kept or feasible is nodes.feasible else nodes.among(feasible)
            rejected = self._call_filter(bound, cycle, view, states)
            if rejected is not None:
                fresh = rejected.rows & feasible
                if is_any(fresh):
                    rejections.append(Rejection(bound.name, fresh, rejected))
                    feasible = feasible ^ fresh
                    return not is_any(feasible)
            return False

        self._each("filter", bounds, step)
        return feasible, rejections

    def prefiltered_by(self, pre: PreFiltered) -> frozenset[str]:
        """Return the plugins that pre-filter got to."""
        names = [bound.name for bound in self.profile.pre_filter]
        if pre.stopped_by:
            del names[names.index(pre.stopped_by) + 1 :]
        return frozenset(names)

    def post_filter(self, cycle: Cycle, nodes: Nodes, failure: FitFailure) -> list[PostFiltered]:
        """Ask the post-filter plugins in order until one says more than "unschedulable"."""
        answers: list[PostFiltered] = []

        def step(bound: Bound) -> bool:
            answer = post_filtered_of(bound.call(cycle, nodes, failure))
            answers.append(msgspec.structs.replace(answer, plugin=bound.name))
            # kube-scheduler: after an error or a final "no" the others are not asked either.
            return answer.status.code is not Code.UNSCHEDULABLE

        self._each("post_filter", self.profile.post_filter, step, lambda: answers[-1].status.code)
        return answers

    def score(self, cycle: Cycle, nodes: Nodes, states: States) -> tuple[IntColumn, list[Scored]]:
        """Return the weighted totals, and each plugin's scores, of the feasible rows."""
        bounds = self._pre_score(cycle, nodes, states)
        total = Total(nodes.size)
        scores: list[Scored] = []

        def step(bound: Bound) -> bool:
            raw, is_bounded = self._call_score(bound, cycle, nodes, states)
            normalized = normalize(bound, cycle, nodes, raw)
            if not (is_bounded and normalized is raw):
                check_range(bound.name, normalized, nodes)
            scores.append(Scored(bound.name, raw, normalized, bound.weight))
            total.add(normalized, bound.weight)
            return False

        self._each("score", bounds, step)
        return total.column(), scores

    def reserve(self, cycle: Cycle, node: str, states: States) -> Status:
        """Run reserve; the first plugin that does not succeed ends it."""
        bounds = self.profile.reserve if states.asked is None else states.asked.reserve
        return self._until_rejected("reserve", bounds, cycle, node, states)

    def unreserve(self, cycle: Cycle, node: str, states: States) -> tuple[ApiCall, ...]:
        """Take all reservations back in reverse order; return the calls that undo what is written.

        A plugin's exception is raised at the end.
        """
        calls: list[ApiCall] = []

        def step(bound: Bound) -> bool:
            if bound.plugin.serves("unreserve"):
                calls.extend(bound.plugin.unreserve(cycle, node, *_state(bound, states)) or ())
            return False

        bounds = self.profile.reserve if states.asked is None else states.asked.reserve
        self._each("unreserve", bounds[::-1], step, to_the_end=True)
        return tuple(calls)

    def permit(self, cycle: Cycle, node: str) -> tuple[Status, dict[str, float]]:
        """Run permit; return the status and, for each plugin that waits, its timeout in seconds."""
        waits: dict[str, float] = {}
        rejected = SUCCESS

        def step(bound: Bound) -> bool:
            nonlocal rejected
            status = status_of(bound.call(cycle, node), "permit") or SUCCESS
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
        bounds = self.profile.pre_bind if states.asked is None else states.asked.pre_bind
        if bounds:
            asking = [(bound, _state(bound, states)) for bound in bounds]
            status = yield from measured(self._measure, "pre_bind", pre_bind(asking, cycle, node))
            if status.code not in (Code.SUCCESS, Code.SKIP):
                return status
        else:
            self._nobody_asked("pre_bind")
        return (yield from measured(self._measure, "bind", bind(self.profile.bind, cycle, node)))

    def post_bind(self, cycle: Cycle, node: str) -> None:
        """Tell all plugins that the pod is bound; a plugin's exception is raised at the end."""

        def step(bound: Bound) -> bool:
            bound.call(cycle, node)
            return False

        self._each("post_bind", self.profile.post_bind, step, to_the_end=True)

    def _pre_score(self, cycle: Cycle, nodes: Nodes, states: States) -> tuple[Bound, ...]:
        """Ask the plugins for the states that scoring needs; return who scores."""
        asked = states.asked
        before = self.profile.pre_score if asked is None else asked.pre_score
        after = self.profile.score if asked is None else asked.score
        if asked is not None:
            states.skipped_scoring.update(asked.skip_scoring)
        skipped = len(states.skipped_scoring)

        def step(bound: Bound) -> bool:
            answer = bound.call(cycle, nodes, *_state(bound, states))
            if isinstance(answer, Status):
                if answer.code is Code.SKIP:
                    states.skipped_scoring.add(bound.name)
                elif not answer.is_success:
                    raise PluginError(bound.name, "PreScore", answer.message)
            elif answer is not None:
                states.scoring[bound.name] = answer
            return False

        self._each("pre_score", before, step, skipped=states.skipped_scoring)
        if len(states.skipped_scoring) == skipped:
            return after
        return tuple([b for b in after if b.name not in states.skipped_scoring])

    def _call_filter(
        self, bound: Bound, cycle: Cycle, nodes: Nodes, states: States
    ) -> Rejected | None:
        if bound.name in self._filters_without_state:
            self._catch_up(bound, "pre_filter", cycle, nodes, states)
            if bound.name in states.skipped:
                return None
        kind = states.kinds.get(bound.name) if nodes.is_live else None
        if kind is not None:
            return kind.filtered(cycle, nodes, _state(bound, states))
        return rejection_of(bound.call(cycle, nodes, *_state(bound, states)), nodes.size)

    def _call_score(
        self, bound: Bound, cycle: Cycle, nodes: Nodes, states: States
    ) -> tuple[IntColumn, bool]:
        """Return the raw scores, and whether they are known to be within 0..100."""
        if bound.name in self._scores_without_state:
            self._catch_up(bound, "pre_score", cycle, nodes, states)
        state = (states.for_score(bound.name),) if bound.plugin.takes_score_state else ()
        kind = states.kinds.get(bound.name) if nodes.is_live else None
        if kind is not None:
            return kind.scored(cycle, nodes, state)
        return scores_of(bound.call(cycle, nodes, *state), nodes.size), False

    def _catch_up(
        self, bound: Bound, method: str, cycle: Cycle, nodes: Nodes, states: States
    ) -> None:
        """Serve a plugin whose pre-filter (pre-score) the profile disables."""
        if method in bound.plugin.unread:
            raise LookupError(bound.plugin.unread[method])
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
            status = status_of(bound.call(cycle, node, *_state(bound, states)), point) or SUCCESS
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
        outcome: Callable[[], str] | None = None,
        *,
        skipped: Collection[str] = (),
        to_the_end: bool = False,
    ) -> str:
        """Call `step` for each plugin in order until it returns True or, mostly, raises.

        Return the plugin that ended it, an empty text for none.
        """
        if not bounds:
            self._nobody_asked(point)
            return ""
        measure, started_s = self._measure, 0.0
        if measure is not None:
            step = measure.around(point, step)
            started_s = measure.now_s()
        result, ended_by, asked = "Error", "", 0
        faults: list[PluginError] = []
        try:
            for bound in bounds:
                asked += 1
                try:
                    if step(bound):
                        ended_by = bound.name
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
            result = "Success" if outcome is None else outcome()
        finally:
            if measure is not None:
                measure.point(point, measure.now_s() - started_s, result)
                measure.count(point, bounds[:asked], skipped)
        return ended_by

    def _nobody_asked(self, point: str) -> None:
        if self._measure is not None and point in self._served:
            self._measure.nothing_asked(point)


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
