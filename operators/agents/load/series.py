"""Samples over time, with averages and percentiles over windows. Pure.

CPU is cumulative seconds, memory is bytes in use. The average CPU over a window is exact (the
difference between its ends); percentiles are of the rates between samples.
"""

from collections import deque
from itertools import pairwise

import msgspec

from operators.agents.percentiles import rank

PERCENTILES = (("p50", 50), ("p90", 90), ("p95", 95), ("p99", 99))


class UsageSample(msgspec.Struct, frozen=True):
    """One sample; `at` is monotonic time in seconds."""

    at: float
    cpu_s: float
    memory_bytes: float


class AverageUse(msgspec.Struct, frozen=True):
    """Use over some time: cores and bytes."""

    cores: float
    memory_bytes: float


class Series:
    """The samples of one node or pod over the last `keep_s` seconds."""

    def __init__(self, keep_s: float) -> None:
        self._samples: deque[UsageSample] = deque()
        self.keep_s = keep_s

    def add(self, sample: UsageSample) -> None:
        """Add a sample; a counter that decreased (a restart) starts a new series."""
        if self._samples and sample.cpu_s < self._samples[-1].cpu_s:
            self._samples.clear()
        self._samples.append(sample)
        # One sample before the window stays: the rate up to the first one inside starts there.
        while len(self._samples) > 2 and self._samples[1].at <= sample.at - self.keep_s:
            self._samples.popleft()

    def average(self, window_s: float) -> AverageUse | None:
        """Return the average over the last `window_s`; None with fewer than two samples."""
        samples = self._within(window_s)
        if len(samples) < 2:
            return None
        first, last = samples[0], samples[-1]
        cores = (last.cpu_s - first.cpu_s) / (last.at - first.at)
        memory = sum(s.memory_bytes * (s.at - before.at) for before, s in pairwise(samples))
        return AverageUse(cores, memory / (last.at - first.at))

    def percentiles(self, window_s: float) -> dict[str, AverageUse]:
        """Return avg and percentiles; empty while the samples span less than half the window."""
        samples = self._within(window_s)
        if len(samples) < 2 or samples[-1].at - samples[0].at < window_s / 2:
            return {}
        rates = sorted((b.cpu_s - a.cpu_s) / (b.at - a.at) for a, b in pairwise(samples))
        memory = sorted(sample.memory_bytes for sample in samples[1:])
        found = {
            name: AverageUse(rank(rates, share), rank(memory, share)) for name, share in PERCENTILES
        }
        average = self.average(window_s)
        return found if average is None else {"avg": average} | found

    def _within(self, window_s: float) -> list[UsageSample]:
        """Return the samples of the window, with the one at or before its start."""
        samples = self._samples
        if not samples:
            return []
        start = samples[-1].at - window_s
        first = 0
        while first + 1 < len(samples) and samples[first + 1].at <= start:
            first += 1
        return [samples[place] for place in range(first, len(samples))]
