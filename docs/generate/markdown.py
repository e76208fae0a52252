"""Markdown for the generated pages: tables, cells, where a page comes from."""

import json
from collections.abc import Iterable, Sequence


def origin(source: str) -> str:
    """Return the remark that sends an editor to the source."""
    return f"<!-- Written by `python -m docs.generate` from {source}; do not edit. -->"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; cells must not hold line breaks or bare bars."""
    lines = [_row(header), "|" + "---|" * len(header)]
    return "\n".join([*lines, *(_row(row) for row in rows)]) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def text(words: str) -> str:
    """Return prose as a cell: on one line, with what Markdown would take for markup escaped."""
    return " ".join(words.split()).replace("<", "&lt;").replace("|", "\\|")


def code(value: str) -> str:
    """Return a value as code, nothing for nothing."""
    return f"`{value}`".replace("|", "\\|") if value else ""


def value(found: object) -> str:
    """Return a value as JSON in code; nothing where there is none."""
    if found is None:
        return ""
    shown = json.dumps(found, ensure_ascii=False, separators=(", ", ": "))
    return code(shown)
