"""The operator of AppGroup on the sandbox's store: order, pods, costs, and errors."""

import asyncio
from typing import Any

import pytest
import yaml

from operators.appgroup.costs import NodePlaces, places, statistics
from operators.appgroup.operator import RECIPE
from operators.appgroup.status import ObservedPod
from scheduler.objects.groups.appgroup import GROUP_LABEL, WORKLOAD_LABEL, AppGroupSpec
from scheduler.objects.kinds import BY_KIND
from scheduler.objects.network import REGION_LABEL, ZONE_LABEL, NetworkTopology
from scheduler.objects.node import Node, NodeMeta
from scheduler.objects.plain import read_as
from tests.property.making import make_pod, with_status
from tests.unit.operators.operatorrig import CRDS, OperatorRig, passed

DEFINITION = yaml.safe_load((CRDS / "appgroups.yaml").read_text())
pytestmark = pytest.mark.looptime


def workload(name: str, *needs: str) -> dict[str, Any]:
    """Return a workload of the spec that depends on others."""
    return {
        "workload": reference(name),
        "dependencies": [{"workload": reference(other), "maxNetworkCost": 15} for other in needs],
    }


def reference(name: str) -> dict[str, str]:
    return {"kind": "Deployment", "name": name, "selector": name}


def spec(*workloads: dict[str, Any], algorithm: str = "KahnSort") -> dict[str, Any]:
    return {
        "numMembers": max(1, len(workloads)),
        "topologySortingAlgorithm": algorithm,
        "workloads": list(workloads),
    }


CHAIN = spec(workload("p1", "p2"), workload("p2", "p3"), workload("p3"))


def rig(of: dict[str, Any]) -> OperatorRig:
    return OperatorRig(RECIPE, DEFINITION, "a1", spec=of)


def order(status: dict[str, Any]) -> dict[str, int]:
    return {one["workload"]["selector"]: one["index"] for one in status["topologyOrder"]}


def condition(status: dict[str, Any], type_: str) -> tuple[str, str]:
    found = next(one for one in status["conditions"] if one["type"] == type_)
    return found["status"], found["message"]


def place(at: OperatorRig, name: str, workload_label: str, node: str, **labels: str) -> None:
    """Bind a running pod of the group to a node."""
    marks = labels or {GROUP_LABEL: "a1", WORKLOAD_LABEL: workload_label}
    pod = with_status(make_pod(name, node=node, labels=marks), phase="Running")
    at.view.note(at.cluster.put_pod(pod))
    at.view.flush()


async def test_the_order_follows_the_spec_at_once():
    """An edited spec has its order in the next round, not a day later."""
    at = rig(CHAIN)
    async with at.open():
        await passed(1)
        first = order(at.status)
        obj = at.store.get(at.resource, "default", "a1")
        turned = spec(workload("p1"), workload("p2", "p1"), workload("p3", "p2"))
        at.store.replace(at.resource, obj, {**obj.obj, "spec": turned})
        await passed(3)
        second = order(at.status)

    assert {"p1": 1, "p2": 2, "p3": 3} == first
    assert {"p3": 1, "p2": 2, "p1": 3} == second


async def test_pods_are_counted_and_listed_with_their_nodes():
    """Running ones, scheduled ones with their hosts; a misspelt label and a foreign pod are
    named.
    """
    at = rig(CHAIN)
    async with at.open():
        place(at, "p1-a", "p1", "n1")
        place(at, "p9-a", "p9", "n2")
        place(at, "odd", "", "n2", **{"app-group": "a1"})
        await passed(2)

    status = at.status
    assert 2 == status["runningPods"] == status["runningWorkloads"]
    assert {"name": "p1", "replicaID": "p1-a", "hostname": "n1"} in status["podsScheduled"]
    is_unknown, message = condition(status, "UnknownWorkloads")
    assert "True" == is_unknown
    assert '"p9"' in message
    assert 'the label "app-group"' in message


async def test_a_ring_is_named_and_the_listing_is_the_order():
    """A cycle is a condition, no failure."""
    at = rig(spec(workload("p1", "p2"), workload("p2", "p1")))
    async with at.open():
        await passed(2)

    assert {"p1": 1, "p2": 2} == order(at.status)
    assert ("True", "p1 -> p2 -> p1; the order is that of the listing") == condition(
        at.status, "Cyclic"
    )
    assert "False" == condition(at.status, "Ready")[0]


async def test_a_burst_of_pods_is_one_write():
    """However many pods are created at once, the object is written once per interval."""
    at = rig(CHAIN)
    async with at.open():
        await passed(2)
        before = len(at.sent)
        for number in range(200):
            place(at, f"p1-{number}", "p1", "n1")
        await passed(3)

    assert 1 == len(at.sent) - before
    assert 200 == at.status["runningPods"]


def test_costs_are_those_that_pods_are_scored_by():
    """0 on one node, 1 in one zone, the table between zones and regions, 100 if unknown."""
    nodes = [
        Node(NodeMeta(name=name, labels={REGION_LABEL: region, ZONE_LABEL: zone}))
        for name, region, zone in (
            ("a", "r1", "z1"), ("b", "r1", "z1"), ("c", "r1", "z2"), ("d", "r2", "z3"),
            ("e", "r3", "z4"),
        )
    ]  # fmt: skip
    topology: NetworkTopology = read_as(
        BY_KIND["NetworkTopology"],
        {
            "metadata": {"name": "nt-default", "namespace": "default"},
            "spec": {
                "weights": [
                    {
                        "name": "UserDefined",
                        "topologyList": [
                            table(REGION_LABEL, "r1", "r2", 20),
                            table(ZONE_LABEL, "z1", "z2", 5),
                        ],
                    }
                ]
            },
        },
    )
    at = places(nodes, topology, "UserDefined")

    assert [0, 1, 5, 20, 100] == [at.cost("a", other) for other in "abcde"]
    group: AppGroupSpec = read_as(
        BY_KIND["AppGroup"], {"metadata": {"name": "a1"}, "spec": CHAIN}
    ).spec
    pods = [ObservedPod("default", f"{w}-{n}", w, "Running", n) for w, n in
            (("p1", "a"), ("p2", "c"), ("p2", "d"), ("p3", "d"))]  # fmt: skip
    by_workload, total = statistics(group, pods, at)
    one = by_workload["p1"]
    assert (5, 12, 20) == (one.min_cost, one.avg_cost, one.max_cost)
    assert total is not None
    assert 0 == total.min_cost
    assert ({}, None) == statistics(group, pods[:1], NodePlaces())


def table(key: str, origin: str, destination: str, cost: int) -> dict[str, Any]:
    """Return a table with one path."""
    path = {"destination": destination, "networkCost": cost}
    return {"topologyKey": key, "originList": [{"origin": origin, "costList": [path]}]}


async def test_others_run_while_a_large_group_is_judged():
    """The pods of a large group are summed up and its status is computed in steps; the result is
    the same.
    """
    at, key = rig(CHAIN), ("default", "a1")
    pods = tuple(ObservedPod("default", f"p{n}", f"p{n % 3 + 1}", "", "n1") for n in range(9000))
    operator: Any = at.operator
    operator._pods = {key: list(pods)}
    group = operator.objects[key]
    turns: list[int] = []

    async def stand_by() -> None:
        while True:
            turns.append(len(turns))
            await asyncio.sleep(0)

    task = asyncio.create_task(stand_by())
    _, _, by_workload, total = await operator.surroundings(key, group)
    summing = len(turns)
    patch = await operator.patch(key, group)
    judging = len(turns) - summing
    task.cancel()

    assert summing >= 2
    assert judging >= 4
    assert (dict(by_workload), total) == statistics(group.spec, pods, NodePlaces())
    assert 500 == len(patch["podsScheduled"])
