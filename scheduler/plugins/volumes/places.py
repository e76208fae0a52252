"""`SelectedRows`: the rows that the node selector of a volume, a class or a capacity object
selects.

A cluster with local disks has as many selectors as volumes, each for one host. So rows are grouped
once by the values of a label, and then looked up; any other selector is evaluated as a mask.
"""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec
import numpy as np

from scheduler.framework import BoolColumn, Nodes, Rows
from scheduler.objects.meta import LabelSelector
from scheduler.objects.pod import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from scheduler.objects.storage import TopologySelectorTerm
from scheduler.plugins.nodeselection import any_of

# All rows, a few by their numbers, or a mask.
Found: TypeAlias = Rows | BoolColumn | None


class _Groups(msgspec.Struct, frozen=True):
    slots: Rows
    order: Rows
    starts: Rows


class SelectedRows:
    """Rows by selector, on any view of nodes."""

    def __init__(self) -> None:
        self._groups: dict[str, _Groups] = {}

    def of_affinity(self, nodes: Nodes, selector: NodeSelector | None) -> Found:
        """Return the rows that match a node selector; no selector matches all of them."""
        if selector is None:
            return None
        if len(selector.node_selector_terms) == 1:
            term = selector.node_selector_terms[0]
            if len(term.match_expressions) == 1 and not term.match_fields:
                only = term.match_expressions[0]
                if only.operator == "In" and only.values:
                    return self._in(nodes, only.key, only.values)
        terms = any_of(selector)
        return terms.mask(nodes) if terms is not None else None

    def of_labels(self, nodes: Nodes, selector: LabelSelector) -> Found:
        """Return the rows that match a label selector; an empty one matches all of them."""
        wanted = [
            NodeSelectorRequirement(key, "In", (value,))
            for key, value in selector.match_labels.items()
        ]
        wanted += [
            NodeSelectorRequirement(e.key, e.operator, e.values) for e in selector.match_expressions
        ]
        if len(wanted) == 1 and wanted[0].operator == "In":
            return self._in(nodes, wanted[0].key, wanted[0].values)
        return nodes.term_mask(NodeSelectorTerm(tuple(wanted))) if wanted else None

    def of_topologies(self, nodes: Nodes, terms: Sequence[TopologySelectorTerm]) -> BoolColumn:
        """Return the rows that one of a class's allowed topologies names; none listed, all rows."""
        allowed = np.zeros(nodes.size, dtype=np.bool_) if terms else nodes.exists
        for term in terms:
            wanted = (
                NodeSelectorRequirement(e.key, "In", e.values) for e in term.match_label_expressions
            )
            allowed = allowed | nodes.term_mask(NodeSelectorTerm(tuple(wanted)))
        return allowed

    def _in(self, nodes: Nodes, key: str, values: Sequence[str]) -> Rows:
        groups = self._grouped(nodes, key)
        found = []
        for value in values:
            slot = nodes.label_id(key, value) + 1
            if slot > 0:
                found.append(groups.order[groups.starts[slot] : groups.starts[slot + 1]])
        if len(found) == 1:
            return found[0]
        return np.concatenate(found) if found else groups.order[:0]

    def _grouped(self, nodes: Nodes, key: str) -> _Groups:
        domains = nodes.domains(key)
        groups = self._groups.get(key)
        if groups is None or groups.slots is not domains.slots:
            order = np.argsort(domains.slots, kind="stable")
            counts = np.bincount(domains.slots, minlength=domains.size)
            starts = np.concatenate(([0], np.cumsum(counts)))
            groups = self._groups[key] = _Groups(domains.slots, order, starts)
        return groups


def mask_of(found: Found, size: int) -> BoolColumn:
    """Return rows as a mask."""
    if found is None:
        return np.ones(size, dtype=np.bool_)
    mask = np.zeros(size, dtype=np.bool_)
    mask[found] = True
    return mask


def among(found: Found, mask: BoolColumn) -> Rows | BoolColumn:
    """Return the rows that are also in `mask`, as row numbers or as a mask."""
    if found is None:
        return mask
    return mask & found if found.dtype == np.bool_ else found[mask[found]]
