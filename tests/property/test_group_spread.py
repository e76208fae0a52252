"""Topology spread among heterogeneous members, compared with enumeration: a gang is placed if and
only if there is a placement that the filter accepts for each member beside all others.

Members differ in their requests, in whether a selector counts them, and in whether they have the
constraint.
"""

import itertools
from collections import Counter
from random import Random

import pytest

from scheduler.testing import node, pod
from tests.property.batches import batches
from tests.unit.plugins import groupobjects
from tests.unit.simulate.asking import place

BATCH = 25
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
GROUP, SAKKARA = "scheduling.x-k8s.io/pod-group", "sakkara.group.name"


def random_case(random, *, equal=False):
    """Return nodes, bound pods and members: some nodes have no zone, some zones no capacity.

    With `equal` the members, of a group of Sakkara, have the same spec and different labels.
    """
    nodes = []
    for number in range(random.randint(2, 5)):
        labels = {HOST: f"n{number}"}
        if random.random() < 0.9:
            labels[ZONE] = random.choice("abc")
        nodes.append(node(f"n{number}", cpu=str(random.randint(1, 6)), labels=labels))
    bound = [
        pod(
            f"bound-{number}",
            labels={"app": random.choice("xy")},
            requests={"cpu": "1"},
            spec={"nodeName": random.choice(nodes)["metadata"]["name"]},
        )
        for number in range(random.choice([0, 0, 1, 2]))
    ]
    # The API server allows one hard constraint for each key.
    keys = random.choice([[ZONE], [ZONE], [HOST], [ZONE, HOST]])
    constraints = [constraint(random, key) for key in keys]
    cpus = ("1",) if equal else random.choice([("1",), ("1", "2")])
    members = [
        pod(
            f"g-{number}",
            labels={SAKKARA if equal else GROUP: "g", "app": random.choice("xy"), "team": "one"},
            requests={"cpu": random.choice(cpus)},
            spec={
                "schedulerName": "trellis",
                "topologySpreadConstraints": [
                    one for one in constraints if equal or random.random() < 0.8
                ],
            },
        )
        for number in range(random.randint(2, 5))
    ]
    return nodes, bound, members


def constraint(random, key):
    """Return a hard constraint; some count all members, others those of one label."""
    found = {
        "maxSkew": random.randint(1, 2),
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {
            "matchLabels": random.choice([{"app": "x"}, {"app": "x"}, {"team": "one"}])
        },
    }
    if random.random() < 0.15:
        found["minDomains"] = random.randint(2, 3)
    return found


def exists(nodes, bound, members):
    """Return whether there is a placement of all members."""
    names = [one["metadata"]["name"] for one in nodes]
    labels = {one["metadata"]["name"]: one["metadata"]["labels"] for one in nodes}
    free = {one["metadata"]["name"]: cpu(one["status"]["allocatable"]) for one in nodes}
    for one in bound:
        free[one["spec"]["nodeName"]] -= requested(one)
    there = [(one, one["spec"]["nodeName"]) for one in bound]
    for chosen in itertools.product(names, repeat=len(members)):
        used: Counter[str] = Counter()
        for one, name in zip(members, chosen, strict=True):
            used[name] += requested(one)
        if any(amount > free[name] for name, amount in used.items()):
            continue
        placed = [*there, *zip(members, chosen, strict=True)]
        if all(accepts(one, name, placed, labels) for one, name in placed[len(there) :]):
            return True
    return False


def accepts(one, name, placed, labels):
    """Return whether the filter accepts a member on its node beside all other pods."""
    constraints = one["spec"].get("topologySpreadConstraints", ())
    keys = {each["topologyKey"] for each in constraints}
    if not keys <= labels[name].keys():
        return False
    counting = {at: own for at, own in labels.items() if keys <= own.keys()}
    for each in constraints:
        key = each["topologyKey"]
        selector = each["labelSelector"]["matchLabels"].items()
        numbers = Counter({own[key]: 0 for own in counting.values()})
        for other, at in placed:
            if (
                other is not one
                and at in counting
                and selector <= other["metadata"]["labels"].items()
            ):
                numbers[counting[at][key]] += 1
        least = min(numbers.values())
        if len(numbers) < each.get("minDomains", 0):
            least = 0
        own = numbers[labels[name][key]] + (selector <= one["metadata"]["labels"].items())
        if own - least > each["maxSkew"]:
            return False
    return True


def requested(one):
    """Return the cpu that a pod requests."""
    return cpu(one["spec"]["containers"][0]["resources"]["requests"])


def cpu(amounts):
    """Return the cpu among amounts."""
    return int(amounts["cpu"])


def pod_group(size):
    """Return the group of the members as a PodGroup."""
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"minMember": size},
    }


def is_placed(group, nodes, bound, members):
    """Check that all members are placed if there is a placement, else none; return the verdict."""
    found = place(*nodes, *bound, group, *members)
    on = {one.name: one.node for one in found.pods if one.node}

    fits = exists(nodes, bound, members)
    assert len(on) == (len(members) if fits else 0), (nodes, members, found.pods)
    return fits


@pytest.mark.parametrize("batch", batches(100, 2_000))
def test_a_gang_is_placed_if_and_only_if_spread_lets_it(batch):
    """All members are placed exactly if the filter accepts all of them together, else none."""
    placed = 0
    for number in range(BATCH):
        nodes, bound, members = random_case(Random(f"spread {batch}/{number}"))
        placed += is_placed(pod_group(len(members)), nodes, bound, members)
    assert placed >= BATCH // 4


def test_members_of_one_spec_are_counted_by_their_labels():
    """A constraint selects some of the members, although all have the same spec."""
    placed = 0
    for number in range(2 * BATCH):
        nodes, bound, members = random_case(Random(f"equal specs {number}"), equal=True)
        placed += is_placed(groupobjects.group("g", len(members), {}), nodes, bound, members)
    assert placed >= BATCH
