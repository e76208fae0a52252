"""The rules of a member's own spec that bind members to one another, as the solver's domains.

Only those that speak of pods like the member itself. What they do not say (rules towards other pods,
taints in spread) is asked of the filters when an answer is tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from scheduler.base.arrays import BoolColumn
from scheduler.framework.nodes import Nodes
from scheduler.objects.meta import LabelSelector, LabelSelectorRequirement
from scheduler.objects.pod import Pod, PodAffinityTerm, TopologySpreadConstraint
from scheduler.objects.selectors import selector_matches
from scheduler.solver.instance import Domains
from scheduler.state.podindex import Placed

Sets = tuple[tuple[int, ...], ...]


def members(
    pod: Pod, nodes: Nodes, rows: Sequence[int], placed: Iterable[Placed]
) -> tuple[Domains, ...]:
    """Return the rules of required affinity and anti-affinity; `rows` are those of the leaves.

    Anti-affinity to its own kind lets one member into each domain. Affinity keeps all in one, unless
    there are such pods already: then the filters say which domains are open.
    """
    affinity = pod.spec.affinity
    if affinity is None:
        return ()
    found = []
    anti, near = affinity.pod_anti_affinity, affinity.pod_affinity
    for term in () if anti is None else anti.required:
        if term_selects(term, pod):
            sets = tuple(sets_by_label(nodes, rows, term.topology_key).values())
            found.append(Domains(f"anti-affinity by {term.topology_key}", sets, at_most=1))
    for term in () if near is None else near.required:
        if term_selects(term, pod) and not any(term_selects(term, pod, one.pod) for one in placed):
            sets = tuple(sets_by_label(nodes, rows, term.topology_key).values())
            found.append(Domains(f"affinity by {term.topology_key}", sets, single=True, only=True))
    return tuple(found)


def spread(
    pod: Pod, nodes: Nodes, rows: Sequence[int], placed: Iterable[Placed]
) -> tuple[Domains, ...]:
    """Return the rules of hard spread constraints that count the members themselves.

    Pods that are there already count in their domains; so do domains without room for a member.
    """
    found = []
    hard = [
        one
        for one in pod.spec.topology_spread_constraints
        if one.when_unsatisfiable == "DoNotSchedule"
        and selector_matches(one.label_selector, pod.metadata.labels)
    ]
    if not hard:
        return ()
    alike = [
        one
        for one in placed
        if one.pod.metadata.namespace == pod.metadata.namespace and not one.pod.is_terminating
    ]
    for constraint in hard:
        eligible = _eligible(pod, constraint, nodes)
        sets = sets_by_label(nodes, rows, constraint.topology_key)
        ids = nodes.label_ids(constraint.topology_key)
        existing = dict.fromkeys(np.unique(ids[eligible & (ids >= 0)]).tolist(), 0)
        selector = _with_own_labels(constraint, pod)
        for one in alike:
            row = nodes.row(one.node)
            if row is None or not eligible[row]:
                continue
            value = int(ids[row])
            if value in existing and selector_matches(selector, one.pod.metadata.labels):
                existing[value] += 1
        counts = [*existing.values()]
        leaves = [sets.get(value, ()) for value in existing]
        if constraint.min_domains is not None and len(existing) < constraint.min_domains:
            # Fewer domains than wanted: the least of them counts as empty.
            counts.append(0)
            leaves.append(())
        found.append(
            Domains(
                f"spread by {constraint.topology_key}",
                tuple(leaves),
                max_skew=constraint.max_skew,
                existing=tuple(counts),
                only=True,
            )
        )
    return tuple(found)


def _eligible(pod: Pod, constraint: TopologySpreadConstraint, nodes: Nodes) -> BoolColumn:
    """Return the rows whose domains count: by default those that the pod's own selectors allow."""
    rows = nodes.exists
    if constraint.node_affinity_policy == "Ignore":
        return rows
    if pod.spec.node_selector:
        rows = rows & nodes.labels_mask(pod.spec.node_selector)
    affinity = pod.spec.affinity
    wanted = None
    if affinity is not None and affinity.node_affinity is not None:
        wanted = affinity.node_affinity.required
    if wanted is not None:
        fits = np.zeros(nodes.size, dtype=np.bool_)
        for term in wanted.node_selector_terms:
            fits = fits | nodes.term_mask(term)
        rows = rows & fits
    return rows


def _with_own_labels(constraint: TopologySpreadConstraint, pod: Pod) -> LabelSelector | None:
    """Return the selector with the pod's own values of `matchLabelKeys`."""
    selector, labels = constraint.label_selector, pod.metadata.labels
    own = tuple(
        LabelSelectorRequirement(key, "In", (labels[key],))
        for key in constraint.match_label_keys
        if key in labels
    )
    if selector is None or not own:
        return selector
    return LabelSelector(selector.match_labels, (*selector.match_expressions, *own))


def term_selects(term: PodAffinityTerm, pod: Pod, other: Pod | None = None) -> bool:
    """Whether a term of `pod` selects `other`, by default one like itself.

    A namespace selector is left to the filters.
    """
    meta = (other or pod).metadata
    if term.namespace_selector is not None:
        return False
    if meta.namespace not in (term.namespaces or (pod.metadata.namespace,)):
        return False
    if any(key in meta.labels for key in term.mismatch_label_keys):
        return False
    return selector_matches(term.label_selector, meta.labels)


def sets_by_label(nodes: Nodes, rows: Sequence[int], key: str) -> dict[int, tuple[int, ...]]:
    """Return the leaves by value of a label, those without it in no set."""
    ids = nodes.label_ids(key)[np.array(rows, dtype=np.intp)]
    by_value: dict[int, list[int]] = {}
    for leaf, value in enumerate(ids.tolist()):
        if value >= 0:
            by_value.setdefault(value, []).append(leaf)
    return {value: tuple(leaves) for value, leaves in by_value.items()}
