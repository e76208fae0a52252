"""Equal rows of a table as one: nodes that fit the same number of pods, pods with the same result.

A cluster of 300 equal nodes has one row, with the racks that the nodes are in.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from scheduler.base.text import natural
from scheduler.explain.texttable import TextTable
from scheduler.groups.topology.tree import PRESETS
from scheduler.objects.node import Node

MOST_NAMED = 3
# At most this many rows that differ only in a name.
MOST_EQUAL = 10


def racks_of(nodes: Iterable[Node]) -> dict[str, str]:
    """Return each node's rack by the label that groups are placed by, of nodes that carry it."""
    listed = list(nodes)
    carried = {label for node in listed for label in node.metadata.labels}
    label = next((one for one in PRESETS["rack"] if one in carried), "")
    found = {node.metadata.name: node.metadata.labels.get(label, "") for node in listed}
    return {name: rack for name, rack in found.items() if rack}


def where_text(nodes: Iterable[str], racks: Mapping[str, str]) -> str:
    """Return where pods are, given the node of each: nodes with counts, racks where there are many.

    `gpu-000 x2` for few nodes, `rack-0 (16 nodes)` for many.
    """
    counts = Counter(nodes)
    if len(counts) <= MOST_NAMED or any(name not in racks for name in counts):
        return counted(counts)
    return counted_nodes(Counter(racks[name] for name in counts))


def counted(counts: Mapping[str, int]) -> str:
    """Return names with their counts, the first three: `node-0 x16, node-1 x8 and 4 more`."""
    return listed(
        f"{name} x{counts[name]}" if counts[name] > 1 else name
        for name in sorted(counts, key=natural)
    )


def counted_nodes(counts: Mapping[str, int]) -> str:
    """Return racks with their numbers of nodes: `rack-0 (16 nodes), rack-1 (1 node)`."""
    return listed(
        f"{name} ({counts[name]:,} node{'s' if counts[name] != 1 else ''})"
        for name in sorted(counts, key=natural)
    )


def listed(texts: Iterable[str]) -> str:
    """Return the first three texts and how many more there are."""
    shown = list(texts)
    rest = len(shown) - MOST_NAMED
    return ", ".join(shown[:MOST_NAMED]) + (f" and {rest:,} more" if rest > 0 else "")


def folded_counts(pods: Mapping[str, int], nodes: Sequence[Node]) -> TextTable:
    """Return one row for all nodes that take equally many pods, most first."""
    racks, by_count = racks_of(nodes), dict[int, list[str]]()
    for name in sorted(pods, key=natural):
        by_count.setdefault(pods[name], []).append(name)
    rows = []
    for number, names in sorted(by_count.items(), reverse=True):
        in_racks = Counter(racks[name] for name in names if name in racks)
        has_racks = len(names) > MOST_NAMED and bool(in_racks)
        text = counted_nodes(in_racks) if has_racks else listed(names)
        each = f"{number:,} each" if len(names) > 1 else f"{number:,}"
        count = f"{len(names):,} nodes" if len(names) > 1 else "1 node"
        rows.append([count, each, text])
    return TextTable(["nodes", "pods", "where"], rows)


def folded_rows(rows: Iterable[Sequence[str]]) -> list[list[str]]:
    """Return rows, with those merged that differ only in the name in their first cell.

    Up to `MOST_EQUAL` equal rows stay as they are.
    """
    by_rest: dict[tuple[str, ...], list[str]] = {}
    for name, *rest in rows:
        by_rest.setdefault(tuple(rest), []).append(name)
    return [
        [name, *rest]
        for rest, names in by_rest.items()
        for name in (
            names if len(names) <= MOST_EQUAL else [f"{names[0]} and {len(names) - 1:,} more"]
        )
    ]
