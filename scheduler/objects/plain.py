"""Plain data → structs: Kubernetes objects from YAML and JSON loaders.

For the public entry points that take manifests (`scheduler.testing`, `simulate`); the watch decodes
bytes and does not use this. Sets the namespace and the uid, as the API server would.
"""

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

import msgspec

from scheduler.base.errors import ObjectError
from scheduler.base.text import did_you_mean
from scheduler.objects.kinds import BY_KIND, NODE, POD, Kind
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod


def read_object(raw: Any) -> tuple[Kind, Any]:
    """Read an object of any kind that Trellis knows; ObjectError names the object."""
    name = raw.get("kind") if isinstance(raw, Mapping) else None
    kind = BY_KIND.get(name) if isinstance(name, str) else None
    if kind is None:
        hint = did_you_mean(str(name), BY_KIND)
        raise ObjectError(f'kind "{name}" is not one that Trellis reads{hint}', where=_title(raw))
    return kind, read_as(kind, raw)


def read_node(raw: Any) -> Node:
    """Read a Node; ObjectError names it."""
    node: Node = read_as(NODE, raw)
    return node


def read_pod(raw: Any) -> Pod:
    """Read a Pod; ObjectError names it."""
    pod: Pod = read_as(POD, raw)
    return pod


def read_as(kind: Kind, raw: Any) -> Any:
    """Read an object as `kind`, ignoring its own `kind` field; ObjectError names it."""
    if not isinstance(raw, Mapping):
        raise ObjectError(f"expected a {kind.kind} as a mapping, got {type(raw).__name__}")
    plain = plain_data(raw)
    meta = plain.get("metadata")
    if not isinstance(meta, dict) or not meta.get("name"):
        raise ObjectError("metadata.name is missing", where=_title(raw, kind.kind))
    namespace = meta.setdefault("namespace", "default") if kind.namespaced else ""
    meta.setdefault("uid", f"{kind.kind}/{namespace}/{meta['name']}")
    try:
        return msgspec.convert(plain, kind.struct)
    except msgspec.ValidationError as error:
        raise ObjectError(str(error), where=_title(raw, kind.kind)) from error


def plain_data(value: Any) -> Any:
    """Copy plain data without nulls (they mean "not set") and with times as text."""
    if isinstance(value, Mapping):
        return {key: plain_data(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [plain_data(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, date) else value


def _title(raw: Any, kind: str = "") -> str:
    """Return the name of an object for error messages: `Pod default/web`."""
    if not isinstance(raw, Mapping):
        return kind
    meta = raw.get("metadata")
    meta = meta if isinstance(meta, Mapping) else {}
    name = "/".join(str(meta[key]) for key in ("namespace", "name") if meta.get(key))
    return f"{kind or raw.get('kind') or 'object'} {name or '(without a name)'}"
