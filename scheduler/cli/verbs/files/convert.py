"""`trellis convert`: rewrite documents of older formats in today's.

Writes YAML to stdout and, for each object, a line of its changes to stderr. Exit codes: 0 done, 2 a
file cannot be read.
"""

from typing import Any

import msgspec
import yaml

from scheduler.base.errors import InputError
from scheduler.cli.commands import ConvertFlags
from scheduler.cli.flags import Output
from scheduler.cli.inputs.cmdio import print_stderr
from scheduler.cli.inputs.files import manifest_files, read_bytes, shown
from scheduler.convert.conversion import convert_all
from scheduler.snapshot.documents import SourceFile, items_of


def convert(flags: ConvertFlags) -> int:
    """Rewrite older AppGroups, NetworkTopologies and scheduler policies into today's form."""
    if not flags.filename:
        raise InputError("name what to rewrite: -f F")
    items = [one for name in manifest_files(flags.filename) for one in _of_file(name)]
    found = []
    for (_, where), done in zip(items, convert_all(items), strict=True):
        print_stderr(f"{where}: {change}" for change in done.changes)
        if done.object is not None:
            found.append(done.object)
    if flags.output is Output.JSON:
        document = found[0] if len(found) == 1 else _list(found)
        print(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
    else:
        print(yaml.safe_dump_all(found, sort_keys=False, default_flow_style=False), end="")
    return 0


def _of_file(name: str) -> list[tuple[dict[str, Any], str]]:
    return [
        (msgspec.json.decode(item.raw) if isinstance(item.raw, bytes) else item.raw, item.where)
        for item in items_of(SourceFile(shown(name), read_bytes(name)))
    ]


def _list(found: list[dict[str, Any]]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": found}
