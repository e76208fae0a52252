"""`Settings`: the arguments that determine the accounting, as one hashable value.

Profiles with equal settings share one tracker. A vector of amounts has one entry per name of
`resources`, in that order: cpu in milli, everything else in whole units.
"""

import msgspec

from scheduler.framework import seconds
from scheduler.plugins.loadaware.args import LoadAwareSchedulingArgs, effective

Pairs = tuple[tuple[str, int], ...]
Vector = tuple[int, ...]


class Percentile(msgspec.Struct, frozen=True):
    """A type (avg, p50, p90, p95, p99) over a window; 0 s is the longest window with data."""

    type: str
    duration_s: float = 0.0


class Settings(msgspec.Struct, frozen=True):
    """The weights for reports and pods; a vector of thresholds has 0 for a missing one."""

    resources: tuple[str, ...]
    factors: Pairs
    usage_thresholds: Vector
    prod_thresholds: Vector
    filter_percentile: Percentile | None = None
    percentile_thresholds: Vector = ()
    score_percentile: Percentile | None = None
    seconds_after_scheduled: int = 0
    seconds_after_initialized: int = 0
    customizable: bool = False
    prod_includes_system: bool = False
    scores_prod: bool = False
    estimates_in_filter: bool = True

    @property
    def nothing(self) -> Vector:
        """Return the vector of zeros."""
        return (0,) * len(self.resources)

    def vector(self, amounts: dict[str, int]) -> Vector:
        """Return amounts by name as a vector; other names are left out."""
        return tuple(amounts.get(name, 0) for name in self.resources)


def settings_of(given: LoadAwareSchedulingArgs) -> Settings:
    """Return the settings of load accounting in the arguments."""
    args = effective(given)
    aggregated = args.aggregated
    maps = [
        args.usage_thresholds,
        args.prod_usage_thresholds,
        args.resource_weights,
        args.estimated_scaling_factors,
    ]
    if aggregated is not None:
        maps.append(aggregated.usage_thresholds)
    names = {"cpu", "memory", *args.supported_resources}.union(*maps)
    bare = Settings(
        resources=tuple(sorted(names)),
        factors=tuple(sorted(args.estimated_scaling_factors.items())),
        usage_thresholds=(),
        prod_thresholds=(),
        seconds_after_scheduled=args.estimated_seconds_after_pod_scheduled or 0,
        seconds_after_initialized=args.estimated_seconds_after_initialized or 0,
        customizable=args.allow_customize_estimation,
        prod_includes_system=args.prod_usage_include_sys,
        scores_prod=args.score_according_prod_usage,
        estimates_in_filter=args.estimate_in_filter,
    )
    filled = msgspec.structs.replace(
        bare,
        usage_thresholds=bare.vector(args.usage_thresholds),
        prod_thresholds=bare.vector(args.prod_usage_thresholds),
    )
    if aggregated is None:
        return filled
    by_usage = percentile(aggregated.usage_aggregation_type, aggregated.usage_aggregated_duration)
    return msgspec.structs.replace(
        filled,
        filter_percentile=by_usage if aggregated.usage_thresholds else None,
        percentile_thresholds=bare.vector(aggregated.usage_thresholds),
        score_percentile=percentile(
            aggregated.score_aggregation_type, aggregated.score_aggregated_duration
        ),
    )


def percentile(kind: str, duration: str) -> Percentile | None:
    """Return the percentile of a type and a Go duration; None without a type."""
    return Percentile(kind, max(seconds(duration), 0.0)) if kind else None
