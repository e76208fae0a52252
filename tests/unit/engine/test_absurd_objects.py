"""Watched objects with numbers beyond the range of integers are reported, and have no effect on
other objects.
"""

from typing import Any

import msgspec
import pytest

from scheduler.engine.effects import Bind, Watched
from scheduler.engine.engine import Engine
from scheduler.kube.watching.decode import DecodeFault, Decoder
from scheduler.objects.kinds import BY_KIND
from scheduler.testing import node, pod
from tests.property.engines import PROFILES, REGISTRY

HUGE = 10**40
AMOUNTS = (
    HUGE,
    -HUGE,
    2**64,
    2**63,
    1e300,
    "9" * 60,
    "1e9999",
    "-1e9999",
    "1e-9999",
    "9" * 60 + "Ei",
)


class SimulatedCluster:
    """An engine that receives watch lines, with one node of 4 CPUs."""

    def __init__(self) -> None:
        self.engine = Engine(PROFILES, REGISTRY)
        self.faults: list[Any] = []
        self.engine.observation.on_fault = lambda *fault: self.faults.append(fault)
        self.handle(node("n0"))

    def handle(self, raw: dict[str, Any]) -> None:
        """Process one object as a watch line."""
        decoder = Decoder(BY_KIND[raw["kind"]], self.faults.append)
        line = decoder.line(msgspec.json.encode({"type": "ADDED", "object": raw}))
        if isinstance(line, Watched):
            self.engine.handle(line, 0.0)

    def pod(self, name: str = "p", **fields: Any) -> None:
        """Add a pod of Trellis."""
        raw = pod(name, **fields)
        raw["metadata"]["uid"] = name
        raw["spec"].setdefault("schedulerName", "trellis")
        self.handle(raw)

    def bound(self) -> list[str]:
        """Try all pods; return the bound ones."""
        return [e.name for e in self.engine.run(1.0, 10) if isinstance(e, Bind)]


def wide_fields(number: int) -> dict[str, Any]:
    """Return a spec with one number beyond its width, one per numeric field."""
    selector = {"matchLabels": {"a": "b"}}
    term = {"topologyKey": "zone", "labelSelector": selector}
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    spread = {
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
        "maxSkew": 1,
    }
    weighted = {preferred: [{"weight": number, "podAffinityTerm": term}]}
    return {
        "priority": {"priority": number},
        "maxSkew": {"topologySpreadConstraints": [spread | {"maxSkew": number}]},
        "minDomains": {"topologySpreadConstraints": [spread | {"minDomains": number}]},
        "podAffinity": {"affinity": {"podAffinity": weighted}},
        "podAntiAffinity": {"affinity": {"podAntiAffinity": weighted}},
        "nodeAffinity": {
            "affinity": {
                "nodeAffinity": {preferred: [{"weight": number, "preference": {"matchFields": []}}]}
            }
        },
    }


@pytest.mark.parametrize("amount", AMOUNTS, ids=str)
def test_a_pod_may_ask_for_any_amount(amount):
    """The request counts as the largest amount (or 0).

    The next pod is placed.
    """
    cluster = SimulatedCluster()
    cluster.pod("absurd", requests={"cpu": amount, "memory": amount, "example.com/x": amount})
    cluster.pod("bound", node_name="n0", requests={"example.com/y": amount})
    cluster.pod("lost", node_name="nowhere", requests={"cpu": amount})
    cluster.pod("good", requests={"cpu": "1"})

    assert "good" in cluster.bound()
    assert [] == cluster.faults


def test_a_pod_may_ask_for_little_with_containers_that_ask_for_all():
    """The pod-level request decides; scoring still reads the containers."""
    cluster = SimulatedCluster()
    whole = {"resources": {"requests": {"cpu": "100m", "memory": "1Mi"}}}
    cluster.pod("p", requests={"cpu": HUGE, "memory": "9E", "example.com/x": 0}, spec=whole)
    cluster.handle(node("n1"))

    assert ["p"] == cluster.bound()
    assert [] == cluster.faults


@pytest.mark.parametrize("amount", AMOUNTS, ids=str)
@pytest.mark.parametrize("resource", ["cpu", "memory", "pods", "example.com/x"])
def test_a_node_may_offer_any_amount(amount, resource):
    """Scores stay within their range, and pods are placed."""
    cluster = SimulatedCluster()
    cluster.handle(node("n1", allocatable={resource: amount}))
    cluster.pod("good", requests={"cpu": "1"})

    assert ["good"] == cluster.bound()
    assert [] == cluster.faults


@pytest.mark.parametrize("field", sorted(wide_fields(0)))
@pytest.mark.parametrize("number", [HUGE, -HUGE, 2**31])
def test_a_number_beyond_its_width_is_a_fault_of_its_object(field, number):
    """The message names object and field; the pod is left out, the next one is placed."""
    cluster = SimulatedCluster()
    cluster.pod("absurd", spec=wide_fields(number)[field])
    cluster.pod("good")

    assert ["good"] == cluster.bound()
    (fault,) = cluster.faults
    assert isinstance(fault, DecodeFault)
    assert ("Pod", "default/absurd") == (fault.kind, fault.key)
    assert "Expected `int`" in fault.message


@pytest.mark.parametrize("port", [HUGE, -1, 65536, 2**31 - 1, -(2**31)])
def test_a_port_out_of_range_affects_no_other_pod(port):
    """The next pod is placed whether the port is rejected or accepted."""
    cluster = SimulatedCluster()
    cluster.pod("bound", node_name="n0", host_ports=[port])
    cluster.pod("absurd", host_ports=[port])
    cluster.pod("good", host_ports=[80])

    assert "good" in cluster.bound()


def storage(amount: Any) -> list[dict[str, Any]]:
    """Return storage whose every amount is the given one."""
    return [
        {
            "kind": "StorageClass",
            "metadata": {"name": "late"},
            "provisioner": "csi.example",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        {
            "kind": "CSIDriver",
            "metadata": {"name": "csi.example"},
            "spec": {"storageCapacity": True},
        },
        {
            "kind": "PersistentVolume",
            "metadata": {"name": "v"},
            "spec": {
                "capacity": {"storage": amount},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "late",
            },
            "status": {"phase": "Available"},
        },
        {
            "kind": "CSIStorageCapacity",
            "metadata": {"name": "c", "namespace": "default"},
            "storageClassName": "late",
            "nodeTopology": {},
            "capacity": amount,
            "maximumVolumeSize": amount,
        },
        {
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "claim", "namespace": "default", "uid": "c1"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "late",
                "resources": {"requests": {"storage": amount}},
            },
        },
    ]


@pytest.mark.parametrize("amount", [*AMOUNTS, "much", "", 1.5], ids=str)
def test_storage_of_any_size_ends_in_a_decision(amount):
    """The pod that uses it gets a message; the one that does not is placed."""
    cluster = SimulatedCluster()
    for raw in storage(amount):
        cluster.handle(raw)
    cluster.pod(
        "user", spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "claim"}}]}
    )
    cluster.pod("good")
    bound = cluster.bound()
    queued = cluster.engine.queues.get("user")

    assert "good" in bound
    assert queued is not None
    assert queued.reported is not None or "user" in bound or cluster.engine.bindings.get("user")


def test_a_budget_and_a_driver_of_absurd_size_are_left_out():
    """The numbers of budgets and drivers have a width as well."""
    cluster = SimulatedCluster()
    cluster.handle(
        {
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "b", "namespace": "default"},
            "status": {"disruptionsAllowed": HUGE},
        }
    )
    drivers = [{"name": "d", "allocatable": {"count": HUGE}}]
    cluster.handle({"kind": "CSINode", "metadata": {"name": "n0"}, "spec": {"drivers": drivers}})
    cluster.pod("good")

    assert ["good"] == cluster.bound()
    assert ["PodDisruptionBudget", "CSINode"] == [fault.kind for fault in cluster.faults]
