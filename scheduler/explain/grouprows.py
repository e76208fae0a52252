"""A group as one table row: placed members, domains, proof, and the reason for waiting."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from scheduler.explain.folds import counted, where_text
from scheduler.framework.groups import GroupReport

DOES_NOT_FIT: Final = "DoesNotFit"
# Statuses in the order in which a reader looks for them.
_FIRST: Final = (DOES_NOT_FIT, "Waiting", "Incomplete", "Preempting")


def shown_status(group: GroupReport) -> str:
    """Return the status as tables show it: a group that waits for capacity has not failed."""
    return DOES_NOT_FIT if group.status == "Failed" else group.status


def waits(group: GroupReport) -> bool:
    """Return whether a group lacks members that it needs."""
    return group.status not in ("Bound", "Completed") or 0 < placed(group) < group.minimum


def in_order(groups: Sequence[GroupReport]) -> list[GroupReport]:
    """Return groups that do not fit first, then those that wait, each by name."""
    rank = {status: at for at, status in enumerate(_FIRST)}
    return sorted(
        groups,
        key=lambda one: (rank.get(shown_status(one), len(rank)), one.namespace, one.name),
    )


def placed(group: GroupReport) -> int:
    """Return how many members have a node."""
    return sum(1 for _ in _leaves(group.placement.get("root") or {}))


def pods_text(group: GroupReport) -> str:
    """Return members with a node, of those needed: `24/24`, `3/2+` where more may join."""
    return f"{placed(group)}/{group.minimum}{'' if group.maximum else '+'}"


def group_where(group: GroupReport, racks: Mapping[str, str]) -> str:
    """Return the units with members: racks where the tree or the nodes name them, else nodes."""
    units = group.placement.get("root") or {}
    nodes = [node for node, _ in _leaves(units)]
    if all(node in units for node in nodes):
        return where_text(nodes, racks)
    return counted({name: sum(1 for _ in _leaves(below)) for name, below in units.items()})


def short_message(group: GroupReport) -> str:
    """Return the message without the group's name, which the row has."""
    lead = f"the group {group.namespace}/{group.name} "
    return group.message.removeprefix(f"{lead}does not fit: ").removeprefix(lead)


def proof_text(group: GroupReport) -> str:
    """Return the proof of a placement in words: `proven best: 1 rack, 2 nodes`."""
    if not group.optimal or not placed(group):
        return ""
    counts = [
        f"{value} {term.removesuffix(' units')}{'s' if value != 1 else ''}"
        for value, term in zip(group.objective, group.terms, strict=False)
        if term.endswith(" units") and value >= 0
    ]
    return f"proven best: {', '.join(counts)}" if counts else "proven best"


def _leaves(units: Mapping[str, Any], node: str = "") -> Iterator[tuple[str, str]]:
    """Yield (node, pod) of a placement: its innermost names and those around them."""
    for name, below in units.items():
        if below:
            yield from _leaves(below, name)
        else:
            yield node, name
