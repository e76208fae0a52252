"""`Sampler`: samples the node's counters at intervals and computes the status from them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from operators.agents.load.cgroups import Cgroups, PodUse
from operators.agents.load.machine import busy_s, read, used_bytes
from operators.agents.load.series import AverageUse, Series, UsageSample
from operators.nodemetric.figures import pod_entry, resources
from operators.nodemetric.policy import DEFAULT_POLICY
from scheduler.base.clock import rfc3339
from scheduler.base.text import go_seconds
from scheduler.objects.nodemetric import NodeMetricCollectPolicy
from scheduler.objects.pod import Pod

LEAST_AVERAGE_S = 60.0

Json = dict[str, Any]


class CounterSample(msgspec.Struct, frozen=True):
    """One sample of the kernel's counters."""

    busy_s: float
    used_bytes: int
    pods: dict[str, PodUse]


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
