"""Match nodes with pods for controllers: node selectors, affinity and taints.

Used by the DaemonSet controller and the sandbox's node lifecycle controller. It shares no code with
the scheduler's own matching, so that tests of the sandbox compare two implementations.
"""

from collections.abc import Iterable
from typing import Final

from scheduler.controlplane.objects import Object

NO_EXECUTE: Final = "NoExecute"
_KEEPING_AWAY: Final = ("NoSchedule", NO_EXECUTE)


def selects_node(spec: Object, node: Object) -> bool:
    """Return whether nodeSelector and required node affinity of a pod spec admit the node."""
    labels = node["metadata"].get("labels") or {}
    wanted = spec.get("nodeSelector") or {}
    if any(labels.get(key) != text for key, text in wanted.items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    fields = {"metadata.name": node["metadata"]["name"]}
    return any(_term(term, labels, fields) for term in required.get("nodeSelectorTerms") or ())


def untolerated(
    taints: Iterable[Object], tolerations: Iterable[Object], effects: Iterable[str]
) -> bool:
    """Return whether a taint with one of these effects is not tolerated."""
    existing = list(tolerations)
    return any(
        taint["effect"] in effects and not any(tolerates(found, taint) for found in existing)
        for taint in taints
    )


def keeps_away(node: Object, tolerations: Iterable[Object]) -> bool:
    """Return whether the node's taints exclude a new pod with these tolerations."""
    taints = (node.get("spec") or {}).get("taints") or ()
    return untolerated(taints, tolerations, _KEEPING_AWAY)


def tolerates(toleration: Object, taint: Object) -> bool:
    """Return whether one toleration covers one taint."""
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    key = toleration.get("key")
    if key and key != taint["key"]:
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(key) and (toleration.get("value") or "") == (taint.get("value") or "")


def _term(term: Object, labels: dict[str, str], fields: dict[str, str]) -> bool:
    expressions = term.get("matchExpressions") or ()
    on_fields = term.get("matchFields") or ()
    if not expressions and not on_fields:
        return False
    return all(_holds(rule, labels) for rule in expressions) and all(
        _holds(rule, fields) for rule in on_fields
    )


def _holds(rule: Object, existing: dict[str, str]) -> bool:
    text = existing.get(rule["key"])
    values: list[str] = rule.get("values") or []
    match rule["operator"]:
        case "In":
            return text in values
        case "NotIn":
            return text not in values
        case "Exists":
            return text is not None
        case "DoesNotExist":
            return text is None
    try:
        number, limit = int(text or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return number > limit if rule["operator"] == "Gt" else number < limit
