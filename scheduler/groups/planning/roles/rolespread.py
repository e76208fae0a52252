"""Hard topology spread among the members of a group of several roles, as the solver's domains.

A constraint of one role may count pods of others, and some of a role's equal pods may be counted
and others not: `kinds` keeps these apart. Pure; called for each question to the solver.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from scheduler.framework.nodes import Nodes
from scheduler.groups.planning.between import domains_of, selector_of, spread_by, term_selects
from scheduler.groups.problem.instance import DomainRule
from scheduler.objects.pod import Pod, TopologySpreadConstraint
from scheduler.objects.selectors import selector_matches
from scheduler.state.podindex import Placed


class SpreadRule(msgspec.Struct, frozen=True):
    """A rule, and its domain's number for each placed pod that it counts, by the pod's uid."""

    rule: DomainRule
    counted: dict[str, int]


def kinds(pods: Sequence[Pod], members: Sequence[Pod]) -> list[tuple[Pod, ...]]:
    """Return some of the members by spec, and by which hard spread constraints and required
    anti-affinity terms of members select them.
    """
    asking = [those[0] for those in _by_spec(members) if _has_spread(those[0])]
    found: dict[tuple[int, tuple[bool, ...]], list[Pod]] = {}
    for number, those in enumerate(_by_spec(pods)):
        for pod in those:
            found.setdefault((number, selected_by(pod, asking)), []).append(pod)
    return [tuple(those) for those in found.values()]


def _by_spec(pods: Sequence[Pod]) -> list[list[Pod]]:
    found: list[list[Pod]] = []
    for pod in pods:
        those = next((one for one in found if _has_equal_spec(one[0], pod)), None)
        if those is None:
            found.append([pod])
        else:
            those.append(pod)
    return found


def _has_equal_spec(one: Pod, other: Pod) -> bool:
    """Return whether two pods have one spec, with the same selectors once their labels are filled
    in.
    """
    if one.spec != other.spec:
        return False
    keys = (k for each in one.spec.topology_spread_constraints for k in each.match_label_keys)
    return all(one.metadata.labels.get(key) == other.metadata.labels.get(key) for key in keys)


def _has_spread(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    return bool(pod.spec.topology_spread_constraints) or (
        affinity is not None and affinity.pod_anti_affinity is not None
    )


def selected_by(pod: Pod, asking: Iterable[Pod]) -> tuple[bool, ...]:
    """Return for each hard rule of these pods towards others whether it selects a pod."""
    found = []
    for one in asking:
        found += [_counts(each, one, pod) for each in _hard(one)]
        affinity = one.spec.affinity
        anti = None if affinity is None else affinity.pod_anti_affinity
        found += [term_selects(term, one, pod) for term in (() if anti is None else anti.required)]
    return tuple(found)


def spreads_like(one: Pod, other: Pod) -> bool:
    """Return whether the hard spread constraints of two pods are the same, over the same nodes."""
    constraints = list(_hard(one))
    if constraints != list(_hard(other)):
        return False
    return not constraints or (
        _has_equal_spec(one, other)
        or (_where(one) == _where(other) and one.spec.tolerations == other.spec.tolerations)
    )


def _where(pod: Pod) -> tuple[Any, Any]:
    affinity = pod.spec.affinity
    return pod.spec.node_selector, None if affinity is None else affinity.node_affinity


def without_spread(pod: Pod, members: Sequence[Pod]) -> Pod:
    """Return a member without the spread constraints that `rules` states in the problem.

    A filter's verdict on one member alone does not hold for them: the other members fill the
    domains that have too few pods for it.
    """
    modelled = list(_among(pod, members))
    if not modelled:
        return pod
    kept = tuple(one for one in pod.spec.topology_spread_constraints if one not in modelled)
    spec = msgspec.structs.replace(pod.spec, topology_spread_constraints=kept)
    return msgspec.structs.replace(pod, spec=spec)


def rules(
    members: Sequence[Pod], nodes: Nodes, rows: Sequence[int], placed: Iterable[Placed]
) -> list[SpreadRule]:
    """Return the rules of spread constraints that count members; `members` has one of each role.

    Placed pods count in their domains, members of the group as well. Domains without capacity for a
    member count, too.
    """
    found: dict[str, SpreadRule] = {}
    for role, pod in enumerate(members):
        for constraint in _among(pod, members):
            made = _rule(role, constraint, members, nodes, rows, placed)
            same = next((one for one in found.values() if _is_same(one.rule, made.rule)), None)
            if same is not None:
                asking = tuple(dict.fromkeys((*same.rule.asking, role)))
                rule = msgspec.structs.replace(same.rule, asking=asking)
                found[rule.name] = msgspec.structs.replace(same, rule=rule)
                continue
            name = made.rule.name
            name = f"{name} of {pod.metadata.name}" if name in found else name
            rule = msgspec.structs.replace(made.rule, name=name)
            found[name] = msgspec.structs.replace(made, rule=rule)
    return list(found.values())


def _is_same(one: DomainRule, other: DomainRule) -> bool:
    return one == msgspec.structs.replace(other, name=one.name, asking=one.asking)


def _rule(
    role: int,
    constraint: TopologySpreadConstraint,
    members: Sequence[Pod],
    nodes: Nodes,
    rows: Sequence[int],
    placed: Iterable[Placed],
) -> SpreadRule:
    pod = members[role]
    domains = domains_of(constraint, pod, nodes, rows, placed)
    numbers = Counter(domains.counted.values())
    rule = DomainRule(
        spread_by(constraint),
        domains.leaves,
        max_skew=constraint.max_skew,
        existing=tuple(numbers[at] for at in range(len(domains.leaves))),
        only=True,
        asking=(role,),
        counted=tuple(at for at, one in enumerate(members) if _counts(constraint, pod, one)),
    )
    return SpreadRule(rule, domains.counted)


def _hard(pod: Pod) -> Iterator[TopologySpreadConstraint]:
    for one in pod.spec.topology_spread_constraints:
        if one.when_unsatisfiable == "DoNotSchedule":
            yield one


def _among(pod: Pod, members: Sequence[Pod]) -> Iterator[TopologySpreadConstraint]:
    """Yield the hard constraints of a pod that count any of the members."""
    for one in _hard(pod):
        if any(_counts(one, pod, other) for other in members):
            yield one


def _counts(constraint: TopologySpreadConstraint, pod: Pod, other: Pod) -> bool:
    """Return whether a constraint of a pod counts another one."""
    return pod.metadata.namespace == other.metadata.namespace and selector_matches(
        selector_of(constraint, pod), other.metadata.labels
    )
