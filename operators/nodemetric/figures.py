"""From a snapshot of a metric provider to the status of a NodeMetric: the rules, without I/O."""

from collections.abc import Iterable
from typing import Any

from operators.metricproviders import CPU, MEMORY, FigureName, FigureSnapshot
from operators.metricproviders.snapshot import Figures
from scheduler.base.clock import rfc3339
from scheduler.base.errors import ObjectError
from scheduler.base.text import go_duration
from scheduler.objects.pod import Pod
from scheduler.objects.podclass import koordinator_qos, priority_class

SOURCE_ANNOTATION = "trellis.dev/load-source"
PERCENTILES = ("avg", "p50", "p90", "p95", "p99")

Json = dict[str, Any]


def status_of(
    node: str, pods: Iterable[Pod], snapshot: FigureSnapshot
) -> tuple[Json, float] | None:
    """Return the status for a node and the time of its oldest figure; None if it has none.

    A node counts only with both cpu and memory: a missing one would count as idle.
    """
    figures = snapshot.nodes.get(node, {})
    usage = _usage(figures)
    if usage is None:
        return None
    measured = min(figures[FigureName(name)].measured_at for name in (CPU, MEMORY))
    metrics = [entry for pod in pods if (entry := _pod(pod, snapshot)) is not None]
    info: Json = {"nodeUsage": {"resources": resources(*usage)}}
    if metrics:
        info["systemUsage"] = {"resources": _rest(usage, metrics, snapshot)}
    windows = _windows(figures)
    if windows:
        info["aggregatedNodeUsages"] = windows
    status = {"updateTime": rfc3339(measured), "nodeMetric": info, "podsMetric": metrics}
    return status, measured


def resources(cores: float, used_bytes: float) -> Json:
    """Return amounts as quantities: cpu in milli, memory in Ki."""
    return {
        "cpu": f"{round(max(cores, 0) * 1000)}m",
        "memory": f"{round(max(used_bytes, 0) / 1024)}Ki",
    }


def pod_entry(pod: Pod, cores: float, used_bytes: float) -> Json | None:
    """Return the entry of podsMetric for a pod; None for one whose class is unknown."""
    try:
        priority, qos = priority_class(pod), koordinator_qos(pod)
    except ObjectError:
        return None
    return {
        "namespace": pod.metadata.namespace,
        "name": pod.metadata.name,
        "priority": priority,
        "qos": qos,
        "podUsage": {"resources": resources(cores, used_bytes)},
    }


def _usage(figures: Figures) -> tuple[float, float] | None:
    cpu, memory = figures.get(FigureName(CPU)), figures.get(FigureName(MEMORY))
    return None if cpu is None or memory is None else (cpu.value, memory.value)


def _pod(pod: Pod, snapshot: FigureSnapshot) -> Json | None:
    usage = _usage(snapshot.pods.get(pod.key, {}))
    return None if usage is None else pod_entry(pod, *usage)


def _rest(usage: tuple[float, float], metrics: list[Json], snapshot: FigureSnapshot) -> Json:
    """Return the node's usage outside of pods."""
    cores, used_bytes = usage
    for one in metrics:
        figures = snapshot.pods[f"{one['namespace']}/{one['name']}"]
        cores -= figures[FigureName(CPU)].value
        used_bytes -= figures[FigureName(MEMORY)].value
    return resources(cores, used_bytes)


def _windows(figures: Figures) -> list[Json]:
    """Return the percentiles that the snapshot has, by window."""
    by_length: dict[float, dict[str, Json]] = {}
    for measure, figure in figures.items():
        if (
            measure.statistic == "avg"
            or measure.statistic not in PERCENTILES
            or not figure.window_s
        ):
            continue
        by_kind = by_length.setdefault(figure.window_s, {})
        by_kind.setdefault(measure.statistic, {})[measure.resource] = figure.value
    return [
        {
            "duration": go_duration(length_s),
            "usage": {
                kind: {"resources": resources(values[CPU], values[MEMORY])}
                for kind, values in by_kind.items()
                if CPU in values and MEMORY in values
            },
        }
        for length_s, by_kind in sorted(by_length.items())
    ]
