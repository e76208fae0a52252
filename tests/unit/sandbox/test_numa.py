"""Simulated nodes with NUMA zones: admission, reports, and the topology manager's rules."""

import pytest

from scheduler.sandbox.nodes.alignment import REFUSED, Aligner, qos_of
from scheduler.sandbox.nodes.topologyagents import NUMA, numa_of, zones_of
from tests.e2e.numacluster import NumaCluster, guaranteed

GPU = "example.com/gpu"


def pod(*requests, init=(), guaranteed=True):
    def container(name, amounts):
        return {
            "name": name,
            "resources": {"requests": amounts, "limits": amounts if guaranteed else {}},
        }

    return {
        "metadata": {"namespace": "default", "name": "p", "uid": "p"},
        "spec": {
            "initContainers": [container(f"i{n}", one) for n, one in enumerate(init)],
            "containers": [container(f"c{n}", one) for n, one in enumerate(requests)],
        },
    }


def aligner(policy, *cpus, scope="pod", **more):
    zones = [
        {"cpu": n * 1000, "memory": 8_000_000} | {k: v[at] for k, v in more.items()}
        for at, n in enumerate(cpus)
    ]
    return Aligner(zones, policy, scope)


def cpu(number):
    return {"cpu": str(number), "memory": "1k"}


@pytest.mark.parametrize(
    ("policy", "admitted"),
    [("none", True), ("best-effort", True), ("restricted", False), ("single-numa-node", False)],
)
def test_policies_differ_when_zones_are_full(policy, admitted):
    """A pod that would fit one empty zone is spread over zones by the first two policies and
    rejected by the others.
    """
    zones = aligner(policy, 4, 4)
    assert zones.admit("a", pod(cpu(2)))
    assert zones.admit("b", pod(cpu(3)))

    assert admitted == zones.admit("c", pod(cpu(3)))


def test_restricted_takes_as_few_zones_as_ever_could_do():
    """Policy `restricted`: a pod larger than one zone may use two zones, not three."""
    zones = aligner("restricted", 4, 4, 4)
    assert zones.admit("a", pod({"cpu": "6", "memory": "9k"}))
    assert [0, 2000, 4000] == [zone.free["cpu"] for zone in zones.zones]
    assert not zones.admit("b", pod({"cpu": "7", "memory": "9k"}))

    zones.release("a")
    assert [4000] * 3 == [zone.free["cpu"] for zone in zones.zones]


def test_a_refused_pod_leaves_nothing_behind():
    """If a container is rejected, the zones that earlier containers of the pod reserved are
    released.
    """
    zones = aligner("single-numa-node", 4, 4, scope="container")

    assert not zones.admit("a", pod(cpu(3), cpu(3), cpu(3)))
    assert [4000, 4000] == [zone.free["cpu"] for zone in zones.zones]
    assert zones.admit("b", pod(cpu(3), cpu(3), init=[cpu(4)]))
    assert [1000, 1000] == [zone.free["cpu"] for zone in zones.zones]


def test_who_gets_what():
    """Guaranteed pods get whole CPUs and memory of a zone; all pods get devices."""
    zones = aligner("single-numa-node", 4, **{GPU: [2000]})

    assert zones.admit("a", pod({"cpu": "2500m", "memory": "1k"}))
    assert zones.admit("b", pod({"cpu": "8"}, guaranteed=False))
    assert 4000 == zones.zones[0].free["cpu"]
    assert zones.admit("c", pod({GPU: "2"}, guaranteed=False))
    assert not zones.admit("d", pod({GPU: "1"}, guaranteed=False))
    assert ("Guaranteed", "BestEffort") == (qos_of(pod(cpu(1))), qos_of(pod({GPU: "1"})))


@pytest.mark.parametrize(
    "text",
    ["", "zones=0", "zones=9", "zones=two", "zones=2 policy=strict", "zones=2 report-after=x"],
)
def test_an_annotation_that_cannot_be_read_makes_no_zones(text):
    """An invalid annotation creates no zones; the node is treated as one without NUMA."""
    node = {"metadata": {"annotations": {NUMA: text}}, "status": {"allocatable": {"cpu": "4"}}}

    assert numa_of(node) is None


def test_what_a_node_offers_is_dealt_out():
    """Each zone gets an equal share in whole units, the first zone the rest. Devices are in their
    named zones.
    """
    offers = {"cpu": "7", "memory": "10", GPU: "3", "ephemeral-storage": "9", "pods": "110"}
    zones = list(zones_of(offers, 3, {1, 2}))

    assert [3000, 2000, 2000] == [zone["cpu"] for zone in zones]
    assert [4000, 3000, 3000] == [zone["memory"] for zone in zones]
    assert [None, 2000, 1000] == [zone.get(GPU) for zone in zones]
    assert {"cpu", "memory"} == set(zones[0])


def test_reports_come_after_their_time():
    """A pod is in the report after the interval of the agent, with a fingerprint of the pods."""
    cluster = NumaCluster({"cacheResyncPeriodSeconds": 5}, [2])
    cluster.tick(1)
    before = cluster.report("n000")
    cluster.create(guaranteed("p", 3))
    cluster.tick(29)
    assert before == cluster.report("n000")

    cluster.tick(2)
    after = cluster.report("n000")
    left = [zone["resources"][0]["available"] for zone in after["zones"]]
    assert ["1", "4"] == left
    assert before["attributes"][2] != after["attributes"][2]


def test_a_refused_pod_says_why():
    """A pod bound without the scheduler fails as on a real node, and reserves nothing."""
    cluster = NumaCluster({}, [2])
    cluster.create(guaranteed("p", 5, nodeName="n000", schedulerName="other"))
    cluster.tick(1)

    assert {REFUSED["reason"]: 1} == cluster.reasons()
    assert 0 == cluster.used("cpu")
