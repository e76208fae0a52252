"""Structural schemas of custom resources: validation, pruning, defaulting.

A `Schema` is compiled once per served version of a CRD (`crd.py`) and applied to every write of an
object of it. Values are checked by jsonschema-rs and the findings reported with kube-apiserver's
texts. CEL rules (`x-kubernetes-validations`) are not evaluated: `unevaluated` returns their
locations, and a condition of the CRD states it.
"""

import copy
from collections.abc import Iterator
from typing import Any, Final

import jsonschema_rs

from scheduler.sandbox.api.status import Cause, Object, invalid_value, not_supported, required
from scheduler.sandbox.kinds.typetable import TypeField, TypeShape

_META: Final = frozenset({"apiVersion", "kind", "metadata"})
_BOUNDS: Final = {
    "minimum": "should be greater than or equal to",
    "maximum": "should be less than or equal to",
    "exclusiveMinimum": "should be greater than",
    "exclusiveMaximum": "should be less than",
}


class Schema:
    """One version's `openAPIV3Schema`, compiled."""

    def __init__(self, document: Object, *, preserve_unknown: bool = False) -> None:
        self.document = document
        self.preserve_unknown = preserve_unknown
        self.unevaluated = tuple(_rules_in(document, ""))
        self._validator = jsonschema_rs.Draft4Validator(_plain(document))

    def prune(self, obj: Object) -> list[str]:
        """Remove fields that the schema does not have; return their paths."""
        if self.preserve_unknown:
            return []
        removed: list[str] = []
        _prune(obj, self.document, "", removed, root=True)
        return removed

    def fill(self, obj: Object) -> None:
        """Put defaults where fields are absent."""
        _fill(obj, self.document)

    def check(self, obj: Object) -> list[Cause]:
        """Return all faults of an object; empty when it is valid."""
        content = {key: part for key, part in obj.items() if key != "metadata"}
        causes = [
            cause for fault in self._validator.iter_errors(content) for cause in _causes(fault)
        ]
        causes += _list_faults(obj, self.document, "")
        return causes


def _plain(node: Any) -> Any:
    """Return the OpenAPI schema as draft 4: nullable and int-or-string spelled out, extensions
    dropped.
    """
    if not isinstance(node, dict):
        return node
    plain: Object = {}
    for key, part in node.items():
        if key in ("properties", "patternProperties"):
            plain[key] = {name: _plain(inner) for name, inner in part.items()}
        elif key in ("allOf", "anyOf", "oneOf"):
            plain[key] = [_plain(inner) for inner in part]
        elif key in ("items", "additionalProperties", "not"):
            plain[key] = _plain(part)
        elif not key.startswith("x-kubernetes-") and key not in (
            "default",
            "description",
            "example",
            "externalDocs",
            "nullable",
            "title",
            "format",
        ):
            plain[key] = part
    if node.get("x-kubernetes-int-or-string") and "anyOf" not in plain:
        plain["type"] = ["integer", "string"]
    if node.get("nullable"):
        if "type" in plain:
            own = plain["type"]
            plain["type"] = [*(own if isinstance(own, list) else [own]), "null"]
        if "enum" in plain:
            plain["enum"] = [*plain["enum"], None]
    return plain


def _prune(obj: Any, schema: Object, path: str, removed: list[str], *, root: bool = False) -> None:
    if isinstance(obj, list):
        items = schema.get("items")
        if isinstance(items, dict):
            for index, part in enumerate(obj):
                _prune(part, items, f"{path}[{index}]", removed)
        return
    if not isinstance(obj, dict):
        return
    embedded = root or bool(schema.get("x-kubernetes-embedded-resource"))
    known = schema.get("properties") or {}
    extra = schema.get("additionalProperties")
    keeps = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    for name in list(obj):
        where = f"{path}.{name}" if path else name
        if embedded and name in _META:
            continue
        if name in known:
            _prune(obj[name], known[name], where, removed)
        elif isinstance(extra, dict):
            _prune(obj[name], extra, where, removed)
        elif not extra and not keeps:
            del obj[name]
            removed.append(where)


def _fill(obj: Any, schema: Object) -> None:
    if isinstance(obj, list):
        items = schema.get("items")
        if isinstance(items, dict):
            for part in obj:
                _fill(part, items)
        return
    if not isinstance(obj, dict):
        return
    known: Object = schema.get("properties") or {}
    for name, inner in known.items():
        if "default" in inner and (
            name not in obj or (obj[name] is None and not inner.get("nullable"))
        ):
            obj[name] = copy.deepcopy(inner["default"])
        elif name in obj and obj[name] is None and not inner.get("nullable"):
            continue
        if name in obj:
            _fill(obj[name], inner)
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        for name, part in obj.items():
            if name not in known:
                _fill(part, extra)


def _causes(fault: jsonschema_rs.ValidationError) -> Iterator[Cause]:
    path = _dotted(fault.instance_path)
    rule = fault.kind.name
    seen: Any = fault.instance
    details: Any = fault.kind
    if rule == "required":
        yield required(f"{path}.{details.property}" if path else details.property)
    elif rule == "enum":
        yield not_supported(path, seen, _words(details.options))
    elif rule == "type":
        yield from _wrong_type(path, fault)
    elif rule in _BOUNDS:
        yield invalid_value(path, seen, f"{path} in body {_BOUNDS[rule]} {_number(details.limit)}")
    elif rule == "pattern":
        yield invalid_value(path, seen, f"{path} in body should match '{details.pattern}'")
    elif rule == "maxLength":
        text = f"Too long: may not be more than {details.limit} bytes"
        yield Cause("FieldValueTooLong", path, text)
    elif rule == "minLength":
        detail = f"{path} in body should be at least {details.limit} chars long"
        yield invalid_value(path, seen, detail)
    elif rule == "maxItems":
        text = f"Too many: {len(seen)}: must have at most {details.limit} items"
        yield Cause("FieldValueTooMany", path, text)
    elif rule == "minItems":
        detail = f"{path} in body should have at least {details.limit} items"
        yield invalid_value(path, len(seen), detail)
    else:
        yield invalid_value(path or "<nil>", seen, fault.message)


def _wrong_type(path: str, fault: jsonschema_rs.ValidationError) -> Iterator[Cause]:
    details: Any = fault.kind
    wanted = ",".join(sorted(name for name in details.types if name != "null"))
    seen = _type_name(fault.instance)
    detail = f'{path} in body must be of type {wanted}: "{seen}"'
    cause = invalid_value(path or "<nil>", seen, detail)
    yield cause._replace(reason="FieldValueTypeInvalid")
    if (seen, wanted) == ("number", "integer"):
        # kube-apiserver: a fraction breaks the format of the integer as well.
        detail = f"Checked value must be of type integer (default format) in {path}"
        yield invalid_value("<nil>", "", detail)


def _type_name(seen: Any) -> str:
    if seen is None:
        return "null"
    if isinstance(seen, bool):
        return "boolean"
    names = {str: "string", int: "integer", float: "number", dict: "object", list: "array"}
    return names[type(seen)]


def _list_faults(obj: Any, schema: Object, path: str) -> Iterator[Cause]:
    """Duplicates in lists that are maps or sets."""
    if isinstance(obj, list):
        items = schema.get("items") or {}
        keys = schema.get("x-kubernetes-list-map-keys") or ()
        kind = schema.get("x-kubernetes-list-type")
        seen: list[Any] = []
        for index, part in enumerate(obj):
            if kind in ("map", "set"):
                identity = part
                if kind == "map" and isinstance(part, dict):
                    identity = {key: part.get(key) for key in keys}
                if identity in seen:
                    yield _duplicate(f"{path}[{index}]", identity)
                seen.append(identity)
            yield from _list_faults(part, items, f"{path}[{index}]")
    elif isinstance(obj, dict):
        known = schema.get("properties") or {}
        extra = schema.get("additionalProperties")
        for name, part in obj.items():
            inner = known.get(name) or (extra if isinstance(extra, dict) else None)
            if inner:
                yield from _list_faults(part, inner, f"{path}.{name}" if path else name)


def _duplicate(path: str, identity: Any) -> Cause:
    if isinstance(identity, dict):
        shown = "{" + ",".join(f'"{key}":"{part}"' for key, part in identity.items()) + "}"
    else:
        shown = f'"{identity}"'
    return Cause("FieldValueDuplicate", path, f"Duplicate value: {shown}")


def _rules_in(schema: Any, path: str) -> Iterator[str]:
    if not isinstance(schema, dict):
        return
    if schema.get("x-kubernetes-validations"):
        yield path or "<root>"
    for name, inner in (schema.get("properties") or {}).items():
        yield from _rules_in(inner, f"{path}.{name}" if path else name)
    yield from _rules_in(schema.get("items"), f"{path}[*]")
    yield from _rules_in(schema.get("additionalProperties"), f"{path}[*]")


def _dotted(path: list[str | int]) -> str:
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else (f".{step}" if text else step)
    return text


def _words(options: Any) -> list[str]:
    return [str(option) for option in options if option is not None]


def _number(limit: Any) -> str:
    return f"{limit:g}" if isinstance(limit, float) else str(limit)


def shape_of(schema: Object) -> TypeShape:
    """Return the schema as a merge shape, for server-side apply."""
    if schema.get("type") == "array":
        inner = schema.get("items")
        return TypeShape(
            "list", inner=shape_of(inner) if isinstance(inner, dict) else None, is_list=True
        )
    extra = schema.get("additionalProperties")
    fields = {
        name: TypeField(
            shape=shape_of(inner),
            list_type=inner.get("x-kubernetes-list-type", ""),
            map_keys=tuple(inner.get("x-kubernetes-list-map-keys") or ()),
            atomic_map=inner.get("x-kubernetes-map-type") == "atomic",
        )
        for name, inner in (schema.get("properties") or {}).items()
    }
    return TypeShape(
        "object",
        fields=fields or None,
        inner=shape_of(extra) if isinstance(extra, dict) else None,
    )
