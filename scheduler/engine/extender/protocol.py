"""Conversion of an extender's response: names to rows, reasons to a rejection, scores to a column.

Pure functions for `engine.extender.cycle`. An invalid response raises ExtenderFault; the caller
decides whether the fault is ignored.
"""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from scheduler.base.arrays import BoolColumn
from scheduler.engine.effects import ExtenderAnswer
from scheduler.engine.extender.extenders import ConfiguredExtender
from scheduler.engine.queue.hints import EXTENDER
from scheduler.framework.calls import CallResult, Offer
from scheduler.framework.nodes import Nodes
from scheduler.framework.running.answers import Scored
from scheduler.framework.status import Reason, Rejected, Rejection
from scheduler.state.podindex import Placed

# kube-scheduler: extenders score from 0 to 10, plugins from 0 to 100.
SCALE = 10
# The largest weighted score of an extender, so that sums stay far from overflowing.
_LARGEST = 2**53


class ExtenderFault(Exception):  # noqa: N818 - a fault of another service
    """The extender did not respond, or its response is invalid."""


class FilterVerdict(msgspec.Struct):
    """The accumulated filter responses of the extenders."""

    passed: tuple[str, ...]
    failed: dict[str, str] = {}
    unresolvable: dict[str, str] = {}


def take_filter(extender: ConfiguredExtender, result: CallResult, verdict: FilterVerdict) -> None:
    """Apply the response to a filter call; ExtenderFault if it is invalid."""
    answer = answer_of(result)
    passed = answer.nodes or ()
    sent = frozenset(verdict.passed)
    kept = frozenset(passed)
    if not kept <= sent:
        unknown = next(name for name in passed if name not in sent)
        raise ExtenderFault(
            f'extender "{extender.name}" claims a filtered node "{unknown}" '
            "which is not found in the input node list"
        )
    refused = sent - kept
    verdict.unresolvable |= {n: t for n, t in answer.unresolvable.items() if n in refused}
    verdict.failed |= {n: t for n, t in answer.failed.items() if n in refused}
    if len(kept) < len(sent):
        verdict.passed = tuple(name for name in verdict.passed if name in kept)


def answer_of(result: CallResult) -> ExtenderAnswer:
    """Return an extender's response; ExtenderFault if it is invalid."""
    if not result.ok:
        raise ExtenderFault(result.message or result.reason)
    body = result.body
    answer = (
        body if isinstance(body, ExtenderAnswer) else msgspec.convert(body or {}, ExtenderAnswer)
    )
    if answer.error:
        raise ExtenderFault(answer.error)
    return answer


def offers_left(
    extender: ConfiguredExtender, result: CallResult, sent: tuple[Offer, ...], nodes: Nodes
) -> tuple[Offer, ...]:
    """Return the preemption candidates that the extender kept; `nodes` are the live nodes."""
    kept = []
    shown = {(offer.node, uid) for offer in sent for uid in offer.victims}
    for offer in answer_of(result).offers:
        if nodes.row(offer.node) is None:
            raise ExtenderFault(f'nodeinfo not found for node name "{offer.node}"')
        present = pods_on(nodes, offer.node, offer.victims)
        # A victim that was sent to the extender may have been deleted meanwhile: no fault.
        missing = next(
            (u for u in offer.victims if u not in present and (offer.node, u) not in shown), None
        )
        if missing is not None:
            raise ExtenderFault(
                f"extender: {extender.name} claims to preempt pod (UID: {missing}) on node: "
                f"{offer.node}, but the pod is not found on that node"
            )
        if offer.victims:
            kept.append(offer)
        elif not extender.ignorable:
            raise ExtenderFault(f'expected at least one victim pod on node "{offer.node}"')
    return tuple(kept)


def pods_on(nodes: Nodes, node: str, uids: Sequence[str]) -> dict[str, Placed]:
    """Return the pods that are on a node now."""
    row = nodes.row(node)
    present = {} if row is None else nodes.pods_on(row)
    return {uid: present[uid] for uid in uids if uid in present}


def rejection_of(nodes: Nodes, refused: BoolColumn, verdict: FilterVerdict) -> Rejection:
    """Return the extenders' rejections; rows without a reason are unresolvable."""
    by_text: dict[tuple[str, bool], BoolColumn] = {}
    final = refused.copy()
    for row in np.flatnonzero(refused).tolist():
        name = nodes.name(row)
        text, is_final = verdict.unresolvable.get(name), True
        if text is None:
            text, is_final = verdict.failed.get(name), False
        if text is None:
            continue
        final[row] = is_final
        rows = by_text.setdefault((text, is_final), np.zeros(nodes.size, dtype=np.bool_))
        rows[row] = True
    reasons = tuple(Reason(rows, text) for (text, _), rows in by_text.items())
    return Rejection(EXTENDER, refused, Rejected(refused, final, reasons))


def reasoned(rejection: Rejection) -> BoolColumn:
    rows = np.zeros_like(rejection.rows)
    for reason in rejection.rejected.reasons:
        rows |= reason.rows
    return rows


def by_name(scores: Sequence[tuple[str, int]]) -> dict[str, int]:
    """Return the scores by node; as in kube-scheduler, duplicates are added up."""
    given = dict(scores)
    if len(given) < len(scores):
        given = dict.fromkeys(given, 0)
        for name, score in scores:
            given[name] += score
    return given


def scored(nodes: Nodes, extender: ConfiguredExtender, given: Mapping[str, int]) -> Scored:
    raw = np.zeros(nodes.size, dtype=np.int64)
    most = _LARGEST // (SCALE * max(1, extender.weight))
    if len(rows := nodes.rows_of(given)) < len(given):
        given = {name: score for name, score in given.items() if nodes.row(name) is not None}
    values = list(given.values())
    if values and (max(values) > most or min(values) < -most):
        values = [max(-most, min(most, score)) for score in values]
    raw[rows] = values
    return Scored(extender.name, raw, raw * SCALE, extender.weight)
