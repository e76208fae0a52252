"""The score of PodTopologySpread: fewer matching pods in a node's domains are better.

Each constraint adds, for the node's domain, count x weight + maxSkew - 1; the weight grows with the
logarithm of the number of domains among the feasible nodes, so that a topology of many small
domains is not dominated by one of few large ones. For host names each node is its own domain.
"""

from math import log

import numpy as np

from scheduler.framework import BoolColumn, Cycle, FloatColumn, IntColumn, Nodes
from scheduler.plugins.spread.constraints import HOSTNAME, Constraints, SpreadConstraint
from scheduler.plugins.spread.inclusion import Inclusion, Mask, labelled
from scheduler.state.counts.podcounts import PodCounts
from scheduler.state.counts.rowcounts import RowCounts

MOST = 100
_NO_PODS = RowCounts()


class Scorer:
    """Scores nodes by the live counts."""

    def __init__(self, inclusion: Inclusion, counts: PodCounts) -> None:
        self._inclusion = inclusion
        self._counts = counts

    def raw(self, cycle: Cycle, nodes: Nodes, constraints: Constraints) -> IntColumn:
        """Return the sum over the constraints; 0 for ignored nodes."""
        unlabelled_are_out = constraints.ignores_unlabelled
        with_labels = labelled(nodes, constraints.keys) if unlabelled_are_out else None
        among = nodes.feasible if with_labels is None else nodes.feasible & with_labels
        total: FloatColumn | None = None
        for constraint in constraints.items:
            if constraint.key == HOSTNAME:
                part = self._per_node(nodes, constraint, among)
            else:
                included = self._inclusion.mask(cycle, nodes, constraint, with_labels)
                slots = nodes.domains(constraint.key).slots
                part = self._per_domain(nodes, constraint, among, included).take(slots, mode="clip")
            total = part if total is None else total + part
        return _rounded(total, nodes, with_labels)

    def _per_node(
        self, nodes: Nodes, constraint: SpreadConstraint, among: BoolColumn
    ) -> FloatColumn:
        domains = nodes.domains(constraint.key)
        weight = log(int(np.count_nonzero(among)) + 2)
        counts = self._of(constraint).column(nodes.size)
        moves = [m for m in nodes.moves() if constraint.counts(m[0].pod)]
        if moves:
            counts = counts.copy()
            for _, row, sign in moves:
                counts[row] += sign
        added = counts * np.float64(weight)
        added += constraint.max_skew - 1
        if domains.labelled != nodes.count:
            added[domains.slots == 0] = 0
        return added

    def _per_domain(
        self, nodes: Nodes, constraint: SpreadConstraint, among: BoolColumn, included: Mask
    ) -> FloatColumn:
        """Return the constraint's part of the score, per slot."""
        domains = nodes.domains(constraint.key)
        counts = self._of(constraint)
        if included is None:
            sums = counts.sums(domains)
        else:
            sums = counts.sums_at(domains.slots * included, domains)
        for placed, row, sign in nodes.moves():
            if (included is None or included[row]) and constraint.counts(placed.pod):
                sums[domains.slots[row]] += sign
        empty = nodes.label_id(constraint.key, "") + 1
        if empty > 0:
            # kube-scheduler: a node without the label counts as one with an empty value.
            here = domains.slots == 0 if included is None else included & (domains.slots == 0)
            sums[empty] += int(counts.column(nodes.size)[here].sum())
        added = sums * np.float64(log(_seen(nodes, constraint.key, among, empty) + 2))
        added += constraint.max_skew - 1
        added[0] = 0
        return added

    def _of(self, constraint: SpreadConstraint) -> RowCounts:
        selection = constraint.selection
        return _NO_PODS if selection is None else self._counts.count(selection)


def normalized(nodes: Nodes, constraints: Constraints, raw: IntColumn) -> IntColumn:
    """Invert the scores and scale them to 0..100; ignored nodes get 0."""
    with_labels = labelled(nodes, constraints.keys) if constraints.ignores_unlabelled else None
    among = nodes.feasible if with_labels is None else nodes.feasible & with_labels
    kept = raw[among]
    if not len(kept):
        return nodes.constant(0)
    most, least = int(kept.max()), int(kept.min())
    if most in (least, 0):
        # 100 * (most + least - raw) / most is 100 for all of them.
        return nodes.constant(MOST) if with_labels is None else among * np.int64(MOST)
    scores = np.int64(MOST) * (most + least - raw)
    scores //= most
    # Infeasible rows may have any value; the framework requires 0..100 on all rows.
    return np.where(among, scores, 0)


def _seen(nodes: Nodes, key: str, among: BoolColumn, empty: int) -> int:
    """Return the number of distinct values among these nodes; a missing label is one of them."""
    domains = nodes.domains(key)
    number = int(np.count_nonzero(among))
    if number == nodes.count:
        rows_in = domains.rows_in
        unlabelled = number - domains.labelled
    else:
        rows_in = np.bincount(domains.slots * among, minlength=domains.size)
        rows_in[0] = 0
        unlabelled = number - int(rows_in.sum())
    seen = int(np.count_nonzero(rows_in))
    if unlabelled and not (empty > 0 and rows_in[empty]):
        seen += 1
    return seen


def _rounded(total: FloatColumn | None, nodes: Nodes, with_labels: Mask) -> IntColumn:
    if total is None:
        return nodes.constant(0)
    total += 0.5  # no score is negative: this rounds half up, as kube-scheduler does
    raw = np.floor(total).astype(np.int64)
    return raw if with_labels is None else np.where(with_labels, raw, 0)
