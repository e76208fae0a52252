"""Reading the files that a command line names; `-` is standard input."""

from __future__ import annotations

import sys
from pathlib import Path

from scheduler.base.errors import InputError


def read_text(name: str) -> str:
    """Return the text of a file; InputError when it cannot be read."""
    try:
        raw = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=name) from error
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InputError("not UTF-8 text", where=f"{shown(name)}:{line}") from error


def shown(name: str) -> str:
    """Return how a file is called in messages."""
    return "<stdin>" if name == "-" else name
