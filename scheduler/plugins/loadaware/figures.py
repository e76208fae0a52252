"""The load of a node as texts for `explain`: figures, their age and source, estimates of new
pods.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from scheduler.base.text import go_duration
from scheduler.plugins.loadaware.report import NEVER
from scheduler.plugins.loadaware.settings import Percentile, Vector

if TYPE_CHECKING:
    from scheduler.plugins.loadaware.limits import NodeLimits
    from scheduler.plugins.loadaware.nodeload import NodeLoad
    from scheduler.plugins.loadaware.settings import Settings

SOURCE_ANNOTATION = "trellis.dev/load-source"


def figures(
    settings: "Settings",
    load: "NodeLoad | None",
    limits: "NodeLimits | None",
    now: float,
    source: str,
) -> Iterator[str]:
    """Yield the load figures of a node as texts, most important first."""
    if load is None or limits is None or load.report is None:
        yield "no NodeMetric"
        return
    report = load.report
    yield _age(report.updated, now, source)
    if report.usage is None:
        yield "the report holds no measurements"
        return
    yield f"uses {_amounts(settings, report.usage, limits.allocatable)}"
    if any(load.node_delta):
        count = len(load.in_node_delta())
        pods = "1 pod" if count == 1 else f"{count} pods"
        yield f"not seen yet: {pods} with {_amounts(settings, load.node_delta, limits.allocatable)}"
    for wanted in dict.fromkeys((limits.percentile, settings.score_percentile)):
        if wanted is not None and report.choose(wanted).is_substitute:
            yield f"{_name(wanted)} is not reported: a longer window or the average stands in"


def silence(updated: float, now: float) -> str:
    """Return the message for a node whose figures are too old."""
    since = "never" if updated == NEVER else f"{go_duration(round(now - updated))} ago"
    return f"its NodeMetric was updated {since}: it gets no pods that load is checked for"


def _age(updated: float, now: float, source: str) -> str:
    by = f" by {source}" if source else ""
    if updated == NEVER:
        return f"figures without a time{by}"
    age_s = round(now - updated)
    if age_s < 0:
        return f"figures from {go_duration(-age_s)} ahead of our clock{by}"
    return f"figures {go_duration(age_s)} old{by}"


def _amounts(settings: "Settings", amounts: Vector | list[int], offered: Vector) -> str:
    parts = []
    for name, amount, offer in zip(settings.resources, amounts, offered, strict=True):
        if not offer:
            continue
        share = f"{round(amount * 100 / offer)} %"
        if name == "cpu":
            parts.append(f"cpu {amount / 1000:g} of {offer / 1000:g} ({share})")
        elif name == "memory":
            parts.append(f"memory {amount / 2**30:.1f}Gi of {offer / 2**30:.1f}Gi ({share})")
        else:
            parts.append(f"{name} {amount} of {offer} ({share})")
    return ", ".join(parts)


def _name(wanted: Percentile) -> str:
    window = f" over {go_duration(wanted.duration_s)}" if wanted.duration_s else ""
    return f"{wanted.type}{window}"
