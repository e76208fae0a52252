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

# Below this width the column is unreadable; a narrower terminal wraps.
NARROWEST: Final = 6
GAP: Final = "   "
EMPTY: Final = "-"
# The last column's weight when columns are cut.
SENTENCE: Final = 2
READABLE: Final = 30
_GREEN, _YELLOW, _RED = 32, 33, 31
_COLOURS: Final[Mapping[str, int]] = {
    **dict.fromkeys(("Scheduled", "Bound", "Completed", "Running", "fits", "yes", "ok"), _GREEN),
    **dict.fromkeys(("Waiting", "Pending", "Gated", "Incomplete", "Fits", "notice"), _YELLOW),
    **dict.fromkeys(("Unschedulable", "DoesNotFit", "Failed", "Error", "problem", "no"), _RED),
    **dict.fromkeys(("rejected", "missing", "Missing", "Invalid"), _RED),
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
    titles: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    is_wide: bool = False,
    optional: Sequence[str] = (),
) -> None:
    """Print a table: cut to the terminal's width unless it is wide, in colour on a terminal."""
    width = 0 if is_wide else shown_width()
    print(table(titles, rows, width=width, coloured=is_coloured(), optional=optional))


def table(
    titles: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    width: int = 0,
    coloured: bool = False,
    optional: Sequence[str] = (),
) -> str:
    """Return aligned rows under upper-case titles, cut to `width` characters; 0: any width.

    A table that is too wide goes without the columns that have no text, then without `optional`
    ones (titles, the first first) until its last column has `READABLE` characters.
    """
    lines = [[title.upper() for title in titles], *([_cell(one) for one in row] for row in rows)]
    widths = _widths(lines)
    if width and _total(widths) > width:
        kept = [at for at in range(len(titles)) if any(line[at] != EMPTY for line in lines[1:])]
        lines = [[line[at] for at in kept] for line in lines] if kept else lines
        for title in optional:
            own = _widths(lines)
            if _total([*own[:-1], min(own[-1], READABLE)]) > width and title.upper() in lines[0]:
                out = lines[0].index(title.upper())
                lines = [[*line[:out], *line[out + 1 :]] for line in lines]
        widths = _narrowed(_widths(lines), width)
    return "\n".join(
        _line(line, widths, coloured=coloured and at > 0) for at, line in enumerate(lines)
    )


def _cell(text: str) -> str:
    # A message with a line break would end the row.
    return " ".join(text.split("\n")) or EMPTY


def _widths(lines: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*lines, strict=True)]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


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
    """Return column widths that fit `width`: the widest columns give way first.

    The last column has the sentence: it counts for half of its width, and so keeps twice that
    of any other column that is cut.
    """
    last = len(widths) - 1
    for _ in range(max(0, _total(widths) - width)):
        wide = [at for at in range(len(widths)) if widths[at] > NARROWEST]
        if not wide:
            break
        at = max(wide, key=lambda at: (widths[at] / (SENTENCE if at == last else 1), at))
        widths[at] -= 1
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
