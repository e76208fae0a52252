"""Sets of fields in the format of `managedFields`: what `apply.py` stores per manager.

A set is a nested dict: `f:name` for a field, `k:{...}` for an item of a keyed list, `v:...` for a
member of a set, `.` for the item itself. Pure functions; nothing is changed in place.
"""

from typing import Any

import msgspec

from scheduler.sandbox.api.status import Object
from scheduler.sandbox.kinds.typetable import TypeField, TypeShape


def fields_of(value: Any, shape: TypeShape | None, field: TypeField | None = None) -> Object:
    """Return the set of all fields in `value`."""
    if isinstance(value, dict) and not (field is not None and field.atomic_map):
        found: Object = {}
        for name, part in value.items():
            inner = shape.fields.get(name) if shape and shape.fields else None
            below = inner.shape if inner else (shape.inner if shape else None)
            found[f"f:{name}"] = fields_of(part, below, inner)
        return found
    if isinstance(value, list) and field is not None:
        if field.list_type == "map":
            return {
                f"k:{key_of(item, field)}": {
                    ".": {},
                    **fields_of(item, field.shape.inner),
                }
                for item in value
                if isinstance(item, dict)
            }
        if field.list_type == "set":
            return {f"v:{_text(item)}": {} for item in value}
    return {}


def key_of(item: Any, field: TypeField) -> str:
    """Return the identity of an item of a keyed list, as managedFields writes it."""
    found = {name: item[name] for name in sorted(field.map_keys) if name in item}
    if "protocol" in field.map_keys and "protocol" not in found:
        found["protocol"] = "TCP"
    return _text({name: found[name] for name in sorted(found)})


def merge_sets(sets: list[Object]) -> Object:
    """Return the union."""
    union: Object = {}
    for fields in sets:
        for step, below in fields.items():
            union[step] = merge_sets([union[step], below]) if step in union else below
    return union


def subtract(fields: Object, path: tuple[str, ...]) -> Object:
    """Return the set without the field at `path`; parents that become empty are removed too."""
    step, rest = path[0], path[1:]
    if step not in fields:
        return fields
    kept = {name: below for name, below in fields.items() if name != step}
    if rest:
        below = subtract(fields[step], rest)
        if below:
            kept[step] = below
    return kept


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
