"""InterPodAffinity: place pods near to, or far from, other pods, by the terms of both sides."""

from collections.abc import Hashable, Mapping, Sequence
from functools import reduce
from typing import ClassVar

from scheduler.framework import (
    EACH_POD,
    SKIP,
    Change,
    Code,
    Cycle,
    Handle,
    IntColumn,
    Nodes,
    PerPod,
    PerShape,
    Placed,
    Plugin,
    Pod,
    Rejected,
    Status,
    unresolvable,
)
from scheduler.plugins.affinity import filtering, hints, scoring
from scheduler.plugins.affinity.args import InterPodAffinityArgs
from scheduler.plugins.affinity.filtering import AffinityState
from scheduler.plugins.affinity.holders import NEAR, ExistingTerm, TermHolders, existing_terms
from scheduler.plugins.affinity.scoring import TermWeights, Weights
from scheduler.plugins.affinity.terms import PodTerms, Term, pod_terms
from scheduler.state.counts.podcounts import PodCounts
from scheduler.state.namespacenames import NamespaceNames
from scheduler.state.selection import Selection


class InterPodAffinity(Plugin[InterPodAffinityArgs]):
    """Reject by required terms of the pod and of placed ones; score by preferred terms of both."""

    reads = (
        "node",
        "node.deleted",
        "node.labels",
        "pod.added",
        "pod.deleted",
        "pod.labels",
        "self.labels",
        "Namespace",
    )
    unread: ClassVar[Mapping[str, str]] = {
        "pre_filter": 'error reading "PreFilterInterPodAffinity" from cycleState: not found',
        "pre_score": 'failed to read "PreScoreInterPodAffinity" from cycleState: not found',
    }

    def __init__(self, args: InterPodAffinityArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._counts = handle.tracker(PodCounts)
        self._holders = handle.tracker(TermHolders)
        self._names = handle.tracker(NamespaceNames)
        self._terms: PerShape[PodTerms] = PerShape(pod_terms)
        self._terms_of: PerPod[PodTerms] = PerPod(pod_terms)
        self._existing_terms: PerShape[tuple[ExistingTerm, ...]] = PerShape(existing_terms)
        self.key_follows = (
            self._holders.repelling_terms,
            self._holders.scoring_terms,
            self._names,
        )

    def key(self, pod: Pod) -> Hashable | None:
        """Return None while the pod has no terms and no term of placed pods selects it."""
        if pod.spec.affinity is not None:
            return EACH_POD
        labels = self._names.labels(pod.metadata.namespace)
        holders = self._holders
        return EACH_POD if holders.repelling(pod, labels) or holders.scoring(pod, labels) else None

    def pre_filter(self, cycle: Cycle, nodes: Nodes) -> Status | AffinityState:
        """Count pods that attract and repel the pod; Skip without any."""
        pod, terms = cycle.pod, self._terms.of(cycle)
        if terms.fault:
            return unresolvable(f"parsing pod: {terms.fault}")
        labels = self._names.labels(pod.metadata.namespace)
        repelling = self._holders.repelling(pod, labels)
        moves = list(nodes.moves())
        if not (terms.has_required or repelling or moves):
            return SKIP
        state = AffinityState(pod, labels, nodes)
        if terms.affinity:
            state.attract(terms.affinity, self._all(terms.affinity), self._counts)
        for term in terms.anti_affinity:
            selection = term.selection(self._names.matching)
            if selection is not None:
                state.avoid(term.key, selection, self._counts)
        for existing, holders in repelling:
            state.repel(existing.term, holders)
        for placed, row, sign in moves:
            state.move(placed.pod, self._terms.of(placed).anti_affinity, row, sign)
        if not terms.has_required and not state.is_repelled():
            return SKIP
        return state

    def filter(self, _cycle: Cycle, nodes: Nodes, state: AffinityState) -> Rejected | None:
        """Reject nodes outside the domains that affinity requires, and nodes in the domains that
        anti-affinity forbids.
        """
        return filtering.rejected(nodes, state)

    def add_pod(self, state: AffinityState, placed: Placed, row: int) -> None:
        """Count a hypothetical pod."""
        state.move(placed.pod, self._terms.of(placed).anti_affinity, row, 1)

    def remove_pod(self, state: AffinityState, placed: Placed, row: int) -> None:
        """Stop counting a pod, hypothetically."""
        state.move(placed.pod, self._terms.of(placed).anti_affinity, row, -1)

    def concerns(self, state: AffinityState, placed: Placed) -> bool:
        """Return whether a term of the pod selects a placed pod, or an anti-affinity term of that
        pod selects this one.
        """
        return state.is_meant(placed.pod, self._terms.of(placed).anti_affinity)

    def is_affected(self, pod: Pod, other: Pod) -> bool:
        """Return whether placing `other` may close nodes to the pod.

        True if a required anti-affinity term of either selects the other one. Also true if the pod
        could be the first of the pods that its affinity selects, and would have to follow `other`.
        """
        if pod.spec.affinity is None and other.spec.affinity is None:
            return False
        waiting = self._waiting(pod)
        return bool(waiting.avoids(other)) or (waiting.wants(pod) and waiting.wants(other))

    def pre_score(
        self, cycle: Cycle, nodes: Nodes, _state: AffinityState | None = None
    ) -> Status | Weights:
        """Sum the weights per domain; return Skip if all sums are 0."""
        terms = self._terms.of(cycle)
        if self.args.ignore_preferred_terms_of_existing_pods and not terms.has_preferred:
            return SKIP
        if terms.fault:
            return Status(Code.ERROR, (f"failed to parse pod: {terms.fault}",))
        labels = self._names.labels(cycle.pod.metadata.namespace)
        meaning, moves = self._holders.scoring(cycle.pod, labels), list(nodes.moves())
        if not (terms.preferred or meaning or moves):
            return SKIP
        weighing = TermWeights(nodes)
        wanted = [
            (term.key, selection, weight)
            for term, weight in terms.preferred
            if (selection := term.selection(self._names.matching)) is not None
        ]
        for key, selection, weight in wanted:
            weighing.add(key, self._counts.count(selection), weight)
        for existing, holders in meaning:
            if self._weighs(existing):
                weighing.add(existing.term.key, holders, self._weight(existing))
        for placed, row, sign in moves:
            meta = placed.pod.metadata
            for key, selection, weight in wanted:
                if selection.matches(meta.namespace, meta.labels):
                    weighing.move(key, row, sign * weight)
            for existing in self._existing_terms.of(placed):
                if self._weighs(existing) and existing.term.matches(cycle.pod, labels):
                    weighing.move(existing.term.key, row, sign * self._weight(existing))
        weights = weighing.weights()
        return SKIP if weights is None else weights

    def score(self, _cycle: Cycle, nodes: Nodes, weights: Weights) -> IntColumn:
        """Return the sum of the weights of each node's domains."""
        return scoring.raw(nodes, weights)

    def normalize(self, _cycle: Cycle, nodes: Nodes, raw: IntColumn) -> IntColumn:
        """Stretch the scores onto 0..100."""
        return scoring.normalized(nodes, raw)

    def hint(self, change: Change, pod: Pod) -> bool:
        """Return whether a change adds a pod that affinity requires or removes one that
        anti-affinity forbids.
        """
        return hints.may_help(change, self._waiting(pod))

    def _waiting(self, pod: Pod) -> hints.WaitingPod:
        terms = self._terms_of.of(pod)
        return hints.WaitingPod(pod, terms, self._names, self._holders, self.handle.pods)

    def _all(self, terms: Sequence[Term]) -> Selection | None:
        """Return the pods that match all terms at once; None for no pod at all."""
        selections = [term.selection(self._names.matching) for term in terms]
        known = [selection for selection in selections if selection is not None]
        if len(known) < len(selections):
            return None
        return reduce(Selection.and_also, known)

    def _weighs(self, existing: ExistingTerm) -> bool:
        return existing.kind != NEAR or self.args.hard_pod_affinity_weight > 0

    def _weight(self, existing: ExistingTerm) -> int:
        return self.args.hard_pod_affinity_weight if existing.kind == NEAR else existing.weight
