"""`Runner`: calls the plugins of a profile, point by point.

`PointRun` serves all points: order, timing, and an exception of a plugin named with plugin and
point. Only pre-bind and bind are generators, which the engine resumes with each answer: `_steps`
adds their names. The method of each point evaluates the answers; the runner makes no other decision
about pods. Its caches between attempts, in `Concerns` and their `Memo`, change no result.
"""

from collections.abc import Generator, Hashable
from typing import Any

import msgspec

from scheduler.base.arrays import BoolColumn, IntColumn, is_any
from scheduler.base.errors import PluginError
from scheduler.framework.calls import ApiCall, BindStep, CallResult, PreBindDone
from scheduler.framework.cycle import Cycle
from scheduler.framework.nodes import Nodes
from scheduler.framework.plugin import POINT_NAMES
from scheduler.framework.postfilter import FitFailure, PostFiltered
from scheduler.framework.profile import Bound, Profile
from scheduler.framework.running.answers import PreFiltered, Scored, States
from scheduler.framework.running.answertypes import (
    post_filtered_of,
    rejection_of,
    scores_of,
    status_of,
    steps_of,
)
from scheduler.framework.running.concern import Concerns
from scheduler.framework.running.measure import Instruments, PointMeasure, PointRun, measured
from scheduler.framework.running.scores import Total, check_range, normalize
from scheduler.framework.status import SUCCESS, Code, Narrow, Rejected, Rejection, Status, none_left


class Runner:
    """Run the plugins of one profile.

    Without `keeps` every plugin runs for every pod, for tests of a plugin's own verdict.
    """

    def __init__(
        self, profile: Profile, instruments: Instruments | None = None, *, keeps: bool = True
    ) -> None:
        self.profile = profile
        self._measure = PointMeasure(profile, instruments) if instruments is not None else None
        self._filters_without_state = _plugins_without_state(profile, "filter", "pre_filter")
        self._scores_without_state = _plugins_without_state(profile, "score", "pre_score")
        self._concerns = Concerns(profile, keeps=keeps)

    def rejection_key(self, cycle: Cycle, nodes: Nodes) -> Hashable | None:
        """Return the scheduling signature of a pod; None for a pod equivalent to no other."""
        return self._concerns.of(cycle, nodes).rejection_key

    def pre_filter(self, cycle: Cycle, nodes: Nodes, states: States) -> PreFiltered:
        """Run pre-filter, with kube-scheduler's rules for U, UAU, Pending and Skip."""
        if self._measure is not None:
            self._measure.begin()
        concern = self._concerns.of(cycle, nodes)
        applicable = states.applicable = concern.applicable
        states.kinds = concern.kinds
        states.skipped.update(applicable.skip_filtering)
        absent = len(states.skipped)
        failed, rows = SUCCESS, None
        narrowed: list[str] = []
        stopped_by = ""
        with PointRun(self._measure, "pre_filter", applicable.pre_filter, states.skipped) as run:
            for bound in run:
                answer = bound.call(cycle, nodes)
                if isinstance(answer, Status):
                    if answer.code is Code.SKIP:
                        states.skipped.add(bound.name)
                    elif not answer.is_success:
                        failed = _attributed(answer, bound, "pre_filter")
                        # Only a plain "unschedulable" lets the other plugins run: preemption needs
                        # the state that they make.
                        if answer.code is not Code.UNSCHEDULABLE:
                            stopped_by = bound.name
                            break
                    continue
                if isinstance(answer, Narrow):
                    narrowed.append(bound.name)
                    rows = answer.rows if rows is None else rows & answer.rows
                    # kube-scheduler: one plugin may name unknown nodes, but two plugins must not
                    # exclude each other.
                    if answer.is_empty or (len(narrowed) > 1 and not (rows & nodes.exists).any()):
                        failed, stopped_by = none_left(narrowed), bound.name
                        break
                    answer = answer.state
                states.by_plugin[bound.name] = answer
            run.outcome = failed.code
        states.filters = applicable.filter
        if len(states.skipped) != absent:
            states.filters = tuple([b for b in applicable.filter if b.name not in states.skipped])
        return PreFiltered(failed, rows, tuple(narrowed), stopped_by)

    def filter(
        self, cycle: Cycle, nodes: Nodes, states: States, feasible: BoolColumn
    ) -> tuple[BoolColumn, list[Rejection]]:
        """Return the rows of `feasible` that pass all filters, and the rejections of the others."""
        is_all = feasible is nodes.exists
        if not (nodes.count if is_all else is_any(feasible)):
            return feasible, []  # a plugin may fail on a view without nodes
        bounds = states.filters
        if bounds is None:
            bounds = tuple(b for b in self.profile.filter if b.name not in states.skipped)
        rejections: list[Rejection] = []
        with PointRun(self._measure, "filter", bounds) as run:
            for bound in run:
                is_kept = bound.name in states.kinds  # a filter with a key ignores `feasible`
                view = nodes if is_kept or feasible is nodes.feasible else nodes.among(feasible)
                rejected = self._call_filter(bound, cycle, view, states)
                if rejected is None:
                    continue
                fresh = rejected.rows & feasible
                if is_any(fresh):
                    rejections.append(Rejection(bound.name, fresh, rejected))
                    feasible = feasible ^ fresh
                    if not is_any(feasible):
                        break
        return feasible, rejections

    def prefiltered_by(self, pre: PreFiltered) -> frozenset[str]:
        """Return the plugins whose pre-filter ran."""
        names = [bound.name for bound in self.profile.pre_filter]
        if pre.stopped_by:
            del names[names.index(pre.stopped_by) + 1 :]
        return frozenset(names)

    def post_filter(self, cycle: Cycle, nodes: Nodes, failure: FitFailure) -> list[PostFiltered]:
        """Run the post-filter plugins in order until one returns more than "unschedulable"."""
        answers: list[PostFiltered] = []
        with PointRun(self._measure, "post_filter", self.profile.post_filter) as run:
            for bound in run:
                answer = self._post_filtered(bound, cycle, nodes, failure)
                answers.append(msgspec.structs.replace(answer, plugin=bound.name))
                run.outcome = answer.status.code
                # kube-scheduler: an error or a final rejection ends the point.
                if answer.status.code is not Code.UNSCHEDULABLE:
                    break
        return answers

    def _post_filtered(
        self, bound: Bound, cycle: Cycle, nodes: Nodes, failure: FitFailure
    ) -> PostFiltered:
        """Run one post-filter plugin; measure the search of a plugin that preempts."""
        measure = self._measure if bound.plugin.preempts else None
        if measure is None:
            return post_filtered_of(bound.call(cycle, nodes, failure))
        started_s = measure.now_s()
        answer = post_filtered_of(bound.call(cycle, nodes, failure))
        measure.preemption(started_s, answer.status.code)
        return answer

    def score(self, cycle: Cycle, nodes: Nodes, states: States) -> tuple[IntColumn, list[Scored]]:
        """Return the weighted totals, and each plugin's scores, of the feasible rows."""
        bounds = self._pre_score(cycle, nodes, states)
        total = Total(nodes.size)
        scores: list[Scored] = []
        with PointRun(self._measure, "score", bounds) as run:
            for bound in run:
                raw, is_bounded = self._call_score(bound, cycle, nodes, states)
                normalized = normalize(bound, cycle, nodes, raw)
                if not (is_bounded and normalized is raw):
                    check_range(bound.name, normalized, nodes)
                scores.append(Scored(bound.name, raw, normalized, bound.weight))
                total.add(normalized, bound.weight)
        return total.column(), scores

    def reserve(self, cycle: Cycle, node: str, states: States) -> Status:
        """Run reserve; the first plugin without success ends it."""
        bounds = self.profile.reserve if states.applicable is None else states.applicable.reserve
        with PointRun(self._measure, "reserve", bounds) as run:
            for bound in run:
                answer = bound.call(cycle, node, *_state(bound, states))
                status = status_of(answer, "reserve") or SUCCESS
                if not status.is_success:
                    return _attributed(status, bound, "reserve")
        return SUCCESS

    def unreserve(self, cycle: Cycle, node: str, states: States) -> tuple[ApiCall, ...]:
        """Undo all reservations in reverse order; return the calls that undo writes.

        A plugin's exception is raised at the end.
        """
        calls: list[ApiCall] = []
        bounds = self.profile.reserve if states.applicable is None else states.applicable.reserve
        with PointRun(self._measure, "unreserve", bounds[::-1]) as run:
            for bound in run:
                if bound.plugin.serves("unreserve"):
                    with run.going_on():
                        calls.extend(
                            bound.plugin.unreserve(cycle, node, *_state(bound, states)) or ()
                        )
        return tuple(calls)

    def permit(self, cycle: Cycle, node: str) -> tuple[Status, dict[str, float]]:
        """Run permit; return the status and, for each plugin that waits, its timeout in seconds."""
        waits: dict[str, float] = {}
        with PointRun(self._measure, "permit", self.profile.permit) as run:
            for bound in run:
                status = status_of(bound.call(cycle, node), "permit") or SUCCESS
                if status.code is Code.WAIT:
                    waits[bound.name] = min(status.timeout_s, 900.0)
                elif not status.is_success:
                    return _attributed(status, bound, "permit"), {}
        return (Status(Code.WAIT), waits) if waits else (SUCCESS, waits)

    def bind(
        self, cycle: Cycle, node: str, states: States, *, pauses: bool = False
    ) -> Generator[BindStep, CallResult, Status]:
        """Run pre-bind, then the first binder that does not skip; yields the plugins' calls.

        With `pauses` it yields `PreBindDone` between the two.
        """
        status = yield from measured(self._measure, "pre_bind", self._pre_bind(cycle, node, states))
        if status.code not in (Code.SUCCESS, Code.SKIP):
            return status
        if pauses:
            yield PreBindDone()
        return (yield from measured(self._measure, "bind", self._bind(cycle, node)))

    def _pre_bind(
        self, cycle: Cycle, node: str, states: States
    ) -> Generator[BindStep, CallResult, Status]:
        """Run the pre-bind plugins, each with its state, until one does not succeed."""
        bounds = self.profile.pre_bind if states.applicable is None else states.applicable.pre_bind
        for bound in bounds:
            status = yield from _steps(bound, "PreBind", cycle, node, _state(bound, states))
            if status.code not in (Code.SUCCESS, Code.SKIP):
                return status
        return SUCCESS

    def _bind(self, cycle: Cycle, node: str) -> Generator[BindStep, CallResult, Status]:
        """Run the first binder that does not skip."""
        for bound in self.profile.bind:
            status = yield from _steps(bound, "Bind", cycle, node, ())
            if status.code is not Code.SKIP:
                return status
        return Status(Code.ERROR, (f"no bind plugin took the pod to node {node}",))

    def post_bind(self, cycle: Cycle, node: str) -> None:
        """Report the binding to all plugins; a plugin's exception is raised at the end."""
        with PointRun(self._measure, "post_bind", self.profile.post_bind) as run:
            for bound in run:
                with run.going_on():
                    bound.call(cycle, node)

    def _pre_score(self, cycle: Cycle, nodes: Nodes, states: States) -> tuple[Bound, ...]:
        """Compute the states for scoring; return the plugins that score."""
        applicable = states.applicable
        before = self.profile.pre_score if applicable is None else applicable.pre_score
        after = self.profile.score if applicable is None else applicable.score
        if applicable is not None:
            states.skipped_scoring.update(applicable.skip_scoring)
        skipped = len(states.skipped_scoring)
        with PointRun(self._measure, "pre_score", before, states.skipped_scoring) as run:
            for bound in run:
                answer = bound.call(cycle, nodes, *_state(bound, states))
                if isinstance(answer, Status):
                    if answer.code is Code.SKIP:
                        states.skipped_scoring.add(bound.name)
                    elif not answer.is_success:
                        raise PluginError(bound.name, "PreScore", answer.message)
                elif answer is not None:
                    states.scoring[bound.name] = answer
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
        """Compute the state of a plugin whose pre-filter (pre-score) the profile disables."""
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


def _steps(
    bound: Bound, point: str, cycle: Cycle, node: str, state: tuple[Any, ...]
) -> Generator[BindStep, CallResult, Status]:
    """Run one plugin at `point`; an error names plugin and point, a rejection keeps its reasons."""
    try:
        steps = steps_of(bound.call(cycle, node, *state), point)
        status = status_of((yield from steps), point) or SUCCESS
    except Exception as error:  # a plugin may raise anything
        raise PluginError(bound.name, point, str(error)) from error
    if status.code is Code.ERROR:
        text = f'running {point} plugin "{bound.name}": {status.message}'
        return Status(Code.ERROR, (text,), bound.name)
    return msgspec.structs.replace(status, plugin=bound.name)


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
