"""Label and field selectors of list, watch and deletecollection requests, compiled to predicates.

The server compiles a selector once per request; the store has no selectors. One table here has the
selectable fields of each kind, as in kube-apiserver.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from scheduler.sandbox.api.status import Object, StatusError, bad_request
from scheduler.sandbox.kinds.kinds import EVENTS, Resource
from scheduler.sandbox.store.collection import field

Matcher = Callable[[Object], bool]
_Rule = Callable[[Mapping[str, Any]], bool]

_ANY_FIELDS: Final = ("metadata.name", "metadata.namespace")
_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "pods": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    "nodes": ("spec.unschedulable",),
    "namespaces": ("status.phase",),
    "secrets": ("type",),
    "events": (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    "jobs.batch": ("status.successful",),
    "replicationcontrollers": ("status.replicas",),
    "replicasets.apps": ("status.replicas",),
    "resourceslices.resource.k8s.io": ("spec.nodeName", "spec.driver"),
    "services": ("spec.clusterIP", "spec.type"),
}
_EVENTS_V1: Final = {
    "regarding": "involvedObject",
    "reportingController": "reportingComponent",
}
_BOOLEAN_FIELDS: Final = frozenset({"spec.unschedulable", "spec.hostNetwork"})

_SET_TERM: Final = re.compile(r"^\s*([^\s!=,()]+)\s+(in|notin)\s*\(([^()]*)\)\s*$")
_EQUAL_TERM: Final = re.compile(r"^\s*([^\s!=,()]+)\s*(==|=|!=)\s*([^\s!=,()]*)\s*$")
_EXISTS_TERM: Final = re.compile(r"^\s*(!?)\s*([^\s!=,()]+)\s*$")
_COMPARE_TERM: Final = re.compile(r"^\s*([^\s!=<>,()]+)\s*([<>])\s*(-?\d+)\s*$")
_KEY: Final = re.compile(r"([a-z0-9.-]+/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


def matcher(resource: Resource, labels: str, fields: str) -> Matcher | None:
    """Return a predicate for both selectors, None when neither restricts.

    400 for a malformed one.
    """
    checks = [
        check for check in (_label_matcher(labels), _field_matcher(resource, fields)) if check
    ]
    if not checks:
        return None
    if len(checks) == 1:
        return checks[0]
    first, second = checks
    return lambda obj: first(obj) and second(obj)


def _label_matcher(text: str) -> Matcher | None:
    rules = [_label_rule(term, text) for term in _split(text)]
    if not rules:
        return None

    def matches(obj: Object) -> bool:
        labels = obj["metadata"].get("labels") or {}
        return all(rule(labels) for rule in rules)

    return matches


def _label_rule(term: str, whole: str) -> _Rule:
    if found := _SET_TERM.match(term):
        key, operator, inside = found.groups()
        values = frozenset(part.strip() for part in inside.split(","))
        _check_key(key, whole)
        if operator == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if found := _EQUAL_TERM.match(term):
        key, operator, value = found.groups()
        _check_key(key, whole)
        if operator == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if found := _COMPARE_TERM.match(term):
        key, operator, number = found.groups()
        return _comparison(key, operator, int(number))
    if found := _EXISTS_TERM.match(term):
        absent, key = found.groups()
        _check_key(key, whole)
        if absent:
            return lambda labels: key not in labels
        return lambda labels: key in labels
    raise _unparsable(whole)


def _comparison(key: str, operator: str, number: int) -> _Rule:
    def rule(labels: Mapping[str, Any]) -> bool:
        try:
            value = int(labels[key])
        except (KeyError, ValueError):
            return False
        return value > number if operator == ">" else value < number

    return rule


def _field_matcher(resource: Resource, text: str) -> Matcher | None:
    rules = [_field_rule(resource, term, text) for term in text.split(",") if term]
    if not rules:
        return None
    return lambda obj: all(rule(obj) for rule in rules)


def _field_rule(resource: Resource, term: str, whole: str) -> Matcher:
    found = re.fullmatch(r"([^=!]+)(==|=|!=)(.*)", term)
    if not found:
        raise bad_request(f'invalid selector: "{whole}"; can\'t understand "{term}"')
    name, operator, wanted = found.groups()
    path = _known_field(resource, name)
    wants_equal = operator != "!="
    default = "false" if path in _BOOLEAN_FIELDS else ""
    steps = tuple(path.split("."))

    def matches(obj: Object) -> bool:
        value = field(obj, *steps)
        if path == "source":
            value = field(obj, "source", "component") or obj.get("reportingComponent")
        if isinstance(value, bool):
            value = "true" if value else "false"
        shown = default if value is None else str(value)
        return (shown == wanted) is wants_equal

    return matches


def _known_field(resource: Resource, name: str) -> str:
    if resource.storage == EVENTS.storage and resource.group:
        head, _, rest = name.partition(".")
        head = _EVENTS_V1.get(head, head)
        name_in_core = f"{head}.{rest}" if rest else head
    else:
        name_in_core = name
    if name in _ANY_FIELDS or name_in_core in _FIELDS.get(resource.storage, ()):
        return name_in_core
    if resource.custom and name in resource.selectable:
        return name
    if resource.storage in _FIELDS and not resource.custom:
        raise bad_request(f"field label not supported: {name}")
    known = ", ".join(f'"{field}"' for field in (*_ANY_FIELDS, *resource.selectable))
    raise bad_request(f'"{name}" is not a known field selector: only {known}')


def _split(text: str) -> list[str]:
    """Cut at commas outside parentheses."""
    if not text.strip():
        return []
    return re.split(r",(?![^(]*\))", text)


def _check_key(key: str, whole: str) -> None:
    if not _KEY.fullmatch(key):
        raise _unparsable(whole)


def _unparsable(whole: str) -> StatusError:
    return bad_request(f"unable to parse requirement: invalid label selector: {whole}")
