"""Results on stdout: tables that fit the terminal, or the document as JSON, YAML or names."""

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from scheduler.cli.flags import Output

# Below this width a column says nothing; a narrower terminal wraps.
NARROWEST: Final = 6
GAP: Final = "   "
_GREEN, _YELLOW, _RED = 32, 33, 31
_COLOURS: Final[Mapping[str, int]] = {
    **dict.fromkeys(("Scheduled", "Bound", "Completed", "Running", "fits", "yes", "ok"), _GREEN),
    **dict.fromkeys(("Waiting", "Pending", "Gated", "Incomplete", "notice"), _YELLOW),
    **dict.fromkeys(("Unschedulable", "DoesNotFit", "Failed", "Error", "problem", "no"), _RED),
    **dict.fromkeys(("rejected", "missing", "Invalid"), _RED),
}


class TableColumn(NamedTuple):
    """A column of a table; `wide` ones are shown with `-o wide` only."""

    title: str
    text: Callable[[Mapping[str, Any]], str]
    wide: bool = False


def show(document: Mapping[str, Any], columns: Sequence[TableColumn], output: Output) -> None:
    """Print a list document (`kind`, `items`) in the requested format."""
    items: Sequence[Mapping[str, Any]] = document["items"]
    if output is Output.NAME:
        if items:
            print(*(item["name"] for item in items), sep="\n")
    elif output in (Output.TABLE, Output.WIDE):
        is_wide = output is Output.WIDE
        shown = [column for column in columns if is_wide or not column.wide]
        rows = ([c.text(item) for c in shown] for item in items)
        show_table([c.title for c in shown], rows, is_wide=is_wide)
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
    """Write JSON without characters that control a terminal, such as right-to-left marks."""
    if text.isascii():
        return text
    return re.sub(r"[^\x00-\x7f]+", lambda found: json.dumps(found[0])[1:-1], text)


def show_table(
    titles: Sequence[str], rows: Iterable[Sequence[str]], *, is_wide: bool = False
) -> None:
    """Print a table: cut to the terminal's width unless it is wide, in colour on a terminal."""
    print(table(titles, rows, width=0 if is_wide else shown_width(), coloured=is_coloured()))


def table(
    titles: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    width: int = 0,
    coloured: bool = False,
) -> str:
    """Return aligned rows under upper-case titles, cut to `width` characters; 0: any width."""
    lines = [[title.upper() for title in titles], *([_cell(one) for one in row] for row in rows)]
    widths = _narrowed([max(len(line[at]) for line in lines) for at in range(len(titles))], width)
    return "\n".join(
        _line(line, widths, coloured=coloured and at > 0) for at, line in enumerate(lines)
    )


def _cell(text: str) -> str:
    # A message with a line break would end the row.
    return " ".join(text.split("\n")) or "-"


def _line(cells: Sequence[str], widths: Sequence[int], *, coloured: bool) -> str:
    shown = []
    for cell, width in zip(cells, widths, strict=True):
        text = cell if len(cell) <= width else cell[: width - 1] + "…"
        colour = _COLOURS.get(cell) if coloured else None
        padded = text.ljust(width)
        shown.append(
            padded if colour is None else f"\x1b[{colour}m{text}\x1b[0m{padded[len(text) :]}"
        )
    return GAP.join(shown).rstrip()


def _narrowed(widths: list[int], width: int) -> list[int]:
    """Return column widths that fit `width`: the widest columns give way first."""
    excess = sum(widths) + len(GAP) * (len(widths) - 1) - width
    while width and excess > 0:
        widest = max(widths)
        if widest <= NARROWEST:
            return widths
        at = len(widths) - 1 - widths[::-1].index(widest)
        second = max((one for number, one in enumerate(widths) if number != at), default=0)
        cut = min(excess, max(1, widest - max(second, NARROWEST)))
        widths[at] -= cut
        excess -= cut
    return widths


def shown_width() -> int:
    """Return the columns to cut tables to: the terminal's, else `COLUMNS`, 0 where neither is
    known.
    """
    if sys.stdout.isatty():
        return shutil.get_terminal_size().columns
    given = os.environ.get("COLUMNS", "")
    return int(given) if given.isdecimal() and len(given) < 6 else 0


def is_coloured() -> bool:
    """Return whether stdout takes colours: a terminal, without `NO_COLOR`."""
    is_plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not is_plain
