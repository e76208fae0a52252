"""`Report`: a NodeMetric read once into vectors, whatever it contains.

A figure that cannot be read counts as not reported; an unreadable usage of the node itself makes the
whole report one without measurements, never one of an idle node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from scheduler.base.clock import parse_rfc3339
from scheduler.base.errors import ObjectError
from scheduler.framework.duration import Duration, seconds
from scheduler.objects.nodemetric import AggregatedUsage, NodeMetric, PodMetricInfo
from scheduler.objects.pod import ResourceList
from scheduler.objects.quantity import resource_amount
from scheduler.plugins.loadaware.estimate import LARGEST
from scheduler.plugins.loadaware.podclass import PROD
from scheduler.plugins.loadaware.settings import Percentile, Settings, Vector

DEFAULT_INTERVAL_S = 60
NEVER = float("-inf")

_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30}
_MOST_DIGITS = 15


class Chosen(msgspec.Struct, frozen=True):
    """The usage that stands for a percentile; `is_substitute` when another figure had to do."""

    usage: Vector
    is_substitute: bool = False


class Report(msgspec.Struct, frozen=True):
    """One report; `usage` is None when it holds no measurements. Times are seconds.

    `pods` has what each pod (`namespace/name`) uses, `prod` those reported as production.
    """

    updated: float
    interval_s: float
    usage: Vector | None
    system: Vector
    windows: Mapping[str, tuple[tuple[float, Vector], ...]]
    pods: Mapping[str, Vector]
    prod: frozenset[str]

    def choose(self, wanted: Percentile | None) -> Chosen:
        """Return the usage for a percentile: its window, the next longer one, else the average."""
        average = self.usage if self.usage is not None else ()
        if wanted is None:
            return Chosen(average)
        known = self.windows.get(wanted.type, ())
        if not known:
            return Chosen(average, is_substitute=True)
        if not wanted.duration_s:
            return Chosen(known[-1][1])
        for duration_s, usage in known:
            if duration_s >= wanted.duration_s:
                return Chosen(usage, is_substitute=duration_s != wanted.duration_s)
        return Chosen(average, is_substitute=True)


def read_report(metric: NodeMetric, settings: Settings) -> Report:
    """Read a NodeMetric; total."""
    policy = metric.spec.metric_collect_policy
    interval = policy.report_interval_seconds if policy is not None else None
    info = metric.status.node_metric
    nothing = settings.nothing
    pods, prod = _pods(metric.status.pods_metric, settings.resources)
    usage = None if info is None else _vector(info.node_usage.resources, settings.resources)
    system = None if info is None else _vector(info.system_usage.resources, settings.resources)
    return Report(
        updated=_time(metric.status.update_time),
        interval_s=float(DEFAULT_INTERVAL_S if interval is None else max(interval, 0)),
        usage=usage,
        system=nothing if system is None else system,
        windows={} if info is None else _windows(info.aggregated_node_usages, settings),
        pods=pods,
        prod=frozenset(prod),
    )


def _time(text: str | None) -> float:
    try:
        moment = parse_rfc3339(text)
    except (ValueError, OverflowError, OSError):
        return NEVER
    return NEVER if moment is None else moment


def _windows(
    listed: Iterable[AggregatedUsage], settings: Settings
) -> dict[str, tuple[tuple[float, Vector], ...]]:
    """Return type → (seconds, usage) of the windows that have data, the shortest first."""
    found: dict[str, dict[float, Vector]] = {}
    for window in listed:
        duration_s = _duration_s(window.duration)
        for kind, usage in window.usage.items():
            vector = _vector(usage.resources, settings.resources) if usage.resources else None
            if vector is not None and duration_s is not None:
                found.setdefault(kind, {})[duration_s] = vector
    return {kind: tuple(sorted(by_length.items())) for kind, by_length in found.items()}


def _duration_s(text: str) -> float | None:
    try:
        msgspec.convert(text, Duration)
    except msgspec.ValidationError:
        return None
    return seconds(text)


def _pods(
    listed: Iterable[PodMetricInfo], resources: tuple[str, ...]
) -> tuple[dict[str, Vector], list[str]]:
    pods: dict[str, Vector] = {}
    prod: list[str] = []
    for one in listed:
        amounts = one.pod_usage.resources
        if not amounts:
            continue
        usage = _vector(amounts, resources)
        if usage is not None:
            key = f"{one.namespace}/{one.name}"
            pods[key] = usage
            if one.priority == PROD:
                prod.append(key)
    return pods, prod


def _vector(amounts: ResourceList, resources: tuple[str, ...]) -> Vector | None:
    """Return amounts as a vector, at least 0; None if one of them cannot be read."""
    try:
        return tuple([_amount(name, amounts[name]) if name in amounts else 0 for name in resources])
    except ObjectError:
        return None


def _amount(name: str, value: str | float) -> int:
    """Read an amount; the forms that agents write go a short way, there are hundreds per report."""
    if type(value) is str and len(value) <= _MOST_DIGITS and value.isascii():
        if value.isdigit():
            found = int(value) * 1000 if name == "cpu" else int(value)
            return min(found, LARGEST)
        if name == "cpu":
            if value[-1] == "m" and value[:-1].isdigit():
                return min(int(value[:-1]), LARGEST)
            if value[-1] == "n" and value[:-1].isdigit():
                return -(-int(value[:-1]) // 1_000_000)
        elif value[-2:] in _BINARY and value[:-2].isdigit():
            return min(int(value[:-2]) << _BINARY[value[-2:]], LARGEST)
    return max(0, min(resource_amount(name, value), LARGEST))
