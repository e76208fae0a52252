"""Remedies for a pending group, the most plausible first: smaller, preferences, more nodes, less.

In order: a smaller group, a preference instead of a rule, more nodes, smaller requests, and the
pods' other requirements. Every remedy is tried by placing the group (`grouptrials`); only those
that place it are suggested. No remedy removes a request: a job without its accelerators is another
job. Used by `grouped`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from scheduler.base.arrays import IntColumn
from scheduler.explain.why.edits import node_like, requesting
from scheduler.explain.why.grouptrials import GroupEdit, GroupTrial
from scheduler.explain.why.pending import listed
from scheduler.explain.why.records import SuggestedChange, Suggestion
from scheduler.explain.why.requirements import PodRequirement, without_all
from scheduler.explain.why.rules import LevelRuleRequirement, name_of, rules_of
from scheduler.explain.why.suggesting import changes_of
from scheduler.framework.groups import GroupReport
from scheduler.framework.nodes import Nodes
from scheduler.groups.plugin import GroupFacts
from scheduler.groups.sources import configmap
from scheduler.objects.groups.podgroup import WorkloadGroup
from scheduler.objects.pod import Pod
from scheduler.objects.quantity import resource_text
from scheduler.state.resources import PODS, counted, pod_requests

MOST_SUGGESTIONS = 4
CLAIMS = "spec.resourceClaims"
PARTS = (1, 2, 4, 8)  # of a node's free amounts, tried as requests
MEBI = 1 << 20


class Remedy(msgspec.Struct, frozen=True):
    """One trial: the edit, the same as changes of objects, and as text after "fits".

    `fallback` is tried where this one does not place the group.
    """

    edit: GroupEdit
    changes: tuple[SuggestedChange, ...]
    text: str
    fallback: Remedy | None = None


def remedies(
    trial: GroupTrial,
    facts: GroupFacts,
    report: GroupReport,
    corrections: Iterable[Sequence[PodRequirement | LevelRuleRequirement]],
) -> tuple[Suggestion, ...]:
    """Return the remedies that were tried and let the group fit, the most plausible first.

    `corrections` are sets of requirements and rules without which it fits.
    """
    found = list(_tried(trial, _candidates(trial, facts, report, corrections), MOST_SUGGESTIONS))
    return tuple(found or _tried(trial, _combined(trial, facts), 1))


def _tried(trial: GroupTrial, candidates: Iterable[Remedy], most: int) -> Iterator[Suggestion]:
    for first in candidates:
        one: Remedy | None = first
        while one is not None and most:
            if nodes := trial.placed(one.edit):
                node = nodes[one.edit.members[0].key]
                yield Suggestion(node, one.changes, f"fits {one.text}")
                most -= 1
                break
            one = one.fallback


def _combined(trial: GroupTrial, facts: GroupFacts) -> Iterator[Remedy]:
    """Yield remedies of several parts, for a group without a single remedy.

    Requests that a node has free, or a part of that; combined with no rules, or fewer members.
    """
    nodes = trial.run.engine.view.columns()
    for part in PARTS:
        yield from _without_rules(_requesting_less(trial.members, nodes, part), facts)
    size = len(trial.members) // 2
    while size:
        for one in _smaller(trial.members, facts, size, size):
            less = _requesting_less(one.edit.members, nodes, 1)
            edit = replace(one.edit, members=less.edit.members)
            text = " and ".join(filter(None, (one.text, less.text)))
            yield from _without_rules(Remedy(edit, (*one.changes, *less.changes), text), facts)
        size //= 2


def _requesting_less(members: Sequence[Pod], nodes: Nodes, part: int) -> Remedy:
    """Return members that request at most `1/part` of the largest node's free amounts."""
    edited, words = tuple(members), list[str]()
    changes: list[SuggestedChange] = []
    for resource, amount in counted(pod_requests(members[0])).items():
        most = int(_free(nodes, resource)[nodes.exists].max(initial=0)) // part
        if 0 < most < amount:
            text = resource_text(resource, most)
            edited = tuple(requesting(pod, resource, most) or pod for pod in edited)
            changes += _request_changes(edited, resource, text)
            words.append(f"{text} {resource} each instead of {resource_text(resource, amount)}")
    text = f"with {listed(words)}" if words else ""
    return Remedy(GroupEdit(edited), tuple(changes), text)


def _without_rules(one: Remedy, facts: GroupFacts) -> Iterator[Remedy]:
    """Yield a remedy, and the same without the rules of the group."""
    if one.text:
        yield one
    edit, changes, words = one.edit, list(one.changes), [one.text] if one.text else []
    for rule in rules_of(facts):
        edit = rule.drop(edit)
        changes += rule.changes(edit.members)
        words.append(rule.less)
    yield Remedy(edit, tuple(changes), " and ".join(words))


def _candidates(
    trial: GroupTrial,
    facts: GroupFacts,
    report: GroupReport,
    corrections: Iterable[Sequence[PodRequirement | LevelRuleRequirement]],
) -> Iterator[Remedy]:
    members = trial.members
    if 0 < report.would_fit - _bound(report) < len(members):
        yield from _smaller(members, facts, report.would_fit, report.would_fit - _bound(report))
    for rule in rules_of(facts):
        without = _without(rule, members)
        preferred = rule.preferred and _without(rule.preferred, members)
        yield replace(preferred, fallback=without) if preferred else without
    nodes = trial.run.engine.view.columns()
    if not any(pod.spec.resource_claims for pod in members):
        yield from _more_nodes(members, facts, nodes)
    yield from _smaller_requests(members, facts, nodes)
    for some in corrections:
        own = [one for one in some if isinstance(one, PodRequirement)]
        if len(own) < len(some) or any(one.resource or one.field.startswith(CLAIMS) for one in own):
            continue  # rules are tried above; without its devices a job is another job
        edited = tuple(without_all(pod, own) for pod in members)
        changes = tuple(
            step
            for requirement in own
            for one in members
            for step in changes_of(requirement, f"Pod {one.key}")
        )
        text = listed([requirement.less.replace(" its ", " their ", 1) for requirement in own])
        yield Remedy(GroupEdit(edited), changes, text)


def _without(rule: LevelRuleRequirement, members: Sequence[Pod]) -> Remedy:
    return Remedy(rule.drop(GroupEdit(tuple(members))), rule.changes(members), rule.less)


def _bound(report: GroupReport) -> int:
    def count(units: dict[str, Any]) -> int:
        return sum(count(below) if below else 1 for below in units.values())

    return count(report.placement.get("root") or {})


def _smaller(
    members: Sequence[Pod], facts: GroupFacts, size: int, waiting: int
) -> Iterator[Remedy]:
    """Yield the group with fewer members, for a source that states their number."""
    for kind, obj in facts.objects[:1]:
        resized = _resized(kind, obj, size)
        if resized is None:
            return
        field, changed = resized
        gone = [SuggestedChange(f"Pod {pod.key}", "", "delete") for pod in members[waiting:]]
        change = SuggestedChange(name_of(kind, obj), field, "set", str(size))
        edit = GroupEdit(tuple(members[:waiting]), ((kind, changed),))
        yield Remedy(edit, (change, *gone), f"as a group of {size}")


def _resized(kind: str, obj: Any, size: int) -> tuple[str, Any] | None:
    """Return the field that states the size of a group and the object with another size."""
    if kind == configmap.KIND:
        return "data.size", replace(obj, data={**(obj.data or {}), "size": str(size)})
    spec = getattr(obj, "spec", None)
    if isinstance(obj, WorkloadGroup):
        policy = obj.spec.scheduling_policy
        if policy.gang is None:
            return None
        gang = replace(policy.gang, min_count=size)
        changed = replace(obj.spec, scheduling_policy=replace(policy, gang=gang))
        return "spec.schedulingPolicy.gang.minCount", replace(obj, spec=changed)
    if spec is not None and hasattr(spec, "min_member"):
        return "spec.minMember", replace(obj, spec=replace(spec, min_member=size))
    return None


def _units(facts: GroupFacts, nodes: Nodes) -> dict[tuple[str, ...], list[int]]:
    """Return the rows of each unit that must contain the whole group.

    One unit without such a rule.
    """
    tree = facts.tree
    if tree is None:
        return {(): np.flatnonzero(nodes.exists).tolist()}
    depth = 0
    for level in tree.levels:
        rule = facts.spec.constraints.get(level)
        if rule is None or not rule.hard or rule.type != "pack":
            break
        depth += 1
    found: dict[tuple[str, ...], list[int]] = {}
    for path, name in tree.leaves:
        if (row := nodes.row(name)) is not None:
            found.setdefault((*path, name)[:depth], []).append(row)
    return found


def _more_nodes(members: Sequence[Pod], facts: GroupFacts, nodes: Nodes) -> Iterator[Remedy]:
    """Yield edits that add nodes like an existing one to the unit with the most free capacity."""
    request = {**counted(pod_requests(members[0])), PODS: 1}
    tree = facts.tree
    if tree is not None and tree.source.startswith("ConfigMap"):
        return  # a new node is in no unit before the ConfigMap names it
    slots = _slots(nodes, request)
    units = _units(facts, nodes)
    if not units:
        return
    unit, rows = max(units.items(), key=lambda one: int(slots[one[1]].sum()))
    if tree is not None and len(unit) == len(tree.levels):
        return  # a node is one unit: additional nodes do not enlarge any unit
    offered = [
        int(
            min(
                nodes.allocatable(name)[row] // amount for name, amount in request.items() if amount
            )
        )
        for row in rows
    ]
    best = max(range(len(rows)), key=lambda at: offered[at])
    missing = len(members) - int(slots[rows].sum())
    model = nodes.node(rows[best])
    if offered[best] <= 0 or missing <= 0 or model is None:
        return
    count = -(-missing // offered[best])
    added = tuple(node_like(model, number) for number in range(count))
    changes = tuple(SuggestedChange(f"Node {one.key}", "", "add", model.key) for one in added)
    where = f" in {unit[-1]}" if unit else ""
    text = f"with {count} more node{'s' * (count > 1)} like {model.key}{where}"
    yield Remedy(GroupEdit(tuple(members), (), added), changes, text)


def _slots(nodes: Nodes, request: dict[str, int]) -> IntColumn:
    columns = [_free(nodes, name) // amount for name, amount in request.items() if amount > 0]
    found: IntColumn = np.where(nodes.exists, np.min(np.stack(columns), axis=0), 0)
    return found


def _free(nodes: Nodes, name: str) -> IntColumn:
    free: IntColumn = (nodes.allocatable(name) - nodes.requested(name)).clip(0)
    return free


def _smaller_requests(members: Sequence[Pod], facts: GroupFacts, nodes: Nodes) -> Iterator[Remedy]:
    """Yield the largest request of each resource with which a unit fits all members."""
    requests = counted(pod_requests(members[0]))
    for resource, amount in requests.items():
        free = _free(nodes, resource)
        units = _units(facts, nodes).values()
        step = 1 if resource not in ("memory", "ephemeral-storage") else MEBI
        step = 100 if resource == "cpu" and amount > 100 else step
        low, high = 0, (amount - 1) // step
        while low < high:  # the largest number of steps with which a unit fits all members
            middle = (low + high + 1) // 2
            fits = any(int((free[rows] // (middle * step)).sum()) >= len(members) for rows in units)
            low, high = (middle, high) if fits else (low, middle - 1)
        if low:
            smaller = low * step
            edited = tuple(requesting(pod, resource, smaller) or pod for pod in members)
            text = resource_text(resource, smaller)
            changes = _request_changes(members, resource, text)
            words = f"with {text} {resource} each instead of {resource_text(resource, amount)}"
            yield Remedy(GroupEdit(edited), changes, words)


def _request_changes(
    members: Sequence[Pod], resource: str, text: str
) -> tuple[SuggestedChange, ...]:
    field = f"requests[{resource}]"
    return tuple(SuggestedChange(f"Pod {pod.key}", field, "set", text) for pod in members)
