"""Differences of kube-apiserver 1.37 from 1.36: fields that it fills in, texts of faults.

The other modules fill in and check objects as 1.36 does. `ApiRules` calls `complete` and `restated`
for every release; for 1.36 they change nothing, except that `complete` drops fields that 1.36
lacks.
"""

import re
from collections.abc import Iterable
from typing import Any, Final

from scheduler.sandbox.api.status import AsJson, Cause, Object
from scheduler.sandbox.kinds.kinds import (
    CSIDRIVERS,
    CSINODES,
    HORIZONTALPODAUTOSCALERS,
    RELEASES,
    STATEFULSETS,
    Resource,
)

_OWN_TEXTS: Final = (
    (re.compile(r"roleRef"), "cannot change roleRef", "field is immutable"),
    (
        re.compile(r".*\.opaque\.driver|status\.allocation\.devices\.results\[\d+\]\.driver"),
        (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
            "'-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com'"
        ),
        (
            "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must "
            "start and end with an alphanumeric character (e.g. 'Example.com'"
        ),
    ),
    (
        re.compile(r"spec\.devices\[\d+\]\.attributes\[.*\]"),
        'Invalid value: "": exactly one value must be specified',
        (
            'Invalid value: "": must specify one of: `int`, `bool`, `string`, `version`, `ints`, '
            "`bools`, `strings`, `versions`"
        ),
    ),
)
_NOT_EXTENDED: Final = "must be a valid extended resource name"
# Lists whose entries differ in one field: a duplicate is shown as a whole.
_MAPS: Final = re.compile(
    r".*\.(sharedCounters|consumesCounters|requests|firstAvailable|reservedFor)\[\d+\]"
)
_STEP: Final = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


def complete(resource: Resource, obj: Object, release: str, *, is_new: bool) -> None:
    """Fill in the fields that 1.37 sets, and drop those that 1.36 does not have."""
    is_later = release != RELEASES[0]
    if resource is CSIDRIVERS:
        # The field of VolumeLimitScaling, whose gate is on since 1.37.
        if is_later:
            obj["spec"].setdefault("preventPodSchedulingIfMissing", False)
        else:
            obj["spec"].pop("preventPodSchedulingIfMissing", None)
    elif is_later and resource is CSINODES and is_new:
        obj["status"] = {}
    elif is_later and resource is HORIZONTALPODAUTOSCALERS and is_new:
        obj["metadata"]["generation"] = 1
    elif is_later and resource is STATEFULSETS:
        rolling = obj["spec"].get("updateStrategy", {}).get("rollingUpdate")
        if rolling is not None:
            rolling.setdefault("maxUnavailable", 1)


def restated(causes: Iterable[Cause], obj: Object, release: str) -> list[Cause]:
    """Return the faults of `obj` as the release states them."""
    if release == RELEASES[0]:
        return list(causes)
    return [_restated(cause, obj) for cause in causes]


def _restated(cause: Cause, obj: Object) -> Cause:
    if cause.reason == "FieldValueDuplicate" and _MAPS.fullmatch(cause.field):
        return cause._replace(message=f"Duplicate value: {AsJson(_at(obj, cause.field))}")
    if cause.message.endswith(_NOT_EXTENDED):
        name = (obj.get("spec") or {}).get("extendedResourceName", "")
        return cause._replace(message=cause.message.replace(_NOT_EXTENDED, _why_not_extended(name)))
    for path, before, now in _OWN_TEXTS:
        if before in cause.message and path.fullmatch(cause.field):
            return cause._replace(message=cause.message.replace(before, now))
    return cause


def _why_not_extended(name: str) -> str:
    """Return why a name is not that of an extended resource, by the first rule that it violates."""
    if "/" not in name:
        return "a name must be a domain-prefixed path, such as 'example.com/my-prop'"
    if "kubernetes.io/" in name:
        return 'must not have "kubernetes.io/" domain'
    if name.startswith("requests."):
        return 'must not have "requests." prefix'
    return _NOT_EXTENDED


def _at(obj: Object, path: str) -> Any:
    """Return the value at a path such as `spec.devices.requests[1]`."""
    found: Any = obj
    for name, index in _STEP.findall(path):
        found = found[int(index)] if index else found[name]
    return found
