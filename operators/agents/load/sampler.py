"""`Sampler`: samples the node's counters at intervals and computes the status from them.

`Series` holds samples over time. CPU is cumulative seconds, memory is bytes in use. The average CPU
over a window is exact (the difference between its ends); percentiles are of the rates between
samples.
"""

from collections import deque
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from operators.agents.load.cgroups import Cgroups, PodUse
from operators.agents.load.machine import busy_s, read, used_bytes
from operators.agents.percentiles import rank
from operators.nodemetric.figures import pod_entry, resources
from operators.nodemetric.policy import DEFAULT_POLICY
from scheduler.base.clock import rfc3339
from scheduler.base.text import go_seconds
from scheduler.objects.pod import Pod
from scheduler.objects.reports.nodemetric import NodeMetricCollectPolicy

LEAST_AVERAGE_S = 60.0

Json = dict[str, Any]
PERCENTILES = (("p50", 50), ("p90", 90), ("p95", 95), ("p99", 99))


class CounterSample(msgspec.Struct, frozen=True):
    """One sample of the kernel's counters."""

    busy_s: float
    used_bytes: int
    pods: dict[str, PodUse]


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


class Sampler:
    """The series of the node, of its processes outside of pods, and of each pod."""

    def __init__(self, proc: Path, cgroups: Path) -> None:
        self._proc = proc
        self._cgroups = Cgroups(cgroups)
        self.follow(DEFAULT_POLICY)
        self._node = Series(self._longest_s())
        self._system = Series(self._longest_s())
        self._pods: dict[str, Series] = {}
        # The usage of deleted pods: it must not be counted as the system's.
        self._gone_cpu_s = 0.0
        self._system_s = 0.0
        self._last: dict[str, PodUse] = {}

    def follow(self, policy: NodeMetricCollectPolicy) -> None:
        """Apply a policy from now on; missing settings have their defaults."""
        default = DEFAULT_POLICY
        aggregate = policy.aggregate_duration_seconds or default.aggregate_duration_seconds or 0
        self.average_s = max(float(aggregate), LEAST_AVERAGE_S)
        windows = policy.node_aggregate_policy or default.node_aggregate_policy
        durations = windows.durations if windows is not None else ()
        lengths = [(text, go_seconds(text)) for text in durations]
        self._windows = [(text, length) for text, length in lengths if length]
        self._memory_policy = (
            policy.node_memory_collect_policy or default.node_memory_collect_policy
        )
        if hasattr(self, "_node"):
            self._node.keep_s = self._system.keep_s = self._longest_s()
            for series in self._pods.values():
                series.keep_s = self.average_s

    def _longest_s(self) -> float:
        return max([self.average_s, *(length for _, length in self._windows)])

    def look(self) -> CounterSample:
        """Read a sample from the kernel; ReadingError if the node's own files cannot be read."""
        return CounterSample(
            busy_s(read(self._proc / "stat")),
            used_bytes(read(self._proc / "meminfo"), self._memory_policy),
            self._cgroups.uses(self._memory_policy),
        )

    def take(self, look: CounterSample, at: float) -> None:
        """Add a sample to the series; `at` is monotonic time in seconds."""
        busy, used, pods = look.busy_s, look.used_bytes, look.pods
        self._gone_cpu_s += sum(
            use.cpu_s for uid, use in self._last.items() if _restarted(use, pods.get(uid))
        )
        self._last = pods
        of_pods_s = self._gone_cpu_s + sum(use.cpu_s for use in pods.values())
        pods_memory = sum(use.memory_bytes for use in pods.values())
        self._node.add(UsageSample(at, busy, used))
        # Pods are read shortly after the node, so that their sum may be slightly higher.
        self._system_s = max(busy - of_pods_s, self._system_s)
        self._system.add(UsageSample(at, self._system_s, max(used - pods_memory, 0)))
        for uid in self._pods.keys() - pods.keys():
            del self._pods[uid]
        for uid, use in pods.items():
            series = self._pods.setdefault(uid, Series(self.average_s))
            series.add(UsageSample(at, use.cpu_s, use.memory_bytes))

    def pod(self, uid: str) -> AverageUse | None:
        """Return the average use of a pod."""
        series = self._pods.get(uid)
        return None if series is None else series.average(self.average_s)

    def node(self) -> AverageUse | None:
        """Return the average use of the node."""
        return self._node.average(self.average_s)

    def status(self, pods: Iterable[tuple[str, Pod]], now: float) -> Json | None:
        """Return the status to write; None before the first complete window.

        `pods` have the uid of their control group; `now` is in seconds since the epoch.
        """
        node, system = self.node(), self._system.average(self.average_s)
        if node is None or system is None:
            return None
        return {
            "updateTime": rfc3339(now),
            "nodeMetric": {
                "nodeUsage": {"resources": resources(node.cores, node.memory_bytes)},
                "aggregatedNodeUsages": self._aggregated(self._node),
                "systemUsage": {"resources": resources(system.cores, system.memory_bytes)},
                "aggregatedSystemUsages": self._aggregated(self._system),
            },
            "podsMetric": [
                entry for uid, pod in pods if (entry := _entry(pod, self.pod(uid))) is not None
            ],
        }

    def _aggregated(self, series: Series) -> list[Json]:
        return [
            {
                "duration": text,
                "usage": {
                    kind: {"resources": resources(use.cores, use.memory_bytes)}
                    for kind, use in series.percentiles(length_s).items()
                },
            }
            for text, length_s in self._windows
        ]


def _restarted(before: PodUse, after: PodUse | None) -> bool:
    return after is None or after.cpu_s < before.cpu_s


def _entry(pod: Pod, use: AverageUse | None) -> Json | None:
    return None if use is None else pod_entry(pod, use.cores, use.memory_bytes)
