"""The message of a group that does not fit: the rule, the request, the largest unit, and a remedy.

One text for the condition, the event and `explain`. It uses the user's own terms (level, label,
request, claim), not those of the solver's model; the solver reports which rules conflict and which
sizes fit. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
import numpy as np

from scheduler.base.arrays import IntColumn
from scheduler.base.text import natural
from scheduler.framework.groups import Fits
from scheduler.groups.planning import planning
from scheduler.groups.planning.between import PORT
from scheduler.groups.planning.capacities import FILTERS, MemberCapacity, packed, stocks_in
from scheduler.groups.planning.planning import NodeProblem
from scheduler.groups.planning.task import GroupTask
from scheduler.groups.planning.task import with_rules as ruled
from scheduler.groups.problem import conflict
from scheduler.groups.problem.answer import Advice, Conflict
from scheduler.groups.problem.instance import Instance
from scheduler.groups.problem.rules import under
from scheduler.groups.solver.explain import fits_soon
from scheduler.groups.topology.tree import NODE
from scheduler.objects.groups.kueue import HOSTNAME
from scheduler.objects.pod import Pod
from scheduler.objects.quantity import resource_text
from scheduler.state.podindex import Placed, PodIndex
from scheduler.state.resources import PODS

MOST_NAMED = 3
SHARED_CLAIMS = "shared claims"


class GroupRefusal(msgspec.Struct, frozen=True):
    """The report about a group that does not fit.

    `conflict` are the rules and requests of a smallest conflict, `would_fit` the largest smaller
    group that fits (0: none). `is_final`: it would not fit either if all other pods were gone.
    """

    text: str
    conflict: tuple[str, ...] = ()
    would_fit: int = 0
    is_final: bool = False


def refusal(
    task: GroupTask, problem: NodeProblem, fits: Fits, advice: Advice, pods: PodIndex
) -> GroupRefusal:
    """Return the message of a group whose members have equal requests, and the findings behind
    it.
    """
    capacities = MemberCapacity(task, fits)
    rules = advice.conflict
    depth = _depth(task, problem, advice)
    test = _test(task, problem, fits, rules, depth, capacities, pods)
    limits = capacities.conflict(test, depth or 0)
    requests = [name for name in limits if name != FILTERS]

    def inventories(unit: tuple[str, ...]) -> str:
        return stocks_in(task.tree, task.context.nodes, unit, fits, pods)

    text = _sentence(task, problem, advice, capacities, depth, requests, inventories)
    # Inventories name the used devices; without rejections, labels exclude the nodes.
    is_by_filters = FILTERS in limits and not fits.inventories and bool(fits.rejections)
    is_by_filters = is_by_filters or not problem.instance.leaves
    notes = [fits.message if is_by_filters else "", left_out(task, fits)]
    sizes = [str(one) for one in (advice.smaller, advice.larger) if one]
    if sizes:
        notes.append(f"a group of {' or '.join(sizes)} would fit")
    requested = [f"request: {amount_text(name, capacities.request[name])}" for name in requests]
    return GroupRefusal(
        sentences(text, *notes),
        (*named_rules(task, rules), *requested),
        advice.smaller,
        test(capacities.when_empty()) is False,
    )


EMPTY = '""'  # a label may have this value


def apart(key: str, bound: Iterable[Placed], where: Mapping[str, str]) -> str:
    """Return a message on bound members without the label `key`, or with several values of it;
    `where` has the value by node.
    """
    without = sorted(
        (f"{one.pod.metadata.name} runs on {one.node}" for one in bound if one.node not in where),
        key=natural,
    )
    if without:
        return f"{some(without)}, without the label {key} that all its members need in common"
    by_value: dict[str, str] = {}
    for one in sorted(bound, key=lambda one: natural(one.pod.metadata.name)):
        by_value.setdefault(where[one.node], f"{one.pod.metadata.name} on {one.node}")
    places = [f"{value or EMPTY} ({by_value[value]})" for value in sorted(by_value, key=natural)]
    return f"its bound members are in several places by {key}: {some(places)}"


def sentences(first: str, *others: str) -> str:
    """Join texts to sentences: the first as it is, the others with a capital letter and a
    period.
    """
    rest = [f"{one[0].upper()}{one[1:].rstrip('.')}." for one in others if one]
    return " ".join([f"{first.rstrip('.')}.", *rest]) if rest else first


def noun(level: str) -> str:
    """Return the noun for one unit of a level: the last part of a label key."""
    return NODE if level == HOSTNAME else level.rpartition("/")[2]


def amount_text(resource: str, amount: int) -> str:
    """Return an amount of a resource as a manifest states it, with its name."""
    return f"{resource_text(resource, amount)} {resource}"


def rule_name(task: GroupTask, one: Conflict) -> str:
    """Return a rule as the user wrote it."""
    if one.rule == "between members":
        if one.value.startswith(PORT):
            return one.value
        shared = _shared_claims(task.context.members) if one.value == SHARED_CLAIMS else ()
        return f"the shared claim {listed(shared)}" if shared else f"{one.rule} {one.value}"
    labels = task.spec.labels
    if one.rule == "hard" and labels is not None and labels.required:
        return f"the required topology {labels.required}"
    return conflict.name_of(one)


def reasons(task: GroupTask, advice: Advice, enough: str) -> str:
    """Return which rules cannot hold together, and without which `enough`; '' if no rule
    conflicts.
    """
    return conflict.reasons(advice, enough, lambda one: rule_name(task, one))


def left_out(task: GroupTask, fits: Fits) -> str:
    """Return which nodes would take members and are not in the group's tree, and why not."""
    nodes = task.context.nodes
    able = fits.rows & (fits.slots > 0)
    rows = task.tree.rows(nodes)
    able[rows[(rows >= 0) & (rows < len(able))]] = False
    outside = np.flatnonzero(able).tolist()
    if not outside:
        return ""
    why = f"the topology ({task.tree.source}) does not name"
    for label in task.tree.aliases:
        ids = nodes.label_ids(label)
        if all(ids[row] < 0 for row in outside):
            why = f"no label {label}"
            break
    names = sorted((nodes.name(row) for row in outside), key=natural)
    one = len(names) == 1
    which = f"node {names[0]}" if one else f"{len(names)} nodes ({some(names)})"
    verb, has = ("is", "it has") if one else ("are", "they have")
    if why.startswith("no label"):
        return f"{which} {verb} left out: {has} {why}"
    return f"{which} {verb} left out: {why} {'it' if one else 'them'}"


def some(names: Sequence[str]) -> str:
    """Return the first few of some names."""
    rest = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def listed(texts: Sequence[str]) -> str:
    """Return `a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def _depth(task: GroupTask, problem: NodeProblem, advice: Advice) -> int | None:
    """Return the depth of the unit that must contain the group (0: the root); None for other
    rules.
    """
    if not advice.conflict:
        return None  # no conflict was proven in time
    if advice.conflict[0].rule == "size":
        return 0
    if any(one.rule != "hard" or one.value != "pack" for one in advice.conflict):
        return None
    depth = packed(problem.instance, advice)
    labels = task.spec.labels
    if depth and labels is not None and labels.required in task.tree.aliases:
        return task.tree.levels.index(task.tree.aliases[labels.required]) + 1
    return depth or None


def _test(
    task: GroupTask,
    problem: NodeProblem,
    fits: Fits,
    rules: Sequence[Conflict],
    depth: int | None,
    capacities: MemberCapacity,
    pods: PodIndex,
) -> Callable[[IntColumn], bool | None]:
    """Return whether the rules in conflict can hold with such a number of members per node."""
    least = problem.instance.least
    if depth is not None:
        return lambda slots: capacities.largest(slots, depth) >= least

    def test(slots: IntColumn) -> bool | None:
        column = np.zeros(task.context.nodes.size, dtype=np.int64)
        column[capacities.rows] = np.minimum(slots - capacities.fixed, problem.instance.size)
        minimum = problem.instance.minimum
        count = len(task.context.members)
        spec, nodes = task.spec, task.context.nodes
        found = planning.node_problem(spec, task.tree, nodes, column, task.bound, count, minimum)
        instance = ruled(found, task, pods, fits.shared_domain).instance
        return fits_soon(under(instance, frozenset(rules)))

    return test


def _subject(instance: Instance, requests: Sequence[str], request: Mapping[str, int]) -> str:
    """Return the subject of the message: the members that do not fit."""
    size, least = instance.size, instance.least
    many = f"{size} pod{'s' * (size != 1)}"
    own = [one for one in requests if one != PODS]
    if own:
        many += f" of {listed([amount_text(one, request[one]) for one in own])}"
    if least == size:
        return f"{many} do{'es' * (size == 1)} not fit"
    return f"none of {many} fits" if least == 1 else f"fewer than {least} of {many} fit"


def _sentence(
    task: GroupTask,
    problem: NodeProblem,
    advice: Advice,
    capacities: MemberCapacity,
    depth: int | None,
    requests: Sequence[str],
    inventories: Callable[[tuple[str, ...]], str],
) -> str:
    """Return the sentence that names the rule, the request and how near the group is."""
    subject = _subject(problem.instance, requests, capacities.request)
    least = problem.instance.least
    for name in requests:
        most = capacities.most_of(name)
        if most < capacities.request[name]:
            return f"{subject} on any node: the largest has {amount_text(name, most)}"
    if depth is None:
        rules = [one for one in advice.conflict if one.value == SHARED_CLAIMS]
        claims = _shared_claims(task.context.members) if len(advice.conflict) == len(rules) else ()
        if claims:
            return _by_claim(subject, claims, problem)
        enough = (
            "all fit"
            if least == problem.instance.size
            else f"at least {least} fit{'s' * (least == 1)}"
        )
        return ": ".join(filter(None, (subject, reasons(task, advice, enough))))
    by_unit = capacities.by_unit(capacities.slots + capacities.fixed, depth)
    best, most = max(by_unit.items(), key=lambda one: one[1], default=((), 0))
    has = f"capacity for {most or 'none'}"
    known = inventories(best)
    end = f": {known}" if known else ""
    if not depth:
        return f"{subject}: the nodes have {has}{end}"
    required = task.spec.labels.required if task.spec.labels is not None else ""
    unit = noun(required or task.tree.levels[depth - 1])
    return f"{subject} one {unit}: the largest, {best[-1]}, has {has}{end}"


def _by_claim(subject: str, claims: Sequence[str], problem: NodeProblem) -> str:
    """Return the sentence about claims that members share and that only some nodes can use."""
    word = "claim" if len(claims) == 1 else "claims"
    sets = next(one.sets for one in problem.instance.domains if one.name == SHARED_CLAIMS)
    slots = [(sum(problem.instance.leaves[at].slots for at in leaves), leaves) for leaves in sets]
    most, leaves = max(slots, key=lambda one: one[0])
    where = problem.names[leaves[0]] if len(leaves) == 1 else f"{len(leaves)} nodes"
    has = "has" if len(leaves) == 1 else "have"
    return (
        f"{subject} where they can use the {word} {listed(claims)}, which they share: the largest "
        f"place, {where}, {has} capacity for {most or 'none'}"
    )


def _shared_claims(members: Sequence[Pod]) -> tuple[str, ...]:
    """Return the names of resource claims that several members use."""
    counts = Counter(
        entry.resource_claim_name
        for pod in members
        for entry in pod.spec.resource_claims
        if entry.resource_claim_name
    )
    shared = (name for name, many in counts.items() if many > 1)
    return tuple(sorted(shared, key=natural)[:MOST_NAMED])


def named_rules(task: GroupTask, rules: Sequence[Conflict]) -> tuple[str, ...]:
    """Return rules for a report: `level: rule value`."""
    labels = task.spec.labels
    found = []
    for one in rules:
        if one.rule == "hard" and labels is not None and labels.required:
            found.append(f"{labels.required}: required topology")
        else:
            lead = f"{one.level}: " if one.level else ""
            found.append(f"{lead}{one.rule} {one.value}".strip())
    return tuple(dict.fromkeys(found))
