"""Tables of a struct's fields from its JSON schema, for pages of configuration and arguments."""

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

from docs.generate import markdown

Schema = dict[str, Any]
Meaning = Callable[[str, str], str]

_DURATION = "a duration such as"
# The bounds of Go's int32 and int64: a type's range, not a rule.
_WORD_BOUNDS = {2**31 - 1, 2**63 - 1}


def tables(
    root: Schema,
    *,
    defaults: dict[str, Any],
    meaning: Meaning | None = None,
    prefix: str = "",
) -> Iterator[str]:
    """Yield a heading, a description and a table per struct, the outermost one first.

    `defaults` are those of the outermost one, resolved; `meaning(struct, field)` fills a fourth
    column; with a `prefix` the inner structs' headings begin with it, one level further down.
    """
    known: dict[str, Schema] = {
        name: _inlined(schema, root["$defs"]) for name, schema in root["$defs"].items()
    }
    todo = [(name_of(root), defaults)]
    seen: set[str] = set()
    while todo:
        struct, values = todo.pop(0)
        if struct in seen:
            continue
        seen.add(struct)
        fields: dict[str, Schema] = known[struct]["properties"]
        is_outermost = len(seen) == 1
        inner_heading = f"### {prefix}: {struct}" if prefix else f"## {struct}"
        yield f"## {prefix or struct}\n" if is_outermost else f"{inner_heading}\n"
        yield f"{description(known[struct])}\n"
        yield _table(struct, fields, values, meaning, prefix)
        for name, schema in fields.items():
            inner = values.get(name)
            given = inner if isinstance(inner, dict) else {}
            todo += [(one, given) for one in structs_in(schema)]


def _inlined(schema: Any, known: dict[str, Schema]) -> Any:
    """Return a schema in which only structs are references; enumerations are inlined."""
    if isinstance(schema, list):
        return [_inlined(one, known) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema and "properties" not in known[name_of(schema)]:
        return {**known[name_of(schema)], **{key: schema[key] for key in schema if key != "$ref"}}
    return {key: _inlined(one, known) for key, one in schema.items()}


def _table(
    struct: str,
    fields: dict[str, Schema],
    values: dict[str, Any],
    meaning: Meaning | None,
    prefix: str,
) -> str:
    rows = []
    for name, schema in fields.items():
        row = [markdown.code(name), type_of(schema, prefix), _default(schema, values.get(name))]
        rows.append([*row, meaning(struct, name)] if meaning else row)
    return markdown.table(("field", "type", "default", "meaning")[: 3 + bool(meaning)], rows)


def _default(schema: Schema, value: Any) -> str:
    """Return the default as a cell, or '' for a struct, whose own table has the defaults."""
    found = schema.get("default") if value is None else value
    if found in (None, "", [], {}) or (isinstance(found, dict) and structs_in(schema)):
        return ""
    return markdown.value(found)


def name_of(schema: Schema) -> str:
    """Return the struct that a reference names."""
    return str(schema["$ref"]).rpartition("/")[2]


def structs_in(schema: Schema) -> list[str]:
    """Return the structs that a field's schema names."""
    if "$ref" in schema:
        return [name_of(schema)]
    inner = [*schema.get("anyOf", ()), schema.get("items"), schema.get("additionalProperties")]
    return [name for one in inner if isinstance(one, dict) for name in structs_in(one)]


def type_of(schema: Schema, prefix: str = "") -> str:
    """Return a type in words."""
    if "$ref" in schema:
        name = name_of(schema)
        anchor = f"{prefix} {name}".strip().lower().replace(" ", "-")
        return f"[{name}](#{anchor})"
    if "anyOf" in schema:
        real = (one for one in schema["anyOf"] if one.get("type") != "null")
        return " or ".join(type_of(one, prefix) for one in real)
    if "enum" in schema:
        return " \\| ".join(markdown.code(str(one)) for one in schema["enum"])
    if str(schema.get("title", "")).startswith(_DURATION):
        return "duration"
    kind = schema.get("type")
    if kind == "array":
        return f"list of {type_of(schema['items'], prefix)}"
    if kind == "object":
        inner = schema.get("additionalProperties")
        return f"map of {type_of(inner, prefix)}" if isinstance(inner, dict) else "object"
    return {None: "anything"}.get(kind, str(kind)) + bounds(schema)


def bounds(schema: Schema) -> str:
    """Return the range of a number, or '' if only its type limits it."""
    words = [
        f"{sign} {schema[key]:g}"
        for key, sign in (("exclusiveMinimum", ">"), ("minimum", "≥"), ("maximum", "≤"))
        if key in schema and abs(schema[key]) not in _WORD_BOUNDS | {2**31, 2**63}
    ]
    return f" {', '.join(words)}" if words else ""


def description(schema: Schema) -> str:
    """Return a struct's docstring, with its fields as files spell them."""
    words = inspect.cleandoc(str(schema.get("description", "")))
    names = {_snake(name): name for name in schema.get("properties", {})}
    return re.sub(r"`(\w+)`", lambda one: f"`{names.get(one[1], one[1])}`", words)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()
