"""Text rules that several packages share: order of names, suggestions, byte limits, durations."""

import difflib
import re
from collections.abc import Iterable

# Of the two letters that look like a Greek mu, Go writes the first and reads both.
_UNITS_S = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}
GO_NUMBER = r"(?:[0-9]{1,18}(?:\.[0-9]{0,18})?|\.[0-9]{1,18})"
GO_UNIT = "(?:ns|us|µs|μs|ms|s|m|h)"
_PART = re.compile(f"({GO_NUMBER})({GO_UNIT})")
_DIGITS = re.compile(r"([0-9]+)")
_AS_ZEROS = str.maketrans("123456789", "0" * 9)

# What `natural` returns: numbers by their length and digits, other parts after a -1.
NameKey = tuple[tuple[int, str], ...]


def natural(name: str) -> NameKey:
    """Return a key that sorts `rack-2` before `rack-10`, and names of equal numbers by their text.

    The order of names in every table and message; decisions that break ties by name compare texts.
    """
    key = [(-1, part) for part in _DIGITS.split(name)]
    for at in range(1, len(key), 2):
        digits = key[at][1].lstrip("0")
        key[at] = len(digits), digits
    return (*key, (-1, name))


def in_natural_order(names: Iterable[str]) -> list[str]:
    """Return names sorted by `natural`, quickly where they differ in digits alone.

    Texts of equal length with digits at equal positions have the same order as their numbers; the
    keys of 5,000 nodes would take 10 ms of each picture of a page.
    """
    listed = list(names)
    if len({name.translate(_AS_ZEROS) for name in listed}) <= 1:
        return sorted(listed)
    return sorted(listed, key=natural)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ` (did you mean "x"?)` for the known word nearest to `word`, or an empty text."""
    close = closest(word, known)
    return f' (did you mean "{close}"?)' if close else ""


def closest(word: str, known: Iterable[str]) -> str:
    """Return the known word nearest to `word`, or an empty text."""
    options = {option.lower(): option for option in known}
    close = difflib.get_close_matches(word.lower(), list(options), n=1, cutoff=0.6)
    return options[close[0]] if close else ""


def cut_bytes(text: str, limit: int, ending: str = " ...") -> str:
    """Cut `text` to at most `limit` bytes of UTF-8, ending in `ending` when it was cut."""
    raw = text.encode()
    if len(raw) <= limit:
        return text
    return raw[: limit - len(ending.encode())].decode(errors="ignore") + ending


def go_duration(seconds: float) -> str:
    """Write a duration as Go prints it: `1.5s`, `2m0s`, `1h0m0s`."""
    if seconds <= 0:
        return "0s"
    if seconds < 1:
        for unit, size in (("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)):
            if seconds >= size:
                return f"{seconds / size:.9g}{unit}"
        return "0s"
    whole_minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(whole_minutes), 60)
    text = f"{rest:.9g}s"
    if hours:
        return f"{hours}h{minutes}m{text}"
    return f"{minutes}m{text}" if minutes else text


def go_seconds(text: str) -> float | None:
    """Read a duration as Go writes it (`5m0s`, `1h30m`) in seconds; None if it is none."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(float(number) * _UNITS_S[unit] for number, unit in parts)
