"""The manager and time of each field of a ConfigMap in ordinary writes: `metadata.managedFields`.

As in the API server: a field belongs to the manager that changed it last, and the time of an entry
is that of the last change of one of its fields. Recorded for ConfigMaps alone, whose readers use it
(see `trellis`' groups); `apply` records applied fields.
"""

from typing import Any, Final

from scheduler.sandbox.api.patching.fieldsets import merge_sets, subtract
from scheduler.sandbox.api.status import Object

_UNKNOWN: Final = "unknown"


def note(new: Object, old: Object | None, manager: str, now: str) -> None:
    """Record an ordinary write by `manager` in a ConfigMap, in place."""
    before, after = _fields(old or {}), _fields(new)
    changed = [path for path, value in after.items() if before.get(path) != value]
    gone = [path for path in before if path not in after]
    entries = [dict(one) for one in ((old or {}).get("metadata") or {}).get("managedFields") or ()]
    for entry in entries:
        for path in (*changed, *gone):
            entry["fieldsV1"] = subtract(entry["fieldsV1"], path)
    if changed:
        name = manager or _UNKNOWN
        own = next((one for one in entries if _is_own(one, name)), None)
        if own is None:
            own = {"manager": name, "operation": "Update", "apiVersion": "v1"}
            own |= {"time": now, "fieldsType": "FieldsV1", "fieldsV1": {}}
            entries.append(own)
        own["time"] = now
        own["fieldsV1"] = merge_sets([own["fieldsV1"], *map(_nested, changed)])
    new["metadata"]["managedFields"] = [one for one in entries if one["fieldsV1"]]


def _is_own(entry: Object, manager: str) -> bool:
    return (entry.get("manager"), entry.get("operation")) == (manager, "Update")


def _fields(obj: Object) -> dict[tuple[str, ...], Any]:
    """Return the values of all fields that a manager can own, by their paths."""
    meta = obj.get("metadata") or {}
    parts = {
        ("f:data",): obj.get("data"),
        ("f:binaryData",): obj.get("binaryData"),
        ("f:metadata", "f:labels"): meta.get("labels"),
        ("f:metadata", "f:annotations"): meta.get("annotations"),
    }
    return {
        (*path, f"f:{name}"): value
        for path, part in parts.items()
        for name, value in (part or {}).items()
    }


def _nested(path: tuple[str, ...]) -> Object:
    found: Object = {}
    for step in reversed(path):
        found = {step: found}
    return found
