"""CheckRiskNodeBandwidth and LoadVariationRiskBalancing: the risk model as a filter and as a
score.

risk = (mu + sigma) / 2, where mu is the average use plus the pod's request, sigma the deviation,
both as shares of capacity between 0 and 1; sigma is raised to 1/sensitivity and multiplied by
margin. Plain arithmetic over columns, in the order of operations of scheduler-plugins, so that
results agree to the last bit.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from scheduler.framework import (
    Args,
    BoolColumn,
    Cycle,
    FloatColumn,
    Handle,
    IntColumn,
    Nodes,
    Plugin,
    Reason,
    Rejected,
)
from scheduler.objects.meta import Object
from scheduler.objects.network import BANDWIDTH
from scheduler.plugins.network.bandwidth import usage

PROVIDERS = ("KubernetesMetricsServer", "Prometheus")
_BITS_PER_BYTE = 8
_MEGA = 1.0 / 1024.0 / 1024.0
MAX_SCORE = 100


class WatcherProvider(Object, frozen=True):
    """The provider that the daemon polls: KubernetesMetricsServer (also when absent) or Prometheus.

    A `token` is refused: configurations are shown by /configz and stored in decision logs.
    `token_file` names the file that contains it.
    """

    type: str = ""
    address: str = ""
    token: str = ""
    token_file: str = ""
    insecure_skip_verify: bool = False


class RiskArgs(Args):
    """`safe_variance_margin` multiplies the deviation, `safe_variance_sensitivity` is its root
    power.

    Figures come from load-watcher at `watcher_address`, else from the `metric_provider`.
    """

    safe_variance_margin: float = 1.0
    safe_variance_sensitivity: float = 1.0
    watcher_address: str = ""
    metric_provider: WatcherProvider | None = None

    def validate(self) -> Iterator[tuple[str, str]]:
        """Yield the mistakes."""
        provider = self.metric_provider
        if provider is None:
            return
        if provider.type and provider.type not in PROVIDERS:
            yield "metricProvider.type", f"must be one of {', '.join(PROVIDERS)}"
        elif provider.type == PROVIDERS[1] and not provider.address:
            yield "metricProvider.address", "must say where Prometheus is"
        if provider.token:
            text = "is not allowed here: mount a Secret and name its file in tokenFile"
            yield "metricProvider.token", text


class LoadVariationRiskBalancingArgs(RiskArgs):
    """As in scheduler-plugins: a negative margin or sensitivity counts as 1."""

    def __post_init__(self) -> None:
        if self.safe_variance_margin < 0:
            self.safe_variance_margin = 1.0
        if self.safe_variance_sensitivity < 0:
            self.safe_variance_sensitivity = 1.0


class CheckRiskNodeBandwidthArgs(RiskArgs):
    """Nodes with a risk above `risk_threshold` (0 to 1) are rejected."""

    safe_variance_sensitivity: float = 2.0
    risk_threshold: float = 0.75

    def validate(self) -> Iterator[tuple[str, str]]:
        """Yield the mistakes."""
        yield from super().validate()
        if not 0 <= self.risk_threshold <= 1:
            yield "riskThreshold", "must be between 0 and 1"
        if self.safe_variance_margin < 0:
            yield "safeVarianceMargin", "must not be negative"
        if self.safe_variance_sensitivity < 0:
            yield "safeVarianceSensitivity", "must not be negative"


class CheckRiskNodeBandwidth(Plugin[CheckRiskNodeBandwidthArgs]):
    """Reject nodes whose link would probably be too busy with the pod on them.

    The measured use is that of the busier direction; without figures, the requests of placed pods
    count. Nodes that advertise no bandwidth are never rejected.
    """

    reads = ("node", "node.allocatable", "pod.deleted", "pod.requests", "WatcherMetrics")
    local = True

    def __init__(self, args: CheckRiskNodeBandwidthArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._usage = handle.tracker(usage.UsageTracker)

    def filter(self, cycle: Cycle, nodes: Nodes) -> Rejected | None:
        """Reject where the risk is above the threshold."""
        capacity = nodes.allocatable(BANDWIDTH)
        has_any = capacity > 0
        if not has_any.any():
            return None
        average, deviation = self._use(nodes)
        use = NodeUse(
            capacity.astype(np.float64),
            float(cycle.shape.requests.get(BANDWIDTH, 0)),
            average,
            deviation,
        )
        risk = risk_of(use, self.args.safe_variance_margin, self.args.safe_variance_sensitivity)
        rows: BoolColumn = has_any & (risk > self.args.risk_threshold)
        if not rows.any():
            return None
        limit = f"above {self.args.risk_threshold:g}"
        text = f"node(s) would be at risk of more traffic than their link carries: {limit}"
        return Rejected(rows, np.zeros_like(rows), (Reason(rows, text),))

    def _use(self, nodes: Nodes) -> tuple[FloatColumn, FloatColumn]:
        """Return average and deviation in bit/s of the busier direction, or the requested
        bandwidth.
        """
        average = nodes.requested(BANDWIDTH).astype(np.float64)
        deviation = np.zeros(nodes.size)
        measured = np.full(nodes.size, -np.inf)
        for direction in (usage.TRANSMIT, usage.RECEIVE):
            mean = self._figure(nodes, direction, usage.AVERAGE) * _BITS_PER_BYTE / usage.PERCENT
            busier = mean > measured  # False where it is not known
            measured[busier] = average[busier] = mean[busier]
            spread = (
                np.nan_to_num(self._figure(nodes, direction, usage.DEVIATION))
                * _BITS_PER_BYTE
                / usage.PERCENT
            )
            deviation[busier] = spread[busier]
        return average, deviation

    def _figure(self, nodes: Nodes, what: str, kind: str) -> FloatColumn:
        return nodes.part(self._usage.figure(what, kind))[: nodes.size]


class LoadVariationRiskBalancing(Plugin[LoadVariationRiskBalancingArgs]):
    """Prefer nodes where the use of CPU and memory is low and steady; the worse of the two
    counts.
    """

    reads = ("node", "node.allocatable", "WatcherMetrics")

    def __init__(self, args: LoadVariationRiskBalancingArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._usage = handle.tracker(usage.UsageTracker)

    def score(self, cycle: Cycle, nodes: Nodes) -> IntColumn:
        """Return 100 for no risk at all; 0 for nodes without figures."""
        if not self._usage.figures():
            return nodes.constant(0)
        requests = cycle.shape.requests
        scores = np.full(nodes.size, np.inf)
        for what, unit in ((usage.CPU, 1.0), (usage.MEMORY, _MEGA)):
            mean = nodes.part(self._usage.figure(what, usage.AVERAGE))[: nodes.size]
            spread = nodes.part(self._usage.figure(what, usage.DEVIATION))[: nodes.size]
            capacity: FloatColumn = nodes.allocatable(what).astype(np.float64) * unit
            use = NodeUse(
                capacity,
                requests.get(what, 0) * unit,
                np.nan_to_num(mean) * capacity / usage.PERCENT,
                np.nan_to_num(spread) * capacity / usage.PERCENT,
            )
            score = unrounded_score(
                use, self.args.safe_variance_margin, self.args.safe_variance_sensitivity
            )
            known = ~(np.isnan(mean) & np.isnan(spread))
            scores = np.where(known, np.minimum(scores, score), scores)
        return rounded(np.where(np.isinf(scores), 0.0, scores))


class NodeUse(NamedTuple):
    """One resource per node in one unit: capacity, the pod's request, and use."""

    capacity: FloatColumn
    request: float
    average: FloatColumn
    deviation: FloatColumn


def risk_of(use: NodeUse, margin: float, sensitivity: float) -> FloatColumn:
    """Return the risk per node between 0 and 1; 1 where there is no capacity."""
    has_any = use.capacity > 0
    capacity = np.where(has_any, use.capacity, 1.0)
    average = np.clip(use.average, 0.0, capacity)
    deviation = np.clip(use.deviation, 0.0, capacity)
    mu = np.clip((average + max(use.request, 0.0)) / capacity, 0.0, 1.0)
    sigma = np.clip(deviation / capacity, 0.0, 1.0)
    if sensitivity == 0:
        sigma = np.where(sigma == 1.0, 1.0, 0.0)  # the infinite power
    elif sensitivity > 0:
        sigma = np.power(sigma, 1.0 / sensitivity)
    sigma = np.clip(sigma * margin, 0.0, 1.0)
    risk: FloatColumn = np.where(has_any, (mu + sigma) / 2.0, 1.0)
    return risk


def unrounded_score(use: NodeUse, margin: float, sensitivity: float) -> FloatColumn:
    """Return the score 0 to 100, lower for a higher risk; 0 without capacity."""
    score = (1.0 - risk_of(use, margin, sensitivity)) * MAX_SCORE
    result: FloatColumn = np.where(use.capacity > 0, score, 0.0)
    return result


def rounded(scores: FloatColumn) -> IntColumn:
    """Round half away from zero, as Go's math.Round does (scores are never negative)."""
    # Adding 0.5 would turn the largest number below one half into 1.
    whole = np.floor(scores)
    column: IntColumn = (whole + (scores - whole >= 0.5)).astype(np.int64)
    return column
