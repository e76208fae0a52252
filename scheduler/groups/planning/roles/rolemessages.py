"""The message of a heterogeneous group, and of a group of groups: see `messages`.

The solver reports no smaller sizes for roles; shortages are counted over all requests together.
Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from scheduler.groups.planning.between import PORT
from scheduler.groups.planning.capacities import shortage as shortage_of
from scheduler.groups.planning.messages import (
    MOST_NAMED,
    GroupRefusal,
    amount_text,
    listed,
    named_rules,
    noun,
    reasons,
    sentences,
)
from scheduler.groups.planning.task import GroupTask
from scheduler.groups.problem.answer import Advice, Conflict
from scheduler.objects.quantity import resource_text
from scheduler.state.resources import PODS


def refusal(task: GroupTask, advice: Advice | None) -> GroupRefusal:
    """Return the message of a group whose members differ, or of a group of groups."""
    rules = () if advice is None else advice.conflict
    subject = f"{_roles(task)} do not fit together"
    if task.least and task.least < len(task.context.members):
        subject = f"fewer than {task.least} of {_roles(task)} fit together"
    if task.shapes:
        subject = "not enough of its groups fit together"
    why = "" if advice is None else reasons(task, advice, "enough fit")
    if len(rules) == 1 and rules[0].rule == "hard" and rules[0].value == "pack" and not task.shapes:
        subject, why = _in_one(task, subject, rules[0], why)
    is_size = any(one.rule == "size" for one in rules)
    lacks, is_final = ("", False) if why else _short(task)
    text = ": ".join(filter(None, (subject, why or lacks)))
    conflict = named_rules(task, rules)
    return GroupRefusal(sentences(text, nowhere(task)), conflict, is_final=is_final and is_size)


def _in_one(task: GroupTask, subject: str, rule: Conflict, why: str) -> tuple[str, str]:
    """Return a message: roles do not fit one unit of a level, and what the best unit lacks."""
    if rule.level not in task.tree.levels:
        return subject, why
    depth = task.tree.levels.index(rule.level) + 1
    needed = _needed(task)
    free = task.context.free(needed)
    units: dict[tuple[str, ...], list[int]] = {}
    for path, name in task.tree.leaves:
        if (row := task.context.nodes.row(name)) is not None:
            units.setdefault((*path, name)[:depth], []).append(row)
    lacks = {unit: shortage_of(needed, free, rows) for unit, rows in units.items()}
    text = f"{subject.removesuffix(' together')} one {noun(rule.level)}"
    remedy = why.partition("; ")[2]
    if lacks and all(resource for resource, _ in lacks.values()):
        unit = max(lacks, key=lambda one: lacks[one][1] / needed[lacks[one][0]])
        resource, left = lacks[unit]
        has = resource_text(resource, left)
        want = amount_text(resource, needed[resource])
        return text, f"the largest, {unit[-1]}, has {has} of the {want} that they need; {remedy}"
    return text, remedy


def _needed(task: GroupTask) -> Counter[str]:
    """Return the requests of all members together."""
    found: Counter[str] = Counter()
    for one in task.roles:
        own = {name: amount * len(one.pods) for name, amount in one.request.items()}
        found.update({name: amount for name, amount in own.items() if PORT not in name})
    return found


def nowhere(task: GroupTask) -> str:
    """Return why a role fits on no node at all, or an empty text."""
    return next((one.message for one in task.roles if not one.slots.any()), "")


def _roles(task: GroupTask) -> str:
    """Return the members by role, of many roles only their number."""
    if len(task.roles) > MOST_NAMED:
        return f"{len(task.context.members)} pods in {len(task.roles)} roles"
    # Roles may differ in rules alone: those with one request are counted together.
    numbers: Counter[str] = Counter()
    for one in task.roles:
        numbers[_request_text(one.request)] += len(one.pods)
    return listed(
        [
            f"{number} pod{'s' * (number != 1)}" + (f" of {request}" if request else "")
            for request, number in numbers.items()
        ]
    )


def _request_text(request: Mapping[str, int]) -> str:
    return listed(
        [amount_text(name, amount) for name, amount in request.items() if _is_stated(name)]
    )


def _is_stated(resource: str) -> bool:
    """Return whether a limit of a role is a request that its manifest states."""
    return resource != PODS and PORT not in resource


def _short(task: GroupTask) -> tuple[str, bool]:
    """Return which resource the roles lack, and whether an empty cluster lacks it as well."""
    nodes = task.context.nodes
    rows = task.tree.rows(nodes)
    rows = rows[rows >= 0]
    if task.least and task.least < len(task.context.members):
        return "", False
    needed = _needed(task)
    resource, free = shortage_of(needed, task.context.free(needed), rows)
    if resource:
        want = amount_text(resource, needed[resource])
        empty = {name: nodes.allocatable(name) for name in needed}
        return (
            (
                f"they need {want}, {resource_text(resource, free)} "
                f"{'is' if free == 1 else 'are'} free"
            ),
            bool(shortage_of(needed, empty, rows)[0]),
        )
    for one in task.roles:
        places = int(one.slots[rows].sum())
        if 0 < places < len(one.pods):
            return (
                (
                    f"the nodes have capacity for {places} of {len(one.pods)} pods of "
                    f"{_request_text(one.request)}"
                ),
                False,
            )
    return "each fits alone, but no nodes have capacity for all", False
