"""The resource use of processes, read from /proc: CPU time and memory of a program with all its
children.

`Sampler` records a series for several programs while a contest runs and returns any window of time
afterwards. Linux only.
"""

import os
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from tests.apiserver.patience import pause

TICKS = os.sysconf("SC_CLK_TCK")
INTERVAL_S = 0.5


def machine_seconds() -> float:
    """Return the time in which the machine's CPUs were busy, or taken away by their host."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    user, nice, system, _idle, _wait, irq, softirq, steal = (int(each) for each in fields[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS


def cpu_seconds(pid: int) -> float:
    """Return user and system time of a process and its children, including ended ones.

    Of this process only its own time, since the programs under test are its children.
    """
    if pid == os.getpid():
        own = os.times()
        return own.user + own.system
    return sum(_own_cpu_seconds(each) for each in _tree(pid))


def peak_rss_mib(pid: int) -> float:
    """Return the largest resident size so far, summed over the process and its living children."""
    pids = [pid] if pid == os.getpid() else _tree(pid)
    return sum(_status_kib(each, "VmHWM:") for each in pids) / 1024


def rss_mib(pid: int) -> float:
    """Return the resident size now, summed over the process and its living children."""
    return sum(_status_kib(each, "VmRSS:") for each in _tree(pid)) / 1024


@dataclass
class Sampler:
    """CPU time of programs over time; run `collect` as a task, cancel it at the end."""

    pids: Mapping[str, int]
    times: list[float] = field(default_factory=list)
    machine: list[float] = field(default_factory=list)
    cpu: dict[str, list[float]] = field(default_factory=dict)
    peaks_mib: dict[str, float] = field(default_factory=dict)

    async def collect(self) -> None:
        """Take a sample every INTERVAL_S until cancelled."""
        while True:
            self.sample()
            await pause(INTERVAL_S)

    def sample(self) -> None:
        """Take one sample now; a program that has ended keeps its last figures."""
        self.times.append(monotonic())
        self.machine.append(machine_seconds())
        for name, pid in self.pids.items():
            series = self.cpu.setdefault(name, [0.0] * (len(self.times) - 1))
            try:
                series.append(cpu_seconds(pid))
                self.peaks_mib[name] = max(self.peaks_mib.get(name, 0.0), peak_rss_mib(pid))
            except (FileNotFoundError, ProcessLookupError):
                series.append(series[-1] if series else 0.0)

    def between(self, name: str, start: float, end: float) -> float:
        """Return the CPU seconds of a program between two moments, interpolated."""
        return self._at(self.cpu[name], end) - self._at(self.cpu[name], start)

    def others_between(self, start: float, end: float) -> float:
        """Return the CPU seconds of all other processes of the machine: noise in the figures."""
        whole = self._at(self.machine, end) - self._at(self.machine, start)
        # The children of this very process are counted under their own names.
        return max(0.0, whole - sum(self.between(name, start, end) for name in self.pids))

    def _at(self, series: list[float], moment: float) -> float:
        after = bisect_right(self.times, moment)
        if after == 0:
            return series[0]
        if after == len(self.times):
            return series[-1]
        first, second = self.times[after - 1], self.times[after]
        share = (moment - first) / (second - first)
        return series[after - 1] + share * (series[after] - series[after - 1])


def _tree(pid: int) -> list[int]:
    found, index = [pid], 0
    while index < len(found):
        for thread in Path(f"/proc/{found[index]}/task").glob("*/children"):
            try:
                found += [int(child) for child in thread.read_text().split()]
            except (FileNotFoundError, ProcessLookupError):
                continue
        index += 1
    return found


def _own_cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(each) for each in fields[11:15]) / TICKS


def _status_kib(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1])
    return 0
