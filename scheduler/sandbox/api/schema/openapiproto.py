"""The definitions of /openapi/v2 in protobuf, the only form in which kubectl reads them.

kubectl asks for it before it applies a list of objects, and cannot read JSON there. Called by
`openapi`. Paths are left out: kubectl takes those from version 3. The message is `Document` of
gnostic's OpenAPIv2.proto; the numbers below are its fields.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from scheduler.base.protobuf import content
from scheduler.sandbox.api.status import Object

MEDIA_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
# The content type that kubectl requests: older clients write an at sign.
ASKED_FOR: Final = (MEDIA_TYPE, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")

_SWAGGER, _INFO, _DEFINITIONS = 1, 2, 9
_TEXTS: Final = {"$ref": 1, "format": 2, "title": 3, "description": 4, "pattern": 13}
_REQUIRED, _ADDITIONAL, _TYPE, _ITEMS, _PROPERTIES, _EXTENSION = 19, 21, 22, 23, 25, 31
_as_text = msgspec.json.Encoder(order="sorted").encode


def as_protobuf(document: Object) -> bytes:
    """Return an OpenAPI v2 document in protobuf, with the parts that kubectl reads."""
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
