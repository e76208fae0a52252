"""Markdown for the generated pages: tables, cells, and the source of a page."""

import json
from collections.abc import Iterable, Sequence


def origin(source: str) -> str:
    """Return the comment that names the source of a page."""
    return f"<!-- Written by `python -m docs.generate` from {source}; do not edit. -->"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; cells must contain no line breaks and no unescaped bars."""
    lines = [_row(header), "|" + "---|" * len(header)]
    return "\n".join([*lines, *(_row(row) for row in rows)]) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def text(words: str) -> str:
    """Return prose as a cell: on one line, with Markdown characters escaped."""
    return " ".join(words.split()).replace("<", "&lt;").replace("|", "\\|")


def code(value: str) -> str:
    """Return a value as code, or '' for an empty one."""
    return f"`{value}`".replace("|", "\\|") if value else ""


def value(found: object) -> str:
    """Return a value as JSON in code, or '' for None."""
    if found is None:
        return ""
    shown = json.dumps(found, ensure_ascii=False, separators=(", ", ": "))
    return code(shown)
