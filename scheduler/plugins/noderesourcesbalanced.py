"""NodeResourcesBalancedAllocation: prefer nodes whose utilization the pod balances.

Utilization is balanced when the same share of each resource is allocated. The score compares the
node with and without the pod: 75 is neutral, a higher score means better balance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from scheduler.framework import (
    SKIP,
    Args,
    BoolColumn,
    Cycle,
    FloatColumn,
    Handle,
    IntColumn,
    IntMatrix,
    Nodes,
    PerSpec,
    Plugin,
    Pod,
    Status,
)
from scheduler.plugins.allocation import DEFAULT_RESOURCES, ResourceSpec
from scheduler.state.resources import CPU, EPHEMERAL, MEMORY, is_counted, pod_requests

_ALWAYS_COUNTED = (CPU, MEMORY, EPHEMERAL)

# Allocatable and allocated amounts of a resource by row, and the pod's request.
_Amounts = tuple[Callable[[int], int], Callable[[int], int], int]
# (resource, amount) for each listed resource that counts for the pod.
Requested = tuple[tuple[str, int], ...]


class NodeResourcesBalancedAllocationArgs(Args):
    """The resources whose utilization is balanced, with equal weights."""

    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES

    @property
    def counted(self) -> tuple[ResourceSpec, ...]:
        """Return the resources that count; none listed means cpu and memory."""
        return self.resources or DEFAULT_RESOURCES

    def validate(self) -> Iterator[tuple[str, str]]:
        """Yield the values that kube-scheduler rejects."""
        seen: set[str] = set()
        for index, spec in enumerate(self.counted):
            if spec.name in seen:
                yield f"resources[{index}].name", f'Duplicate value: "{spec.name}"'
            seen.add(spec.name)
            if spec.share != 1:
                yield f"resources[{index}].weight", f"Invalid value: {spec.weight}: must be 1"


class NodeResourcesBalancedAllocation(Plugin[NodeResourcesBalancedAllocationArgs]):
    """Score 0..100 by how much the pod improves the balance of a node's resources."""

    reads = ("node.allocatable", "pod.added", "pod.deleted", "pod.requests")
    local = True

    def __init__(self, args: NodeResourcesBalancedAllocationArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._requested = PerSpec(self._requests)
        self._pre_scored = PerSpec(self._requests_or_skip)

    def key(self, pod: Pod) -> Requested:
        """Return the pod's requests: pods with the same amounts are equivalent."""
        return self._requests(pod)

    def pre_score(self, cycle: Cycle, _nodes: Nodes) -> Status | Requested:
        """Return the pod's requests of the listed resources; Skip if there are none."""
        return self._pre_scored.of(cycle)

    def score(self, cycle: Cycle, nodes: Nodes, _requested: object) -> IntColumn:
        """Return 0..100, 75 for a node whose balance the pod does not change.

        Without pre-score, which skips such pods, all nodes score 0 for a pod without requests.
        """
        requested = self._requested.of(cycle)
        if not _is_requested(requested):
            return np.zeros(nodes.size, dtype=np.int64)
        names = [name for name, _ in requested]
        offered, occupied = nodes.offers(names), nodes.requests(names)
        before = _evenness(occupied, offered)
        occupied += np.array([[amount] for _, amount in requested], dtype=np.int64)
        gain = 50 + _evenness(occupied, offered) - before
        # kube-scheduler: integer division that truncates towards zero.
        return 50 + ((gain + (gain < 0)) >> 1)

    def score_cells(self, cycle: Cycle, nodes: Nodes, _requested: object) -> Callable[[int], int]:
        """Return the scores of single rows."""
        return _cell(self._requested.of(cycle), nodes)

    def _requests_or_skip(self, pod: Pod) -> Status | Requested:
        requested = self._requests(pod)
        return requested if _is_requested(requested) else SKIP

    def _requests(self, pod: Pod) -> Requested:
        requests = pod_requests(pod)
        return tuple(
            (spec.name, requests.get(spec.name, 0))
            for spec in self.args.counted
            if spec.name in _ALWAYS_COUNTED or (is_counted(spec.name) and requests.get(spec.name))
        )


def _is_requested(requested: Requested) -> bool:
    return any(amount for _, amount in requested)


def _cell(requested: Requested, nodes: Nodes) -> Callable[[int], int]:
    """Return the scores of single rows."""
    if not _is_requested(requested):
        return lambda _row: 0
    columns = [
        (nodes.allocatable(name).item, nodes.requested(name).item, amount)
        for name, amount in requested
    ]

    if len(columns) == 2:
        return _cell_of_two(*columns)

    def cell(row: int) -> int:
        before: list[float] = []
        after: list[float] = []
        for offered, occupied, amount in columns:
            offer, used = offered(row), occupied(row)
            if offer > 0:
                before.append(_share(used, offer))
                after.append(_share(used + amount, offer))
        gain = 50 + int((1 - _deviation(after)) * 100) - int((1 - _deviation(before)) * 100)
        return 50 + int(gain / 2)

    return cell


def _cell_of_two(first: _Amounts, second: _Amounts) -> Callable[[int], int]:
    """Return the scores for two resources, the usual case: the deviation is half the difference."""
    offered, occupied, amount = first
    offered_2, occupied_2, amount_2 = second

    def cell(row: int) -> int:
        offer, offer_2 = offered(row), offered_2(row)
        if offer <= 0 or offer_2 <= 0:
            return 75  # a single resource is always balanced
        used, used_2 = occupied(row), occupied_2(row)
        before = abs((_share(used, offer) - _share(used_2, offer_2)) / 2)
        after = abs((_share(used + amount, offer) - _share(used_2 + amount_2, offer_2)) / 2)
        return 50 + int((50 + int((1 - after) * 100) - int((1 - before) * 100)) / 2)

    return cell


def _share(used: int, offered: int) -> float:
    return 1.0 if used >= offered else float(used) / float(offered)


def _deviation(shares: list[float]) -> float:
    """Return the standard deviation of one node's shares."""
    count = len(shares)
    if count < 2:
        return 0.0
    if count == 2:
        return abs((shares[0] - shares[1]) / 2)
    mean = _in_order(shares) / count
    return math.sqrt(_in_order([(share - mean) * (share - mean) for share in shares]) / count)


def _evenness(used: IntMatrix, offered: IntMatrix) -> IntColumn:
    """Return 100 for balanced use down to 50; resources that a node does not offer are left out."""
    there = offered > 0
    shares = np.minimum(used / np.maximum(offered, 1), 1.0)
    if there.all():
        return _percent_even(shares)
    evenness = np.zeros(used.shape[1], dtype=np.int64)
    for pattern in np.unique(there, axis=1).T:
        rows: BoolColumn = (there == pattern[:, np.newaxis]).all(axis=0)
        evenness[rows] = _percent_even(shares[pattern][:, rows])
    return evenness


def _percent_even(shares: np.ndarray) -> IntColumn:
    """Return (1 - standard deviation) in percent, rounded down as kube-scheduler's floats do."""
    count = len(shares)
    deviation: FloatColumn
    if count < 2:
        return np.full(shares.shape[1], 100, dtype=np.int64)
    if count == 2:
        deviation = np.abs((shares[0] - shares[1]) / 2)
    else:
        mean = _in_order(shares) / count
        deviation = np.sqrt(_in_order((shares - mean) * (shares - mean)) / count)
    return ((1 - deviation) * 100).astype(np.int64)


def _in_order(terms: Iterable[Any]) -> Any:
    """Add numbers or columns in order, since floating-point sums depend on it."""
    first, *others = terms
    for term in others:
        first = first + term
    return first
