"""`NodeGraph`: shortest measured paths as networkx finds them, slice by slice as from scratch."""

import json

import msgspec
import networkx as nx
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.objects.network import Cost, NetworkTopology, NetworkTopologySlice, Origin
from scheduler.plugins.network.costs import CostTable
from scheduler.plugins.network.paths import NodeGraph, PathSlices
from tests.unit.plugins.networkobjects import topology

NAMES = "abcde"
rows = st.dictionaries(
    st.sampled_from(NAMES), st.dictionaries(st.sampled_from(NAMES), st.integers(-1, 40)), max_size=4
)


def part(listed: dict[str, dict[str, int]]) -> NetworkTopologySlice:
    """Return a slice from origin → destination → cost."""
    return NetworkTopologySlice(
        origins=tuple(
            Origin(one, tuple(Cost(other, cost) for other, cost in paths.items()))
            for one, paths in listed.items()
        )
    )


def by_networkx(slices: list[NetworkTopologySlice]) -> dict[tuple[str, str], int]:
    """Return the cost of each path: the first listing counts, one direction serves both."""
    costs: dict[tuple[str, str], int] = {}
    for origin in (origin for one in slices for origin in one.origins):
        for path in origin.paths:
            if path.network_cost is not None and path.network_cost >= 0:
                costs.setdefault((origin.origin, path.destination), path.network_cost)
    both = {(other, one): cost for (one, other), cost in costs.items()} | costs
    graph = nx.DiGraph()
    graph.add_weighted_edges_from((*ends, cost) for ends, cost in both.items())
    return {
        (one, other): cost
        for one, found in nx.all_pairs_dijkstra_path_length(graph)
        for other, cost in found.items()
    }


def of_graph(graph: NodeGraph) -> dict[tuple[str, str], int]:
    """Return the same from the graph, from both of its directions."""
    found: dict[tuple[str, str], int] = {}
    for away in (False, True):
        seen = {}
        for name in graph.numbers:
            paths = graph.costs(name, away=away)
            assert paths is not None
            lost = np.zeros(len(paths.costs), dtype=np.bool_) if paths.lost is None else paths.lost
            for other, number in graph.numbers.items():
                if not lost[number]:
                    seen[(name, other) if away else (other, name)] = int(paths.costs[number])
        assert not away or found == seen
        found = seen
    return found


@settings(max_examples=30)
@given(st.lists(rows, min_size=1, max_size=3), rows)
def test_it_is_what_networkx_finds(listed, changed):
    """The result equals networkx for the first slices, and after a rewritten and a new slice."""
    slices = [part(one) for one in listed]
    reader = PathSlices()
    first = NodeGraph(slices, reader)
    later = [part(changed), *slices[1:], part({"x": {"a": 1}})]
    second = NodeGraph(later, reader)

    for graph, of in ((first, slices), (second, later)):
        expected = by_networkx(of)
        assert expected == of_graph(graph)
        assert bool(graph) == bool(expected)


def test_bookings_in_the_status_change_no_table_of_costs():
    """Bookings that the operator writes beside costs leave all derived tables in place."""
    raw = topology([("a", "b", 5, "1G")], table="NetperfCosts")
    spec = raw.pop("spec")
    tables = []
    for booked, cost in ((0, 5), (7, 5), (7, 6)):
        weights = json.loads(json.dumps(spec["weights"]))
        for origin in weights[0]["topologyList"][0]["originList"]:
            origin["costList"][0] |= {"bandwidthAllocated": booked, "networkCost": cost}
        found = msgspec.convert(raw | {"status": {"weights": weights}}, NetworkTopology)
        tables.append(CostTable(found, "NetperfCosts"))

    assert tables[0].is_same(tables[1])
    assert not tables[0].is_same(tables[2])
