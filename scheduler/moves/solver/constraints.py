"""Constraints of every plan: capacity, limits, conflicts, anchors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from scheduler.moves.solver.problem import Anchor, Conflict
from scheduler.moves.solver.variables import Flow, Variables


def build(model: Variables) -> None:
    """Add all constraints of the problem to the model."""
    capacity(model)
    limits(model)
    for conflict in model.problem.conflicts:
        _conflict(model, conflict)
    for anchor in model.problem.anchors:
        _anchor(model, anchor)


def capacity(model: Variables) -> None:
    """Arrivals fit while all sources run; waiting pods fit in the end."""
    out, into, waiting = (
        _at_nodes(flows) for flows in (model.leaving, model.arriving, model.claimed)
    )
    for node in sorted(set(into) | set(waiting)):
        for resource, free in enumerate(model.problem.nodes[node].free):
            arriving = _sum(into[node], resource)
            wanted = _sum(waiting[node], resource)
            if arriving and model.parallel:
                model.cp.add(sum(arriving) <= max(0, free))
            if not wanted and (model.parallel or not arriving):
                continue
            left = free + sum(_sum(out[node], resource)) - sum(arriving) - sum(wanted)
            constraint = model.cp.add(left >= 0)
            if (
                free < 0
            ):  # without a pod that requests the resource, the node may stay overcommitted
                users = [flow for flow in waiting[node] + into[node] if flow.request[resource]]
                constraint.only_enforce_if(_any(model, users))


def limits(model: Variables) -> None:
    """Keep the number of moved pods within each limit."""
    problem = model.problem
    for number, limit in enumerate(problem.limits):
        terms: list[Any] = [
            variable
            for index, variable in model.out.items()
            if number in model.kinds.kinds[model.kinds.sources[index].kind].limits
        ]
        terms += [
            len(problem.units[group].pods) * moves
            for group, moves in model.moves.items()
            if group in limit.units
        ]
        if terms:
            model.cp.add(sum(terms) <= limit.most)


def _conflict(model: Variables, rule: Conflict) -> None:
    """Add the constraints of an anti-affinity rule between pods with its two tags in one domain.

    Arriving and waiting pods exclude each other; waiting pods also exclude pods that stay.
    """
    coming = _in_domains(model, rule.level, model.arriving + model.claimed, rule)
    claimed = _in_domains(model, rule.level, model.claimed, rule)
    leaving = _in_domains(model, rule.level, model.leaving, rule)
    running = _running(model, rule.level, rule)
    for domain, flows in coming.items():
        first, second, both = _sides(flows, rule)
        if both:
            model.cp.add(sum(flow.pods for flow in both) <= 1)
        _exclude(model, first, second)
        _exclude(model, first + second, both)
        wanted = claimed.get(domain)
        if not wanted or not running.get(domain):
            continue
        gone = leaving.get(domain, [])
        for mine, tag in ((rule.first, rule.second), (rule.second, rule.first)):
            users = [flow for flow in wanted if mine in flow.tags]
            number = sum(tag in tags for tags in running[domain])
            if users and number:
                left = number - sum(flow.pods for flow in gone if tag in flow.tags)
                model.cp.add(left == 0).only_enforce_if(_any(model, users))


def _exclude(model: Variables, some: list[Flow], others: list[Flow]) -> None:
    if some and others:
        model.cp.add_bool_or(~_any(model, some), ~_any(model, others))


def _sides(flows: list[Flow], rule: Conflict) -> tuple[list[Flow], list[Flow], list[Flow]]:
    """Return the flows tagged first only, second only, and both."""
    names = (rule.first, rule.second)
    first = [flow for flow in flows if rule.second not in flow.tags]
    second = [flow for flow in flows if rule.first not in flow.tags]
    return first, second, [flow for flow in flows if flow.tags.issuperset(names)]


def _anchor(model: Variables, rule: Anchor) -> None:
    """Keep a provider in place wherever a dependent stays, arrives or will wait."""
    out, into, waiting = (
        _in_domains(model, rule.level, flows, rule)
        for flows in (model.leaving, model.arriving, model.claimed)
    )
    for flow in model.arriving + model.claimed:
        if rule.dependent in flow.tags and model.problem.domain(rule.level, flow.node) < 0:
            model.cp.add(flow.pods == 0)
    running = _running(model, rule.level, rule)
    for domain in {*out, *into, *waiting} - rule.anchored:
        gone, coming = out.get(domain, []), into.get(domain, [])
        here = running.get(domain, [])
        number = sum(rule.provider in tags for tags in here)
        staying = number - sum(flow.pods for flow in gone if rule.provider in flow.tags)
        arriving = [flow for flow in coming if rule.dependent in flow.tags]
        if arriving:
            model.cp.add(staying >= 1).only_enforce_if(_any(model, arriving))
        dependents = sum(rule.dependent in tags for tags in here)
        if number and dependents:
            left = dependents - sum(flow.pods for flow in gone if rule.dependent in flow.tags)
            stays = model.cp.new_bool_var("")
            model.cp.add(staying >= stays)
            model.cp.add(left <= dependents * stays)
        users = [flow for flow in waiting.get(domain, []) if rule.dependent in flow.tags]
        if users:
            provided = staying + sum(flow.pods for flow in coming if rule.provider in flow.tags)
            model.cp.add(provided >= 1).only_enforce_if(_any(model, users))


def _any(model: Variables, flows: Iterable[Flow]) -> Any:
    """Return a boolean that is true if a pod of one of the flows arrives."""
    flows = list(flows)
    found = model.cp.new_bool_var("")
    model.cp.add(sum(flow.pods for flow in flows) <= sum(flow.most for flow in flows) * found)
    return found


def _in_domains(
    model: Variables, level: int, flows: Iterable[Flow], rule: Conflict | Anchor
) -> dict[int, list[Flow]]:
    """Return the flows that a rule concerns, by domain."""
    found: defaultdict[int, list[Flow]] = defaultdict(list)
    names = _names(rule)
    for flow in flows:
        domain = model.problem.domain(level, flow.node)
        if domain >= 0 and not names.isdisjoint(flow.tags):
            found[domain].append(flow)
    return dict(found)


def _running(
    model: Variables, level: int, rule: Conflict | Anchor
) -> dict[int, list[frozenset[str]]]:
    """Return the tags of the movable pods that a rule concerns, by domain."""
    found: defaultdict[int, list[frozenset[str]]] = defaultdict(list)
    names = _names(rule)
    for pod in model.problem.pods:
        domain = model.problem.domain(level, pod.node)
        if domain >= 0 and not names.isdisjoint(pod.tags):
            found[domain].append(pod.tags)
    return dict(found)


def _names(rule: Conflict | Anchor) -> frozenset[str]:
    if isinstance(rule, Conflict):
        return frozenset((rule.first, rule.second))
    return frozenset((rule.dependent, rule.provider))


def _at_nodes(flows: Iterable[Flow]) -> defaultdict[int, list[Flow]]:
    found: defaultdict[int, list[Flow]] = defaultdict(list)
    for flow in flows:
        found[flow.node].append(flow)
    return found


def _sum(flows: Iterable[Flow], resource: int) -> list[Any]:
    return [flow.pods * flow.request[resource] for flow in flows if flow.request[resource]]
