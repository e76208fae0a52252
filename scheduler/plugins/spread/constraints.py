"""Spread constraints, parsed from a pod's spec.

They do not depend on nodes or other pods, so they are computed once per shape of pods.
"""

from collections.abc import Mapping, Sequence

import msgspec

from scheduler.framework import Pod
from scheduler.objects.pod import TopologySpreadConstraint
from scheduler.objects.selectors import requirements_match
from scheduler.plugins.podselection import selector_fault, with_label_keys
from scheduler.state.selection import Expressions, Selection

HARD = "DoNotSchedule"
SOFT = "ScheduleAnyway"
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


class SpreadConstraint(msgspec.Struct, frozen=True):
    """One constraint of one pod.

    `selection` are the placed pods that count (None: no pod), `matches_self` states whether the pod
    itself counts. `honors_affinity` and `honors_taints` exclude nodes that the pod may not use.
    """

    key: str
    max_skew: int
    min_domains: int
    honors_affinity: bool
    honors_taints: bool
    selection: Selection | None
    matches_self: bool

    def counts(self, pod: Pod) -> bool:
        """Return whether a placed pod counts."""
        meta = pod.metadata
        return self.selection is not None and self.selection.matches(
            meta.namespace, meta.labels, is_terminating=pod.is_terminating
        )


class Constraints(msgspec.Struct, frozen=True):
    """All constraints of one action; `fault` states why they are invalid.

    `ignores_unlabelled`: nodes that lack one of the topology keys are ignored for all constraints.
    """

    items: tuple[SpreadConstraint, ...] = ()
    fault: str = ""
    ignores_unlabelled: bool = True

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the topology keys, each once."""
        return tuple(dict.fromkeys(item.key for item in self.items))


NO_CONSTRAINTS = Constraints()

SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable=SOFT),
    TopologySpreadConstraint(max_skew=5, topology_key=ZONE, when_unsatisfiable=SOFT),
)


def own_constraints(pod: Pod, action: str) -> Constraints:
    """Return the constraints that a pod's spec gives for one action."""
    meta = pod.metadata
    items = []
    for written in pod.spec.topology_spread_constraints:
        if written.when_unsatisfiable != action:
            continue
        fault = selector_fault(written.label_selector)
        if fault:
            return Constraints(fault=fault)
        expressions = with_label_keys(written.label_selector, meta.labels, written.match_label_keys)
        items.append(_constraint(written, expressions, meta.namespace, meta.labels))
    return Constraints(tuple(items))


def default_constraints(
    pod: Pod,
    written: Sequence[TopologySpreadConstraint],
    expressions: Expressions,
    *,
    ignores_unlabelled: bool,
) -> Constraints:
    """Return a profile's constraints for a pod whose owners select it by `expressions`."""
    meta = pod.metadata
    if not expressions:
        return NO_CONSTRAINTS
    return Constraints(
        tuple(_constraint(one, expressions, meta.namespace, meta.labels) for one in written),
        ignores_unlabelled=ignores_unlabelled,
    )


def _constraint(
    written: TopologySpreadConstraint,
    expressions: Expressions | None,
    namespace: str,
    labels: Mapping[str, str],
) -> SpreadConstraint:
    # kube-scheduler: the empty selector counts no pod, yet the pod matches it itself.
    selection = (
        Selection(frozenset((namespace,)), expressions, terminating=False) if expressions else None
    )
    return SpreadConstraint(
        key=written.topology_key,
        max_skew=written.max_skew,
        min_domains=1 if written.min_domains is None else written.min_domains,
        honors_affinity=written.node_affinity_policy == "Honor",
        honors_taints=written.node_taints_policy == "Honor",
        selection=selection,
        matches_self=expressions is not None and requirements_match(expressions, labels),
    )
