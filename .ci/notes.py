# ruff: noqa: INP001, T201 - a script that prints
"""Print the section of CHANGELOG.md for one version: python .ci/notes.py 0.1.0."""

import re
import sys
from pathlib import Path

CHANGELOG = Path(__file__).parents[1] / "CHANGELOG.md"


def section(text: str, version: str) -> str:
    """Return the section of a version, with its heading; exit with an error without one."""
    parts = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    found = [part for part in parts if part.startswith((f"## {version} ", f"## {version}\n"))]
    if len(found) != 1 or not found[0].partition("\n")[2].strip():
        sys.exit(
            f"CHANGELOG.md has no section for {version}: add '## {version} (DATE)' and its text"
        )
    return found[0].rstrip() + "\n"


if __name__ == "__main__":
    print(section(CHANGELOG.read_text(encoding="utf-8"), sys.argv[1]), end="")
