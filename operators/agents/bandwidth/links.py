"""A node's links from sysfs and proc: which one has the default route, and its speed.

A link that is down, reports no speed, or has no hardware below it has no speed here; the error
states the reason. A VLAN or a bridge is as fast as the hardware below it, a bond as fast as the
kernel reports.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from scheduler.base.errors import TrellisError

MBIT = 1_000_000
_UP, _DEFAULT_V4, _DEFAULT_V6 = 0x1, "00000000", "0" * 32
_DEPTH = 4  # a VLAN on a bridge on a bond on a card


class LinkError(TrellisError):
    """The link has no known speed, for the stated reason."""


class LinkSpeed(msgspec.Struct, frozen=True):
    """The speed of a link in bit/s; `source` is the device that reports it."""

    link: str
    source: str
    bits_per_s: int


def default_link(proc: Path) -> str:
    """Return the interface of the default route with the lowest metric, IPv4 before IPv6."""
    try:
        for routes in (_routes_v4, _routes_v6):
            found = min(routes(proc), default=None)
            if found is not None:
                return found[1]
    except ValueError as error:
        raise LinkError(f"the table of routes is not as the kernel writes it: {error}") from error
    raise LinkError("there is no default route: name an interface")


def speed(sysfs: Path, link: str, assumed_bits_per_s: int = 0) -> LinkSpeed:
    """Return the speed of a link; `assumed_bits_per_s` is used for hardware that does not report
    it.

    Raises LinkError with the reason of each device that was read.
    """
    reasons: list[str] = []
    speeds = list(_speeds(sysfs, link, assumed_bits_per_s, reasons))
    if not speeds:
        raise LinkError("; ".join(reasons))
    # Only one of several uplinks below a bridge carries the traffic: their sum is not available.
    source, bits_per_s = max(speeds, key=lambda one: one[1])
    return LinkSpeed(link, source, bits_per_s)


def _speeds(
    sysfs: Path, link: str, assumed: int, reasons: list[str], depth: int = 0
) -> Iterator[tuple[str, int]]:
    """Yield device and bit/s of the hardware below a link; add skipped devices to `reasons`."""
    folder = sysfs / "class" / "net" / link
    if "/" in link or link in ("", ".", "..") or not folder.is_dir():
        reasons.append(f"{link}: there is no such interface")
        return
    state = _word(folder / "operstate")
    if state not in ("up", "unknown"):
        reasons.append(f"{link}: is {state or 'in an unknown state'}")
        return
    if (folder / "device").exists() or (folder / "bonding").exists():
        reported = _megabits(folder / "speed")
        if reported is not None:
            yield link, reported * MBIT
        elif assumed > 0:
            yield link, assumed
        else:
            reasons.append(f"{link}: does not tell its speed")
        return
    below = sorted(one.name.removeprefix("lower_") for one in folder.glob("lower_*"))
    if not below or depth == _DEPTH:
        reasons.append(f"{link}: is virtual, there is no hardware below it")
    for name in below if depth < _DEPTH else ():
        yield from _speeds(sysfs, name, assumed, reasons, depth + 1)


def _megabits(file: Path) -> int | None:
    """Return the speed in Mbit/s; None if the kernel reports -1, 0 or an error (a link that is
    down).
    """
    word = _word(file)
    # Drivers without a known speed write the largest number of the field.
    return int(word) if word.isascii() and word.isdigit() and 0 < int(word) < 2**31 - 1 else None


def _word(file: Path) -> str:
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _routes_v4(proc: Path) -> Iterator[tuple[int, str]]:
    """Yield (metric, interface) of default routes; fields: interface, destination, gateway, flags
    …
    """
    for line in _word(proc / "net" / "route").splitlines()[1:]:
        fields = line.split()
        is_default = len(fields) > 7 and fields[1] == fields[7] == _DEFAULT_V4
        if is_default and int(fields[3], 16) & _UP:
            yield int(fields[6]), fields[0]


def _routes_v6(proc: Path) -> Iterator[tuple[int, str]]:
    """Yield (metric, interface); fields: destination, its prefix, source, its prefix, gateway,
    metric …
    """
    for line in _word(proc / "net" / "ipv6_route").splitlines():
        fields = line.split()
        is_default = len(fields) == 10 and fields[0] == _DEFAULT_V6 and fields[1] == "00"
        # The kernel keeps a route to nowhere on `lo`.
        if is_default and int(fields[8], 16) & _UP and fields[9] != "lo":
            yield int(fields[5], 16), fields[9]
