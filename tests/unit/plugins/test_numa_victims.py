"""Victims release to their NUMA zones all that they hold while they run."""

import pytest

from scheduler.objects.reports.numaplacement import METADATA, VECTOR, encode
from scheduler.objects.reports.podfingerprint import fingerprint, mark_of
from scheduler.testing import node, pod
from tests.property.test_group_devices import simulated

CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": "trellis",
            "plugins": {"multiPoint": {"enabled": [{"name": "NodeResourceTopologyMatch"}]}},
            "pluginConfig": [
                {
                    "name": "NodeResourceTopologyMatch",
                    "args": {"cacheResyncPeriodSeconds": 1, "preemptionMode": "Enabled"},
                }
            ],
        }
    ],
}


def amounts(cpu):
    """Return requests and limits of a Guaranteed container or pod."""
    both = {"cpu": str(cpu), "memory": "1Gi"}
    return {"requests": both, "limits": both}


def container(name, cpu, **more):
    """Return a container; without an amount it requests nothing itself."""
    return {"name": name, "image": "x", "resources": amounts(cpu) if cpu else {}, **more}


def running(name, *, sidecar=0, app=0, whole=0, overhead=""):
    """Return a pod of low priority on the node."""
    spec = {"containers": [container("c", app)], "priority": 10, "schedulerName": "trellis"}
    if sidecar:
        spec["initContainers"] = [container("s", sidecar, restartPolicy="Always")]
    if whole:
        spec["resources"] = amounts(whole)
    if overhead:
        spec["overhead"] = {"cpu": overhead}
    status = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
    made = pod(name, node_name="n1", spec=spec, status=status)
    made["metadata"]["uid"] = f"uid-{name}"
    return made


def topology(zone_of, free):
    """Return the NodeResourceTopology of a node: zones of 8 CPUs, of which `free` are available."""
    names = {("default", name, each): zone for (name, each), zone in zone_of.items()}
    metadata, vectors = encode(names, 2)
    print_of = fingerprint([mark_of("default", name) for name in {name for name, _ in zone_of}])
    zones = []
    for number, left in enumerate(free):
        cpus = {"name": "cpu", "capacity": "8", "allocatable": "8", "available": str(left)}
        memory = {"name": "memory", "capacity": "16Gi", "allocatable": "16Gi", "available": "9Gi"}
        zone = {"name": f"node-{number}", "type": "Node", "resources": [cpus, memory]}
        if number in vectors:
            zone["attributes"] = [{"name": VECTOR, "value": vectors[number]}]
        zones.append(zone)
    attributes = {
        "topologyManagerPolicy": "single-numa-node",
        "topologyManagerScope": "container",
        "nodeTopologyPodsFingerprint": print_of,
        METADATA: metadata,
    }
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": "n1"},
        "attributes": [{"name": name, "value": value} for name, value in attributes.items()],
        "zones": zones,
    }


SIDECARS = (running("a", sidecar=6, app=1), running("b", sidecar=6, app=1))
PLAIN = (running("a", app=7), running("b", app=7))
POD_LEVEL = (running("a", whole=7), running("b", whole=7))
PARTLY = (running("a", app=2, whole=7), running("b", app=2, whole=7))
OVERHEAD = (running("a", app=7, overhead="500m"), running("b", app=7, overhead="500m"))


@pytest.mark.parametrize("victims", [PLAIN, SIDECARS, POD_LEVEL, PARTLY, OVERHEAD])
def test_a_victim_gives_back_all_that_it_holds(victims):
    """The resources of its containers and sidecars, and the pod requests beside them.

    Overhead was never in a zone.
    """
    zone_of = {("a", "c"): 0, ("b", "c"): 1}
    if victims is SIDECARS:
        zone_of |= {("a", "s"): 0, ("b", "s"): 1}
    spec = {"containers": [container("c", 6)], "priority": 1000, "schedulerName": "trellis"}
    wanted = pod("high", spec=spec)
    n1 = node("n1", allocatable={"cpu": "16", "memory": "32Gi"})
    found = simulated([n1, topology(zone_of, (1, 1)), *victims], [wanted], CONFIG)

    (high,) = (one for one in found["pods"] if one["name"] == "high")
    assert ("n1", 1) == (high["node"], len(high["victims"]))
