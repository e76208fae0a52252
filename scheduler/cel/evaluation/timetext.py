"""Durations and moments as text: Go's `1h30m`, RFC 3339."""

import re
from datetime import UTC, datetime, timedelta

_UNITS = {
    "ns": 1,
    "us": 10**3,
    "\u00b5s": 10**3,
    "\u03bcs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_PART = re.compile(r"(?:([0-9]+)(?:\.([0-9]*))?|\.([0-9]+))(ns|us|\u00b5s|\u03bcs|ms|s|m|h)")
_LONGEST = 100
_INT64_MAX = 2**63 - 1
_MOMENT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_duration(text: str) -> int | None:
    """Return a duration such as `-1h30.5m` in nanoseconds; None if the text is invalid."""
    sign = -1 if text.startswith("-") else 1
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0
    if not rest or len(rest) > _LONGEST:
        return None
    total = at = 0
    while at < len(rest):
        match = _PART.match(rest, at)
        if match is None:
            return None
        unit = _UNITS[match[4]]
        fraction = match[2] or match[3] or ""
        total += int(match[1] or 0) * unit
        total += int(fraction or 0) * unit // 10 ** len(fraction)
        if total > _INT64_MAX + (sign < 0):
            return None
        at = match.end()
    return sign * total


def duration_text(nanos: int) -> str:
    """Return a duration in seconds, as shortly as it can be written."""
    seconds = nanos / 1e9
    text = format(seconds, "f") if abs(seconds) >= 1e16 else repr(seconds)
    if "e" in text:
        text = f"{seconds:.9f}".rstrip("0")
    return text.removesuffix(".0").removesuffix(".") + "s"


def read_timestamp(text: str) -> int | None:
    """Return an RFC 3339 timestamp as nanoseconds since 1970; None if the text is invalid."""
    match = _MOMENT.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(match[index]) for index in range(1, 7))
    zone = match[8]
    offset = 0 if zone == "Z" else int(zone[1:3]) * 60 + int(zone[4:6])
    if offset and (int(zone[1:3]) > 24 or int(zone[4:6]) > 60):
        return None
    try:
        moment = datetime(year or 1, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    since = moment - _EPOCH
    if not year:
        return None
    seconds = since.days * 86400 + since.seconds - (-offset if zone[0] == "-" else offset) * 60
    return seconds * 10**9 + int((match[7] or "")[:9].ljust(9, "0"))


def moment(nanos: int, minutes_east: int = 0) -> datetime:
    """Return a moment of the years 1 to 9999 at an offset from UTC, without its fraction."""
    try:
        return _EPOCH + timedelta(seconds=nanos // 10**9, minutes=minutes_east)
    except OverflowError:
        return _EPOCH + timedelta(seconds=nanos // 10**9)


def timestamp_text(nanos: int) -> str:
    """Return a moment in RFC 3339, in UTC."""
    fraction = f"{nanos % 10**9:09d}".rstrip("0")
    date = moment(nanos)
    return f"{date:%Y-%m-%dT%H:%M:%S}".rjust(19, "0") + (f".{fraction}Z" if fraction else "Z")
