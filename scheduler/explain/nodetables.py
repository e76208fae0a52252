"""Nodes as a table: verdict, scores and reasons."""

from collections.abc import Iterable

from scheduler.base.text import natural
from scheduler.explain.texttable import TextTable
from scheduler.simulate.verdicts import NodeVerdict


def nodes_table(nodes: Iterable[NodeVerdict], *, heading: str = "") -> TextTable:
    """Return one row per node with its verdict and, where plugins scored, their weighted scores."""
    listed = sorted(nodes, key=lambda node: natural(node.name))
    plugins = sorted({plugin for node in listed for plugin in node.scores})
    rows = [
        [
            node.name,
            verdict_text(node.feasible, node.rejected_by, f"rejected by {node.rejected_by}"),
            "" if node.total is None else str(node.total),
            *(str(node.scores[p].weighted) if p in node.scores else "" for p in plugins),
            ", ".join(node.reasons),
        ]
        for node in listed
    ]
    return TextTable(["node", "verdict", "total", *plugins, "reasons"], rows, heading)


def verdict_text(feasible: bool, rejected_by: str | None, rejected: str) -> str:
    """Return a node's verdict; `rejected` is the text for a node that a plugin rejected."""
    if feasible:
        return "fits"
    return "not looked at" if rejected_by is None else rejected
