"""The nodes that a pod's nodeSelector and node affinity allow; for NodeAffinity and the spread.

Terms are read as kube-scheduler reads them: one that does not parse matches no node, and its faults
have the API machinery's texts. Independent of nodes.
"""

import json
from collections.abc import Iterable, Iterator, Sequence

import msgspec
import numpy as np

from scheduler.framework import BoolColumn, Node, Nodes, Pod
from scheduler.objects.names import label_value_problem, qualified_name_problem
from scheduler.objects.pod import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
)
from scheduler.objects.selectors import parse_int, requirements_match, value_matches

NAME_FIELD = "metadata.name"

Fault = tuple[str, str]


class AnyOf(msgspec.Struct, frozen=True):
    """Node selector terms, ORed, without those that match nothing.

    An empty list matches no node.
    """

    terms: tuple[NodeSelectorTerm, ...]

    def mask(self, nodes: Nodes) -> BoolColumn:
        """Return the rows that match any term."""
        if not self.terms:
            return np.zeros(nodes.size, dtype=np.bool_)
        mask = nodes.term_mask(self.terms[0])
        for term in self.terms[1:]:
            mask = mask | nodes.term_mask(term)
        return mask

    def matches(self, node: Node) -> bool:
        """Return whether one node matches any term."""
        return any(_term_matches(term, node) for term in self.terms)


class RequiredNodes(msgspec.Struct, frozen=True):
    """A pod's nodeSelector and required node affinity; None where the pod sets none."""

    labels: dict[str, str] | None
    affinity: AnyOf | None

    @property
    def allows_all(self) -> bool:
        """Return whether the pod sets no requirement; an empty nodeSelector is a requirement."""
        return self.labels is None and self.affinity is None

    def mask(self, nodes: Nodes) -> BoolColumn:
        """Return the rows that the requirements allow."""
        if self.affinity is None:
            return nodes.labels_mask(self.labels or {})
        mask = self.affinity.mask(nodes)
        return mask & nodes.labels_mask(self.labels) if self.labels else mask

    def matches(self, node: Node) -> bool:
        """Return whether the requirements allow a node."""
        carried = node.metadata.labels
        if any(carried.get(key) != value for key, value in (self.labels or {}).items()):
            return False
        return self.affinity is None or self.affinity.matches(node)


def required_nodes(pod: Pod) -> RequiredNodes:
    """Return a pod's requirements for nodes."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required if affinity is not None else None
    return RequiredNodes(pod.spec.node_selector, any_of(required))


def any_of(selector: NodeSelector | None) -> AnyOf | None:
    """Return the terms that can match; None for no selector."""
    if selector is None:
        return None
    terms = (t for t in selector.node_selector_terms if not is_empty(t))
    return AnyOf(tuple(term for term in terms if not any(term_faults(term, ""))))


def names_in(selector: NodeSelector | None) -> frozenset[str] | None:
    """Return the only node names that a selector can match; None if it does not select by name."""
    terms = selector.node_selector_terms if selector is not None else ()
    union: set[str] = set()
    for term in terms:
        named = [
            set(r.values) for r in term.match_fields if r.key == NAME_FIELD and r.operator == "In"
        ]
        if not named:
            return None
        union |= set.intersection(*named)
    return frozenset(union) if terms else None


def preferred_faults(terms: Sequence[PreferredSchedulingTerm], path: str) -> Iterator[Fault]:
    """Yield (field, message) for each parse error in preferred terms."""
    for index, term in enumerate(terms):
        if term.weight and not is_empty(term.preference):
            yield from term_faults(term.preference, f"{path}[{index}]")


def is_empty(term: NodeSelectorTerm) -> bool:
    """Return whether a term has no expression; such a term matches nothing."""
    return not term.match_expressions and not term.match_fields


def term_faults(term: NodeSelectorTerm, path: str) -> Iterator[Fault]:
    """Yield (field, message) for each parse error in a term."""
    for index, requirement in enumerate(term.match_expressions):
        yield from _expression_faults(requirement, f"{path}.matchExpressions[{index}]")
    for index, requirement in enumerate(term.match_fields):
        yield from _field_faults(requirement, f"{path}.matchFields[{index}]")


def joined(faults: Iterable[Fault]) -> str:
    """Return faults as one text, as the API machinery joins errors."""
    texts = list(dict.fromkeys(f"{field}: {message}" for field, message in faults))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _expression_faults(requirement: NodeSelectorRequirement, path: str) -> Iterator[Fault]:
    key, operator, values = requirement.key, requirement.operator, requirement.values
    if operator not in ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"):
        yield f"{path}.operator", f"Unsupported value: {_quoted(operator)}"
        return
    problem = qualified_name_problem(key)
    if problem:
        yield f"{path}.key", f"Invalid value: {_quoted(key)}: {problem}"
    if operator in ("In", "NotIn") and not values:
        yield (
            f"{path}.values",
            _invalid(values, "for 'in', 'notin' operators, values set can't be empty"),
        )
    if operator in ("Exists", "DoesNotExist") and values:
        yield (
            f"{path}.values",
            _invalid(values, "values set must be empty for exists and does not exist"),
        )
    if operator in ("Gt", "Lt"):
        if len(values) != 1:
            yield (
                f"{path}.values",
                _invalid(values, "for 'Gt', 'Lt' operators, exactly one value is required"),
            )
        for index, value in enumerate(values):
            if parse_int(value) is None:
                yield (
                    f"{path}.values[{index}]",
                    _invalid(value, "for 'Gt', 'Lt' operators, the value must be an integer"),
                )
    for index, value in enumerate(values):
        problem = label_value_problem(value)
        if problem:
            yield f"{path}.values[{index}][{key}]", _invalid(value, problem)


def _field_faults(requirement: NodeSelectorRequirement, path: str) -> Iterator[Fault]:
    if requirement.operator not in ("In", "NotIn"):
        yield f"{path}.operator", f"Unsupported value: {_quoted(requirement.operator)}"
    elif len(requirement.values) != 1:
        yield f"{path}.values", _invalid(requirement.values, "must have one element")


def _invalid(value: str | tuple[str, ...], detail: str) -> str:
    return f"Invalid value: {_quoted(value)}: {detail}"


def _quoted(value: str | tuple[str, ...]) -> str:
    return json.dumps(value, ensure_ascii=False)


def _term_matches(term: NodeSelectorTerm, node: Node) -> bool:
    return requirements_match(term.match_expressions, node.metadata.labels) and all(
        r.key == NAME_FIELD and value_matches(r.operator, r.values, node.metadata.name)
        for r in term.match_fields
    )
