"""The rules of a member's own spec that bind members to one another, as the solver's domains.

Only rules whose selectors match the members themselves. Rules towards other pods are left to the
filters, which verify each answer. Pure; called for each question to the solver.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec
import numpy as np

from scheduler.base.arrays import BoolColumn, IntColumn
from scheduler.framework.nodes import Nodes
from scheduler.groups.problem.instance import DomainRule
from scheduler.objects.meta import LabelSelector, LabelSelectorRequirement
from scheduler.objects.pod import ContainerPort, Pod, PodAffinityTerm, TopologySpreadConstraint
from scheduler.objects.selectors import selector_matches
from scheduler.plugins.tainttoleration import TaintVerdicts
from scheduler.state.podindex import Placed
from scheduler.state.shapes import host_ports

PORT = "host port "
Sets = tuple[tuple[int, ...], ...]


class SpreadDomains(msgspec.Struct, frozen=True):
    """The domains of a spread constraint: `leaves` per domain, and in `counted` the number of the
    domain of each placed pod that counts, by uid.
    """

    leaves: Sets
    counted: dict[str, int]


def members(
    pod: Pod,
    nodes: Nodes,
    rows: Sequence[int],
    placed: Iterable[Placed],
    bound: Collection[Placed] = (),
) -> tuple[DomainRule, ...]:
    """Return the rules of host ports, required affinity and anti-affinity; `rows` are those of the
    leaves.

    Anti-affinity to its own pods allows one member per domain, not counting `bound` members that it
    does not select: the instance has these on its leaves as well. Affinity keeps all in one domain,
    unless matching pods are placed already: then the filters determine the allowed domains.
    """
    found = _ports(pod, rows)
    affinity = pod.spec.affinity
    if affinity is None:
        return tuple(found)
    anti, near = affinity.pod_anti_affinity, affinity.pod_affinity
    for term in () if anti is None else anti.required:
        if term_selects(term, pod):
            others = _by_leaf((o for o in bound if not term_selects(term, pod, o.pod)), nodes, rows)
            by_number: dict[int, list[tuple[int, ...]]] = {}
            for leaves in sets_by_label(nodes, rows, term.topology_key).values():
                by_number.setdefault(_among(leaves, others), []).append(leaves)
            name = f"anti-affinity by {term.topology_key}"
            found += [DomainRule(name, tuple(sets), at_most=1 + n) for n, sets in by_number.items()]
    for term in () if near is None else near.required:
        if term_selects(term, pod) and not any(term_selects(term, pod, one.pod) for one in placed):
            sets = tuple(sets_by_label(nodes, rows, term.topology_key).values())
            found.append(
                DomainRule(f"affinity by {term.topology_key}", sets, single=True, only=True)
            )
    return tuple(found)


def _ports(pod: Pod, rows: Sequence[int]) -> list[DomainRule]:
    """Return the rule that members with host ports are on different nodes."""
    ports = sorted({port_name(port) for port in host_ports(pod)})
    if not ports:
        return []
    return [DomainRule(" and ".join(ports), tuple((leaf,) for leaf in range(len(rows))), at_most=1)]


def port_name(port: ContainerPort) -> str:
    """Return the name of a host port among resources and rules."""
    return f"{PORT}{port.protocol}/{port.host_port}"


def near(pods: Sequence[Pod], nodes: Nodes, rows: Iterable[int]) -> str:
    """Return the topology key of the required affinity term that all heterogeneous members share,
    or ''.

    The term must select every member, and no bound pod may match it: the first member then decides
    for all. The filters, run with all members in place, would let each two be apart from the
    others.
    """
    affinity = pods[0].spec.affinity
    terms = (
        () if affinity is None or affinity.pod_affinity is None else affinity.pod_affinity.required
    )
    for term in terms:
        if all(_has_term(pod, term) and term_selects(term, pods[0], pod) for pod in pods):
            there = (one for row in rows for one in nodes.pods_on(row).values())
            if not any(term_selects(term, pods[0], one.pod) for one in there):
                return term.topology_key
    return ""


def _has_term(pod: Pod, term: PodAffinityTerm) -> bool:
    affinity = pod.spec.affinity
    found = None if affinity is None else affinity.pod_affinity
    return found is not None and term in found.required


def within(shared_domain: IntColumn, rows: Sequence[int]) -> tuple[DomainRule, ...]:
    """Return the rule that all members are where a resource that they share is accessible."""
    sets: dict[int, list[int]] = defaultdict(list)
    for leaf, row in enumerate(rows):
        sets[int(shared_domain[row])].append(leaf)
    sets.pop(-1, None)
    return (DomainRule("shared claims", tuple(map(tuple, sets.values())), single=True, only=True),)


def spread(
    pod: Pod,
    nodes: Nodes,
    rows: Sequence[int],
    placed: Iterable[Placed],
    bound: Collection[Placed] = (),
) -> tuple[DomainRule, ...]:
    """Return the rules of hard spread constraints that count the members themselves.

    Placed pods count in their domains, except the members in `bound`, which the instance has on its
    leaves: those that the constraint does not count are subtracted. Domains without capacity for a
    member count as well.
    """
    found = []
    by_uid = {one.pod.metadata.uid: one for one in bound}
    for constraint in _own_hard(pod):
        domains = domains_of(constraint, pod, nodes, rows, placed)
        numbers = Counter(at for uid, at in domains.counted.items() if uid not in by_uid)
        others = _by_leaf((by_uid[uid] for uid in by_uid.keys() - domains.counted), nodes, rows)
        counts = (numbers[at] - _among(own, others) for at, own in enumerate(domains.leaves))
        found.append(
            DomainRule(
                spread_by(constraint),
                domains.leaves,
                max_skew=constraint.max_skew,
                existing=tuple(counts),
                only=True,
            )
        )
    return tuple(found)


def counted(pod: Pod, nodes: Nodes, placed: Iterable[Placed]) -> dict[str, dict[str, int]]:
    """Return the placed pods that spread constraints count: by uid and rule, the number of the
    pod's domain.
    """
    found: dict[str, dict[str, int]] = {}
    for constraint in _own_hard(pod):
        for uid, at in domains_of(constraint, pod, nodes, (), placed).counted.items():
            found.setdefault(uid, {})[spread_by(constraint)] = at
    return found


def spread_by(constraint: TopologySpreadConstraint) -> str:
    """Return the name of a constraint among rules."""
    return f"spread by {constraint.topology_key}"


def _own_hard(pod: Pod) -> Iterator[TopologySpreadConstraint]:
    """Yield the constraints that count pods like the pod itself."""
    for one in pod.spec.topology_spread_constraints:
        if _counts_members(one, pod):
            yield one


def domains_of(
    constraint: TopologySpreadConstraint,
    pod: Pod,
    nodes: Nodes,
    rows: Sequence[int],
    placed: Iterable[Placed],
) -> SpreadDomains:
    """Return the domains of a constraint of a pod; `rows` are those of the leaves."""
    ids = nodes.label_ids(constraint.topology_key)
    counts = _labelled(pod, nodes) & _eligible(pod, constraint, nodes)
    values = np.unique(ids[counts]).tolist()
    number_of = {value: at for at, value in enumerate(values)}
    by_value = sets_by_label(nodes, rows, constraint.topology_key)
    leaves = [
        tuple(leaf for leaf in by_value.get(value, ()) if counts[rows[leaf]]) for value in values
    ]
    if constraint.min_domains is not None and len(values) < constraint.min_domains:
        # Fewer domains than the constraint's minimum: the minimum count is 0.
        leaves.append(())
    found, selector = {}, selector_of(constraint, pod)
    for one in placed:
        meta = one.pod.metadata
        if meta.namespace != pod.metadata.namespace or one.pod.is_terminating:
            continue
        row = nodes.row(one.node)
        if row is not None and counts[row] and selector_matches(selector, meta.labels):
            found[meta.uid] = number_of[int(ids[row])]
    return SpreadDomains(tuple(leaves), found)


def is_free(pod: Pod) -> bool:
    """Return whether a member's own spec has no rule about the other members."""
    affinity = pod.spec.affinity
    near = affinity is not None and affinity.pod_affinity is not None
    apart = affinity is not None and affinity.pod_anti_affinity is not None
    constraints = pod.spec.topology_spread_constraints
    return not (
        near or apart or host_ports(pod) or any(_counts_members(one, pod) for one in constraints)
    )


def without_spread(pod: Pod) -> Pod:
    """Return a member without the spread constraints that `spread` states in the problem.

    A filter's verdict on one member alone does not hold for them: the other members fill the
    domains that have too few pods for it.
    """
    constraints = pod.spec.topology_spread_constraints
    kept = tuple(one for one in constraints if not _counts_members(one, pod))
    if len(kept) == len(constraints):
        return pod
    spec = msgspec.structs.replace(pod.spec, topology_spread_constraints=kept)
    return msgspec.structs.replace(pod, spec=spec)


def _counts_members(constraint: TopologySpreadConstraint, pod: Pod) -> bool:
    """Return whether a constraint binds, and counts pods like the member itself."""
    return constraint.when_unsatisfiable == "DoNotSchedule" and selector_matches(
        constraint.label_selector, pod.metadata.labels
    )


def _labelled(pod: Pod, nodes: Nodes) -> BoolColumn:
    """Return the rows with the labels of all binding constraints: other rows count for none of
    them.
    """
    rows = nodes.exists
    for one in pod.spec.topology_spread_constraints:
        if one.when_unsatisfiable == "DoNotSchedule":
            rows = rows & (nodes.label_ids(one.topology_key) >= 0)
    return rows


def _eligible(pod: Pod, constraint: TopologySpreadConstraint, nodes: Nodes) -> BoolColumn:
    """Return the rows whose domains count: those that the constraint's two policies include."""
    rows = nodes.exists
    if constraint.node_taints_policy == "Honor":
        verdicts = TaintVerdicts(pod.spec.tolerations, compares=False).catch_up(nodes.taint_sets)
        rows = rows & ~nodes.taint_flags(verdicts.rejected)
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


def selector_of(constraint: TopologySpreadConstraint, pod: Pod) -> LabelSelector | None:
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
    """Return whether a term of `pod` selects `other`, by default an equal pod.

    An empty namespace selector selects all namespaces; the filters judge any other one.
    """
    meta, among = (other or pod).metadata, term.namespace_selector
    if among is not None and (among.match_labels or among.match_expressions):
        return False
    if among is None and meta.namespace not in (term.namespaces or (pod.metadata.namespace,)):
        return False
    if any(key in meta.labels for key in term.mismatch_label_keys):
        return False
    return selector_matches(term.label_selector, meta.labels)


def _by_leaf(pods: Iterable[Placed], nodes: Nodes, rows: Sequence[int]) -> Counter[int]:
    """Return how many of these pods are on each leaf."""
    on = Counter(nodes.row(one.node) for one in pods)
    return Counter({leaf: on[row] for leaf, row in enumerate(rows) if on[row]}) if on else Counter()


def _among(leaves: Iterable[int], numbers: Counter[int]) -> int:
    return sum(numbers[leaf] for leaf in leaves) if numbers else 0


def sets_by_label(nodes: Nodes, rows: Sequence[int], key: str) -> dict[int, tuple[int, ...]]:
    """Return the leaves by value of a label; leaves without the label are in no set."""
    ids = nodes.label_ids(key)[np.array(rows, dtype=np.intp)]
    by_value: dict[int, list[int]] = {}
    for leaf, value in enumerate(ids.tolist()):
        if value >= 0:
            by_value.setdefault(value, []).append(leaf)
    return {value: tuple(leaves) for value, leaves in by_value.items()}
