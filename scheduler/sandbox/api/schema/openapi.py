"""/openapi/v2 and /openapi/v3: the field table as OpenAPI documents, without descriptions.

kubectl reads them for client-side apply, `explain` and dry runs; helm for validation. Made on first
request, per group version, from `typetable.py` and the schemas of custom resources.
"""

import hashlib
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from scheduler.base.protobuf import content
from scheduler.sandbox.api.status import Object
from scheduler.sandbox.kinds.kinds import Kinds, Resource
from scheduler.sandbox.kinds.typetable import TypeField, TypeShape, type_table
from scheduler.sandbox.store.store import ObjectStore

_encode = msgspec.json.Encoder(order="sorted").encode
WHOLE: Final = "/openapi/v2"
# The key of the protobuf form; no request has such a path.
PROTOBUF: Final = "v2 in protobuf"
_PREFIX: Final = "io.k8s.api."
_META: Final = "io.k8s.apimachinery.pkg.apis."
_PRIMITIVES: Final[dict[str, Object]] = {
    "any": {},
    "bool": {"type": "boolean"},
    "bytes": {"type": "string", "format": "byte"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "intstr": {"type": "string", "format": "int-or-string"},
    "microtime": {"type": "string", "format": "date-time"},
    "number": {"type": "number", "format": "double"},
    "quantity": {"type": "string"},
    "string": {"type": "string"},
    "time": {"type": "string", "format": "date-time"},
}
MEDIA_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
# The content type that kubectl requests: older clients write an at sign.
ASKED_FOR: Final = (MEDIA_TYPE, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")

_SWAGGER, _INFO, _DEFINITIONS = 1, 2, 9
_TEXTS: Final = {"$ref": 1, "format": 2, "title": 3, "description": 4, "pattern": 13}
_REQUIRED, _ADDITIONAL, _TYPE, _ITEMS, _PROPERTIES, _EXTENSION = 19, 21, 22, 23, 25, 31
_as_text = msgspec.json.Encoder(order="sorted").encode


class OpenApi:
    """The documents of one store's kinds."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._kinds: Kinds = store.kinds
        self._generation = -1
        self._made: dict[str, bytes] = {}

    def answer(self, path: str, accept: str = "") -> tuple[bytes, str] | None:
        """Return the body of an /openapi path and its media type, None when there is none."""
        if path == WHOLE and any(media_type in accept for media_type in ASKED_FOR):
            return self._kept(PROTOBUF), MEDIA_TYPE
        body = self._kept(path)
        return (body, "application/json") if body else None

    def _kept(self, path: str) -> bytes:
        """Return the cached document, computed on first use; empty when there is none."""
        if self._generation != self._kinds.generation:
            self._made.clear()
            self._generation = self._kinds.generation
        body = self._made.get(path)
        if body is None:
            if path == PROTOBUF:
                body = as_protobuf(self._whole())
            else:
                made = self._document(path)
                body = b"" if made is None else _encode(made)
            if body:
                self._made[path] = body
        return body

    def _document(self, path: str) -> Object | None:
        if path == WHOLE:
            return self._whole()
        if path == "/openapi/v3":
            return {
                "paths": {name: {"serverRelativeURL": self._link(name)} for name in self._groups()}
            }
        name = path.removeprefix("/openapi/v3/")
        rows = self._groups().get(name)
        return self._group(rows) if rows else None

    def _groups(self) -> dict[str, list[Resource]]:
        groups: dict[str, list[Resource]] = {}
        for row in self._kinds:
            name = f"apis/{row.group}/{row.version}" if row.group else f"api/{row.version}"
            groups.setdefault(name, []).append(row)
        return groups

    def _link(self, name: str) -> str:
        digest = hashlib.sha256(f"{name}/{self._generation}".encode()).hexdigest()
        return f"/openapi/v3/{name}?hash={digest[:32].upper()}"

    def _whole(self) -> Object:
        schemas = _Schemas("#/definitions/")
        for row in self._kinds:
            self._define(schemas, row)
        return {
            "swagger": "2.0",
            "info": {"title": "Kubernetes", "version": f"v{self._kinds.release}.0"},
            "paths": self._paths(list(self._kinds)),
            "definitions": schemas.found,
        }

    def _group(self, rows: list[Resource]) -> Object:
        schemas = _Schemas("#/components/schemas/")
        for row in rows:
            self._define(schemas, row)
        return {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": f"v{self._kinds.release}.0"},
            "paths": self._paths(rows),
            "components": {"schemas": schemas.found},
        }

    def _define(self, schemas: "_Schemas", row: Resource) -> None:
        gvk = {"group": row.group, "version": row.version, "kind": row.kind}
        shape = type_table().of_resource(row)
        if shape is not None:
            name = schemas.add(shape)
            known = schemas.found[name].setdefault("x-kubernetes-group-version-kind", [])
            if gvk not in known:
                known.append(gvk)
            return
        document = self._store.rules.openapi_schema(row)
        name = ".".join([*reversed(row.group.split(".")), row.version, row.kind])
        schema: Object = dict(document or {"type": "object"})
        properties = dict(schema.get("properties") or {})
        properties["apiVersion"] = properties["kind"] = {"type": "string"}
        properties["metadata"] = schemas.reference(type_table().shape("meta.v1.ObjectMeta"))
        schema["properties"] = properties
        schema["x-kubernetes-group-version-kind"] = [gvk]
        schemas.found[name] = schema

    @staticmethod
    def _paths(rows: list[Resource]) -> Object:
        paths: Object = {}
        for row in rows:
            root = f"/apis/{row.group}/{row.version}" if row.group else f"/api/{row.version}"
            where = "/namespaces/{namespace}" if row.namespaced else ""
            gvk = {"group": row.group, "version": row.version, "kind": row.kind}
            action = {"x-kubernetes-group-version-kind": gvk, "responses": {}}
            parameter = {"name": "fieldValidation", "in": "query"}
            item: Object = {
                verb: {**action, "x-kubernetes-action": verb, "parameters": [parameter]}
                for verb in ("get", "put", "patch", "delete")
            }
            paths[f"{root}{where}/{row.plural}/{{name}}"] = item
            paths[f"{root}{where}/{row.plural}"] = {
                "post": {**action, "x-kubernetes-action": "post", "parameters": [parameter]}
            }
        return paths


class _Schemas:
    """Types of the field table as schemas, with everything they refer to."""

    def __init__(self, root: str) -> None:
        self.found: dict[str, Any] = {}
        self._root = root

    def add(self, shape: TypeShape) -> str:
        """Define a struct; returns its full name."""
        name = _full_name(shape.name)
        if name in self.found:
            return name
        schema: Object = {"type": "object"}
        self.found[name] = schema
        fields = shape.fields or {}
        schema["properties"] = {
            key: {**self.reference(field.shape), **_extensions(field)}
            for key, field in fields.items()
        }
        required = [key for key, field in fields.items() if field.required]
        if required:
            schema["required"] = required
        return name

    def reference(self, shape: TypeShape) -> Object:
        """Return the schema of a value of this shape."""
        if shape.fields is not None:
            return {"$ref": self._root + self.add(shape)}
        if shape.inner is not None:
            inner = self.reference(shape.inner)
            if shape.is_list:
                return {"type": "array", "items": inner}
            return {"type": "object", "additionalProperties": inner}
        return dict(_PRIMITIVES[shape.name])


def _extensions(field: TypeField) -> Object:
    notes: Object = {}
    if field.patch:
        notes["x-kubernetes-patch-strategy"] = ",".join(field.patch)
    if field.merge_key:
        notes["x-kubernetes-patch-merge-key"] = field.merge_key
    if field.list_type:
        notes["x-kubernetes-list-type"] = field.list_type
    if field.map_keys:
        notes["x-kubernetes-list-map-keys"] = list(field.map_keys)
    if field.atomic_map:
        notes["x-kubernetes-map-type"] = "atomic"
    return notes


def _full_name(short: str) -> str:
    if short.startswith("meta."):
        return _META + short
    if short.startswith("apiextensions."):
        return "io.k8s.apiextensions-apiserver.pkg.apis." + short
    return short if short.startswith("io.") else _PREFIX + short


def as_protobuf(document: Object) -> bytes:
    """Return an OpenAPI v2 document in protobuf, with the parts that kubectl reads.

    kubectl asks for it before it applies a list of objects, and cannot read JSON there. Paths are
    left out: kubectl takes those from version 3. The message is `Document` of gnostic's
    OpenAPIv2.proto; the numbers are its fields.
    """
    info = b"".join(
        _text(number, document["info"][name]) for number, name in ((1, "title"), (2, "version"))
    )
    return (
        _text(_SWAGGER, document["swagger"])
        + content(_INFO, info)
        + content(_DEFINITIONS, _named(document["definitions"]))
    )


def _named(schemas: Object) -> bytes:
    """Definitions and Properties have the same form: pairs of name and schema."""
    return b"".join(
        content(1, _text(1, name) + content(2, b"".join(_schema(schema))))
        for name, schema in sorted(schemas.items())
    )


def _schema(schema: Object) -> Iterator[bytes]:
    for name, number in _TEXTS.items():
        if name in schema:
            yield _text(number, schema[name])
    for name in schema.get("required", ()):
        yield _text(_REQUIRED, name)
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        yield content(_ADDITIONAL, content(1, b"".join(_schema(additional))))
    if "type" in schema:
        yield content(_TYPE, _text(1, schema["type"]))
    if isinstance(schema.get("items"), dict):
        yield content(_ITEMS, content(1, b"".join(_schema(schema["items"]))))
    if schema.get("properties"):
        yield content(_PROPERTIES, _named(schema["properties"]))
    for name, value in schema.items():
        if name.startswith("x-"):
            # An extension's value is text in YAML, of which JSON is a part.
            yield content(_EXTENSION, _text(1, name) + content(2, content(2, _as_text(value))))


def _text(number: int, value: Any) -> bytes:
    return content(number, str(value).encode())
