"""The steps from a pod and a view of the nodes to a `Decision`, one function each.

They read the view and write nothing. `engine.attempt.attempt` runs them in order. For pods that
extenders are interested in, `engine.extender.cycle` runs the same steps with requests in between.
"""

from enum import StrEnum
from random import Random
from typing import Protocol

import msgspec
import numpy as np
from msgspec.structs import replace

from scheduler.base.arrays import BoolColumn, IntColumn, Rows
from scheduler.engine.decision import Decision, fit_message
from scheduler.framework.cycle import Cycle
from scheduler.framework.hypothetical.dryrun import Attempted
from scheduler.framework.hypothetical.rowpods import NONE_NOMINATED, Nominated
from scheduler.framework.nodes import Nodes
from scheduler.framework.postfilter import FitFailure, PostFiltered
from scheduler.framework.running.answers import PreFiltered, Scored, States
from scheduler.framework.running.runner import Runner
from scheduler.framework.status import Code, Rejection, Status
from scheduler.state.shapes import Shape
from scheduler.state.table import stable_hash

_MIX = np.uint64(0x9E3779B97F4A7C15)
# Below every total: an extender may give any node a negative score.
_NEVER = np.iinfo(np.int64).min


class Ties(StrEnum):
    """How to choose among equally good nodes."""

    UID = "uid"
    NAME = "name"
    SEED = "seed"


def choose(
    nodes: Nodes, feasible: BoolColumn, total: IntColumn, uid: str, ties: Ties, random: Random
) -> int:
    """Return the row with the highest total among the feasible ones (at least one)."""
    # Finding where the largest is costs half of finding out how large it is.
    row = total.argmax()
    if not feasible[row]:
        total = np.where(feasible, total, _NEVER)
        row = total.argmax()
    best = total == total[row]
    best &= feasible
    return break_tie(nodes, best.nonzero()[0], uid, ties, random)


def break_tie(nodes: Nodes, rows: Rows, uid: str, ties: Ties, random: Random) -> int:
    """Return one of equally good rows (at least one) for the pod `uid`."""
    if len(rows) == 1:
        return int(rows[0])
    if ties is Ties.NAME:
        # `capacity` ties thousands of rows, thousands of times: a rank is looked up, no name
        # compared.
        return int(rows[nodes.name_ranks.take(rows).argmin()])
    if ties is Ties.SEED:
        return int(random.choice(sorted(rows.tolist(), key=nodes.name)))
    mixed = nodes.name_hash.take(rows, mode="clip")  # cheaper than indexing
    mixed ^= np.uint64(stable_hash(uid))
    mixed *= _MIX
    return int(rows[mixed.argmin()])


def sample(feasible: BoolColumn, percentage: int, start: int, among: int) -> tuple[BoolColumn, int]:
    """Return a mask of feasible rows and the row where the next pod starts.

    The mask has as many rows as `percentageOfNodesToScore` (1..99) requires. Rows are visited from
    `start` on, wrapping; `among` is the number of nodes that were filtered. Like kube-scheduler, it
    keeps at least 100 nodes.
    """
    wanted = max(100, among * percentage // 100)
    if among < 100 or int(np.count_nonzero(feasible)) <= wanted:
        return feasible, start
    order = np.roll(np.arange(len(feasible)), -start)
    kept = order[feasible[order]][:wanted]
    mask = np.zeros_like(feasible)
    mask[kept] = True
    return mask, int(kept[-1] + 1) % len(feasible)


_NO_NODES_MESSAGE = "no nodes available to schedule pods"
NO_NODES = Decision(status=Status(Code.UNSCHEDULABLE), message=_NO_NODES_MESSAGE)


class ReservedCapacity(Protocol):
    """The capacity that undecided groups before the pod in the queue need."""

    def left(self, attempt: "Attempt", feasible: BoolColumn) -> BoolColumn:
        """Return the rows of `feasible` where enough capacity remains after the pod is placed."""

    def usable(self, attempt: "Attempt") -> BoolColumn:
        """Return the rows that the groups could use."""


class PutOffError(Exception):
    """The pod fits only on `rows`, where a group before it in the queue needs the capacity. The pod
    is retried.
    """

    def __init__(self, rows: BoolColumn, shape: Shape) -> None:
        super().__init__()
        self.rows = rows
        self.shape = shape


class Attempt(msgspec.Struct):
    """The state of one scheduling attempt; `nominated` are the pods whose reserved capacity it
    respects.

    `first_row` is where node sampling starts, and afterwards where it ended. `wants_offers`:
    another component takes part in the choice of victims. `reserved` is the capacity for groups
    that precede the pod; `kept_off` are the rows that it made infeasible, None for none.
    """

    cycle: Cycle
    nodes: Nodes
    runner: Runner
    states: States
    nominated: Nominated = NONE_NOMINATED
    ties: Ties = Ties.UID
    percentage: int = 100
    first_row: int = 0
    wants_offers: bool = False
    reserved: ReservedCapacity | None = None
    kept_off: BoolColumn | None = None


def nominated_alone(attempt: Attempt, pre: PreFiltered) -> BoolColumn | None:
    """Return the row that the pod is nominated to if it passes all filters, else None."""
    nominated = attempt.cycle.pod.status.nominated_node_name
    row = attempt.nodes.row(nominated) if nominated else None
    if row is None or (pre.rows is not None and not pre.rows[row]):
        return None
    alone = np.zeros(attempt.nodes.size, dtype=np.bool_)
    alone[row] = True
    feasible, _ = filter_rows(attempt, alone)
    return feasible if feasible[row] else None


def filter_all(attempt: Attempt, pre: PreFiltered) -> tuple[BoolColumn, tuple[Rejection, ...]]:
    """Filter all rows that pre-filter kept, and sample the feasible ones if sampling is
    configured.
    """
    nodes = attempt.nodes
    among = nodes.exists if pre.rows is None else nodes.exists & pre.rows
    outside = [] if pre.rows is None else _nomination_outside(attempt, pre)
    feasible, rejections = filter_rows(attempt, among)
    rejections += outside
    if attempt.percentage < 100:
        feasible, attempt.first_row = sample(
            feasible, attempt.percentage, attempt.first_row, int(np.count_nonzero(among))
        )
    return feasible, tuple(rejections)


def _nomination_outside(attempt: Attempt, pre: PreFiltered) -> list[Rejection]:
    """Return the rejections of the row that the pod is nominated to, where pre-filter excluded it.

    kube-scheduler tries the nominated node first, whatever pre-filter returned, and reports that
    node's own reason.
    """
    nominated = attempt.cycle.pod.status.nominated_node_name
    row = attempt.nodes.row(nominated) if nominated and pre.rows is not None else None
    if row is None or pre.rows is None or pre.rows[row]:
        return []
    alone = np.zeros(attempt.nodes.size, dtype=np.bool_)
    alone[row] = True
    return filter_rows(attempt, alone)[1]


def filter_rows(attempt: Attempt, among: BoolColumn) -> tuple[BoolColumn, list[Rejection]]:
    """Filter `among`; leave out what groups need that precede the pod."""
    feasible, rejections = _filtered(attempt, among)
    if attempt.reserved is None:
        return feasible, rejections
    left = attempt.reserved.left(attempt, feasible)
    if left is not feasible and np.count_nonzero(left) < np.count_nonzero(feasible):
        kept_off = feasible & ~left
        attempt.kept_off = kept_off if attempt.kept_off is None else attempt.kept_off | kept_off
    return left, rejections


def _filtered(attempt: Attempt, among: BoolColumn) -> tuple[BoolColumn, list[Rejection]]:
    """Filter `among`; rows with nominated pods must fit both with and without them, and all rows
    with all nominated members of groups.
    """
    cycle, nodes, states = attempt.cycle, attempt.nodes, attempt.states
    nominated = attempt.nominated
    rows = nominated.rows
    if len(rows):
        rows = rows[among[rows]]
    crowded: list[Rejection] = []
    if len(rows):
        again = Attempted(attempt.runner, cycle, nodes, states)
        passed, crowded = again.with_nominated(nominated.on(rows))
        refused = np.zeros(nodes.size, dtype=np.bool_)
        refused[rows] = ~passed[rows]
        among = among & ~refused
    feasible, rejections = attempt.runner.filter(cycle, nodes, states, among)
    if apart := nominated.apart():
        again = Attempted(attempt.runner, cycle, nodes, states)
        feasible, more = again.beside(apart, feasible)
        rejections = [*rejections, *more]
    return feasible, [*crowded, *rejections]


def infeasible(
    attempt: Attempt, pre: PreFiltered, failed: Status, rejections: tuple[Rejection, ...]
) -> Decision:
    """Return why no node fits, before post-filter; PutOffError where only reserved capacity
    does.
    """
    if attempt.kept_off is not None:
        raise PutOffError(attempt.kept_off, attempt.cycle.shape)
    nodes, outside = attempt.nodes, _outside(attempt, pre, failed, rejections)
    return Decision(
        status=failed if not failed.is_success else Status(Code.UNSCHEDULABLE),
        message=fit_message(nodes.count, failed, rejections, outside, pre.narrowed_by),
        node_count=nodes.count,
        rejections=rejections,
        outside=outside,
        narrowed_by=pre.narrowed_by,
        # kube-scheduler: if no post-filter plugin may run, the pod keeps no nomination.
        nominated_node=None if attempt.runner.profile.post_filter else "",
    )


def concluded(decision: Decision, found: list[PostFiltered]) -> Decision:
    """Return `decision` with the result of the post-filter plugins, or with their reasons for
    none.
    """
    if not found:
        return decision
    calls = tuple(call for one in found for call in one.calls)
    decision = replace(decision, calls=calls) if calls else decision
    chosen = next((one for one in found if one.status.is_success), None)
    if chosen is not None:
        return replace(
            decision,
            message=f"{decision.message} {chosen.text}" if chosen.text else decision.message,
            nominated_node=chosen.nominated_node,
            victims=chosen.victims,
            expected=chosen.expected,
            disruption=chosen.disruption,
            preempted_by=chosen.plugin,
        )
    # kube-scheduler: if a plugin fails, the results of the others are lost.
    failed = [one for one in found if one.status.code is Code.ERROR]
    texts = [one.text for one in failed or found if one.text]
    message = f"{decision.message} {', '.join(texts)}" if texts else decision.message
    prevented = tuple(name for one in found for name in one.prevented_by)
    return replace(
        decision, message=message, nominated_node=_cleared(found), prevented_by=prevented
    )


def _outside(
    attempt: Attempt, pre: PreFiltered, failed: Status, rejections: tuple[Rejection, ...]
) -> BoolColumn | None:
    """Return the rows that pre-filter left out and no plugin rejected; None when it left out
    none.
    """
    if pre.rows is None or not failed.is_success:
        return None
    outside = attempt.nodes.exists & ~pre.rows
    for rejection in rejections:
        outside = outside & ~rejection.rows
    return outside


def post_filter(
    attempt: Attempt, pre: PreFiltered, failed: Status, rejections: tuple[Rejection, ...]
) -> list[PostFiltered]:
    """Run the post-filter plugins in order, up to the first success.

    Raises PutOffError if every candidate is on a node that groups before the pod in the queue could
    use.
    """
    if not attempt.runner.profile.post_filter:
        return []
    candidates = _candidates(attempt, pre, failed, rejections)
    if attempt.reserved is None:
        return _post_filter_results(attempt, pre, failed, rejections, candidates)
    wanted = attempt.reserved.usable(attempt) & candidates
    found = _post_filter_results(attempt, pre, failed, rejections, candidates & ~wanted)
    if wanted.any() and not _has_nomination(found):
        # A group may be about to use its victims, or the capacity beside them.
        found = _post_filter_results(attempt, pre, failed, rejections, candidates)
        if _has_nomination(found):
            raise PutOffError(wanted, attempt.cycle.shape)
    return found


def _has_nomination(found: list[PostFiltered]) -> bool:
    return any(one.offers or one.status.is_success for one in found)


def _candidates(
    attempt: Attempt, pre: PreFiltered, failed: Status, rejections: tuple[Rejection, ...]
) -> BoolColumn:
    """Return the rows whose rejection evictions may lift."""
    candidates = attempt.nodes.exists
    if failed.code in (Code.UNRESOLVABLE, Code.PENDING):
        candidates = np.zeros_like(candidates)
    for rejection in rejections:
        candidates = candidates & ~(rejection.rows & rejection.rejected.final)
    outside = _outside(attempt, pre, failed, rejections)
    return candidates if outside is None else candidates & ~outside


def _post_filter_results(
    attempt: Attempt,
    pre: PreFiltered,
    failed: Status,
    rejections: tuple[Rejection, ...],
    candidates: BoolColumn,
) -> list[PostFiltered]:
    """Return the results of the post-filter plugins for the candidate rows."""
    cycle, nodes = attempt.cycle, attempt.nodes
    failure = FitFailure(
        candidates,
        rejections,
        failed,
        Attempted(attempt.runner, attempt.cycle, attempt.nodes, attempt.states),
        attempt.nominated,
        lambda rows: break_tie(nodes, rows, cycle.pod.metadata.uid, attempt.ties, cycle.random),
        attempt.wants_offers,
        attempt.runner.prefiltered_by(pre),
    )
    return attempt.runner.post_filter(cycle, nodes, failure)


def _cleared(found: list[PostFiltered]) -> str | None:
    """Return the nomination set by the last unsuccessful plugin that set one, else None."""
    words = [one.nominated_node for one in found if one.nominated_node is not None]
    return words[-1] if words else None


def best(
    attempt: Attempt,
    pre: PreFiltered,
    feasible: BoolColumn,
    rejections: tuple[Rejection, ...],
    more: tuple[Scored, ...] = (),
) -> Decision:
    """Score the feasible rows (at least one) and choose; `more` are scores from extenders."""
    cycle, nodes = attempt.cycle, attempt.nodes.among(feasible)
    outside = None if pre.rows is None else nodes.exists & ~pre.rows
    if np.count_nonzero(feasible) == 1:
        return Decision(
            node=nodes.name(int(feasible.argmax())),
            node_count=nodes.count,
            feasible=feasible,
            rejections=rejections,
            outside=outside,
            narrowed_by=pre.narrowed_by,
        )
    total, scores = attempt.runner.score(cycle, nodes, attempt.states)
    for scored in more:
        total = total + scored.normalized * scored.weight
    row = choose(nodes, feasible, total, cycle.pod.metadata.uid, attempt.ties, cycle.random)
    return Decision(
        node=nodes.name(row),
        node_count=nodes.count,
        feasible=feasible,
        rejections=rejections,
        outside=outside,
        narrowed_by=pre.narrowed_by,
        scores=(*scores, *more),
        total=total,
    )
