"""Invariants of device allocation: the plugin agrees with the naive reference, and with itself
after changes.

Clusters are small and random; a seed determines each. No device is allocated twice and counters
hold because the reference guarantees it: the plugin's allocation on a node equals the reference's.
"""

from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

from scheduler.objects.claims import ResourceClaim
from scheduler.objects.devices import DeviceClass, ResourceSlice
from scheduler.objects.node import Node
from scheduler.plugins.dynamicresources.catalog import DeviceCatalog
from scheduler.plugins.dynamicresources.outcomes import (
    FAILED,
    FITS,
    INCOMPLETE,
    INVALID,
    LACKING,
    Outcomes,
)
from scheduler.state.cluster import Cluster
from tests.property.devicemaking import make_cluster
from tests.property.devicereference import BrokenError, Reference, TooLargeError

WORDS = {LACKING: None, INCOMPLETE: None, INVALID: "invalid", FAILED: "broken"}


class FollowedCluster:
    """A cluster with a catalog that follows it, as in the engine."""

    def __init__(self):
        self.cluster = Cluster()
        self.catalog = DeviceCatalog()
        self.catalog.rebuild(self.cluster)
        classes = self.cluster.store.of("DeviceClass")
        self.outcomes = Outcomes(self.catalog, classes, 200_000)

    def put(self, kind, raw, struct):
        self.catalog.apply(self.cluster.put_object(kind, msgspec.convert(raw, struct)))

    def drop(self, kind, raw, struct):
        self.catalog.apply(self.cluster.drop_object(kind, msgspec.convert(raw, struct)))

    def put_node(self, raw):
        self.catalog.apply(self.cluster.put_node(msgspec.convert(raw, Node)))

    def found(self, claims):
        """Return the result of claims by node, and the devices if they fit."""
        specs = tuple(msgspec.convert(one, ResourceClaim).spec for one in claims)
        names = tuple(f"default/{one['metadata']['name']}" for one in claims)
        kind = self.outcomes.kind_of(specs)
        table = self.cluster.table
        reported: dict[str, Any] = {}
        for name, row in table.rows.items():
            alone = np.zeros(table.size, dtype=np.bool_)
            alone[row] = True
            column = self.catalog.situations()[: table.size]
            found = self.outcomes.on(kind, names, alone, table.name, column)
            outcome = found.outcomes[row]
            if outcome == FITS:
                chosen = self.outcomes.search(kind, names, name) or []
                reported[name] = [
                    [(c.requested.path, c.slot.id, _amounts(c)) for c in one] for one in chosen
                ]
            else:
                reported[name] = WORDS.get(int(outcome), "timed out")
                assert bool(found.error) == (outcome >= FAILED)
        return reported


def fill(followed, cluster):
    nodes, slices, classes, taken, _ = cluster
    for one in nodes:
        followed.put_node(one)
    for one in slices:
        followed.put("ResourceSlice", one, ResourceSlice)
    for one in classes:
        followed.put("DeviceClass", one, DeviceClass)
    for one in taken:
        followed.put("ResourceClaim", one, ResourceClaim)


def expected(cluster):
    nodes, slices, classes, taken, claims = cluster
    reference = Reference(slices, classes, taken)
    reported = {}
    for node in nodes:
        try:
            found = reference.allocate(node, claims)
        except BrokenError:
            found = "broken"
        except TooLargeError:
            continue
        if isinstance(found, list):
            found = [
                [
                    (
                        path,
                        key,
                        {n: int(a * 10**9) for n, a in taken.items()}
                        if _is_shared(slices, key)
                        else None,
                    )
                    for path, key, taken in one
                ]
                for one in found
            ]
        reported[node["metadata"]["name"]] = found
    return reported


def _amounts(chosen):
    if chosen.taken is None:
        return None
    return {name: amount.nanos for name, amount in chosen.taken.items()}


def _is_shared(slices, key):
    return any(
        device.get("allowMultipleAllocations")
        for one in slices
        for device in one["spec"].get("devices", ())
        if (one["spec"]["driver"], one["spec"]["pool"]["name"], device["name"]) == key
    )


def agree(cluster, reported, when):
    """Compare the nodes that the reference could answer for."""
    known = expected(cluster)
    assert known == {node: reported[node] for node in known}, when


def check(seed):
    """Check one cluster: agreement at first, and again after claims and slices have been added and
    deleted.
    """
    random = Random(seed)
    cluster = make_cluster(random)
    followed = FollowedCluster()
    fill(followed, cluster)
    agree(cluster, followed.found(cluster[4]), seed)

    nodes, slices, _, taken, claims = cluster
    for one in random.sample(taken, len(taken) // 2):
        followed.drop("ResourceClaim", one, ResourceClaim)
        taken.remove(one)
    if slices and random.random() < 0.7:
        gone = slices.pop(random.randrange(len(slices)))
        followed.drop("ResourceSlice", gone, ResourceSlice)
    if random.random() < 0.5:
        nodes[0] = {"metadata": {"name": "n0", "labels": {"zone": "z1", "rack": "r9"}}}
        followed.put_node(nodes[0])
    agree(cluster, followed.found(claims), f"{seed}, after changes")
    fresh = DeviceCatalog()
    fresh.rebuild(followed.cluster)
    assert fresh.columns() == followed.catalog.columns(), f"{seed}, rebuilt"


def test_a_serial_number_counts_as_soon_as_it_is_named():
    """An attribute that distinguished no devices does so once a selector reads it."""
    devices = [
        {
            "name": f"d{i}",
            "attributes": {"serial": {"string": f"s{i}"}, "even": {"bool": i % 2 == 0}},
        }
        for i in range(100)
    ]
    pool = {"name": "n0", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": "n0", "pool": pool, "devices": devices}
    nodes = [{"metadata": {"name": "n0"}}]
    classes = [{"metadata": {"name": "any"}, "spec": {}}]

    def claims(expression):
        requested = {"deviceClassName": "any", "selectors": [{"cel": {"expression": expression}}]}
        meta = {"name": "c", "namespace": "default", "uid": "c"}
        requests = [{"name": "r", "exactly": requested}]
        return [{"metadata": meta, "spec": {"devices": {"requests": requests}}}]

    followed = FollowedCluster()
    slices = [{"metadata": {"name": "s"}, "spec": spec}]
    fill(followed, (nodes, slices, classes, [], []))
    path = 'device.attributes["gpu.example.com"]'
    for expression, device in ((f"!{path}.even", "d1"), (f'{path}.serial == "s97"', "d97")):
        ((found,),) = followed.found(claims(expression))["n0"]
        assert device == found[1][2]


@pytest.mark.parametrize("part", range(5))
def test_plugin_and_reference_agree(part):
    """On each node both give the same devices, or the same kind of rejection."""
    for seed in range(part * 20, part * 20 + 20):
        check(seed)


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("part", range(20))
def test_plugin_and_reference_agree_at_length(part):
    """The plugin and the reference agree on 20,000 clusters."""
    for seed in range(1000 + part * 1000, 2000 + part * 1000):
        check(seed)
