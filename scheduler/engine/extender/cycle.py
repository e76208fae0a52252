"""An attempt with extenders: the steps of `engine.attempt.cycle` with requests in between.

Plugins filter first. Each filtering extender receives the nodes that the ones before it passed.
Scoring extenders are called concurrently. Preempting extenders receive the candidates of the
post-filter plugins.

The cluster changes while an answer is awaited, so the cycle keeps nothing of the view. Extenders
use node names; after the last answer the plugins filter the live nodes again, among the names that
passed. The extenders have not seen a node that was added meanwhile: it is left out, and the
extenders are called once more before the pod is rejected.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from scheduler.base.arrays import BoolColumn
from scheduler.engine.attempt.cycle import (
    NO_NODES,
    Attempt,
    best,
    concluded,
    filter_all,
    filter_rows,
    infeasible,
    nominated_alone,
    post_filter,
)
from scheduler.engine.decision import Decision
from scheduler.engine.extender.extenders import ConfiguredExtender
from scheduler.engine.extender.protocol import (
    ExtenderFault,
    FilterVerdict,
    answer_of,
    by_name,
    offers_left,
    reasoned,
    rejection_of,
    scored,
    take_filter,
)
from scheduler.engine.queue.hints import EXTENDER
from scheduler.framework.calls import CallResult, ExtenderCall, Offer
from scheduler.framework.postfilter import PostFiltered
from scheduler.framework.running.answers import PreFiltered
from scheduler.framework.status import SUCCESS, Code, Rejection, Status, unschedulable

NO_CANDIDATE = "no candidate node for preemption"

Steps: TypeAlias = Generator[tuple[ExtenderCall, ...], tuple[CallResult, ...], Any]
Complain = Callable[[str, str, Exception], None]


class ExtenderCycle:
    """One attempt at a pod; the caller continues with `attempt`, which is the one on the newest
    view.
    """

    def __init__(
        self,
        renew: Callable[[], Attempt],
        extenders: Sequence[ConfiguredExtender],
        complain: Complain,
    ) -> None:
        self._renew = renew
        self._extenders = extenders
        self._complain = complain
        self._has_called = False
        self._may_begin_anew = True
        self.attempt: Attempt

    def steps(self) -> Generator[tuple[ExtenderCall, ...], tuple[CallResult, ...], Decision]:
        """Decide where the pod goes; an extender that fails and may not be ignored is an error."""
        try:
            decision: Decision = yield from self._decide(tries_nomination=True)
        except ExtenderFault as fault:
            status = Status(Code.ERROR, (str(fault),))
            return Decision(status=status, message=str(fault))
        return decision

    def _decide(self, *, tries_nomination: bool) -> Steps:
        attempt = self.attempt = self._fresh()
        if attempt.nodes.count == 0:
            return NO_NODES
        pre = _pre_filter(attempt)
        if not pre.status.is_success:
            return (yield from self._nothing_fits(pre, pre.status, ()))
        alone = nominated_alone(attempt, pre) if tries_nomination else None
        if alone is not None:
            decision = yield from self._on_nominated(alone)
            if decision is None:
                # As in kube-scheduler: then all nodes are tried, including this one.
                decision = yield from self._decide(tries_nomination=False)
            return decision
        feasible, rejections = filter_all(attempt, pre)
        if not feasible.any():
            return (yield from self._nothing_fits(pre, SUCCESS, rejections))
        names = attempt.nodes.names(feasible)
        verdict = yield from self._filtered(names)
        scores = yield from self._scored(verdict.passed)
        if not self._has_called:
            return best(attempt, pre, feasible, rejections)
        decision = yield from self._on_live_nodes(names, verdict, scores)
        if decision is None:
            self._may_begin_anew = False
            decision = yield from self._decide(tries_nomination=False)
        return decision

    def _on_nominated(self, alone: BoolColumn) -> Steps:
        """Return a decision for the nominated node of the pod; None if the pod does not go
        there.
        """
        try:
            verdict = yield from self._filtered(self.attempt.nodes.names(alone))
        except ExtenderFault as fault:
            self._complain(EXTENDER, "Filter", fault)
            return None
        attempt = self.attempt = self._fresh()
        pre = _pre_filter(attempt)
        passed = attempt.nodes.rows_named(verdict.passed)
        if not pre.status.is_success or not passed.any():
            return None
        feasible, _ = filter_rows(attempt, passed if pre.rows is None else passed & pre.rows)
        return best(attempt, pre, feasible, ()) if feasible.any() else None

    def _on_live_nodes(
        self,
        names: tuple[str, ...],
        verdict: FilterVerdict,
        scores: Sequence[tuple[ConfiguredExtender, Mapping[str, int]]],
    ) -> Steps:
        """Decide among the nodes that passed, as they are by now.

        None, once, if none of them is left and nodes fit that were not shown to the extenders.
        """
        first_row = self.attempt.first_row
        attempt = self.attempt = self._fresh()
        attempt.first_row = first_row
        nodes = attempt.nodes
        pre = _pre_filter(attempt)
        if nodes.count == 0:
            return NO_NODES
        if not pre.status.is_success:
            return (yield from self._nothing_fits(pre, pre.status, ()))
        among = nodes.exists if pre.rows is None else nodes.exists & pre.rows
        fits, rejections = filter_rows(attempt, among)
        feasible = fits & nodes.rows_named(verdict.passed)
        refused = fits & ~feasible
        if refused.any():
            rejection = rejection_of(nodes, refused, verdict)
            rejections = [*rejections, rejection]
            if pre.rows is not None:
                # kube-scheduler: nodes without any answer count as those left out
                # before.
                silent = refused & ~reasoned(rejection)
                pre = msgspec.structs.replace(pre, rows=pre.rows & ~silent)
        if not feasible.any():
            if self._may_begin_anew and (fits & ~nodes.rows_named(names)).any():
                return None
            return (yield from self._nothing_fits(pre, SUCCESS, tuple(rejections)))
        more = tuple(scored(nodes, extender, given) for extender, given in scores)
        return best(attempt, pre, feasible, tuple(rejections), more)

    # Questions.

    def _filtered(self, names: tuple[str, ...]) -> Steps:
        """Call the filtering extenders one after the other."""
        verdict = FilterVerdict(names)
        for extender in self._extenders:
            if not extender.filters or not verdict.passed:
                continue
            call = self._call(extender, "filter", nodes=verdict.passed)
            (result,) = yield (call,)
            try:
                take_filter(extender, result, verdict)
            except ExtenderFault as fault:
                self._must_be_ignorable(extender, "Filter", fault)
        return verdict

    def _scored(self, names: tuple[str, ...]) -> Steps:
        """Call all scoring extenders at once; one that fails contributes no scores."""
        prioritizing = [extender for extender in self._extenders if extender.prioritizes]
        if not prioritizing or len(names) < 2:
            return []
        results = yield tuple(self._call(one, "prioritize", nodes=names) for one in prioritizing)
        scores: list[tuple[ConfiguredExtender, Mapping[str, int]]] = []
        for extender, result in zip(prioritizing, results, strict=True):
            try:
                scores.append((extender, by_name(answer_of(result).scores)))
            except ExtenderFault as fault:
                self._complain(extender.name, "Prioritize", fault)
        return scores

    def _nothing_fits(
        self, pre: PreFiltered, failed: Status, rejections: tuple[Rejection, ...]
    ) -> Steps:
        """Search for victims, and call the extenders that preempt."""
        attempt = self.attempt
        decision = infeasible(attempt, pre, failed, rejections)
        found = post_filter(attempt, pre, failed, rejections)
        if found and found[-1].offers:
            found = [*found[:-1], (yield from self._reviewed(found[-1]))]
            if found[-1].status.code is Code.ERROR:
                found = found[-1:]
        return concluded(decision, found)

    def _reviewed(self, found: PostFiltered) -> Steps:
        """Return the preemption candidates that all extenders accept."""
        offers = found.offers
        for extender in self._extenders:
            if not extender.preempts or not offers:
                continue
            (result,) = yield (self._call(extender, "preempt", offers=offers),)
            try:
                offers = offers_left(extender, result, offers, self._renew().nodes)
            except ExtenderFault as fault:
                try:
                    self._must_be_ignorable(extender, "Preempt", fault)
                except ExtenderFault:
                    text = f"preemption: {fault}"
                    return PostFiltered(Status(Code.ERROR, (text,)), text=text)
        if offers and found.choose is not None:
            chosen = found.choose(offers)
            if chosen.victims:
                return msgspec.structs.replace(chosen, plugin=found.plugin)
        text = f"preemption: {NO_CANDIDATE}"
        return PostFiltered(unschedulable(text), text=text)

    def _call(
        self,
        extender: ConfiguredExtender,
        verb: str,
        *,
        nodes: tuple[str, ...] = (),
        offers: tuple[Offer, ...] = (),
    ) -> ExtenderCall:
        self._has_called = True
        pod = self.attempt.cycle.pod
        return ExtenderCall(pod, extender.number, verb, extender.timeout_s, nodes, offers)

    def _must_be_ignorable(
        self, extender: ConfiguredExtender, point: str, fault: ExtenderFault
    ) -> None:
        self._complain(extender.name, point, fault)
        if not extender.ignorable:
            raise fault

    def _fresh(self) -> Attempt:
        self._has_called = False
        attempt = self._renew()
        attempt.wants_offers = any(extender.preempts for extender in self._extenders)
        return attempt


def _pre_filter(attempt: Attempt) -> PreFiltered:
    return attempt.runner.pre_filter(attempt.cycle, attempt.nodes, attempt.states)
