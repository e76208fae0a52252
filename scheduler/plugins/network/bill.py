"""The network cost of a placement: of a whole cluster, or of one pod on a node.

For `simulate` and `explain`, which compute it for any configuration: for a profile without network
plugins the same table is used. Costs are those of NetworkOverhead: 0 on one node, 1 inside a zone,
the listed cost beyond, 100 if it is unknown; every pair of pods counts.
"""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec
import numpy as np

from scheduler.framework import Handle, Plugin, Pod
from scheduler.objects.network import NetworkTopology
from scheduler.plugins.network.args import TopologyArgs
from scheduler.plugins.network.costs import CostTable
from scheduler.plugins.network.grouppods import GroupPods
from scheduler.plugins.network.lookup import Lookup
from scheduler.plugins.network.membership import Membership
from scheduler.plugins.network.need import Need
from scheduler.plugins.network.prices import Prices
from scheduler.plugins.network.total import group_cost
from scheduler.plugins.network.tracker import NetworkTracker


class Tie(msgspec.Struct, frozen=True, rename="camel"):
    """A pod's dependency on one workload, from a node: number of pods and their total cost.

    `is_dependent` means that the other workload is the dependent one; `kept` and `broken` are the
    numbers of pods within and beyond the limit.
    """

    workload: str
    is_dependent: bool
    pods: int
    cost: int
    limit: int
    kept: int
    broken: int


class Bill:
    """Network costs in the cluster behind a handle, by the arguments of its network plugins."""

    def __init__(self, handle: Handle, plugins: Collection[Plugin[Any]] = ()) -> None:
        self._handle = handle
        self._plugins = plugins
        self._tracker: NetworkTracker | None = None
        self._matrices: Prices | None = None

    def total(self) -> int:
        """Return the total cost of dependencies between placed pods; 0 without groups or costs."""
        matrices = self._prices()
        tracker = self._tracker
        if matrices is None or tracker is None:
            return 0
        membership = self._membership(tracker)
        return sum(
            group_cost(membership.pods(key), needs, matrices, tracker.places)
            for key in membership.groups()
            if (needs := membership.needs_of(key)) is not None
        )

    def ties(self, pod: Pod, node: str) -> tuple[Tie, ...]:
        """Return a pod's dependencies in both directions, with costs from a node; () if unknown."""
        matrices = self._prices()
        tracker = self._tracker
        row = tracker.row_of(node) if tracker is not None else None
        if matrices is None or tracker is None or row is None:
            return ()
        membership = self._membership(tracker)
        key, workload = membership.key_and_workload(pod)
        needs = membership.needs_of(key)
        if needs is None:
            return ()
        pods = membership.pods(key)
        return tuple(
            self._tie(need, pods, matrices, row)
            for need in needs.of(workload, both=True)
            if pods.total(need.workload)
        )

    def _tie(self, need: Need, pods: GroupPods, matrices: Prices, row: int) -> Tie:
        tracker = self._tracker
        assert tracker is not None  # noqa: S101 - `ties` has looked
        here, shift = tracker.places.of(row), len(tracker.places) if need.is_dependent else 0
        cost = kept = broken = 0
        for other, count in zip(*(part.tolist() for part in pods.of(need.workload)), strict=True):
            place = tracker.places.of(other) + shift
            prices, costs = matrices.columns(np.array([place]))
            price = -1.0 if other == row else float(prices[here, 0])
            cost += 0 if other == row else count * int(costs[here, 0])
            kept += count * (price <= need.limit)
            broken += count * (price > need.limit)
        return Tie(
            need.workload,
            need.is_dependent,
            pods.total(need.workload),
            cost,
            need.limit,
            kept,
            broken,
        )

    def _prices(self) -> Prices | None:
        """Return the prices between places, None without a group or a topology."""
        if self._matrices is None and self._handle.objects("AppGroup"):
            table = self._table()
            if table is not None:
                self._tracker = self._handle.tracker(NetworkTracker)
                self._matrices = table.matrices(self._tracker.places)
        return self._matrices

    def _table(self) -> CostTable | None:
        """Return the table that the plugins use; without one, the first of the first topology."""
        args = self._args()
        if args is not None:
            return Lookup("", args, self._handle).table()
        topologies: Mapping[str, NetworkTopology] = self._handle.objects("NetworkTopology")
        for key in sorted(topologies):
            topology = topologies[key]
            for weights in (*topology.spec.weights, *topology.status.weights):
                return CostTable(topology, weights.name)
        return None

    def _args(self) -> TopologyArgs | None:
        return next((p.args for p in self._plugins if isinstance(p.args, TopologyArgs)), None)

    def _membership(self, tracker: NetworkTracker) -> Membership:
        args = self._args()
        return tracker.membership(args.namespaces if args is not None else ("default",))
