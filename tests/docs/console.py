"""Run a page's console blocks in one shell, in a folder with the page's files.

`…` in a page matches text that differs between runs; at the end of a line the rest of it.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.docs.pages import ROOT, blocks, commands

TIMEOUT_S = 200
_MARK = "@@@ done "
_CLEAN_UP = "trap 'kill $(jobs -p) 2>/dev/null; trellis sandbox down >/dev/null 2>&1' EXIT"


class Typed(NamedTuple):
    """A command, the output on the page, and the actual output."""

    command: str
    expected: str
    printed: str


def run_page(
    page: str, folder: Path, *, installed: Path | None = None, until: str = ""
) -> list[Typed]:
    """Run all commands of a page, in order, in one shell; its background processes end with it.

    `installed` is a folder of programs to use instead of ours; `until` is how the last command
    begins.
    """
    for block in blocks(page):
        if block.file:
            (folder / block.file).write_text(block.text)
    typed = [one for block in blocks(page, "console") for one in commands(block)]
    if until:
        last = next(place for place, (one, _) in enumerate(typed) if one.startswith(until))
        del typed[last + 1 :]
    script = "".join(f"{_first(command)}{command}\necho '{_MARK}'\n" for command, _ in typed)
    output = folder / "output"
    with output.open("w") as file:  # and no pipe, which background processes would keep open
        subprocess.run(
            ["bash", "-c", f"{_CLEAN_UP}\n{script}"],
            cwd=folder,
            env=environment(folder, installed),
            stdout=file,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT_S,
            check=False,
        )
    printed = output.read_text().split(f"{_MARK}\n")
    assert len(typed) < len(printed), printed
    return [
        Typed(command, reported, out)
        for (command, reported), out in zip(typed, printed, strict=False)
    ]


def _first(command: str) -> str:
    """Return the delay that a reader's typing causes: events are written just after the changes
    that they report.
    """
    if not command.startswith("kubectl events"):
        return ""
    return f"until {command} 2>/dev/null | grep -q '^LAST SEEN'; do :; done\n"


def environment(folder: Path, installed: Path | None = None) -> dict[str, str]:
    """Return a shell's environment with this `trellis`, whose state stays in the folder."""
    programs = [
        installed or Path(sys.executable).parent,
        ROOT / ".tools/bin",
        *os.environ["PATH"].split(os.pathsep),
    ]
    return os.environ | {
        "PATH": os.pathsep.join(map(str, programs)),
        "PYTHONPATH": "" if installed else str(ROOT),
        "XDG_RUNTIME_DIR": str(folder),
        "HOME": str(folder),
        "PYTHONDONTWRITEBYTECODE": "1",
        "COLUMNS": "200",
    }


def matches(expected: str, printed: str) -> bool:
    """Return whether an output equals the page's, apart from blanks at the ends of lines."""
    pattern = ".*?".join(re.escape(part) for part in _trimmed(expected).split("…"))
    return re.fullmatch(pattern, _trimmed(printed), re.DOTALL) is not None


def _trimmed(text: str) -> str:
    return "\n".join(re.sub(r"[ \t]+", " ", line).rstrip() for line in text.strip().splitlines())
