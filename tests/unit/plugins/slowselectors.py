"""Slow selectors over plain manifests: the references of spread and affinity share them."""

from collections.abc import Mapping
from typing import Any


def matches(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Return whether a label selector matches; none matches nothing, an empty one everything."""
    if selector is None:
        return False
    pairs = all(labels.get(k) == v for k, v in selector.get("matchLabels", {}).items())
    return pairs and all(holds(e, labels) for e in selector.get("matchExpressions", ()))


def holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether one expression holds."""
    key, operator = expression["key"], expression["operator"]
    if operator == "Exists":
        return key in labels
    if operator == "DoesNotExist":
        return key not in labels
    is_in = labels.get(key) in expression["values"]
    return is_in if operator == "In" else not is_in


def is_empty(selector: Mapping[str, Any] | None) -> bool:
    """Return whether a selector exists and has no requirement."""
    return selector is not None and not (
        selector.get("matchLabels") or selector.get("matchExpressions")
    )


def with_keys(
    selector: Mapping[str, Any] | None,
    labels: Mapping[str, str],
    same: tuple[str, ...] = (),
    other: tuple[str, ...] = (),
) -> Mapping[str, Any] | None:
    """Return the selector with matchLabelKeys and mismatchLabelKeys added."""
    if selector is None:
        return None
    more = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for keys, operator in ((same, "In"), (other, "NotIn"))
        for key in keys
        if key in labels
    ]
    return {**selector, "matchExpressions": [*selector.get("matchExpressions", ()), *more]}
