"""`NodeLimits`: the divisors of a node's percentages, and its thresholds.

Both come from the node and its annotations. A threshold is converted to the smallest usage that
exceeds it, so that filtering needs no division.
"""

import msgspec

from scheduler.base.errors import ObjectError
from scheduler.framework import Duration, Node
from scheduler.objects.pod import ResourceList
from scheduler.objects.quantity import resource_amount
from scheduler.plugins.loadaware.args import Percents
from scheduler.plugins.loadaware.settings import Percentile, Settings, Vector, percentile

# Hundred times as much still fits into an int64.
LARGEST_OFFER = 2**56
# No usage comes near it, and subtractions from it stay far from the ends of an int64.
UNLIMITED = 2**61

# Beyond these, floating point is coarser than whole units and following it step by step takes long.
_LARGEST_EXACT, _HIGHEST_EXACT = 2**48, 1000


class _Custom(msgspec.Struct, frozen=True, rename="camel"):
    usage_thresholds: Percents | None = None
    usage_aggregation_type: str = ""
    usage_aggregated_duration: Duration = ""


class CustomThresholds(msgspec.Struct, frozen=True, rename="camel"):
    """The annotation of a node: each of its maps replaces the whole map of the arguments."""

    usage_thresholds: Percents | None = None
    prod_usage_thresholds: Percents | None = None
    aggregated_usage: _Custom | None = None


class NodeLimits(msgspec.Struct, frozen=True):
    """The thresholds of one node.

    `percentile` is the usage of the node that is compared with `node_breaks`; None: the average.
    The vectors `…_breaks` are the smallest usage that is too high; None if it is not checked.
    """

    allocatable: Vector
    percentile: Percentile | None
    node_breaks: Vector | None
    prod_breaks: Vector | None


_custom: msgspec.json.Decoder[CustomThresholds] = msgspec.json.Decoder(CustomThresholds)
_resources: msgspec.json.Decoder[ResourceList] = msgspec.json.Decoder(ResourceList)


def node_limits(node: Node, settings: Settings) -> NodeLimits:
    """Return the limits of a node; unreadable annotations have no effect."""
    offered = divisor(node, settings)
    plain, prod = settings.usage_thresholds, settings.prod_thresholds
    by, thresholds = settings.filter_percentile, settings.percentile_thresholds
    custom = _read_custom(node)
    if custom is not None:
        if custom.usage_thresholds:
            plain = settings.vector(custom.usage_thresholds)
        if custom.prod_usage_thresholds:
            prod = settings.vector(custom.prod_usage_thresholds)
        own = custom.aggregated_usage
        if own is not None and own.usage_thresholds and own.usage_aggregation_type:
            by = percentile(own.usage_aggregation_type, own.usage_aggregated_duration)
            thresholds = settings.vector(own.usage_thresholds)
    return NodeLimits(
        allocatable=offered,
        percentile=by,
        node_breaks=_breaks(offered, plain if by is None else thresholds),
        prod_breaks=_breaks(offered, prod),
    )


def divisor(node: Node, settings: Settings) -> Vector:
    """Return the base of percentages: the raw-allocatable annotation, where given, else
    allocatable.
    """
    raw: ResourceList = {}
    text = node.metadata.annotations.raw_allocatable
    if text:
        try:
            raw = _resources.decode(text)
            _amounts(raw, tuple(raw))
        except (msgspec.MsgspecError, RecursionError, ObjectError):
            raw = {}
    try:
        return _amounts({**node.status.allocatable, **raw}, settings.resources)
    except ObjectError:
        return settings.nothing


def smallest_breaking(offered: int, threshold: int) -> int:
    """Return the least usage whose rounded percentage of `offered` is above `threshold`.

    Koordinator divides in floating point and rounds halves up: at 65 %, 65.4 % passes.
    """
    if offered <= 0 or threshold == 0:
        return UNLIMITED
    found = -(-(2 * threshold + 1) * offered // 200)
    if offered > _LARGEST_EXACT or threshold > _HIGHEST_EXACT:
        return max(min(found, UNLIMITED), 0)
    bound = threshold + 0.5
    while found > 0 and (found - 1) / offered * 100 >= bound:
        found -= 1
    while found / offered * 100 < bound:
        found += 1
    return max(min(found, UNLIMITED), 0)


def _breaks(offered: Vector, thresholds: Vector) -> Vector | None:
    if not any(thresholds):
        return None
    return tuple(map(smallest_breaking, offered, thresholds))


def _amounts(amounts: ResourceList, names: tuple[str, ...]) -> Vector:
    return tuple(
        max(0, min(resource_amount(name, amounts[name]), LARGEST_OFFER)) if name in amounts else 0
        for name in names
    )


def _read_custom(node: Node) -> CustomThresholds | None:
    text = node.metadata.annotations.usage_thresholds
    if not text:
        return None
    try:
        return _custom.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return None
