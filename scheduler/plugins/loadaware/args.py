"""The arguments of LoadAwareScheduling: fields, defaults and validation.

Field names and defaults are Koordinator's (config API v1); `estimateInFilter`, `scoringStrategy`
and `thresholds` are ours. `effective` gives the values that count, `range_faults` judges values as
given.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated

import msgspec

from scheduler.framework import Args, Duration, seconds

LEAST, MOST = "LeastUsed", "MostUsed"
HARD, SOFT = "Hard", "Soft"
AGGREGATIONS = ("avg", "p50", "p90", "p95", "p99")

DEFAULT_WEIGHTS: Mapping[str, int] = {"cpu": 1, "memory": 1}
DEFAULT_THRESHOLDS: Mapping[str, int] = {"cpu": 65, "memory": 95}
DEFAULT_FACTORS: Mapping[str, int] = {"cpu": 85, "memory": 70}
DEFAULT_EXPIRATION_S = 180

Amount = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Percents = dict[str, Amount]
Fault = tuple[str, str]


class Aggregated(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True
):
    """Percentiles instead of averages, for thresholds and for scores."""

    usage_thresholds: Percents = {}
    usage_aggregation_type: str = ""
    usage_aggregated_duration: Duration = ""
    score_aggregation_type: str = ""
    score_aggregated_duration: Duration = ""


class LoadAwareSchedulingArgs(Args):
    """The thresholds of load, the maximum age of figures, the estimated use of pods, and the
    scoring.
    """

    filter_expired_node_metrics: bool | None = None
    node_metric_expiration_seconds: Amount | None = None
    enable_schedule_when_node_metrics_expired: bool | None = None
    resource_weights: Percents = msgspec.field(default_factory=dict)
    dominant_resource_weight: Amount = 0
    usage_thresholds: Percents = msgspec.field(default_factory=dict)
    prod_usage_thresholds: Percents = msgspec.field(default_factory=dict)
    prod_usage_include_sys: bool = False
    score_according_prod_usage: bool = False
    estimator: str = ""
    estimated_scaling_factors: Percents = msgspec.field(default_factory=dict)
    estimated_seconds_after_pod_scheduled: Amount | None = None
    estimated_seconds_after_initialized: Amount | None = None
    allow_customize_estimation: bool = False
    aggregated: Aggregated | None = None
    supported_resources: tuple[str, ...] = ()
    estimate_in_filter: bool = True
    scoring_strategy: str = LEAST
    thresholds: str = HARD

    def validate(self) -> Iterator[Fault]:
        """Yield the rules that the arguments violate, after defaults are filled in."""
        yield from range_faults(effective(self))


def effective(args: LoadAwareSchedulingArgs) -> LoadAwareSchedulingArgs:
    """Return the arguments with all defaults."""
    expiration = args.node_metric_expiration_seconds
    weights = args.resource_weights
    if not weights and not args.dominant_resource_weight:
        weights = dict(DEFAULT_WEIGHTS)
    return msgspec.structs.replace(
        args,
        filter_expired_node_metrics=args.filter_expired_node_metrics is not False,
        node_metric_expiration_seconds=DEFAULT_EXPIRATION_S if expiration is None else expiration,
        enable_schedule_when_node_metrics_expired=bool(
            args.enable_schedule_when_node_metrics_expired
        ),
        resource_weights=weights,
        usage_thresholds=args.usage_thresholds or dict(DEFAULT_THRESHOLDS),
        estimated_scaling_factors={**DEFAULT_FACTORS, **args.estimated_scaling_factors},
    )


def range_faults(args: LoadAwareSchedulingArgs) -> Iterator[Fault]:
    """Yield (field, message) for each value that is out of range; sets no default."""
    expiration = args.node_metric_expiration_seconds
    if expiration is not None and expiration <= 0:
        yield (
            "nodeMetricExpirationSeconds",
            f"Invalid value: {expiration}: nodeMetricExpiredSeconds should be a positive value",
        )
    yield from _outside("resourceWeights", args.resource_weights, 1)
    if not 0 <= args.dominant_resource_weight <= 100:
        text = "not in valid range [0, 100]"
        yield "dominantResourceWeight", f"Invalid value: {args.dominant_resource_weight}: {text}"
    yield from _outside("usageThresholds", args.usage_thresholds, 0)
    yield from _outside("estimatedScalingFactors", args.estimated_scaling_factors, 1)
    for name in args.resource_weights:
        if name not in args.estimated_scaling_factors:
            yield f"resourceWeights.{name}", "Not found: it has no entry in estimatedScalingFactors"
    if args.aggregated is not None:
        yield from _aggregated_faults(args.aggregated)
    yield from _choice("scoringStrategy", args.scoring_strategy, (LEAST, MOST))
    yield from _choice("thresholds", args.thresholds, (HARD, SOFT))


def _outside(field: str, values: Percents, least: int) -> Iterator[Fault]:
    for name, value in values.items():
        if not least <= value <= 100:
            text = f"Invalid value: {value}: not in valid range [{least}, 100]"
            yield f"{field}.{name}", text


def _aggregated_faults(given: Aggregated) -> Iterator[Fault]:
    yield from _outside("aggregated.usageThresholds", given.usage_thresholds, 0)
    for field, kind in (
        ("usageAggregationType", given.usage_aggregation_type),
        ("scoreAggregationType", given.score_aggregation_type),
    ):
        yield from _choice(f"aggregated.{field}", kind, ("", *AGGREGATIONS))
    for field, duration in (
        ("usageAggregatedDuration", given.usage_aggregated_duration),
        ("scoreAggregatedDuration", given.score_aggregated_duration),
    ):
        if seconds(duration) < 0:
            text = f'Invalid value: "{duration}": should be a positive value'
            yield f"aggregated.{field}", text


def _choice(field: str, value: str, known: tuple[str, ...]) -> Iterator[Fault]:
    if value not in known:
        names = ", ".join(f'"{name}"' for name in known if name)
        yield field, f'Unsupported value: "{value}": supported values: {names}'
