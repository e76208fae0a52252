"""Groups whose members request an extended resource that a DeviceClass serves, against enumeration.

A node serves the resource by its allocatable amount, or, where that is 0, by devices. A seed names
each cluster; every assignment of members to nodes is tried.
"""

import itertools
from collections import Counter
from random import Random
from typing import Any

import pytest

from scheduler.testing import node, pod
from tests.property.batches import batches
from tests.property.test_group_devices import group, placed_on, simulated
from tests.unit.plugins.devices import DRIVER, claim, gpu_class, local_slice

GPU = "example.com/gpu"
PODGROUP = {
    "apiVersion": "scheduling.k8s.io/v1alpha2",
    "kind": "PodGroup",
    "metadata": {"name": "g", "namespace": "default"},
}


def make_cluster(random):
    """Return nodes, slices, allocated claims, and each node's free amount of the resource."""
    nodes, slices, taken, left = [], [], [], {}
    for number in range(random.randint(2, 3)):
        name, amount = f"n{number}", random.randint(0, 3)
        offered = {"cpu": str(random.randint(1, 3))}
        if random.random() < 0.4 and amount:
            offered[GPU] = str(amount)
        elif amount:
            slices.append(local_slice(name, *(f"d{i}" for i in range(amount))))
            if random.random() < 0.3:
                result = {"request": "r", "driver": DRIVER, "pool": name, "device": "d0"}
                status = {"allocation": {"devices": {"results": [result]}}}
                taken.append(claim(f"taken-{name}", status=status))
                amount -= 1
        nodes.append(node(name, allocatable=offered))
        left[name] = int(offered["cpu"]), amount
    return nodes, slices, taken, left


def member(number, amounts, *, kind):
    """Return a member with a container for each amount of the resource.

    The first also requests a CPU.
    """
    containers = [
        {
            "name": f"c{place}",
            "image": "registry.example/app:1",
            "resources": {"requests": {GPU: str(n)} | ({} if place else {"cpu": "1"})},
        }
        for place, n in enumerate(amounts)
    ]
    labels = {"sakkara.group.name": "g"} if kind == "ConfigMap" else {}
    made = pod(f"m-{number}", labels=labels, spec={"containers": containers})
    made["spec"] |= {"schedulerName": "trellis"}
    if kind == "PodGroup":
        made["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    made["metadata"]["uid"] = f"uid-m-{number}"
    return made


def is_feasible(left, members):
    """Return whether some assignment of the members is valid on every node."""
    for places in itertools.product(left, repeat=len(members)):
        used = Counter[str]()
        for place, amounts in zip(places, members, strict=True):
            used[place] += sum(amounts)
        if all(
            places.count(name) <= cpus and used[name] <= amount
            for name, (cpus, amount) in left.items()
        ):
            return True
    return False


@pytest.mark.parametrize("batch", batches(20, 60, 20))
@pytest.mark.parametrize(("kind", "equal"), [("ConfigMap", True), ("PodGroup", False)])
def test_members_are_placed_exactly_when_they_can_be(kind, batch, *, equal):
    """All members if an assignment exists, else none; no device is allocated twice."""
    seen: Counter[bool] = Counter()
    for seed in range(batch * 20, batch * 20 + 20):
        random = Random(seed)
        nodes, slices, taken, left = make_cluster(random)
        choices = [(1,), (2,), (1, 1), (0, 1)]
        first = random.choice(choices)
        size = random.randint(2, 4)
        members = [first if equal else random.choice(choices) for _ in range(size)]
        gang = {"spec": {"schedulingPolicy": {"gang": {"minCount": size}}}}
        described = group(size) if kind == "ConfigMap" else PODGROUP | gang
        objects = [*nodes, *slices, *taken, gpu_class(extendedResourceName=GPU), described]
        pods = [member(i, amounts, kind=kind) for i, amounts in enumerate(members)]
        found = simulated(objects, pods)
        wanted = is_feasible(left, members)
        assert len(placed_on(found)) == (size if wanted else 0), seed
        check(found, taken)
        seen[wanted] += 1
    assert min(seen[True], seen[False]) >= 3


def check(found: Any, taken: Any) -> None:
    """Check that each device has one consumer, and that it is on the consumer's node."""
    used = Counter(
        (one["pool"], one["device"])
        for each in taken
        for one in each["status"]["allocation"]["devices"]["results"]
    )
    for placed in found["pods"]:
        for got in placed.get("claims", ()):
            for one in got["allocation"]["devices"]["results"]:
                assert one["pool"] == placed["node"]
                used[one["pool"], one["device"]] += 1
    assert max(used.values(), default=0) <= 1
