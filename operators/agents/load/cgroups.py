"""Use of pods from their control groups, version 2 or 1, under the names that kubelets give them.

Both drivers are known: `kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice`
with the uid's dashes as underscores, and `kubepods/burstable/pod<uid>`. A pod that goes while it is
being read is left out.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from operators.agents.load.machine import WITH_CACHE, WITH_HOT_CACHE, ReadingError, read

_POD = re.compile(
    r"(?:^|-)pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}"
    r"|[0-9a-f]{32})(?:\.slice)?$"
)
_TOPS = ("kubepods.slice", "kubepods", "kubelet.slice", "kubelet")
_DEPTH = 4


class PodUse(msgspec.Struct, frozen=True):
    """A pod's accumulated CPU time (seconds since its start) and current memory (bytes)."""

    cpu_s: float
    memory_bytes: int


class Cgroups:
    """The control groups below `root` (`/sys/fs/cgroup`)."""

    def __init__(self, root: Path) -> None:
        self._is_unified = (root / "cgroup.controllers").exists()
        self._cpu_root = root if self._is_unified else _first(root, ("cpuacct", "cpu,cpuacct"))
        self._memory_root = root if self._is_unified else root / "memory"

    def uses(self, policy: str) -> dict[str, PodUse]:
        """Return the usage of each pod by uid, in the API server's form of the uid."""
        found = {}
        for uid, path in self._pods():
            try:
                cpu_s = self._cpu_s(self._cpu_root / path)
                memory = self._memory_bytes(self._memory_root / path, policy)
            except ReadingError:
                continue
            found[uid] = PodUse(cpu_s, memory)
        return found

    def _pods(self) -> Iterator[tuple[str, str]]:
        """Yield uid and path of each pod's group."""
        places = [(top, 1) for top in _TOPS]
        while places:
            path, depth = places.pop()
            try:
                entries = list(os.scandir(self._cpu_root / path))
            except OSError:
                continue
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    continue
                match = _POD.search(entry.name)
                if match is not None:
                    yield match[1].replace("_", "-"), f"{path}/{entry.name}"
                elif depth < _DEPTH:
                    places.append((f"{path}/{entry.name}", depth + 1))

    def _cpu_s(self, group: Path) -> float:
        if not self._is_unified:
            return _whole(read(group / "cpuacct.usage")) / 1e9
        return _fields(read(group / "cpu.stat")).get("usage_usec", 0) / 1e6

    def _memory_bytes(self, group: Path, policy: str) -> int:
        if self._is_unified:
            used = _whole(read(group / "memory.current"))
            names = ("inactive_file", "active_file")
        else:
            used = _whole(read(group / "memory.usage_in_bytes"))
            names = ("total_inactive_file", "total_active_file")
        if policy == WITH_CACHE:
            return used
        stat = _fields(read(group / "memory.stat"))
        cold, hot = (stat.get(name, 0) for name in names)
        return max(used - cold - (0 if policy == WITH_HOT_CACHE else hot), 0)


def _first(root: Path, names: tuple[str, ...]) -> Path:
    return next((root / name for name in names if (root / name).is_dir()), root / names[0])


def _whole(text: str) -> int:
    text = text.strip()
    if not (text.isascii() and text.isdigit()):
        raise ReadingError(f'"{text[:40]}" is no number')
    return int(text)


def _fields(text: str) -> dict[str, int]:
    found = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if value.isascii() and value.isdigit():
            found[name] = int(value)
    return found
