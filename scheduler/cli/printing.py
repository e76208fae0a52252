"""Results on stdout: tables in kubectl's shape, or the document as JSON, YAML or names."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from scheduler.cli.flags import Output


class TableColumn(NamedTuple):
    """A column of a table; `wide` ones are shown with `-o wide` only."""

    title: str
    text: Callable[[Mapping[str, Any]], str]
    wide: bool = False


def show(document: Mapping[str, Any], columns: Sequence[TableColumn], output: Output) -> None:
    """Print a list document (`kind`, `items`) in the form asked for."""
    items: Sequence[Mapping[str, Any]] = document["items"]
    if output is Output.NAME:
        print(*(item["name"] for item in items), sep="\n")
    elif output in (Output.TABLE, Output.WIDE):
        shown = [column for column in columns if output is Output.WIDE or not column.wide]
        print(table([c.title for c in shown], ([c.text(item) for c in shown] for item in items)))
    else:
        show_document(document, output)


def show_document(document: Any, output: Output) -> None:
    """Print one document as YAML, or as JSON with `-o json`."""
    if output is Output.JSON:
        print(_ascii(msgspec.json.format(msgspec.json.encode(document), indent=2).decode()))
    else:
        import yaml

        print(yaml.safe_dump(document, sort_keys=False, default_flow_style=False), end="")


def _ascii(text: str) -> str:
    """Write JSON without what a terminal could take for more than letters, as right-to-left marks."""
    if text.isascii():
        return text
    return re.sub(r"[^\x00-\x7f]+", lambda found: json.dumps(found[0])[1:-1], text)


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return rows under upper-case titles, columns aligned and three spaces apart."""
    lines = [[title.upper() for title in titles], *([cell or "-" for cell in r] for r in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(titles))]
    return "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
