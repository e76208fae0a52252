"""What the status of a NetworkTopology has to say: the rules, without clock and I/O.

The operator calls `status_of` for every object when the object or the number of nodes has changed,
and sends what `merge_patch` returns. Both are total: whatever the API server lets through has an
answer here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from itertools import islice
from typing import Any

import msgspec

from operators.networktopology.checks import doubts
from scheduler.objects.meta import Condition
from scheduler.objects.network import NetworkTopologySpec, NetworkTopologyStatus, Weights

READY, MEASURED, CONSISTENT = "Ready", "Measured", "Consistent"
MOST_DOUBTS = 1000
SHOWN = 3  # doubtful ways that a message names before it only counts them

Way = tuple[str, str, str, str]


class Observed(msgspec.Struct, frozen=True):
    """What the status depends on besides the spec; times are RFC 3339 in whole seconds.

    `measured` is the table of measured costs and `measured_at` when its figures were fetched; `fault`
    says what is wrong with the source since then, `source` what it is called ("" without one).
    """

    node_count: int
    generation: int
    previous: NetworkTopologyStatus
    now: str
    measured: Weights | None = None
    measured_at: str = ""
    source: str = ""
    fault: str = ""
    unmeasured: int = 0
    # The values that nodes have, by label; a label that is left out is not checked.
    values: Mapping[str, Collection[str]] = {}


def status_of(spec: NetworkTopologySpec, observed: Observed) -> NetworkTopologyStatus:
    """Return the status that should stand there; what others wrote into it stays."""
    previous = observed.previous
    weights, calculated = previous.weights, previous.weight_calculation_time
    if observed.measured is not None:
        name = observed.measured.name
        others = tuple(table for table in weights if table.name != name)
        if observed.measured not in weights or calculated is None:
            calculated = observed.measured_at
        weights = (*others, observed.measured)
    conditions = _with(previous.conditions, _ready(spec, observed, weights))
    if observed.source:
        conditions = _with(conditions, _measured(observed))
    conditions = _with_doubts(conditions, spec, observed)
    return msgspec.structs.replace(
        previous,
        node_count=observed.node_count,
        observed_generation=observed.generation,
        weights=weights,
        weight_calculation_time=calculated,
        conditions=conditions,
    )


def merge_patch(
    previous: NetworkTopologyStatus, wanted: NetworkTopologyStatus, *, legacy: bool = False
) -> dict[str, Any]:
    """Return the fields of status that have to be written, empty when there is nothing to do.

    `legacy` is for a definition without status subresource: it knows `nodeCount` only, and there
    every write counts as a new generation, so that observedGeneration would chase itself.
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
    if previous.weight_calculation_time != wanted.weight_calculation_time:
        patch["weightCalculationTime"] = wanted.weight_calculation_time
    if previous.conditions != wanted.conditions:
        patch["conditions"] = [_document(one) for one in wanted.conditions]
    return patch


def doubtful_ways(spec: NetworkTopologySpec) -> list[Way]:
    """Return (table, topology key, origin, destination) of what is listed twice, in file order."""
    ways: Counter[Way] = Counter(
        (table.name, costs.topology_key, origin.origin, cost.destination)
        for table in spec.weights
        for costs in table.topology_list
        for origin in costs.origin_list
        for cost in origin.cost_list
    )
    return [way for way, times in ways.items() if times > 1]


def _measured(observed: Observed) -> Condition:
    """Return whether the measurements are fresh; an old answer stays in use while a source is silent."""
    if observed.fault:
        last = f"; the costs of {observed.measured_at} stay in use" if observed.measured else ""
        holds, reason, message = "False", "SourceFailed", f"{observed.fault}{last}"
    elif observed.measured is None or not observed.measured.levels:
        holds, reason = "False", "NothingMeasured"
        message = f"{observed.source} knows no latency between nodes of this cluster"
    else:
        holds, reason = "True", "Measured"
        message = f"from {observed.source}"
        if observed.unmeasured:
            message += f"; {observed.unmeasured} figures could not be used"
    return _condition_of(observed, MEASURED, holds, reason, message)


def _condition_of(
    observed: Observed, type_: str, holds: str, reason: str, message: str
) -> Condition:
    before = _condition(observed.previous.conditions, type_)
    unchanged = before is not None and before.status == holds and before.last_transition_time
    return Condition(
        type=type_,
        status=holds,
        observed_generation=observed.generation,
        last_transition_time=unchanged or observed.now,
        reason=reason,
        message=message,
    )


def _ready(
    spec: NetworkTopologySpec, observed: Observed, weights: tuple[Weights, ...]
) -> Condition:
    doubtful = doubtful_ways(spec)
    if doubtful:
        holds, reason, message = "False", "ListedTwice", _told(doubtful)
    elif not spec.weights and not weights:
        holds, reason = "False", "NoCosts"
        message = "there is no table of costs, neither in spec.weights nor in status.weights"
    else:
        holds, reason, message = "True", "Observed", "every way has at most one cost"
    return _condition_of(observed, READY, holds, reason, message)


def _with_doubts(
    conditions: tuple[Condition, ...], spec: NetworkTopologySpec, observed: Observed
) -> tuple[Condition, ...]:
    """Say what is doubtful about the user's costs, and that it is no longer; else say nothing."""
    found = list(islice(doubts(spec, observed.values), MOST_DOUBTS))
    before = _condition(conditions, CONSISTENT)
    if not found and before is None:
        return conditions
    holds, reason, message = "True", "NothingDoubtful", "the listed costs mean what they say"
    if found:
        more = len(found) - SHOWN
        rest = f"; and {more} more" if more > 0 else ""
        holds, reason, message = "False", "Doubtful", "; ".join(found[:SHOWN]) + rest
    since = before.last_transition_time if before is not None and before.status == holds else ""
    new = Condition(CONSISTENT, holds, observed.generation, since or observed.now, reason, message)
    return _with(conditions, new)


def _told(doubtful: list[Way]) -> str:
    named = "; ".join(
        f'{table}, {key}: "{origin}" to "{destination}"'
        for table, key, origin, destination in doubtful[:SHOWN]
    )
    more = len(doubtful) - SHOWN
    rest = f"; and {more} more" if more > 0 else ""
    return f"listed more than once, so that the cost is in doubt: {named}{rest}"


def _with(conditions: tuple[Condition, ...], new: Condition) -> tuple[Condition, ...]:
    """Put a condition where the one of its type stands, else at the end."""
    if _condition(conditions, new.type) is None:
        return (*conditions, new)
    return tuple(new if one.type == new.type else one for one in conditions)


def _condition(conditions: tuple[Condition, ...], type_: str) -> Condition | None:
    return next((one for one in conditions if one.type == type_), None)


def _document(condition: Condition) -> dict[str, Any]:
    """Write a condition out in full: the schema wants a reason and a message even when empty."""
    document: dict[str, Any] = {
        "type": condition.type,
        "status": condition.status,
        "lastTransitionTime": condition.last_transition_time,
        "reason": condition.reason,
        "message": condition.message,
    }
    if condition.observed_generation:
        document["observedGeneration"] = condition.observed_generation
    return document
