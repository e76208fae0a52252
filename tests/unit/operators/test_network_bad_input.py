"""Bad input of every kind: each gets a message that names the field, from the API server or in a
condition.
"""

import time
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from operators.appgroup.costs import NodePlaces, statistics
from operators.appgroup.status import ObservedGroup, ObservedPod, merge_patch, status_of
from operators.networktopology.status import ObservedTopology
from operators.networktopology.status import status_of as topology_status_of
from scheduler.base.clock import ManualClock
from scheduler.objects.groups.appgroup import (
    AppGroupSpec,
    AppGroupStatus,
    Dependency,
    Workload,
    WorkloadRef,
)
from scheduler.objects.network import (
    REGION_LABEL,
    NetworkTopology,
    NetworkTopologySpec,
    NetworkTopologyStatus,
    Statistics,
)
from scheduler.objects.networkpaths import PathTable
from scheduler.sandbox.api.status import StatusError
from scheduler.sandbox.kinds.kinds import CUSTOMRESOURCEDEFINITIONS
from scheduler.sandbox.start import new_store
from tests.unit.operators.operatorrig import CRDS
from tests.unit.plugins.networkobjects import topology

Json = dict[str, Any]
VALUES = {REGION_LABEL: ("east", "west")}


def workload(name: str, **needs: Any) -> Json:
    """Return an entry; `needs` are the fields of its one dependency, on `a`."""
    entry: Json = {"workload": reference(name)}
    return entry | ({"dependencies": [{"workload": reference("a"), **needs}]} if needs else {})


def reference(name: str) -> Json:
    return {"kind": "Deployment", "name": name, "selector": name}


def group(*workloads: Json, algorithm: str = "KahnSort") -> Json:
    return {
        "numMembers": 1,
        "topologySortingAlgorithm": algorithm,
        "workloads": list(workloads) or [workload("a")],
    }


def network(*paths: Json, key: str = REGION_LABEL, **spec: Any) -> Json:
    """Return a spec; every link is an origin `east` of its own."""
    origins = [{"origin": "east", "costList": [path]} for path in paths]
    levels = [{"topologyKey": key, "originList": origins}]
    return {"weights": [{"name": "UserDefined", "topologyList": levels}], **spec}


def path(cost: Any = 5, to: str = "west", **more: Any) -> Json:
    return {"destination": to, "networkCost": cost, **more}


RING = group(workload("a"), workload("b", maxNetworkCost=5))
RING["workloads"][0]["dependencies"] = [{"workload": reference("b")}]


@pytest.mark.parametrize(
    ("spec", "expected_text"),
    [
        (
            group(algorithm="KahnSrot"),
            'spec.topologySortingAlgorithm: "KahnSrot" is not known (did',
        ),
        (RING, "spec.workloads depend on one another in a ring: a -> b -> a"),
        (
            group(workload("a"), workload("b", maxNetworkCost=-1)),
            "spec.workloads[1].dependencies[0].maxNetworkCost: -1 is not between",
        ),
        (
            group(workload("a"), workload("b", maxNetworkCost=10**12)),
            "maxNetworkCost: 1000000000000 is not between",
        ),
        (
            group(workload("a"), workload("b", minBandwidth="fast")),
            'spec.workloads[1].dependencies[0].minBandwidth: "fast" is not a quantity',
        ),
        (group(workload("a"), workload("a")), 'spec.workloads: selector "a" is listed 2 times'),
        (
            group(workload("b", maxNetworkCost=1)),
            'spec.workloads[0].dependencies[0].workload: "a" is no workload of the group',
        ),
    ],
)
def test_an_invalid_app_group_is_reported_by_field(spec: Json, expected_text: str):
    """A condition names the field, for values that an older definition accepts."""
    status = status_of(
        msgspec.convert(spec, AppGroupSpec), ObservedGroup(1, AppGroupStatus(), "now")
    )

    assert any(
        one.message.startswith(expected_text) or expected_text in one.message
        for one in status.conditions
    )


@pytest.mark.parametrize(
    ("labels", "expected_text"),
    [
        ("adds", 'name "adds" (did you mean "ads"?) as their workload'),
        ("", "name nothing as their workload"),
    ],
)
def test_a_label_that_names_no_workload_is_reported(labels: str, expected_text: str):
    """The message has the number of pods, their labels, and a suggestion."""
    spec = msgspec.convert(group(workload("ads")), AppGroupSpec)
    pods = (ObservedPod("d", "p", labels, "Running", "n"),)
    status = status_of(spec, ObservedGroup(1, AppGroupStatus(), "now", pods))

    assert any(expected_text in one.message for one in status.conditions)


@pytest.mark.parametrize(
    ("spec", "expected_text"),
    [
        (network(path(-3)), "originList[0].costList[0].networkCost: -3 is not between"),
        (network(path(10**15)), "networkCost: 1000000000000000 is not between"),
        (
            network(path(), path(to="east")),
            (
                'spec.weights[0].topologyList[0].originList[1].origin: "east" is in '
                "originList[0] as well"
            ),
        ),
        (
            network(path(), path(9)),
            "spec.weights: listed more than once, so that the cost is in doubt",
        ),
        (
            network(path(to="wets")),
            'costList[0].destination: no node has the value "wets" (did you',
        ),
        (
            network(key="topology.kubernetes.io/regoin"),
            (
                "spec.weights[0].topologyList[0].topologyKey: "
                '"topology.kubernetes.io/regoin" is not used by any plugin'
            ),
        ),
        (network(path(bandwidthCapacity="-1G")), "costList[0].bandwidthCapacity: -1G is negative"),
        (
            network(topologyAlgorithm="Dijsktra"),
            'spec.topologyAlgorithm: "Dijsktra" is not known (did',
        ),
        (
            network(metricProvider={"type": "Promtheus"}),
            'spec.metricProvider.type: "Promtheus" is not known (did you mean "Prometheus"?)',
        ),
        (
            network(metricProvider={"type": "Prometheus"}),
            "spec.metricProvider.address: is required to query Prometheus",
        ),
        (network(metricProvider={"type": "ConfigMap"}), "spec.configmapName: is missing"),
        (
            network(metricProvider={"type": "ConfigMap", "percentile": 75}, configmapName="c"),
            "spec.metricProvider.percentile: 75 is not one of",
        ),
    ],
)
def test_an_invalid_topology_is_reported_by_field(spec: Json, expected_text: str):
    """A condition names the field; the valid parts are used nevertheless."""
    status = topology_status_of(
        msgspec.convert(spec, NetworkTopologySpec),
        ObservedTopology(2, 1, NetworkTopologyStatus(), "now", values=VALUES),
    )

    assert any(expected_text in one.message for one in status.conditions), status.conditions


@pytest.mark.parametrize(
    ("kind", "spec", "field"),
    [
        ("appgroups", group(workload("a"), workload("b", maxNetworkCost=-1)), "maxNetworkCost"),
        ("appgroups", group(workload("a"), workload("b", minBandwidth="fast")), "minBandwidth"),
        ("appgroups", group(*map(workload, map(str, range(1001)))), "spec.workloads"),
        ("appgroups", group(algorithm="x" * 300), "spec.topologySortingAlgorithm"),
        ("networktopologies", network(path(-3)), "originList[0].costList[0].networkCost"),
        ("networktopologies", network(path(10**15)), "networkCost"),
        ("networktopologies", network(path("dear")), "networkCost"),
        ("networktopologies", network(freqUpdate=0), "spec.freqUpdate"),
        (
            "networktopologies",
            network(metricProvider={"type": "Prometheus", "percentile": 75}),
            "spec.metricProvider.percentile",
        ),
    ],
)
def test_an_api_server_refuses_what_the_schema_can_tell(kind: str, spec: Json, field: str):
    """Before it is stored, with the API server's text."""
    store = new_store(ManualClock(1_700_000_000), with_crds=False)
    definition = yaml.safe_load((CRDS / f"{kind}.yaml").read_text())
    store.create(CUSTOMRESOURCEDEFINITIONS, definition)
    resource = store.kinds.find(definition["spec"]["group"], "v1alpha1", kind)
    assert resource is not None
    with pytest.raises(StatusError) as refused:
        store.create(resource, {"metadata": {"name": "x"}, "spec": spec}, "default")

    assert field in refused.value.status["message"]


def judged(count: int) -> tuple[float, AppGroupStatus]:
    """Return how long it takes to judge a group of bad workloads with misnamed pods, and the
    status.
    """
    bad = (Dependency(WorkloadRef("Deployment", "a", "a"), "1x", -1),)
    spec = AppGroupSpec(
        workloads=tuple(
            Workload(WorkloadRef("Deployment", f"w{number}", f"w{number}"), bad)
            for number in range(count)
        )
    )
    pods = tuple(ObservedPod("d", f"p{n}", f"w{n}x", "Running", "n") for n in range(300))
    started = time.process_time()
    by_workload, total = statistics(spec, pods, NodePlaces())
    observed = ObservedGroup(1, AppGroupStatus(), "now", pods, by_workload, total)
    status = status_of(spec, observed)
    assert merge_patch(AppGroupStatus(), status)
    return time.process_time() - started, status


def test_ten_thousand_workloads_take_hardly_longer_than_one_thousand():
    """The condition of a group with ten thousand workloads states that they are too many, which
    takes little time.
    """
    few, many = (min(judged(count)[0] for _ in range(2)) for count in (1000, 10_000))
    status = judged(10_000)[1]

    assert "spec.workloads: 10000 entries, only the first 1000" in status.conditions[0].message
    assert len(status.topology_order) <= 1000
    assert many < 3 * few


nodes = st.sampled_from(["n1", "n2", "n3", "m1", "m2", "lost"])
AT = NodePlaces(
    {"n1": ("r", "a"), "n2": ("r", "a"), "n3": ("r", "b"), "m1": ("s", "c"), "m2": ("", "")},
    PathTable(
        msgspec.convert(topology([("r", "s", 40)], [("a", "b", 7)], both=False), NetworkTopology),
        "UserDefined",
    ),
)


@given(st.lists(nodes, min_size=1, max_size=9), st.lists(nodes, min_size=1, max_size=9))
def test_costs_by_place_are_those_of_every_pair(ones: list[str], others: list[str]):
    """Counting pods by place equals evaluating each pair of them."""
    spec = msgspec.convert(group(workload("b", maxNetworkCost=1)), AppGroupSpec)
    both = [("b", ones * 9), ("a", others * 9)]
    pods = [ObservedPod("d", "p", name, "Running", node) for name, on in both for node in on]
    pairs = [AT.cost(one, other) for one in ones for other in others]

    assert (
        Statistics(min_cost=min(pairs), avg_cost=sum(pairs) // len(pairs), max_cost=max(pairs))
        == statistics(spec, pods, AT)[1]
    )
