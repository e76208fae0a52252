"""The `Table` form of objects and lists, which is what `kubectl get` prints.

`reading` and `watching` call `table` when the Accept header asks for it. Columns of built-in kinds
are in `columns.py`, those of custom resources in their definition.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from scheduler.sandbox.api.jsonpath import read
from scheduler.sandbox.api.status import Object
from scheduler.sandbox.kinds.columns import COLUMNS, PrinterColumn
from scheduler.sandbox.kinds.humanduration import age
from scheduler.sandbox.kinds.kinds import EVENTS, Resource
from scheduler.sandbox.store.collection import Stored

if TYPE_CHECKING:
    from scheduler.sandbox.store.store import ObjectStore

TABLE: Final = "Table"
METADATA: Final = "PartialObjectMetadata"
_encode = msgspec.json.Encoder().encode
_NAME: Final = PrinterColumn(
    "Name", "string", lambda obj, _now: obj["metadata"]["name"], form="name"
)
_AGE: Final = PrinterColumn(
    "Age", "string", lambda obj, now: age(obj["metadata"].get("creationTimestamp"), now)
)


def form_of(accept: str) -> str:
    """Return the first of `Table`, `PartialObjectMetadata` or plain (empty) that a client
    accepts.
    """
    if "as=" not in accept:
        return ""
    for choice in accept.split(","):
        parts = {part.strip() for part in choice.split(";")}
        if "as=Table" in parts and "v=v1" in parts:
            return TABLE
        if "as=PartialObjectMetadata" in parts or "as=PartialObjectMetadataList" in parts:
            return METADATA
        if parts & {"application/json", "*/*"} and not any(
            part.startswith("as=") for part in parts
        ):
            return ""
    return ""


def table(
    store: "ObjectStore", resource: Resource, items: Sequence[Stored], meta: Object, include: str
) -> bytes:
    """Return the bytes of a table.

    `include` is the includeObject option (Metadata unless given).
    """
    columns = columns_of(store, resource)
    now = store.clock.now()
    body = {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
        "columnDefinitions": [column.definition() for column in columns],
        "rows": [row(resource, columns, stored, now, include) for stored in items],
    }
    return _encode(body)


def row(
    resource: Resource, columns: Sequence[PrinterColumn], stored: Stored, now: float, include: str
) -> Object:
    """Return one row of a table."""
    cells = [column.cell(stored.obj, now) for column in columns]
    if include == "None":
        return {"cells": cells}
    if include == "Object":
        shown: Object = {
            **stored.obj,
            "kind": resource.kind,
            "apiVersion": resource.api_version,
        }
    else:
        shown = {
            "kind": METADATA,
            "apiVersion": "meta.k8s.io/v1",
            "metadata": stored.obj["metadata"],
        }
    return {"cells": cells, "object": shown}


def columns_of(store: "ObjectStore", resource: Resource) -> Sequence[PrinterColumn]:
    """Return the columns of a kind: its own, those of its definition, or name and age."""
    if resource.custom:
        served = store.rules.printer_columns(resource)
        own = [_custom(entry) for entry in served]
        return [_NAME, *(own or [_AGE])]
    known = COLUMNS.get(resource.storage, (_AGE,))
    # Events bring their own name column, at the end.
    return known if resource.storage == EVENTS.storage else [_NAME, *known]


def _custom(entry: Object) -> PrinterColumn:
    path, kind = entry["jsonPath"], entry.get("type", "string")

    def cell(obj: Object, now: float) -> Any:
        found = read(obj, path)
        if not found:
            return None
        value = found[0]
        if kind == "date":
            return age(value, now)
        if kind == "string" and not isinstance(value, str):
            return msgspec.json.encode(value).decode()
        return value

    return PrinterColumn(
        entry["name"],
        kind,
        _safe(cell),
        form=entry.get("format", ""),
        priority=entry.get("priority", 0),
        description=entry.get("description", ""),
    )


def _safe(cell: Callable[[Object, float], Any]) -> Callable[[Object, float], Any]:
    def guarded(obj: Object, now: float) -> Any:
        try:
            return cell(obj, now)
        except (KeyError, TypeError, ValueError):
            return None

    return guarded
