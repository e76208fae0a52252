"""The worked examples of the design texts, each as a test of its own."""

from typing import Any

import pytest

from scheduler.objects.groups.appgroup import Dependency, Workload, WorkloadRef
from scheduler.objects.groups.grouporder import order_of
from scheduler.testing import evaluate, less, node, pod
from tests.unit.plugins.networkobjects import app_group, member, placed_node, topology

BOUTIQUE = {
    "P1": ("P2", "P3", "P4", "P6", "P8", "P9", "P10"),
    "P8": ("P2", "P3", "P4", "P5", "P6", "P7"),
    "P9": ("P3",),
}
ORDER = ["P1", "P10", "P9", "P8", "P7", "P6", "P5", "P4", "P3", "P2"]


def boutique():
    """Return the ten workloads of the early design."""
    names = [f"P{number}" for number in range(1, 11)]
    return [
        Workload(
            WorkloadRef(name=name, selector=name),
            tuple(Dependency(WorkloadRef(name=on, selector=on)) for on in BOUTIQUE.get(name, ())),
        )
        for name in names
    ]


def test_online_boutique_is_ordered_by_kahn():
    """The order is P1, P10, P9, … P2, as the design prints it."""
    assert tuple(ORDER) == order_of(boutique(), "KahnSort").labels


@pytest.mark.parametrize("first", range(0, 10, 3))
@pytest.mark.parametrize("second", range(10))
def test_the_queue_follows_online_boutiques_order(first, second):
    """Of two pods of the shop the one with the lower index is scheduled first."""
    one, other = ORDER[first], ORDER[second]
    group = app_group({name: {} for name in ORDER}, order=ORDER)

    got = less("TopologicalSort", member("a", one), member("b", other), objects=[group])

    assert got is (first < second or (first == second))  # of replicas, the first in the list


def eight_nodes():
    """Return the two regions with four zones of the later design, and its application."""
    nodes = [
        placed_node(f"N{n}", "us-west-1" if n < 5 else "us-east-1", f"z{(n + 1) // 2}")
        for n in range(1, 9)
    ]
    costs = topology(
        regions=[("us-west-1", "us-east-1", 20)],
        zones=[("z1", "z2", 5), ("z3", "z4", 10)],
        name="net-topology-test",
    )
    group = app_group({"P1": {"P2": 15}, "P2": {"P3": 20}, "P3": {}})
    return nodes, [costs, group]


def test_the_eight_node_filter_example():
    """With P2 on N1 and a limit of 15, the other region costs 20 and falls out."""
    nodes, objects = eight_nodes()
    got = evaluate(
        "NetworkOverhead",
        args={"networkTopologyName": "net-topology-test"},
        nodes=nodes,
        objects=objects,
        existing_pods=[member("p2", "P2", "N1"), member("p3", "P3", "N4")],
        pod=member("p1", "P1"),
    )

    assert {"N1", "N2", "N3", "N4"} == {name for name, one in got.filter.items() if one.is_success}
    text = (
        "Node N5 does not meet several network requirements from Workload dependencies: "
        "Satisfied: 0 Violated: 1"
    )
    assert text == got.filter["N5"].message


def test_the_eight_node_score_example():
    """Of the four nodes left, the one that holds P2 costs nothing, its zone 1, the other zone 5."""
    nodes, objects = eight_nodes()
    got = evaluate(
        "NetworkOverhead",
        args={"networkTopologyName": "net-topology-test"},
        nodes=nodes,
        objects=objects,
        existing_pods=[member("p2", "P2", "N1")],
        pod=member("p1", "P1"),
        feasible_nodes=["N1", "N2", "N3", "N4"],
    )

    assert {"N1": 0, "N2": 1, "N3": 5, "N4": 5} == got.raw
    assert {"N1": 100, "N2": 80, "N3": 0, "N4": 0} == got.normalized


def test_the_five_node_dijkstra_graph():
    """P3 counts its dependants: two replicas of P2, reached over the measured links."""
    edges = [(1, 2, 1), (1, 3, 4), (2, 4, 6), (3, 4, 5), (3, 5, 3), (4, 5, 2)]
    origins: dict[str, list[Any]] = {}
    for one, other, cost in edges:
        path = {"destination": f"worker-{other}", "networkCost": cost}
        origins.setdefault(f"worker-{one}", []).append(path)
    part = {
        "apiVersion": "trellis.dev/v1alpha1",
        "kind": "NetworkTopologySlice",
        "metadata": {"name": "slice", "namespace": "default"},
        "topology": "nt-default",
        "origins": [{"origin": name, "costList": paths} for name, paths in origins.items()],
    }
    zones = {1: "Z1", 2: "Z1", 3: "Z2", 4: "Z3", 5: "Z3"}
    got = evaluate(
        "NetworkMinCost",
        nodes=[placed_node(f"worker-{n}", "r", zone) for n, zone in zones.items()],
        objects=[part, topology(), app_group({"P1": {"P2": 0}, "P2": {"P3": 0}, "P3": {}})],
        existing_pods=[
            member("pod1-test1", "P1", "worker-1"),
            member("pod1-test2", "P1", "worker-2"),
            member("pod2-test1", "P2", "worker-2"),
            member("pod2-test2", "P2", "worker-4"),
        ],
        pod=member("p3", "P3"),
    )

    # To worker-2 and worker-4: 1+7, 0+6, 5+5, 6+0, 8+2 by the shortest paths.
    assert {
        f"worker-{n}": cost for n, cost in zip(zones, (8, 6, 10, 6, 10), strict=True)
    } == got.raw
    assert {"worker-2", "worker-4"} == {
        name for name, score in got.normalized.items() if score == 100
    }
    assert {"worker-3", "worker-5"} == {
        name for name, score in got.normalized.items() if score == 0
    }


def watched(figures):
    """Return load-watcher's response from node → (average, deviation) of its traffic, in Mbit/s."""
    data = {}
    for name, values in figures.items():
        metrics = [
            {
                "type": "Bandwidth",
                "name": "instance:node_network_transmit_bytes:rate:sum",
                "operator": operator,
                "value": megabits * 1e6 / 8 * 100,
            }
            for operator, megabits in zip(("AVG", "STD"), values, strict=True)
        ]
        data[name] = {"metrics": metrics}
    return {
        "apiVersion": "trellis.dev/v1alpha1",
        "kind": "WatcherMetrics",
        "metadata": {"name": "load-watcher"},
        "data": {"NodeMetricsMap": data},
    }


@pytest.mark.parametrize(("threshold", "left"), [(None, 2), (0.787, 2), (0.788, 3)])
def test_the_risk_example(threshold, left):
    """A pod of 100 Mbit/s on links of 1 Gbit/s: N3's risk is 0.787, above 0.75; N1 and N2 stay."""
    link = {"network.aware.com/bandwidth": "1000000000"}
    got = evaluate(
        "CheckRiskNodeBandwidth",
        args={} if threshold is None else {"riskThreshold": threshold},
        nodes=[node(f"N{n}", allocatable=link) for n in (1, 2, 3)],
        objects=[watched({"N1": (300, 50), "N2": (500, 200), "N3": (700, 600)})],
        pod=pod("p", requests={"network.aware.com/bandwidth": "100M"}),
    )

    assert left == sum(status.is_success for status in got.filter.values())
    assert got.filter["N1"].is_success
    assert got.filter["N2"].is_success
