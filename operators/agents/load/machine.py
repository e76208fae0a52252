"""Use of the node as a whole, from `/proc/stat` and `/proc/meminfo`.

Reads of small files in memory; no function here waits. A file in another format than the kernel's
is a `ReadingError`: the agent then skips the sample instead of reporting a guess.
"""

import os
from pathlib import Path
from typing import Final

from scheduler.base.errors import TrellisError

# Which memory counts as used: a page cache that can be dropped at any time, or not.
WITHOUT_CACHE: Final = "usageWithoutPageCache"
WITH_HOT_CACHE: Final = "usageWithHotPageCache"
WITH_CACHE: Final = "usageWithPageCache"

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# user nice system idle iowait irq softirq steal: time used by other guests (steal) is not our use.
_BUSY = (0, 1, 2, 5, 6)


class ReadingError(TrellisError):
    """A file of the kernel is missing or not as expected."""


def busy_s(stat: str) -> float:
    """Return the CPU seconds that all CPUs have been busy since boot, from `/proc/stat`."""
    fields = stat.split("\n", 1)[0].split()
    if len(fields) < 8 or fields[0] != "cpu":
        raise ReadingError(f'"/proc/stat" begins with "{stat[:40]}"')
    ticks = [_number(field) for field in fields[1:]]
    return sum(ticks[place] for place in _BUSY) / _TICKS_PER_S


def used_bytes(meminfo: str, policy: str) -> int:
    """Return the memory in use under a collect policy, from `/proc/meminfo`."""
    found = {}
    for line in meminfo.splitlines():
        name, _, rest = line.partition(":")
        found[name] = rest
    total, free = _kib(found, "MemTotal"), _kib(found, "MemFree")
    if policy == WITH_CACHE:
        return max(total - free, 0) * 1024
    if policy == WITH_HOT_CACHE:
        return max(total - free - _kib(found, "Inactive(file)"), 0) * 1024
    return max(total - _kib(found, "MemAvailable"), 0) * 1024


def read(path: Path) -> str:
    """Return a small file of the kernel."""
    try:
        return path.read_text()
    except OSError as error:
        raise ReadingError(f"{path}: {error.strerror}") from error


def _kib(found: dict[str, str], name: str) -> int:
    if name not in found:
        raise ReadingError(f'"/proc/meminfo" has no {name}')
    return _number(found[name].split()[0] if found[name].split() else "")


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ReadingError(f'"{text[:40]}" is no number')
    return int(text)
