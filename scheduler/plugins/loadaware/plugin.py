"""LoadAwareScheduling: keep pods off busy nodes, and off nodes without recent reports.

Filter and score compare columns of a `LoadTracker`, which follows every report and every pod;
assuming a pod counts at once, so reserve has nothing to do. The plugin only checks the age of
reports. `figures` states the load of a node for `explain`.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from scheduler.base import reasons
from scheduler.base.text import go_duration
from scheduler.framework import (
    BoolColumn,
    Change,
    Cycle,
    Handle,
    IntColumn,
    Nodes,
    PerPod,
    Plugin,
    Pod,
    Reason,
    Rejected,
)
from scheduler.plugins.loadaware.args import MOST, SOFT, LoadAwareSchedulingArgs, effective
from scheduler.plugins.loadaware.loadtracker import KIND, LoadTracker
from scheduler.plugins.loadaware.nodeload import Weight, weigh
from scheduler.plugins.loadaware.report import NEVER
from scheduler.plugins.loadaware.scoring import Numbers, usage_scores, weighing_of
from scheduler.plugins.loadaware.settings import Percentile, Vector, settings_of

if TYPE_CHECKING:
    from scheduler.plugins.loadaware.limits import NodeLimits
    from scheduler.plugins.loadaware.nodeload import NodeLoad
    from scheduler.plugins.loadaware.settings import Settings

REASON_EXPIRED = "node(s) nodeMetric expired"
REASON_USAGE = "node(s) {} usage exceed threshold"
REASON_AGGREGATED = "node(s) {} aggregated usage exceed threshold"

# The limit of events about nodes without recent reports, per pass.
_MOST_WARNINGS = 16
_NO_ROWS: BoolColumn = np.zeros(0, dtype=np.bool_)

# With soft thresholds: the minimum score of nodes within them, and the maximum of the others.
_WITHIN, _BEYOND = 50, 10
SOURCE_ANNOTATION = "trellis.dev/load-source"


class Incoming(msgspec.Struct, frozen=True):
    """The load of a pod to place; `is_daemon` pods are exempt from thresholds."""

    weight: Weight
    is_daemon: bool


class LoadAwareScheduling(Plugin[LoadAwareSchedulingArgs]):
    """Reject nodes whose measured use is too high or too old; score by free share."""

    reads = (
        KIND,
        "pod.deleted",
        "pod.labels",
        "pod.requests",
        "node",
        "node.allocatable",
        "node.annotations",
        "self.labels",
        "self.requests",
    )
    local = True

    def __init__(self, args: LoadAwareSchedulingArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.effective = effective(args)
        self.settings = settings_of(args)
        self.tracker = handle.tracker(LoadTracker, self.settings)
        self.expiration_s = float(self.effective.node_metric_expiration_seconds or 0)
        self._waiting = PerPod(self._weigh_waiting)
        self._weighing = weighing_of(
            self.settings.resources,
            self.effective.resource_weights,
            self.effective.dominant_resource_weight,
            packs=self.effective.scoring_strategy == MOST,
        )
        self._warned = _NO_ROWS
        self._is_soft = self.effective.thresholds == SOFT

    def pre_filter(self, cycle: Cycle, _nodes: Nodes) -> Incoming:
        """Return the pod's estimate and class."""
        pod = cycle.pod
        is_daemon = any(owner.kind == "DaemonSet" for owner in pod.metadata.owner_references)
        return Incoming(self.tracker.weight(cycle.shape, pod), is_daemon)

    def filter(self, cycle: Cycle, nodes: Nodes, incoming: Incoming) -> Rejected | None:
        """Reject nodes whose report has expired or whose usage would break a threshold."""
        if incoming.is_daemon or not self.tracker.reports:
            return None
        stale = self._stale(cycle, nodes, incoming)
        hit: BoolColumn | None = None
        reasons: list[Reason] = []
        if stale is not None and self.effective.filter_expired_node_metrics:
            if not self.effective.enable_schedule_when_node_metrics_expired:
                reasons.append(Reason(stale, REASON_EXPIRED))
                hit = stale
            if not self._is_soft:
                reasons += self._usage_reasons(nodes, incoming, settled=stale)
        elif not self._is_soft:
            reasons += self._usage_reasons(nodes, incoming, settled=None)
        if not reasons:
            return None
        for reason in reasons if hit is None else reasons[1:]:
            hit = reason.rows if hit is None else hit | reason.rows
        assert hit is not None  # noqa: S101 - a reason exists
        return Rejected(hit, np.zeros_like(hit), tuple(reasons))

    def score(self, cycle: Cycle, nodes: Nodes, incoming: Incoming) -> IntColumn:
        """Return the free share of each node, 0..100; 0 without a recent report."""
        if not self.tracker.reports or not self._weighing.total:
            return nodes.constant(0)
        weight = incoming.weight
        prod = self.effective.score_according_prod_usage and weight.is_prod
        left: dict[int, IntColumn] = {}
        divisors: dict[int, Numbers] = {}
        for place in self._weighing.counted:
            free = nodes.part(self.tracker.free(place, prod=prod))
            left[place] = free - weight.estimate[place]
            divisors[place] = nodes.part(self.tracker.divisor(place))
        scores = usage_scores(self._weighing, left, divisors)
        if self._is_soft:
            beyond = np.zeros(nodes.size, dtype=np.bool_)
            for reason in self._usage_reasons(nodes, incoming, settled=None):
                beyond |= reason.rows
            scores = np.where(beyond, scores * _BEYOND // 100, _WITHIN + scores * _WITHIN // 100)
        known = nodes.part(self.tracker.updated) > cycle.now - self.expiration_s
        known &= nodes.part(self.tracker.measured)
        return scores if np.count_nonzero(known) == nodes.size else scores * known

    def reserve(self, _cycle: Cycle, _node: str, _incoming: Incoming) -> None:
        """Do nothing: the tracker counts the assumed pod itself."""

    def unreserve(self, _cycle: Cycle, _node: str, _incoming: Incoming) -> None:
        """Do nothing: the tracker removes the pod when its assumption ends."""

    def hint(self, change: Change, pod: Pod) -> bool:
        """Return whether the changed node has headroom for the pod now; for a report, also that it
        had none before.
        """
        weight = self._waiting.of(pod)
        if change.kind == KIND:
            # A report may arrive sooner after its expiry than its timestamp suggests.
            return self.tracker.last_report.may_help(weight, self.expiration_s / 2)
        if change.kind == "Node":
            return self.tracker.fits(change.node.metadata.name, weight)
        # A deleted pod may reduce the estimates; otherwise the waiting pod itself changed.
        return change.before is None or self.tracker.fits(change.before.node, weight)

    def figures(self, cycle: Cycle, node: str) -> tuple[str, ...]:
        """Return the load figures of a node, for `explain`."""
        tracker = self.tracker
        metric = self.handle.objects(KIND).get(node)
        source = "" if metric is None else metric.metadata.annotations.get(SOURCE_ANNOTATION, "")
        load, limits = tracker.load(node), tracker.limits(node)
        return tuple(figures(self.settings, load, limits, cycle.now, source))

    def ages_s(self, now: float) -> Iterator[tuple[str, float]]:
        """Yield each node that has a report with the age of its figures in seconds."""
        for name, row in self.tracker.rows():
            yield name, now - float(self.tracker.updated[row])

    def _weigh_waiting(self, pod: Pod) -> Weight:
        weight = weigh(pod, self.settings)
        if self.settings.estimates_in_filter:
            return weight
        return msgspec.structs.replace(weight, estimate=self.settings.nothing)

    def _stale(self, cycle: Cycle, nodes: Nodes, incoming: Incoming) -> BoolColumn | None:
        """Return the nodes with thresholds whose report has expired, or None."""
        old = nodes.part(self.tracker.updated) <= cycle.now - self.expiration_s
        # A node with any threshold also has one for production pods.
        old &= nodes.part(self.tracker.checked(prod=True))
        if nodes.amounts_touched is not None:  # all of the live cluster
            self._warn(cycle, nodes, old)
        if not np.count_nonzero(old):
            return None
        stale = old & nodes.part(self.tracker.checked(prod=incoming.weight.is_prod))
        return stale if np.count_nonzero(stale) else None

    def _warn(self, cycle: Cycle, nodes: Nodes, old: BoolColumn) -> None:
        """Emit an event for a node without recent reports, once until it reports again; a few nodes
        per decision.
        """
        if not np.count_nonzero(old):
            self._warned = _NO_ROWS
            return
        warned = self._warned
        if len(warned) != nodes.size:
            warned = np.zeros(nodes.size, dtype=np.bool_)
            warned[: len(self._warned)] = self._warned[: nodes.size]
        self._warned = warned & old
        for row in np.flatnonzero(old & ~warned)[:_MOST_WARNINGS].tolist():
            self._warned[row] = True
            text = silence(float(self.tracker.updated[row]), cycle.now)
            self.handle.node_warning(
                nodes.name(row), cycle.profile, reasons.NODE_METRIC_EXPIRED, text
            )

    def _usage_reasons(
        self, nodes: Nodes, incoming: Incoming, *, settled: BoolColumn | None
    ) -> Iterator[Reason]:
        """Yield, per resource in order of name, the nodes whose first broken threshold it is."""
        weight = incoming.weight
        for place, name in enumerate(self.settings.resources):
            headroom = nodes.part(self.tracker.headroom(place, prod=weight.is_prod))
            adds = weight.estimate[place] if self.settings.estimates_in_filter else 0
            broken = headroom <= adds
            if not np.count_nonzero(broken):
                continue
            if settled is not None:
                broken &= ~settled
            settled = broken if settled is None else settled | broken
            aggregated = nodes.part(self.tracker.aggregated(prod=weight.is_prod))
            for rows, text in (
                (broken & ~aggregated, REASON_USAGE),
                (broken & aggregated, REASON_AGGREGATED),
            ):
                if np.count_nonzero(rows):
                    yield Reason(rows, text.format(name))


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
