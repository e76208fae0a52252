"""Times as kubectl shows them: `45s`, `3m20s`, `5h`, `12d`."""

from typing import Any, Final

from scheduler.base.clock import parse_rfc3339

_UNKNOWN: Final = "<unknown>"


def age(written: Any, now: float) -> str:
    """Return the age of an RFC 3339 time; `<unknown>` without one."""
    then = parse_rfc3339(written) if isinstance(written, str) else None
    return _UNKNOWN if then is None else duration(now - then)


def duration(seconds: float) -> str:
    """Seconds in kubectl's short form."""
    total = int(seconds)
    if total < -1:
        return "<invalid>"
    total = max(total, 0)
    if total < 120:
        return f"{total}s"
    minutes, hours, days = total // 60, total // 3600, total // 86400
    if minutes < 10:
        return _two(minutes, "m", total % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    return f"{days // 365}y"


def _two(first: int, unit: str, second: int, smaller: str) -> str:
    return f"{first}{unit}{second}{smaller}" if second else f"{first}{unit}"
