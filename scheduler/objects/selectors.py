"""Label selectors as plain functions over label maps.

Semantics of apimachinery's labels package: expressions are ANDed, NotIn and DoesNotExist are true
when the key is missing, Gt and Lt compare integers. Node selectors are in `scheduler.state.labels`,
for all nodes at once; this module handles one map of labels.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from scheduler.objects.meta import LabelSelector

# A label value has 63 characters at most; leading zeros are allowed.
_INT = re.compile(r"[+-]?\d{1,63}", re.ASCII)


class Requirement(Protocol):
    """An expression of a label or node selector."""

    @property
    def key(self) -> str: ...
    @property
    def operator(self) -> str: ...
    @property
    def values(self) -> tuple[str, ...]: ...


def parse_int(text: str) -> int | None:
    """Return a signed 64-bit integer as Go's ParseInt reads it; None if invalid."""
    if not _INT.fullmatch(text):
        return None
    value = int(text)
    return value if -(2**63) <= value < 2**63 else None


def value_matches(operator: str, values: Sequence[str], value: str | None) -> bool:
    """Return whether a label with `value` (None = missing) satisfies operator and values."""
    if operator == "In":
        return value is not None and value in values
    if operator == "NotIn":
        return value is None or value not in values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    if operator in ("Gt", "Lt"):
        if value is None or len(values) != 1:
            return False
        left, right = parse_int(value), parse_int(values[0])
        if left is None or right is None:
            return False
        return left > right if operator == "Gt" else left < right
    return False


def requirements_match(requirements: Sequence[Requirement], labels: Mapping[str, str]) -> bool:
    """Return whether `labels` satisfy all `requirements`."""
    return all(value_matches(r.operator, r.values, labels.get(r.key)) for r in requirements)


def selector_matches(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Return whether `labels` match `selector`.

    None matches nothing, an empty selector everything.
    """
    if selector is None:
        return False
    return all(labels.get(k) == v for k, v in selector.match_labels.items()) and requirements_match(
        selector.match_expressions, labels
    )
