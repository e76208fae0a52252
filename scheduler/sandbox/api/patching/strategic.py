"""Strategic merge patch: merge patch with keyed lists.

Merge keys come from the field table, so containers merge by name, conditions by type, tolerations
replace as a whole. Supports `$patch`, `$retainKeys`, `$deleteFromPrimitiveList` and
`$setElementOrder`. Returns a new object and does not change its argument. Custom resources have no
such patch (415, from the server).
"""

from typing import Any, Final

from scheduler.sandbox.api.status import Object, bad_request
from scheduler.sandbox.kinds.typetable import TypeField, TypeShape

_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder/"
_DELETE: Final = "$deleteFromPrimitiveList/"


def strategic_merge(obj: Object, patch: Object, shape: TypeShape | None) -> Object:
    """Merge `patch` over `obj`, an object of type `shape` (None: a free-form map)."""
    if not isinstance(patch, dict):
        raise bad_request("error decoding patch: the patch is not an object")
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return {name: value for name, value in patch.items() if name != _DIRECTIVE}
    if directive == "delete":
        return {}
    result = dict(obj)
    retained = patch.get(_RETAIN)
    if retained is not None:
        result = {name: value for name, value in result.items() if name in retained}
    for name, value in patch.items():
        if name in (_DIRECTIVE, _RETAIN) or name.startswith(_ORDER):
            continue
        if name.startswith(_DELETE):
            target = name.removeprefix(_DELETE)
            result[target] = [item for item in result.get(target) or () if item not in value]
        elif value is None:
            result.pop(name, None)
        else:
            field = shape.fields.get(name) if shape and shape.fields else None
            inner = shape.inner if shape and shape.inner else None
            result[name] = _merged(result.get(name), value, field, inner)
    for name, order in patch.items():
        if name.startswith(_ORDER):
            target = name.removeprefix(_ORDER)
            if isinstance(result.get(target), list):
                field = shape.fields.get(target) if shape and shape.fields else None
                result[target] = _ordered(result[target], order, field.merge_key if field else "")
    return result


def _merged(old: Any, value: Any, field: TypeField | None, inner: TypeShape | None) -> Any:
    shape = field.shape if field else inner
    if isinstance(value, dict):
        return strategic_merge(old if isinstance(old, dict) else {}, value, shape)
    if not isinstance(value, list):
        return value
    current = old if isinstance(old, list) else []
    if field is None or "merge" not in field.patch:
        return [_stripped(item) for item in value]
    if not field.merge_key:
        return [*value, *(item for item in current if item not in value)]
    return _merged_by_key(current, value, field)


def _merged_by_key(current: list[Any], value: list[Any], field: TypeField) -> list[Any]:
    key, inner = field.merge_key, field.shape.inner
    if any(isinstance(item, dict) and item.get(_DIRECTIVE) == "replace" for item in value):
        return [item for item in value if _DIRECTIVE not in item]
    result = list(current)
    for item in value:
        if not isinstance(item, dict) or key not in item:
            raise bad_request(f"map: {_go_map(item)} does not contain declared merge key: {key}")
        position = next((at for at, old in enumerate(result) if old.get(key) == item[key]), None)
        if item.get(_DIRECTIVE) == "delete":
            result = [old for old in result if old.get(key) != item[key]]
        elif position is None:
            result.append(strategic_merge({}, item, inner))
        else:
            result[position] = strategic_merge(result[position], item, inner)
    return result


def _ordered(items: list[Any], order: list[Any], key: str) -> list[Any]:
    """Return listed items in the listed order.

    The others stay at their place relative to the items before them.
    """
    wanted = [entry.get(key) if key else entry for entry in order]

    def rank(item: Any) -> int | None:
        identity = item.get(key) if key else item
        return wanted.index(identity) if identity in wanted else None

    listed = sorted(
        (item for item in items if rank(item) is not None), key=lambda it: rank(it) or 0
    )
    remaining = iter(listed)
    return [item if rank(item) is None else next(remaining) for item in items]


def _stripped(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _stripped(part) for name, part in value.items() if name != _DIRECTIVE}
    return value


def _go_map(item: Any) -> str:
    if not isinstance(item, dict):
        return str(item)
    return "map[" + " ".join(f"{name}:{item[name]}" for name in sorted(item)) + "]"
