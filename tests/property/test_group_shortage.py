"""The message of a group that lacks devices: the nearest unit, and the users of the other
devices.
"""

import re
from collections import Counter
from random import Random

import pytest

from scheduler.testing import node, pod
from tests.property.batches import batches
from tests.property.test_group_devices import (
    CLIQUE,
    by_attribute,
    cliques,
    group,
    member,
    simulated,
)
from tests.unit.plugins.devices import allocated, claim, gpu_class, local_slice

PACK = {"clique": {"type": "pack", "hard": True}}
NEAREST = re.compile(
    r"the largest, (\w), has capacity for (\d+): (\d+) of (\d+) devices that match (?:is|are) free"
    r"((?:, \d+ in use by [^,]+?)*(?:, \d+ by others)?)(?:$|\.|;| \()"
)


def running(name, at, *claims, **labels):
    """Return a pod that runs on a node with claims."""
    made = pod(name, labels=labels, node_name=at)
    entries = [{"name": f"d{i}", "resourceClaimName": one} for i, one in enumerate(claims)]
    made["spec"] |= {"resourceClaims": entries}
    made["metadata"]["uid"] = f"uid-{name}"
    return made


def message(objects, size, pending, config=None):
    """Return the common message of all members."""
    found = simulated([*objects, gpu_class(), group(size, **PACK)], pending, config)
    (text,) = {one["message"] for one in found["pods"]}
    return text


def test_no_clique_has_as_many_devices_free():
    """Eight members with four devices each; the better clique has 28 free of 32, and the user of
    the others is named.
    """
    nodes, slices, claims, pods = [], [], [], []
    for i in range(16):
        clique = {CLIQUE: {"string": f"clique-{i // 8}"}}
        nodes.append(node(f"n{i}", allocatable={"cpu": "8"}))
        slices.append(
            local_slice(f"n{i}", *({"name": f"d{j}", "attributes": clique} for j in range(4)))
        )
    for i, user in ((0, "b-0"), (8, "b-1"), (9, "alone")):
        status = allocated("d0", "d1", "d2", "d3", node=f"n{i}", users=(user,))
        claims.append(claim(f"of-{user}", status=status))
        labels = {} if user == "alone" else {"sakkara.group.name": "b"}
        pods.append(running(user, f"n{i}", f"of-{user}", **labels))
    claims += [claim(f"c{i}", count=4) for i in range(8)]
    reported = message(
        [*nodes, *slices, *claims, *pods],
        8,
        [member(i, f"c{i}") for i in range(8)],
        by_attribute(),
    )
    assert (
        "do not fit one clique: the largest, clique-0, has capacity for 7: "
        "28 of 32 devices that match are free, 4 in use by the group default/b" in reported
    )


def test_the_nodes_together_have_too_few():
    """No clique is named; users of devices are listed by their number of devices, the first two by
    name.
    """
    nodes = [node(f"n{i}", allocatable={"cpu": "8"}) for i in range(2)]
    slices = [local_slice(f"n{i}", *(f"d{j}" for j in range(4))) for i in range(2)]
    claims = [
        claim("x", status=allocated("d0", "d1", "d2", node="n0", users=("x",))),
        claim("y", status=allocated("d0", "d1", node="n1", users=("y",))),
        claim("kept", status=allocated("d2", node="n1")),
        *(claim(f"c{i}") for i in range(3)),
    ]
    pods = [running("x", "n0", "x"), running("y", "n1", "y")]
    found = simulated(
        [*nodes, *slices, *claims, *pods, gpu_class(), group(3)],
        [member(i, f"c{i}") for i in range(3)],
    )
    (reported,) = {one["message"] for one in found["pods"]}
    assert "the nodes have capacity for 2" in reported
    assert (
        "2 of 8 devices that match are free, 3 in use by the pod default/x, "
        "2 in use by the pod default/y, 1 by others" in reported
    )


@pytest.mark.parametrize("batch", batches(40, 80, 40))
def test_the_nearest_unit_is_the_nearest_and_its_numbers_are_true(batch):
    """Compared with counting, where a hard pack cannot hold.

    Devices that a selector excludes do not count.
    """
    seen: Counter[object] = Counter()
    for seed in range(batch * 40, batch * 40 + 40):
        random = Random(7000 + seed)
        nodes, slices, _, _ = cliques(random)
        claims, pods = [], []
        free: Counter[str] = Counter()
        used: Counter[str] = Counter()
        for one in slices:
            spec = one["spec"]
            at = spec["nodeName"]
            for device in spec["devices"]:
                clique = device["attributes"][CLIQUE]["string"]
                if random.random() < 0.2:
                    device["attributes"] = {
                        **device["attributes"],
                        "old": {"bool": True},
                    }
                    continue
                device["attributes"] = {**device["attributes"], "old": {"bool": False}}
                if random.random() < 0.4:
                    name = f"u-{at}-{device['name']}"
                    claims.append(
                        claim(name, status=allocated(device["name"], node=at, users=(name,)))
                    )
                    pods.append(running(name, at, name))
                    used[clique] += 1
                else:
                    free[clique] += 1
        size = max(free.values(), default=0) + random.randint(1, 2)
        young = '!device.attributes["gpu.example.com"].old'
        claims += [claim(f"c{i}", selector=young) for i in range(size)]
        reported = message(
            [*nodes, *slices, *claims, *pods],
            size,
            [member(i, f"c{i}") for i in range(size)],
            by_attribute(),
        )
        if not free or sum(free.values()) < size:
            seen["too few in all"] += 1
            assert "one clique" not in reported
            assert f"{sum(free.values())} of {(free + used).total()} devices" in reported, reported
            continue
        found = NEAREST.search(reported)
        assert found, reported
        clique, most, left, total, users = found.groups()
        assert int(most) == int(left) == free[clique] == max(free.values()), seed
        assert int(total) == free[clique] + used[clique], seed
        assert sum(map(int, re.findall(r", (\d+) ", users))) == used[clique], (seed, reported)
        seen[bool(users)] += 1
    assert min(seen.values()) >= 5
    assert len(seen) == 3
