"""How deep JSON is nested, before anybody decodes it.

Decoders go down level by level, and where they stop depends on the interpreter: CPython 3.11 ends after
some thousand levels, 3.14 goes on as long as the stack of the machine lasts. Who takes text from others
asks here first.
"""

from __future__ import annotations

import re

import numpy as np

# Deeper than any object of Kubernetes, by far.
MOST_LEVELS = 500

_TEXTS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
# Brackets and braces differ in one bit.
_BIT, _OPEN, _CLOSE = 0x20, 0x7B, 0x7D


def is_too_deep(data: bytes, levels: int = MOST_LEVELS) -> bool:
    """Whether JSON is nested deeper than `levels`; some 10 ms for a megabyte that has many."""
    if data.count(b"[") + data.count(b"{") <= levels:
        return False
    signs = np.frombuffer(_TEXTS.sub(b"", data), dtype=np.uint8) | np.uint8(_BIT)
    steps = signs[(signs == _OPEN) | (signs == _CLOSE)].astype(np.int64)
    depth = np.cumsum(_OPEN + 1 - steps)
    return len(depth) > 0 and int(depth.max()) > levels
