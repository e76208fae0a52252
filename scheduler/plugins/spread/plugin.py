"""PodTopologySpread: keep pods of a kind evenly spread over zones, hosts or any other label.

Queueing hints: selected pods that are added, deleted or relabelled change the counts; a node
matters by its domains and by whether the pod's policies include it.
"""

from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

from scheduler.framework import (
    EACH_POD,
    SKIP,
    Change,
    Code,
    Cycle,
    Handle,
    IntColumn,
    Node,
    Nodes,
    PerPod,
    PerShape,
    Placed,
    Plugin,
    Pod,
    Rejected,
    Status,
)
from scheduler.plugins.spread import filtering, scoring
from scheduler.plugins.spread.args import PodTopologySpreadArgs
from scheduler.plugins.spread.constraints import (
    HARD,
    SOFT,
    Constraints,
    SpreadConstraint,
    own_constraints,
)
from scheduler.plugins.spread.defaults import Defaults
from scheduler.plugins.spread.filtering import SpreadState
from scheduler.plugins.spread.inclusion import Inclusion
from scheduler.plugins.tainttoleration import COMPARISON_GATE, TaintVerdicts
from scheduler.state.counts.podcounts import PodCounts


class PodTopologySpread(Plugin[PodTopologySpreadArgs]):
    """Reject nodes whose domains have too many pods of the kind; prefer those with few."""

    reads = (
        "node",
        "node.deleted",
        "node.labels",
        "node.taints",
        "pod.added",
        "pod.deleted",
        "pod.labels",
        "pod.terminating",
        "self.labels",
        "self.tolerations",
    )
    unread: ClassVar[Mapping[str, str]] = {
        "pre_filter": 'reading "PreFilterPodTopologySpread" from cycleState: not found',
        "pre_score": 'error reading "PreScorePodTopologySpread" from cycleState: not found',
    }

    def __init__(self, args: PodTopologySpreadArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._counts = handle.tracker(PodCounts)
        self._inclusion = Inclusion(self._evaluate)
        self._scorer = scoring.Scorer(self._inclusion, self._counts)
        self._defaults = Defaults(args, handle)
        self._hard: PerShape[Constraints] = PerShape(lambda pod: own_constraints(pod, HARD))
        self._hard_of: PerPod[Constraints] = PerPod(lambda pod: own_constraints(pod, HARD))
        self.key_follows = self._defaults.follows
        self._soft: PerShape[Constraints] = PerShape(lambda pod: own_constraints(pod, SOFT))

    def key(self, pod: Pod) -> Hashable | None:
        """Return None for a pod without constraints of its own or from the profile."""
        is_spread = pod.spec.topology_spread_constraints or self._defaults.may_spread(pod)
        return EACH_POD if is_spread else None

    def pre_filter(self, cycle: Cycle, nodes: Nodes) -> Status | SpreadState:
        """Count the pods of the kind per domain; Skip without a hard constraint."""
        constraints = self._constraints(cycle, HARD)
        if constraints.fault:
            text = f"obtaining pod's hard topology spread constraints: {constraints.fault}"
            return Status(Code.ERROR, (text,))
        if not constraints.items:
            return SKIP
        return filtering.spread_state(
            cycle, nodes, constraints.items, self._inclusion, self._counts
        )

    def filter(self, _cycle: Cycle, nodes: Nodes, state: SpreadState) -> Rejected | None:
        """Reject nodes without the labels, and those in a domain that is ahead by too much."""
        return filtering.rejected(nodes, state)

    def add_pod(self, state: SpreadState, placed: Placed, row: int) -> None:
        """Count a hypothetical pod."""
        state.move(placed.pod, row, 1)

    def remove_pod(self, state: SpreadState, placed: Placed, row: int) -> None:
        """Stop counting a pod, hypothetically."""
        state.move(placed.pod, row, -1)

    def concerns(self, state: SpreadState, placed: Placed) -> bool:
        """Return whether a pod counts for one of the constraints."""
        return any(counted.constraint.counts(placed.pod) for counted in state.counted)

    def is_affected(self, pod: Pod, other: Pod) -> bool:
        """Return whether the other pod counts for one of the hard constraints."""
        return any(one.counts(other) for one in self._hard_of_pod(pod).items)

    def pre_score(self, cycle: Cycle, *_: object) -> Status | Constraints:
        """Return the soft constraints; Skip without any."""
        constraints = self._constraints(cycle, SOFT)
        if constraints.fault:
            text = f"calculating preScoreState: {constraints.fault}"
            return Status(Code.ERROR, (text,))
        return constraints if constraints.items else SKIP

    def score(self, cycle: Cycle, nodes: Nodes, constraints: Constraints) -> IntColumn:
        """Return the weighted number of pods of the kind in each node's domains."""
        return self._scorer.raw(cycle, nodes, constraints)

    def hint(self, change: Change, pod: Pod) -> bool:
        """Return whether a change moves a count or a domain of the pod's hard constraints."""
        return may_help(change, pod, self._hard_of_pod(pod), self._inclusion)

    def normalize(self, cycle: Cycle, nodes: Nodes, raw: IntColumn) -> IntColumn:
        """Invert the scores and scale them to 0..100."""
        return scoring.normalized(nodes, self._constraints(cycle, SOFT), raw)

    def _constraints(self, cycle: Cycle, action: str) -> Constraints:
        if cycle.pod.spec.topology_spread_constraints:
            return (self._hard if action == HARD else self._soft).of(cycle)
        return self._defaults.of(cycle, action)

    def _hard_of_pod(self, pod: Pod) -> Constraints:
        own = pod.spec.topology_spread_constraints
        return self._hard_of.of(pod) if own else self._defaults.of_pod(pod, HARD)

    def _evaluate(self, pod: Pod) -> TaintVerdicts:
        compares = bool(self.handle.feature_gates.get(COMPARISON_GATE))
        return TaintVerdicts(pod.spec.tolerations, compares=compares)


def may_help(change: Change, pod: Pod, constraints: Constraints, inclusion: Inclusion) -> bool:
    """Return whether a change may make a rejected pod feasible."""
    if not constraints.items:
        return True  # no constraint rejects it any more
    if change.kind == "Node":
        return _node_helps(change, pod, constraints, inclusion)
    if change.pod.metadata.uid == pod.metadata.uid:
        return _own_change_helps(change, constraints)
    if change.pod.metadata.namespace != pod.metadata.namespace:
        return False
    old, new = change.old, change.new
    before, after = change.before, change.after
    if before is not None and after is not None and before.node != after.node:
        return any(_counts(c, old) or _counts(c, new) for c in constraints.items)
    return any(_counts(c, old) != _counts(c, new) for c in constraints.items)


def _counts(constraint: SpreadConstraint, pod: Pod | None) -> bool:
    return pod is not None and constraint.counts(pod)


def _own_change_helps(change: Change, constraints: Constraints) -> bool:
    old, new = change.old, change.new
    if old is None or new is None or old.metadata.labels != new.metadata.labels:
        return True
    return old.spec.tolerations != new.spec.tolerations and any(
        constraint.honors_taints for constraint in constraints.items
    )


def _node_helps(change: Change, pod: Pod, constraints: Constraints, inclusion: Inclusion) -> bool:
    before, after = (
        None if node is None else _place(node, pod, constraints, inclusion)
        for node in (change.old, change.new)
    )
    return before != after


def _place(
    node: Node, pod: Pod, constraints: Constraints, inclusion: Inclusion
) -> tuple[Any, ...] | None:
    """Return a node's domains and whether they count; None if it lacks a label."""
    labels = node.metadata.labels
    if any(constraint.key not in labels for constraint in constraints.items):
        return None
    return tuple(
        (labels[constraint.key], inclusion.includes(pod, node, constraint))
        for constraint in constraints.items
    )
