"""The page of the plugins' arguments, from the structs that decode them."""

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final

import msgspec

from docs.generate import markdown, schemas
from scheduler.cli.verbs.files.plugins import describe
from scheduler.framework.args import Args, NoArgs
from scheduler.intree import registry
from scheduler.plugins.loadaware.args import effective

INTRODUCTION = f"""\
# Arguments of plugins

{markdown.origin("the plugins' argument structs")}

The fields of `pluginConfig[].args` in a [profile](configuration.md). Unknown fields and wrong types
are rejected with line and column.
`trellis plugins -o yaml` prints the same for all installed plugins, including third-party ones.
`trellis config print F` prints the effective arguments of a file.
Plugins that are not named here take no arguments.
"""

# Where "not given" has a meaning of its own.
RESOLVED: Final[dict[str, Callable[[Any], Args]]] = {"LoadAwareScheduling": effective}
_NO_WORD: Final = "?"
_LISTED: Final = re.compile(r"(?:supported values|must be one of):? (.+)")


def page() -> str:
    """Return the whole page."""
    known = registry()
    plugins = {cls.name: cls for cls in known}
    overview = (
        (
            f"[{one['name']}](#{one['name'].lower()})" if one["args"] else one["name"],
            "yes" if one["default"] else "",
            ", ".join(one["points"]),
            markdown.text(one["description"]),
        )
        for one in describe(known)
    )
    parts = [
        INTRODUCTION,
        markdown.table(("plugin", "default", "points", "what it does"), overview),
    ]
    for name in sorted(plugins):
        if plugins[name].args_type is not NoArgs:
            parts += section(name, plugins[name].args_type)
    return "\n".join(parts)


def section(name: str, args_type: type[Args]) -> Iterator[str]:
    """Yield the parts of one plugin's section."""
    resolve = RESOLVED.get(name, _as_given)
    defaults = msgspec.to_builtins(resolve(args_type()))
    parts = schemas.tables(msgspec.json.schema(args_type), defaults=defaults, prefix=name)
    yield from islice(parts, 3)  # the outermost struct: its heading, description, fields
    choices = [
        (markdown.code(path), ", ".join(map(markdown.code, words)))
        for path, words in choices_of(args_type())
    ]
    if choices:
        yield markdown.table(("field", "takes one of"), choices)
    yield from parts


def choices_of(args: Args) -> Iterator[tuple[str, list[str]]]:
    """Yield (path, allowed words) of each enumerated field, read from its validation message."""
    for path, wrong in with_a_wrong_word(args):
        for fault_path, message in wrong.validate():
            listed = _LISTED.search(message)
            if fault_path == path and listed:
                yield path, [word.strip(' "') for word in listed[1].split(",")]


def with_a_wrong_word(args: Args) -> Iterator[tuple[str, Args]]:
    """Yield (path, `args` with an invalid word there) for each text field, nested ones included."""
    for field in msgspec.structs.fields(args):
        found = getattr(args, field.name)
        if isinstance(found, str):
            yield field.encode_name, msgspec.structs.replace(args, **{field.name: _NO_WORD})
        elif isinstance(found, msgspec.Struct):
            for inner in msgspec.structs.fields(found):
                if isinstance(getattr(found, inner.name), str):
                    other = msgspec.structs.replace(found, **{inner.name: _NO_WORD})
                    whole = msgspec.structs.replace(args, **{field.name: other})
                    yield f"{field.encode_name}.{inner.encode_name}", whole


def _as_given(args: Args) -> Args:
    return args
