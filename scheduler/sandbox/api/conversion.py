"""The one pair of API versions whose fields differ: core/v1 and events.k8s.io/v1 events.

Both are rows over the same storage, which holds the core form. Everything else that has several
versions (CRDs with conversion strategy None) shares its fields and needs only another apiVersion.
"""

from typing import Final

from scheduler.sandbox.api.status import Object
from scheduler.sandbox.kinds.kinds import EVENTS_V1, Resource
from scheduler.sandbox.store.collection import Stored

_TO_V1: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_DROPPED_WHEN_EMPTY: Final = ("reportingComponent", "reportingInstance")
_TO_CORE: Final = {new: old for old, new in _TO_V1.items()}


def to_storage(resource: Resource, obj: Object) -> Object:
    """Return the stored form of an object that arrived as `resource`."""
    if resource is not EVENTS_V1:
        return obj
    core = {_TO_CORE.get(name, name): part for name, part in obj.items()}
    core["apiVersion"] = "v1"
    core.setdefault("source", {})
    core.setdefault("firstTimestamp", None)
    core.setdefault("lastTimestamp", None)
    return core


def from_storage(resource: Resource, obj: Object) -> Object:
    """An object as `resource` shows it."""
    if resource is EVENTS_V1:
        obj = {
            _TO_V1.get(name, name): part
            for name, part in obj.items()
            if part or name not in _DROPPED_WHEN_EMPTY
        }
    return {**obj, "apiVersion": resource.api_version, "kind": resource.kind}


def tail_of(resource: Resource, stored: Stored) -> bytes:
    """Return the encoded object after kind and apiVersion."""
    if resource is EVENTS_V1:
        return stored.converted_tail("events", _events_v1)
    return stored.tail()


def _events_v1(obj: Object) -> Object:
    return from_storage(EVENTS_V1, obj)
