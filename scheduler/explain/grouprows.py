"""A group as one table row: placed members, domains, proof, and the reason for waiting."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec.structs import asdict

from scheduler.base.text import natural
from scheduler.explain.folds import counted, where_text
from scheduler.framework.groups import GroupReport

DOES_NOT_FIT: Final = "DoesNotFit"
MISSING: Final = "Missing"
INVALID: Final = "Invalid"
FITS: Final = "Fits"
_LEAD: Final = re.compile(r"^0/\d+ nodes are available: ")
# Statuses in the order in which a reader looks for them.
_FIRST: Final = (INVALID, DOES_NOT_FIT, MISSING, "Waiting", "Incomplete", "Preempting", FITS)


class ShownGroup(GroupReport, frozen=True, rename="camel"):
    """A group as the page shows it: `shown` is its status in tables; `waits` as `waits` states."""

    shown: str = ""
    waits: bool = False


def shown_groups(groups: Sequence[GroupReport]) -> tuple[ShownGroup, ...]:
    """Return groups with their status in tables, in the order of tables."""
    return tuple(
        ShownGroup(**asdict(one), shown=shown_status(one), waits=waits(one))
        for one in in_order(groups)
    )


def shown_status(group: GroupReport) -> str:
    """Return the status as tables show it.

    A group that waits for capacity has not failed, and one whose members only have planned nodes
    is not bound. No object describes a `Missing` group; that of an `Invalid` one cannot be used.
    """
    if group.status == "Failed":
        return DOES_NOT_FIT if group.minimum else INVALID
    if is_missing(group):
        return MISSING
    if group.status == "Bound" and placed(group) - group.planned + group.finished < group.minimum:
        return FITS
    return group.status


def is_missing(group: GroupReport) -> bool:
    """Return whether pods name this group and no object describes it."""
    return not group.source and not group.minimum


def waits(group: GroupReport) -> bool:
    """Return whether a group lacks members that it needs."""
    if shown_status(group) not in ("Bound", "Completed"):
        return True
    return 0 < placed(group) < group.minimum - group.finished


def in_order(groups: Sequence[GroupReport]) -> list[GroupReport]:
    """Return groups that do not fit first, then those that wait, each by name."""
    rank = {status: at for at, status in enumerate(_FIRST)}
    return sorted(
        groups,
        key=lambda one: (
            rank.get(shown_status(one), len(rank)),
            natural(one.namespace),
            natural(one.name),
        ),
    )


def placed(group: GroupReport) -> int:
    """Return how many members have a node."""
    return sum(1 for _ in group.leaves())


def pods_text(group: GroupReport) -> str:
    """Return members with a node or finished, of those needed: `24/24`, `3/2+` if more may join."""
    if is_missing(group) or shown_status(group) == INVALID:
        return ""
    return f"{placed(group) + group.finished}/{group.minimum}{'' if group.maximum else '+'}"


def group_where(group: GroupReport, racks: Mapping[str, str]) -> str:
    """Return the units with members: racks where the tree or the nodes name them, else nodes."""
    units = group.placement.get("root") or {}
    nodes = [node for node, _ in group.leaves()]
    if all(node in units for node in nodes):
        return where_text(nodes, racks)
    return counted({name: _size(below) for name, below in units.items()})


def short_message(group: GroupReport) -> str:
    """Return the message without the group's name, which the row has."""
    lead = f"the group {group.namespace}/{group.name} "
    return group.message.removeprefix(f"{lead}does not fit: ").removeprefix(lead)


def short_reason(message: str) -> str:
    """Return a pod's message without the lead that all of kube-scheduler's messages have."""
    return _LEAD.sub("", message)


def proof_text(group: GroupReport) -> str:
    """Return the proof of a placement in words: `proven best: 1 rack, 2 nodes`."""
    if not group.optimal or not placed(group):
        return ""
    counts = [
        f"{value} {term.removesuffix(' units').rpartition('/')[2]}{'s' if value != 1 else ''}"
        for value, term in zip(group.objective, group.terms, strict=False)
        if term.endswith(" units") and value >= 0
    ]
    return f"proven best: {', '.join(counts)}" if counts else "proven best"


def _size(units: Mapping[str, Any]) -> int:
    """Return how many pods are below."""
    return sum(_size(below) if below else 1 for below in units.values())
