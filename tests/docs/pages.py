"""The fenced blocks of a page: language, file and text."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """One block; `file` is "" for a block without a file."""

    language: str
    file: str
    text: str


def blocks(page: str, language: str = "") -> list[Block]:
    """Return the blocks of a page of docs/, of one language or all."""
    text = (ROOT / "docs" / page).read_text()
    found = [Block(one[1], one[2] or "", one[3]) for one in _BLOCK.finditer(text)]
    return [block for block in found if language in ("", block.language)]


def commands(block: Block) -> list[tuple[str, str]]:
    """Return the commands of a console block, each with the output that follows it."""
    parts = re.split(r"^\$ (.+)\n", block.text, flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2], strict=True))
