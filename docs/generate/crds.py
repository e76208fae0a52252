"""The page of Trellis's kinds, from the definitions in crds/."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from docs.generate import markdown

CRDS = Path(__file__).parents[2] / "crds"

INTRODUCTION = f"""\
# Kinds

{markdown.origin("crds/")}

The kinds that Trellis reads or writes beside those of Kubernetes.
The chart installs their definitions and keeps them when it is removed.
`kubectl apply --server-side -f crds/` installs them without the chart.
`*` marks a required field.
Groups of pods also come as ConfigMaps, see [Place a group of pods together](../howto/groups.md).
"""

_BOUNDS = (
    ("minimum", "≥ {}"),
    ("maximum", "≤ {}"),
    ("minItems", "at least {} items"),
    ("maxItems", "at most {} items"),
    ("maxProperties", "at most {} entries"),
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
)


def page() -> str:
    """Return the whole page."""
    definitions = [
        yaml.load(file.read_text(), Loader=yaml.CSafeLoader) for file in sorted(CRDS.glob("*.yaml"))
    ]
    return "\n".join([INTRODUCTION, *(part for one in definitions for part in section(one))])


def section(definition: dict[str, Any]) -> Iterator[str]:
    """Yield the parts of one kind's section."""
    spec = definition["spec"]
    names = spec["names"]
    yield f"## {names['kind']}\n"
    short = ", ".join(markdown.code(name) for name in names.get("shortNames", ()))
    where = "in a namespace" if spec["scope"] == "Namespaced" else "of the whole cluster"
    called = f", for short {short}" if short else ""
    yield f"`{names['plural']}.{spec['group']}`{called}; {where}.\n"
    for version in spec["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        name = version["name"] + ("" if version["storage"] else ", served but not stored")
        yield f"### {names['kind']} {name}\n"
        yield " ".join(schema.get("description", "").split()) + "\n"
        rows = [row for row in fields(schema) if row[0] not in {"`apiVersion`", "`kind`"}]
        yield markdown.table(("field", "type", "meaning"), rows)


def fields(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield (path, type, meaning) of every field below a schema, a parent before its children."""
    needed = schema.get("required", ())
    for name, inner in schema.get("properties", {}).items():
        if path == "" and name == "metadata":
            continue
        place = f"{path}{name}"
        meaning = " ".join(filter(None, (sentence(inner), bounds(inner))))
        yield (
            markdown.code(place + ("*" if name in needed else "")),
            type_of(inner),
            markdown.text(meaning),
        )
        yield from fields(*below(inner, place))


def below(schema: dict[str, Any], path: str) -> tuple[dict[str, Any], str]:
    """Return the schema of a field's own fields, and the path prefix of these."""
    if schema.get("type") == "array":
        return below(schema["items"], f"{path}[]")
    inner = schema.get("additionalProperties")
    if isinstance(inner, dict):
        return below(inner, f"{path}.NAME")
    return schema, f"{path}."


def type_of(schema: dict[str, Any]) -> str:
    """Return a type in words."""
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity"
    if schema.get("type") == "array":
        return f"list of {type_of(schema['items'])}"
    inner = schema.get("additionalProperties")
    if isinstance(inner, dict):
        return f"map of {type_of(inner)}"
    if "enum" in schema:
        return " \\| ".join(markdown.code(str(one)) for one in schema["enum"])
    return str(schema.get("format") if schema.get("format") == "date-time" else schema["type"])


def sentence(schema: dict[str, Any]) -> str:
    """Return the description of a field on one line."""
    return " ".join(str(schema.get("description", "")).split())


def bounds(schema: dict[str, Any]) -> str:
    """Return the limits of a field in parentheses, or ''."""
    words = [text.format(schema[key]) for key, text in _BOUNDS if key in schema]
    return f"({'; '.join(words)})" if words else ""
