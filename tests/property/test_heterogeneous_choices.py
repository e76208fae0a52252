"""Groups that need every available device, where members that each take the first fitting one fail.

Each cluster has a solution by construction: its requests are made from its devices, one from each.
Only clusters count in which members, one after the other, each on the first node that serves it, do
not all find a device.
"""

from random import Random

from scheduler.testing import node
from tests.property.devicereference import Reference
from tests.property.test_group_devices import check, device, placed_on, selects, simulate_case
from tests.unit.plugins.devices import claim, gpu_class, local_slice

ANY = {"deviceClassName": "gpu"}


def make_cluster(random):
    """Return nodes, slices, allocated claims (none), and each member's claims, the least demanding
    first.
    """
    nodes, slices, models = [], [], []
    for name in ("n0", "n1"):
        devices = [device(random, i) for i in range(random.randint(2, 4))]
        models += [one["attributes"]["model"]["string"] for one in devices]
        nodes.append(node(name, labels={"rack": "r"}, allocatable={"cpu": str(len(devices))}))
        slices.append(local_slice(name, *devices))
    random.shuffle(models)
    asked = sorted((choosing(random, model) for model in models), key=lambda one: one[0])
    members = [[claim(f"c{i}-0", requests=[one])] for i, (_, one) in enumerate(asked)]
    return nodes, slices, [], members


def choosing(random, model):
    """Return how choosy a request is, and the request: a device of the model serves it."""
    only = ANY | {"selectors": [{"cel": {"expression": selects(model)}}]}
    kind = random.choice(("any", "first", "only"))
    if kind == "first":
        subs = [{"name": "any", **ANY}, {"name": "only", **only}]
        return 1, {"name": "r", "firstAvailable": subs[:: random.choice((1, -1))]}
    return (
        (2, {"name": "r", "exactly": only})
        if kind == "only"
        else (0, {"name": "r", "exactly": ANY})
    )


def serves_one_by_one(cluster):
    """Return whether all members get devices if each, in order, takes the first free ones on the
    first node that has them.
    """
    nodes, slices, given, members = cluster[0], cluster[1], list(cluster[2]), cluster[3]
    for (asked,) in members:
        reference = Reference(slices, [gpu_class()], given)
        tried = (reference.allocate(one, [asked]) for one in nodes)
        found = next((one for one in tried if isinstance(one, list)), None)
        if found is None:
            return False
        results = [
            {"request": path, "driver": driver, "pool": pool, "device": name}
            for path, (driver, pool, name), _ in found[0]
        ]
        given.append(asked | {"status": {"allocation": {"devices": {"results": results}}}})
    return True


def test_choices_of_heterogeneous_members_are_made_together():
    """Members that would fail one by one are all placed, without sharing a device."""
    clusters = {seed: make_cluster(Random(seed)) for seed in range(60)}
    hard = {seed: cluster for seed, cluster in clusters.items() if not serves_one_by_one(cluster)}
    assert len(hard) >= 25
    for seed, cluster in hard.items():
        found = simulate_case(cluster, {})
        assert len(placed_on(found)) == len(cluster[3]), seed
        check(cluster, found)
