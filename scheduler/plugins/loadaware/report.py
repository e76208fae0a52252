"""`LoadReport`: a NodeMetric decoded into vectors, with invalid values left out.

An invalid figure counts as not reported. If the usage of the node itself is invalid, the report
counts as one without measurements, never as one of an idle node.
"""

from collections.abc import Mapping
from functools import lru_cache

import msgspec

from scheduler.base.clock import parse_rfc3339
from scheduler.base.errors import ObjectError
from scheduler.framework import Duration, seconds
from scheduler.objects.pod import ResourceList
from scheduler.objects.podclass import PROD
from scheduler.objects.quantity import resource_amount
from scheduler.objects.reports.nodemetric import AggregatedUsage, NodeMetric, PodMetricInfo
from scheduler.plugins.loadaware.estimate import LARGEST
from scheduler.plugins.loadaware.settings import Percentile, Settings, Vector

DEFAULT_INTERVAL_S = 60
NEVER = float("-inf")

_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30}
_MOST_DIGITS = 15


class ChosenUsage(msgspec.Struct, frozen=True):
    """The usage used for a percentile; `is_substitute` when another figure was used instead."""

    usage: Vector
    is_substitute: bool = False


class LoadReport(msgspec.Struct, frozen=True):
    """One report; `usage` is None if it has no measurements. Times are in seconds.

    Contains only pods (`namespace/name`) with reported usage. Figures of pods and windows are
    decoded at their first use: most reports are replaced before it.
    """

    settings: Settings
    updated: float
    interval_s: float
    usage: Vector | None
    system: Vector
    windows: tuple[AggregatedUsage, ...]
    pods: Mapping[str, PodMetricInfo]

    def choose(self, wanted: Percentile | None) -> ChosenUsage:
        """Return the usage for a percentile: its window, the next longer one, else the average."""
        average = self.usage if self.usage is not None else ()
        if wanted is None:
            return ChosenUsage(average)
        known = self._known(wanted.type)
        if not known:
            return ChosenUsage(average, is_substitute=True)
        if not wanted.duration_s:
            return ChosenUsage(known[-1][1])
        for duration_s, usage in known:
            if duration_s >= wanted.duration_s:
                return ChosenUsage(usage, is_substitute=duration_s != wanted.duration_s)
        return ChosenUsage(average, is_substitute=True)

    def usage_of(self, pod: str) -> Vector | None:
        """Return a pod's measured use; None if it is missing or unreadable."""
        found = self.pods.get(pod)
        return None if found is None else _vector(found.pod_usage.resources, self.settings)

    def is_prod(self, pod: str) -> bool:
        """Return whether the report counts a pod as production."""
        found = self.pods.get(pod)
        return found is not None and found.priority == PROD

    def _known(self, kind: str) -> list[tuple[float, Vector]]:
        """Return (seconds, usage) of the windows that have data of a type, the shortest first."""
        found: dict[float, Vector] = {}
        for window in self.windows:
            usage = window.usage.get(kind)
            vector = _vector(usage.resources, self.settings) if usage and usage.resources else None
            duration_s = _duration_s(window.duration)
            if vector is not None and duration_s is not None:
                found[duration_s] = vector
        return sorted(found.items())


def read_report(metric: NodeMetric, settings: Settings) -> LoadReport:
    """Read a NodeMetric; total."""
    policy = metric.spec.metric_collect_policy
    interval = policy.report_interval_seconds if policy is not None else None
    info = metric.status.node_metric
    usage, system = None, None
    windows: tuple[AggregatedUsage, ...] = ()
    if info is not None:
        usage = _vector(info.node_usage.resources, settings)
        windows = info.aggregated_node_usages
        if settings.prod_includes_system:
            system = _vector(info.system_usage.resources, settings)
    return LoadReport(
        settings=settings,
        updated=_time(metric.status.update_time),
        interval_s=float(DEFAULT_INTERVAL_S if interval is None else max(interval, 0)),
        usage=usage,
        system=settings.nothing if system is None else system,
        windows=windows,
        pods={
            f"{one.namespace}/{one.name}": one
            for one in metric.status.pods_metric
            if one.pod_usage.resources
        },
    )


def _time(text: str | None) -> float:
    try:
        moment = parse_rfc3339(text)
    except (ValueError, OverflowError, OSError):
        return NEVER
    return NEVER if moment is None else moment


@lru_cache(maxsize=256)
def _duration_s(text: str) -> float | None:
    try:
        msgspec.convert(text, Duration)
    except msgspec.ValidationError:
        return None
    return seconds(text)


def _vector(amounts: ResourceList, settings: Settings) -> Vector | None:
    """Return amounts as a vector, at least 0; None if one of them is invalid."""
    try:
        return tuple(
            [_amount(name, amounts[name]) if name in amounts else 0 for name in settings.resources]
        )
    except ObjectError:
        return None


def _amount(name: str, value: str | float) -> int:
    """Read an amount; the usual forms of agents have a fast path, because a report has many."""
    if type(value) is str and len(value) <= _MOST_DIGITS and value.isascii():
        if name == "cpu":
            if value[-1:] == "n" and (digits := value[:-1]).isdigit():
                return -(-int(digits) // 1_000_000)
        elif (shift := _BINARY.get(value[-2:])) is not None and (digits := value[:-2]).isdigit():
            return min(int(digits) << shift, LARGEST)
    return max(0, min(resource_amount(name, value), LARGEST))
