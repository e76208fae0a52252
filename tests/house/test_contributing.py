"""The files that CONTRIBUTING.md names for newcomers exist."""

import re

from tests.house.source import ROOT

CHANGES = 14


def test_the_files_of_the_changes_exist():
    """A moved file is found by the line that names it."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    _, _, part = text.partition("## Where a change goes")
    table = [line for line in part.partition("## Habits")[0].splitlines() if line.startswith("| ")]
    rows = {row.split("|")[1].strip(): row.split("|")[2] for row in table[1:]}
    named = {change: re.findall(r"`([\w./-]+/[\w./-]*)`", files) for change, files in rows.items()}
    missing = {c: [f for f in files if not (ROOT / f).exists()] for c, files in named.items()}

    assert CHANGES == len(rows)
    assert {} == {change: files for change, files in missing.items() if files}
    assert min(len(files) for files in named.values()) >= 2
