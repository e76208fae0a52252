"""NodeAffinity: nodeSelector and node affinity of the pod, and affinity that the profile adds."""

from collections.abc import Hashable, Iterator

import msgspec
import numpy as np

from scheduler.framework import (
    SKIP,
    Args,
    Change,
    Code,
    Cycle,
    Handle,
    IntColumn,
    Narrow,
    Node,
    Nodes,
    PerSpec,
    Plugin,
    Pod,
    Rejected,
    Status,
    reject,
    unresolvable,
)
from scheduler.objects.pod import NodeAffinity as Affinity
from scheduler.objects.pod import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
)
from scheduler.plugins import nodeselection
from scheduler.plugins.nodeselection import RequiredNodes, required_nodes

REASON_POD = "node(s) didn't match Pod's node affinity/selector"
REASON_ADDED = "node(s) didn't match scheduler-enforced node affinity"
REASON_CONFLICT = "pod affinity terms conflict"

# The types of `addedAffinity`: as in pods, but an unknown field in a file is an error.


class StrictRequirement(NodeSelectorRequirement, frozen=True, forbid_unknown_fields=True):
    """A node selector requirement in a configuration file."""


class StrictTerm(NodeSelectorTerm, frozen=True, forbid_unknown_fields=True):
    """A node selector term in a configuration file."""

    match_expressions: tuple[StrictRequirement, ...] = ()
    match_fields: tuple[StrictRequirement, ...] = ()


class StrictNodeSelector(NodeSelector, frozen=True, forbid_unknown_fields=True):
    """A node selector in a configuration file."""

    node_selector_terms: tuple[StrictTerm, ...] = ()


class StrictPreferred(PreferredSchedulingTerm, frozen=True, forbid_unknown_fields=True):
    """A preferred term in a configuration file."""

    preference: StrictTerm = StrictTerm()


class AddedAffinity(Affinity, frozen=True, forbid_unknown_fields=True):
    """Node affinity in a configuration file."""

    required: StrictNodeSelector | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )
    preferred: tuple[StrictPreferred, ...] = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=()
    )


class NodeAffinityArgs(Args):
    """`addedAffinity` applies to every pod of the profile, as required and as preferred
    affinity.
    """

    added_affinity: AddedAffinity | None = None

    def validate(self) -> Iterator[tuple[str, str]]:
        """Yield the terms that do not parse."""
        if self.added_affinity is None:
            return
        path = "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        required = self.added_affinity.required
        for index, term in enumerate(required.node_selector_terms if required else ()):
            yield from nodeselection.term_faults(term, f"{path}[{index}]")
        path = "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution"
        yield from nodeselection.preferred_faults(self.added_affinity.preferred, path)


class NodeAffinity(Plugin[NodeAffinityArgs]):
    """Reject nodes outside required affinity and selector.

    Score by the weights of preferred terms.
    """

    reads = ("node.labels",)
    local = True
    normalize = "max"

    def __init__(self, args: NodeAffinityArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        added = args.added_affinity or AddedAffinity()
        self._added = nodeselection.any_of(added.required)
        self._added_preferred = added.preferred
        self._required = PerSpec(_required_and_names)
        self._preferred = PerSpec(self._preferred_terms)

    def key(self, pod: Pod) -> Hashable | None:
        """Return the selector and the affinity, which determine the result; None without either."""
        is_free = required_nodes(pod).allows_all and self._added is None
        if is_free and self._preferred_terms(pod) is SKIP:
            return None
        return tuple((pod.spec.node_selector or {}).items()), _affinity(pod)

    def pre_filter(self, cycle: Cycle, nodes: Nodes) -> Status | Narrow | RequiredNodes:
        """Return the pod's requirements; narrow the rows down when it names its nodes."""
        required, names = self._required.of(cycle)
        if required.allows_all and self._added is None:
            return SKIP
        if names is None:
            return required
        if not names:
            return unresolvable(REASON_CONFLICT)
        return Narrow(nodes.rows_named(names), required)

    def filter(
        self, cycle: Cycle, nodes: Nodes, required: RequiredNodes | None = None
    ) -> Rejected | None:
        """Reject the nodes that the profile's affinity or the pod's own does not match."""
        rejected: Rejected | None = None
        if self._added is not None:
            rejected = reject(~self._added.mask(nodes), REASON_ADDED, final=True)
        if required is None:  # the profile disables pre-filter
            required, _ = self._required.of(cycle)
        if required.allows_all:
            return rejected
        own = reject(~required.mask(nodes), REASON_POD, final=True)
        return own if rejected is None else rejected.otherwise(own)

    def pre_score(self, cycle: Cycle, *_: object) -> Status | tuple[PreferredSchedulingTerm, ...]:
        """Return all preferred terms.

        Skip without any, Error if one of the pod's does not parse.
        """
        return self._preferred.of(cycle)

    def score(
        self, cycle: Cycle, nodes: Nodes, terms: tuple[PreferredSchedulingTerm, ...] | None
    ) -> IntColumn:
        """Return the sum of the weights of the terms that match."""
        if not isinstance(terms, tuple):  # the profile disables pre-score
            answer = self.pre_score(cycle)
            if isinstance(answer, Status) and answer.code is Code.ERROR:
                raise ValueError(answer.message)
            terms = answer if isinstance(answer, tuple) else ()
        total: IntColumn | None = None
        for term in terms:
            if term.weight and not nodeselection.is_empty(term.preference):
                column = nodes.term_mask(term.preference).astype(np.int64)
                column *= term.weight
                total = column if total is None else total + column
        return nodes.constant(0) if total is None else total

    def hint(self, change: Change, pod: Pod) -> bool:
        """Return whether a node matches now and did not before."""
        required = required_nodes(pod)
        before: Node | None = change.old
        return self._matches(required, change.node) and (
            before is None or not self._matches(required, before)
        )

    def _preferred_terms(self, pod: Pod) -> Status | tuple[PreferredSchedulingTerm, ...]:
        own = _affinity(pod).preferred
        faults = tuple(nodeselection.preferred_faults(own, ""))
        if faults:
            return Status(Code.ERROR, (nodeselection.joined(faults),))
        return own + self._added_preferred or SKIP

    def _matches(self, required: RequiredNodes, node: Node) -> bool:
        return (self._added is None or self._added.matches(node)) and required.matches(node)


def _affinity(pod: Pod) -> Affinity:
    """Return the pod's node affinity, an empty one if it has none."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    return affinity or Affinity()


def _required_and_names(pod: Pod) -> tuple[RequiredNodes, frozenset[str] | None]:
    """Return a pod's requirements for nodes, and the only node names that can satisfy them."""
    return required_nodes(pod), nodeselection.names_in(_affinity(pod).required)
