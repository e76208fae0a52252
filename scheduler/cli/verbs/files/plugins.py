"""`trellis plugins`: every plugin with its extension points and its arguments."""

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from scheduler.base.errors import InputError
from scheduler.base.text import did_you_mean
from scheduler.cli.commands import PluginsFlags
from scheduler.cli.output.printing import TableColumn, show
from scheduler.config import default_config
from scheduler.framework.plugin import Plugin
from scheduler.framework.registry import Registry
from scheduler.intree import registry

COLUMNS: Final = (
    TableColumn("name", lambda item: item["name"]),
    TableColumn("default", lambda item: "yes" if item["default"] else "no"),
    TableColumn("points", lambda item: ",".join(item["points"])),
    TableColumn("args", lambda item: _one_line(item["args"])),
    TableColumn("reads", lambda item: ",".join(item["reads"]), wide=True),
    TableColumn("description", lambda item: item["description"], wide=True),
)


def plugins(flags: PluginsFlags) -> None:
    """List the plugins with their extension points and arguments."""
    known, names = registry(), flags.names or ()
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known.names())
            raise InputError(f'plugin "{name}" does not exist{hint}')
    items = [item for item in describe(known) if not names or item["name"] in names]
    document = {"apiVersion": "trellis.dev/v1alpha1", "kind": "PluginList", "items": items}
    show(document, COLUMNS, flags.output)


def describe(known: Registry) -> list[dict[str, Any]]:
    """Return a description of each plugin, in the registry's order."""
    enabled = {
        listed.name
        for spec in default_config(known).profiles
        for p in spec.plugins.values()
        for listed in p
    }
    return [_describe(cls, is_default=cls.name in enabled) for cls in known]


def _describe(cls: type[Plugin[Any]], *, is_default: bool) -> dict[str, Any]:
    return {
        "name": cls.name,
        "default": is_default,
        "points": list(cls.points()),
        "reads": list(cls.reads),
        "description": _first_sentence(cls.__doc__ or ""),
        "args": msgspec.to_builtins(cls.args_type()),
        "argsSchema": msgspec.json.schema(cls.args_type),
    }


def _first_sentence(text: str) -> str:
    return " ".join(text.strip().split("\n\n")[0].split())


def _one_line(args: Mapping[str, Any]) -> str:
    """Write arguments as `name=value`, values as JSON."""
    return " ".join(
        f"{name}={json.dumps(value, separators=(',', ':'))}" for name, value in args.items()
    )
