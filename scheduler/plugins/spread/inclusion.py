"""Which nodes count for a constraint: those with the labels, and those its policies include.

`None` stands for "all of them", the usual answer, so that later operations need no mask.
"""

from collections.abc import Callable, Sequence

from scheduler.framework import BoolColumn, Cycle, Node, Nodes, PerSpec, Pod
from scheduler.plugins.nodeselection import RequiredNodes, required_nodes
from scheduler.plugins.spread.constraints import SpreadConstraint
from scheduler.plugins.tainttoleration import TaintVerdicts

Mask = BoolColumn | None


class Inclusion:
    """The inclusion policies, for pods on columns of nodes and for one node at a time."""

    def __init__(self, evaluate: Callable[[Pod], TaintVerdicts]) -> None:
        self._evaluate = evaluate
        self._required: PerSpec[RequiredNodes] = PerSpec(required_nodes)
        self._verdicts: PerSpec[TaintVerdicts] = PerSpec(evaluate)

    def mask(
        self, cycle: Cycle, nodes: Nodes, constraint: SpreadConstraint, labelled: Mask
    ) -> Mask:
        """Return the rows of `labelled` that the constraint's policies include."""
        mask = labelled
        if constraint.honors_affinity:
            required = self._required.of(cycle)
            if not required.allows_all:
                mask = both(mask, required.mask(nodes))
        if constraint.honors_taints:
            rejected = self._verdicts.of(cycle).catch_up(nodes.taint_sets).rejected
            if any(rejected):
                mask = both(mask, ~nodes.taint_flags(rejected))
        return mask

    def includes(self, pod: Pod, node: Node, constraint: SpreadConstraint) -> bool:
        """Return whether a constraint's policies include one node."""
        if constraint.honors_affinity and not required_nodes(pod).matches(node):
            return False
        if constraint.honors_taints:
            return not self._evaluate(pod).catch_up((node.spec.taints,)).rejected[0]
        return True


def both(mask: Mask, other: Mask) -> Mask:
    """Return the rows of both masks."""
    if mask is None or other is None:
        return other if mask is None else mask
    return mask & other


def labelled(nodes: Nodes, keys: Sequence[str]) -> Mask:
    """Return the rows that have all the labels."""
    mask: Mask = None
    for key in keys:
        domains = nodes.domains(key)
        if domains.labelled != nodes.count:
            mask = both(mask, domains.slots > 0)
    return mask
