"""Reading the files that a command line names; `-` is standard input."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from scheduler.base.errors import InputError

MANIFEST_SUFFIXES: Final = (".yaml", ".yml", ".json")


def read_bytes(name: str) -> bytes:
    """Return the bytes of a file; InputError if it cannot be read."""
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot be read: {reason}", where=name) from error


def manifest_files(names: Iterable[str]) -> Iterator[str]:
    """Yield the named files; for a folder, the manifests in it in order of their names."""
    for name in names:
        if name != "-" and Path(name).is_dir():
            found = (file for file in Path(name).iterdir() if file.suffix in MANIFEST_SUFFIXES)
            yield from sorted(str(file) for file in found)
        else:
            yield name


def read_text(name: str) -> str:
    """Return the text of a file; InputError when it cannot be read."""
    raw = read_bytes(name)
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InputError("not UTF-8 text", where=f"{shown(name)}:{line}") from error


def shown(name: str) -> str:
    """Return how a file is called in messages."""
    return "<stdin>" if name == "-" else name
