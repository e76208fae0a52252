"""Durations in annotations: `500ms`, `30s`, `1h30m`, or plain seconds."""

import re
from typing import Final

_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_UNIT_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str) -> float | None:
    """Return the duration in seconds, None for an invalid text."""
    text = text.strip()
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    total_s, end = 0.0, 0
    for part in _PART.finditer(text):
        if part.start() != end:
            return None
        total_s += float(part.group(1)) * _UNIT_S[part.group(2)]
        end = part.end()
    return total_s if end and end == len(text) else None
