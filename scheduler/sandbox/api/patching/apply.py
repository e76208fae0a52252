"""Server-side apply, with limits.

Each manager's applied fields are stored in `metadata.managedFields` as the API server writes them.
Applying merges the configuration, removes the fields that this manager applied before and that no
other manager has, and reports conflicts between appliers (409, unless forced). Limits: an ordinary
update never conflicts (of ConfigMaps `written` records its fields); the status and main resource of
one manager are separate entries.
"""

import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from scheduler.sandbox.api.conversion import from_storage
from scheduler.sandbox.api.patching.fieldsets import fields_of, key_of, merge_sets, subtract
from scheduler.sandbox.api.status import Object, StatusError, failure
from scheduler.sandbox.kinds.kinds import Resource
from scheduler.sandbox.kinds.typetable import TypeField, TypeShape
from scheduler.sandbox.store.collection import Stored

if TYPE_CHECKING:
    from scheduler.sandbox.store.store import ObjectStore

_UNOWNED: Final = ("apiVersion", "kind")
_UNOWNED_META: Final = frozenset(
    {
        "creationTimestamp",
        "deletionTimestamp",
        "generation",
        "managedFields",
        "name",
        "namespace",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)


def apply_object(
    store: "ObjectStore",
    resource: Resource,
    config: Object,
    old: Stored | None,
    manager: str,
    *,
    force: bool,
    sub: str = "",
) -> Object:
    """Return the object after `manager` applied `config` to `old`.

    409 when other appliers disagree.
    """
    shape = store.rules.shape_of(resource)
    live = from_storage(resource, old.obj) if old is not None else {}
    entries = [dict(entry) for entry in (live.get("metadata") or {}).get("managedFields") or ()]
    own = next((entry for entry in entries if _is_own(entry, manager, sub)), None)
    others = [entry for entry in entries if entry is not own and entry.get("operation") == "Apply"]
    fields = fields_of(_owned(config), shape)
    clashes = list(_conflicts(fields, config, live, others, shape))
    if clashes and not force:
        raise _conflict(clashes)
    for entry, path in clashes:
        entry["fieldsV1"] = subtract(entry["fieldsV1"], path)
    merged: Object = _merge(copy.deepcopy(live), config, shape, None)
    before = own["fieldsV1"] if own else {}
    current = merge_sets([fields, *(entry["fieldsV1"] for entry in others)])
    _remove(merged, before, current, shape, None)
    kept = [entry for entry in entries if entry is not own and entry.get("fieldsV1")]
    record = {
        "manager": manager,
        "operation": "Apply",
        "apiVersion": resource.api_version,
        "time": store.now(),
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    if sub:
        record["subresource"] = sub
    if own and own["fieldsV1"] == fields and merged == live:
        record["time"] = own.get("time", record["time"])
    meta = dict(merged.get("metadata") or {})
    meta["managedFields"] = [*kept, record]
    merged["metadata"] = meta
    return merged


def _is_own(entry: Object, manager: str, sub: str) -> bool:
    return (
        entry.get("manager") == manager
        and entry.get("operation") == "Apply"
        and entry.get("subresource", "") == sub
    )


def _owned(config: Object) -> Object:
    """Return the part of a configuration that a manager can own."""
    owned = {name: part for name, part in config.items() if name not in _UNOWNED}
    meta = {
        name: part
        for name, part in (config.get("metadata") or {}).items()
        if name not in _UNOWNED_META
    }
    owned.pop("metadata", None)
    if meta:
        owned["metadata"] = meta
    return owned


def _merge(live: Any, config: Any, shape: TypeShape | None, field: TypeField | None) -> Any:
    if isinstance(config, dict):
        if not isinstance(live, dict) or (field is not None and field.atomic_map):
            live = {}
        for name, part in config.items():
            inner = shape.fields.get(name) if shape and shape.fields else None
            below = inner.shape if inner else (shape.inner if shape else None)
            live[name] = _merge(live.get(name), part, below, inner)
        return live
    if not isinstance(config, list) or not isinstance(live, list) or field is None:
        return config
    if field.list_type == "set":
        return [*live, *(item for item in config if item not in live)]
    if field.list_type != "map":
        return config
    for item in config:
        identity = key_of(item, field)
        at = next((index for index, old in enumerate(live) if key_of(old, field) == identity), None)
        if at is None:
            live.append(item)
        else:
            live[at] = _merge(live[at], item, field.shape.inner, None)
    return live


def _remove(
    value: Any, before: Object, current: Object, shape: TypeShape | None, field: TypeField | None
) -> None:
    """Remove from `value` the fields of `before` that no manager owns any more."""
    for step, below in before.items():
        inner = _inner(step, shape)
        if step in current:
            child = _child(value, step, field)
            if below and child is not None:
                _remove(child, below, current[step], inner[0], inner[1])
        elif step.startswith("f:") and isinstance(value, dict):
            value.pop(step[2:], None)
        elif step.startswith(("k:", "v:")) and isinstance(value, list):
            child = _child(value, step, field)
            if child is not None:
                value.remove(child)


def _inner(step: str, shape: TypeShape | None) -> tuple[TypeShape | None, TypeField | None]:
    if shape is None:
        return None, None
    if step.startswith("f:") and shape.fields:
        field = shape.fields.get(step[2:])
        return (field.shape, field) if field else (None, None)
    return shape.inner, None


def _child(value: Any, step: str, field: TypeField | None) -> Any:
    if step.startswith("f:"):
        return value.get(step[2:]) if isinstance(value, dict) else None
    if not isinstance(value, list):
        return None
    wanted = msgspec.json.decode(step[2:])
    for item in value:
        if step.startswith("v:"):
            if item == wanted:
                return item
        elif isinstance(item, dict) and all(
            item.get(name) == part for name, part in wanted.items()
        ):
            return item
    del field
    return None


def _conflicts(
    fields: Object, config: Object, live: Object, others: list[Object], shape: TypeShape | None
) -> Iterator[tuple[Object, tuple[str, ...]]]:
    """Return the fields that another applier owns and that `config` sets to another value."""
    del shape
    for path in _leaves(fields, ()):
        wanted, seen = _at(config, path), _at(live, path)
        if wanted == seen:
            continue
        for entry in others:
            if _contains(entry["fieldsV1"], path):
                yield entry, path


def _leaves(fields: Object, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for step, below in fields.items():
        if step == ".":
            continue
        inner = {name: part for name, part in below.items() if name != "."}
        if inner:
            yield from _leaves(inner, (*path, step))
        else:
            yield (*path, step)


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        value = _child(value, step, None)
        if value is None:
            return None
    return value


def _contains(fields: Object, path: tuple[str, ...]) -> bool:
    for step in path:
        if step not in fields:
            return False
        fields = fields[step]
    return True


def _conflict(clashes: list[tuple[Object, tuple[str, ...]]]) -> StatusError:
    causes = []
    lines = []
    for entry, path in clashes:
        text = f'conflict with "{entry["manager"]}"'
        shown = "".join(_shown(step) for step in path)
        causes.append({"reason": "FieldManagerConflict", "message": text, "field": shown})
        lines.append(f"{text}: {shown}")
    count = len(lines)
    if count == 1:
        message = f"Apply failed with 1 conflict: {lines[0]}"
    else:
        message = f"Apply failed with {count} conflicts: " + "\n".join(
            f"- {line}" for line in lines
        )
    return failure(409, "Conflict", message, {"causes": causes})


def _shown(step: str) -> str:
    if step.startswith("f:"):
        return "." + step[2:]
    if step.startswith("k:"):
        parts = msgspec.json.decode(step[2:])
        inside = ",".join(
            f"{name}={msgspec.json.encode(part).decode()}" for name, part in parts.items()
        )
        return f"[{inside}]"
    return f"[={step[2:]}]"
