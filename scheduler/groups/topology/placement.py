"""From counts per node to members on nodes: assignments, ranks, and the texts that report them.

Deterministic (D23): members by index, else in natural order of their names, the master first; nodes
in path order. The formats are Sakkara's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from scheduler.base.text import natural
from scheduler.groups.description.indexes import has_indexes, order_of
from scheduler.groups.topology.tree import ROOT
from scheduler.objects.pod import Pod

Path = tuple[str, ...]


class MemberPlacement(msgspec.Struct, frozen=True):
    """A member on its node; `path` are the units above the node, top first."""

    pod: str
    node: str
    path: Path


def in_order(pods: Iterable[Pod]) -> list[Pod]:
    """Return members by their index; without indexes masters first, then by natural name."""
    members = list(pods)
    if has_indexes(members):
        return sorted(members, key=order_of)
    return sorted(
        members, key=lambda pod: ("master" not in pod.metadata.name, natural(pod.metadata.name))
    )


def oldest(pods: Iterable[Pod]) -> list[Pod]:
    """Return members by the time of their creation, then by natural name."""
    return sorted(
        pods,
        key=lambda pod: (pod.metadata.creation_timestamp or "", natural(pod.metadata.name)),
    )


def ranks(placements: Sequence[MemberPlacement]) -> dict[str, int]:
    """Return each pod's rank: its place in the order of distance from the master.

    Distance is the number of edges of the tree between two pods; ties are ordered by path and name.
    The master is the first pod with a master's name, else the first pod.
    """
    if not placements:
        return {}
    ordered = sorted(placements, key=lambda one: (one.path, one.node, natural(one.pod)))
    master = next((one for one in ordered if "master" in one.pod), ordered[0])

    def key(one: MemberPlacement) -> tuple[bool, int]:
        return one is not master, distance(master, one)

    return {one.pod: rank for rank, one in enumerate(sorted(ordered, key=key))}


def distance(one: MemberPlacement, other: MemberPlacement) -> int:
    """Return the number of edges between two pods: 2 on one node, 4 in one unit above it, …"""
    left, right = (*one.path, one.node), (*other.path, other.node)
    common = 0
    for a, b in zip(left, right, strict=False):
        if a != b:
            break
        common += 1
    return len(left) + len(right) + 2 - 2 * common


def tree_of(placements: Sequence[MemberPlacement]) -> dict[str, Any]:
    """Return the placement as a tree of names; pods are its leaves, keys are sorted."""
    root: dict[str, Any] = {}
    for one in sorted(placements, key=lambda one: (one.path, one.node, natural(one.pod))):
        at = root
        for name in (*one.path, one.node):
            at = at.setdefault(name, {})
        at[one.pod] = {}
    return {ROOT: root}


def tree_text(placements: Sequence[MemberPlacement]) -> str:
    """Return the placement as Sakkara writes it: compact JSON, keys sorted."""
    return msgspec.json.encode(tree_of(placements), order="deterministic").decode()


def rank_text(rank_of: Mapping[str, int]) -> str:
    """Return ranks as Sakkara writes them: `[(pod-a,0) (pod-b,1)]`."""
    pairs = sorted(rank_of.items(), key=lambda pair: pair[1])
    return "[" + " ".join(f"({pod},{rank})" for pod, rank in pairs) + "]"
