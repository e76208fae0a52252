"""NetworkMinCost: score nodes by the shortest paths to all placed pods that a pod is tied to."""

import numpy as np

from scheduler.framework import (
    SKIP,
    AreaPaths,
    Cycle,
    Handle,
    IntColumn,
    Nodes,
    Plugin,
    Pod,
    Rows,
    Status,
)
from scheduler.plugins.network.args import NetworkMinCostArgs
from scheduler.plugins.network.lookup import Lookup
from scheduler.plugins.network.overhead import cheapest_best
from scheduler.plugins.network.paths import ClosedTable, NodeGraph, PathSlices
from scheduler.plugins.network.prices import UNKNOWN_COST
from scheduler.plugins.network.ties import TiesState


class NetworkMinCost(Plugin[NetworkMinCostArgs]):
    """Prefer the node with the least accumulated shortest-path cost, both ends of a tie counted.

    By single nodes where these are measured (NetworkTopologySlice), else by zone and region.
    """

    reads = ("node", "node.labels", "pod.added", "pod.deleted", "AppGroup", "NetworkTopology")

    def __init__(self, args: NetworkMinCostArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.lookup = Lookup(self.name, args, handle)
        self._tracker = self.lookup.tracker
        self._closed: ClosedTable | None = None
        self._slices = PathSlices()
        self._graph: tuple[int, str, NodeGraph] | None = None
        self._numbers: tuple[NodeGraph, int, Rows] | None = None

    def pre_score(self, cycle: Cycle, nodes: Nodes) -> Status | TiesState:
        """Find the placed pods that the pod is tied to; Skip if there are none."""
        ties = self.lookup.ties(cycle.pod, both=True)
        state = None if ties is None else TiesState.on(nodes, ties, self.lookup)
        return SKIP if state is None else state

    def score(self, cycle: Cycle, nodes: Nodes, state: TiesState | None) -> IntColumn:
        """Return the accumulated cost."""
        if state is None:
            answer = self.pre_score(cycle, nodes)
            if isinstance(answer, Status):
                return nodes.constant(0)
            state = answer
        graph = self._node_graph()
        return self._by_node(nodes, state, graph) if graph else self._by_place(nodes, state)

    def normalize(self, _cycle: Cycle, nodes: Nodes, raw: IntColumn) -> IntColumn:
        """Return 100 for the node of least cost, 0 for the one of highest cost."""
        return cheapest_best(nodes, raw)

    def network_paths(self, pod: Pod, rows: Rows) -> AreaPaths | None:
        """Return the network cost between pods on these rows, by direct paths."""
        return self.lookup.network_paths(pod, rows, books=False)

    def _by_place(self, nodes: Nodes, state: TiesState) -> IntColumn:
        raw = self._sums(state).take(self._tracker.place_column(nodes), mode="clip")
        state.take_off_own(raw, nodes)
        return raw

    def _sums(self, state: TiesState) -> IntColumn:
        """Return the cost by place; with very many places that of the direct links."""
        table, places = state.ties.table, state.places
        if len(places) > places.most:
            return state.verdicts().cost
        if self._closed is None or self._closed.table is not table:
            self._closed = ClosedTable(table)
        return state.accumulated(self._closed.matrix(places))

    def _by_node(self, nodes: Nodes, state: TiesState, graph: NodeGraph) -> IntColumn:
        known = np.zeros(len(graph.numbers))
        lost = np.zeros(len(graph.numbers))
        farthest, unmeasured = float(UNKNOWN_COST), 0
        for row, count, is_dependent in state.by_row():
            row_costs = graph.costs(self._tracker.node_name(row), away=is_dependent)
            if row_costs is None:
                unmeasured += count
                continue
            farthest = max(farthest, row_costs.farthest)
            known += row_costs.costs * count
            if row_costs.lost is not None:
                lost += row_costs.lost * count
        total = known + lost * farthest
        # Nodes without any measurement are as far as the farthest: unknown, never free.
        padded = np.append(total, total.max(initial=0.0)) + unmeasured * farthest
        raw = np.rint(padded[self._graph_numbers(graph)]).astype(np.int64)
        column: IntColumn = nodes.part(raw)[: nodes.size]
        return column

    def _node_graph(self) -> NodeGraph | None:
        """Return the measured paths between nodes of the topology in use, None without any."""
        topology = self.lookup.topology()
        slices = self.handle.objects("NetworkTopologySlice")
        if topology is None or not slices:
            return None
        meta, version = topology.metadata, self._tracker.slices_version
        key = f"{meta.namespace}/{meta.name}"
        if self._graph is None or self._graph[:2] != (version, key):
            own = [
                part
                for part in slices.values()
                if part.topology == meta.name and part.metadata.namespace == meta.namespace
            ]
            self._graph = (version, key, NodeGraph(own, self._slices))
        return self._graph[2] or None

    def _graph_numbers(self, graph: NodeGraph) -> Rows:
        """Return the number of each row's node in the graph, one past the last for no number."""
        version = self._tracker.nodes_version
        if self._numbers is None or self._numbers[:2] != (graph, version):
            unknown = len(graph.numbers)
            names = self._tracker.node_names()
            column = np.array([graph.numbers.get(name, unknown) for name in names], dtype=np.intp)
            self._numbers = (graph, version, column)
        return self._numbers[2]
