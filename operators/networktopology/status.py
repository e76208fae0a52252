"""The status of a NetworkTopology as a function of its inputs, without clock and I/O.

The operator calls `status_of` for every object when the object or the number of nodes has changed,
and sends the result of `merge_patch`. Both are total: they accept every object that the API server
stores.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from itertools import islice
from typing import Any

import msgspec

from operators.conditions import condition_of, document, listed, with_condition
from operators.networktopology.allocated import (
    LabelLink,
    has_capacities,
    is_links_only,
    links_of,
    with_bookings,
    with_capacities,
    with_statistics,
)
from operators.networktopology.checks import doubts
from operators.networktopology.measured import Calculated
from scheduler.objects.meta import Condition
from scheduler.objects.network import (
    NETPERF_COSTS,
    NetworkTopologySpec,
    NetworkTopologyStatus,
    Weights,
)

READY, MEASURED, CONSISTENT = "Ready", "Measured", "Consistent"
OUR_REASONS = {"Measured", "SourceFailed", "NothingMeasured", "Expired"}
MOST_DOUBTS = 1000

PathKey = tuple[str, str, str, str]


class ObservedTopology(msgspec.Struct, frozen=True):
    """The inputs of the status besides the spec; times are RFC 3339 in whole seconds.

    `measured` are the costs from the figures of `measured_at`, unless these have `expired`; `fault`
    is the error of the source since then, `source` its name ('' without one), `refused` are its
    unusable figures.
    """

    node_count: int
    generation: int
    previous: NetworkTopologyStatus
    now: str
    measured: Calculated | None = None
    measured_at: str = ""
    source: str = ""
    fault: str = ""
    refused: tuple[str, ...] = ()
    expired: bool = False
    bookings: Mapping[LabelLink, int] = {}
    # The existing values by label; a label that is left out is not checked.
    values: Mapping[str, Collection[str]] = {}


def status_of(spec: NetworkTopologySpec, observed: ObservedTopology) -> NetworkTopologyStatus:
    """Return the desired status; fields of other writers are kept."""
    previous = observed.previous
    before = condition_of(previous.conditions, MEASURED)
    is_ours = before is not None and before.reason in OUR_REASONS
    edges, calculated = previous.edges, previous.weight_calculation_time
    kept = [table for table in previous.weights if not is_links_only(table)]
    if observed.measured is not None:
        edges, calculated = observed.measured.edges, observed.measured_at
        kept = [table for table in kept if table.name != NETPERF_COSTS]
        kept.append(with_statistics(with_capacities(observed.measured.table, spec.weights)))
    elif observed.expired or (is_ours and not observed.source):
        edges, calculated = (), None
        kept = [table for table in kept if table.name != NETPERF_COSTS]
    weights = _booked(spec, kept, observed.bookings)
    now = observed.now
    conditions = with_condition(previous.conditions, _ready(spec, observed, weights), now)
    if observed.source:
        conditions = with_condition(conditions, _measured(observed), now)
    elif is_ours:
        conditions = tuple(one for one in conditions if one.type != MEASURED)
    conditions = _with_doubts(conditions, spec, observed)
    return msgspec.structs.replace(
        previous,
        node_count=observed.node_count,
        observed_generation=observed.generation,
        weights=weights,
        edges=edges,
        weight_calculation_time=calculated,
        conditions=conditions,
    )


def _booked(
    spec: NetworkTopologySpec, kept: list[Weights], amounts: Mapping[LabelLink, int]
) -> tuple[Weights, ...]:
    """Return the tables of status with allocations: measured ones completely, users' as links
    only.
    """
    names = {table.name for table in kept}
    links = [
        links_of(with_statistics(table))
        for table in spec.weights
        if table.name not in names and has_capacities(table)
    ]
    return tuple(
        with_bookings(table, amounts) if has_capacities(table) else table
        for table in (*links, *kept)
    )


def merge_patch(
    previous: NetworkTopologyStatus, wanted: NetworkTopologyStatus, *, legacy: bool = False
) -> dict[str, Any]:
    """Return the changed fields of the status, empty without a change.

    `legacy` is for a definition without status subresource: its status has `nodeCount` only, and
    every write increments the generation, so observedGeneration would never match.
    """
    patch: dict[str, Any] = {}
    if previous.node_count != wanted.node_count:
        patch["nodeCount"] = wanted.node_count
    if legacy:
        return patch
    if previous.observed_generation != wanted.observed_generation:
        patch["observedGeneration"] = wanted.observed_generation
    if previous.weights != wanted.weights:
        patch["weights"] = msgspec.to_builtins(wanted.weights)
    if previous.edges != wanted.edges:
        patch["edges"] = msgspec.to_builtins(wanted.edges)
    if previous.weight_calculation_time != wanted.weight_calculation_time:
        patch["weightCalculationTime"] = wanted.weight_calculation_time
    if previous.conditions != wanted.conditions:
        patch["conditions"] = [document(one) for one in wanted.conditions]
    return patch


def doubtful_paths(spec: NetworkTopologySpec) -> list[PathKey]:
    """Return (table, topology key, origin, destination) of duplicates, in file order."""
    paths: Counter[PathKey] = Counter(
        (table.name, costs.topology_key, origin.origin, cost.destination)
        for table in spec.weights
        for costs in table.levels
        for origin in costs.origins
        for cost in origin.paths
    )
    return [path for path, times in paths.items() if times > 1]


def _measured(observed: ObservedTopology) -> Condition:
    """Return whether the measurements are fresh; an old response stays in use while a source is
    silent.
    """
    measured, since = observed.measured, observed.previous.weight_calculation_time
    before = condition_of(observed.previous.conditions, MEASURED)
    was_expired = before is not None and before.reason == "Expired"
    if observed.expired or (was_expired and measured is None):
        holds, reason = "False", "Expired"
        message = f"{observed.fault or observed.source}; the last costs were too old to stay"
    elif observed.fault:
        last = f"; the costs of {observed.measured_at or since} stay in use"
        holds, reason = "False", "SourceFailed"
        message = observed.fault + (last if measured or since else "")
    elif measured is None or (not measured.edges and not measured.paths):
        holds, reason = "False", "NothingMeasured"
        message = f"{observed.source} knows no latency between nodes of this cluster"
    else:
        holds, reason = "True", "Measured"
        message = f"from {observed.source}: {measured.paths} paths between {measured.nodes} nodes"
        if measured.left_out:
            message += f"; {measured.left_out} costs do not fit into this object"
    if observed.refused:
        message += f"; {len(observed.refused)} figures could not be used: {observed.refused[0]}"
    return Condition(MEASURED, holds, observed.generation, "", reason, message)


def _ready(
    spec: NetworkTopologySpec, observed: ObservedTopology, weights: tuple[Weights, ...]
) -> Condition:
    doubtful = doubtful_paths(spec)
    if doubtful:
        holds, reason, message = "False", "ListedTwice", _doubtful_message(doubtful)
    elif not spec.weights and not weights:
        holds, reason = "False", "NoCosts"
        message = "there is no table of costs, neither in spec.weights nor in status.weights"
    else:
        holds, reason, message = "True", "Observed", "every link has at most one cost"
    return Condition(READY, holds, observed.generation, "", reason, message)


def _with_doubts(
    conditions: tuple[Condition, ...], spec: NetworkTopologySpec, observed: ObservedTopology
) -> tuple[Condition, ...]:
    """Set the condition on doubtful costs, or clear it if there are none."""
    found = list(islice(doubts(spec, observed.values), MOST_DOUBTS))
    if not found and condition_of(conditions, CONSISTENT) is None:
        return conditions
    holds, reason, message = "True", "NothingDoubtful", "the listed costs mean what they say"
    if found:
        holds, reason, message = "False", "Doubtful", listed(found)
    new = Condition(CONSISTENT, holds, observed.generation, "", reason, message)
    return with_condition(conditions, new, observed.now)


def _doubtful_message(doubtful: list[PathKey]) -> str:
    named = [
        f'{table}, {key}: "{origin}" to "{destination}"'
        for table, key, origin, destination in doubtful
    ]
    return f"spec.weights: listed more than once, so that the cost is in doubt: {listed(named)}"
