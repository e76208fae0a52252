"""Groups whose members claim devices, compared with enumeration: placed exactly if a placement
exists.

Clusters are small and random; a seed determines each. Every assignment of members to nodes is
tried, and on each node whether the claims of all its members can be allocated together, by the
naive reference.
"""

import itertools
import json
from collections import Counter
from random import Random
from typing import Any

import pytest

from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.simulate.batch import Batch
from scheduler.simulate.setups import Setups
from scheduler.simulate.stage import AnswerOptions
from scheduler.testing import node, pod
from tests.property.batches import batches
from tests.property.devicereference import Reference, amount
from tests.unit.plugins.devices import DRIVER, allocated, claim, gpu_class, local_slice

MODELS = ("a", "h")
CLIQUE = "fabric.example.com/clique"


def group(size, **constraints):
    """Return the ConfigMap of a group `g`."""
    data = {"name": "g", "size": str(size), "priority": "0"}
    data["constraints"] = json.dumps(constraints)
    meta = {"name": "g", "namespace": "default", "labels": {"sakkara.group": ""}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def member(number, *claims):
    """Return a member of the group with claims by name, and little else."""
    made = pod(f"m-{number}", labels={"sakkara.group.name": "g"}, requests={"cpu": "1"})
    entries = [{"name": f"d{i}", "resourceClaimName": one} for i, one in enumerate(claims)]
    made["spec"] |= {"resourceClaims": entries, "schedulerName": "trellis"}
    made["metadata"]["uid"] = f"uid-m-{number}"
    return made


def simulated(objects, pending, config=None):
    """Return the result of `simulate`."""
    line = {"objects": objects, "pending": pending}
    if config:
        line["config"] = config
    batch = Batch(Setups(Registry(IN_TREE)), AnswerOptions(), lambda _name: "")
    answer = json.loads(batch.answer(json.dumps(line).encode()))
    assert "error" not in answer, answer["error"]
    return answer["simulation"]


def selects(model):
    return f'device.attributes["{DRIVER}"].model == "{model}"'


def make_cluster(random, *, equal_claims):
    """Return nodes, slices, claims that have devices, and the claims of each member."""
    nodes = [
        node(f"n{i}", labels={"rack": f"r{i % 2}"}, allocatable={"cpu": str(random.randint(1, 4))})
        for i in range(random.randint(2, 4))
    ]
    slices, taken = [], []
    for one in nodes:
        name = one["metadata"]["name"]
        devices = [device(random, i) for i in range(random.randint(1, 4))]
        if random.random() < 0.3:
            slices += partitioned(random, name)
            continue
        slices.append(local_slice(name, *devices))
        for i in range(len(devices)):
            if random.random() < 0.2:
                result = {"request": "r", "driver": DRIVER, "pool": name, "device": f"d{i}"}
                status = {"allocation": {"devices": {"results": [result]}}}
                taken.append(claim(f"taken-{name}-{i}", status=status))
    first = asks(random)
    members = [
        [
            claim(f"c{i}-{j}", requests=one)
            for j, one in enumerate(first if equal_claims else asks(random))
        ]
        for i in range(random.randint(2, 4))
    ]
    return nodes, slices, taken, members


def device(random, number):
    attributes = {
        "model": {"string": random.choice(MODELS)},
        "root": {"string": random.choice("pq")},
    }
    return {"name": f"d{number}", "attributes": attributes}


def partitioned(random, name):
    counters = {"memory": {"value": str(random.randint(2, 6))}}
    cut = local_slice(name)
    cut["spec"]["pool"]["resourceSliceCount"] = 2
    parts = []
    for i in range(random.randint(2, 4)):
        size = {"memory": {"value": str(random.randint(1, 3))}}
        parts.append(
            device(random, i) | {"consumesCounters": [{"counterSet": "card", "counters": size}]}
        )
    shared = {"sharedCounters": [{"name": "card", "counters": counters}]}
    spec = cut["spec"]
    whole = {k: v for k, v in spec.items() if k != "devices"} | shared
    meta = {"name": f"counters-{name}"}
    spec["devices"] = parts
    return [cut, {**cut, "metadata": meta, "spec": whole}]


def asks(random):
    """Return the requests of each claim of a member."""
    return [requests(random) for _ in range(random.choice((1, 1, 2)))]


def requests(random):
    kind = random.choice(("any", "one", "pair", "first"))
    ask: dict[str, Any] = {"deviceClassName": "gpu", "count": 2 if kind == "pair" else 1}
    if kind == "one":
        ask["selectors"] = [{"cel": {"expression": selects(random.choice(MODELS))}}]
    if kind != "first":
        return [{"name": "r", "exactly": ask}]
    subs = [
        {"name": model, **ask, "selectors": [{"cel": {"expression": selects(model)}}]}
        for model in random.sample(MODELS, 2)
    ]
    return [{"name": "r", "firstAvailable": subs}]


def assignments(cluster):
    """Yield every assignment of members to nodes under which all claims can be had."""
    nodes, slices, taken, members = cluster
    reference = Reference(slices, [gpu_class()], taken)
    known: dict[Any, bool] = {}
    for places in itertools.product(range(len(nodes)), repeat=len(members)):
        if all(fits(reference, known, nodes[at], at, places, members) for at in set(places)):
            yield places


def fits(reference, known, one, at, places, members):
    here = tuple(number for number, place in enumerate(places) if place == at)
    if (at, here) not in known:
        claims = [each for number in here for each in members[number]]
        has_cpu = int(one["status"]["allocatable"]["cpu"]) >= len(here)
        known[at, here] = has_cpu and isinstance(reference.allocate(one, claims), list)
    return known[at, here]


def simulate_case(cluster, constraints):
    nodes, slices, taken, members = cluster
    pods = [
        member(i, *(each["metadata"]["name"] for each in claims))
        for i, claims in enumerate(members)
    ]
    claims = [each for one in members for each in one]
    objects = [*nodes, *slices, *taken, *claims, gpu_class(), group(len(members), **constraints)]
    return simulated(objects, pods)


def check(cluster, found):
    """No device is allocated twice, all exist and were free, selectors and counters hold."""
    _, slices, taken, members = cluster
    specs = {one["metadata"]["name"]: one["spec"] for claims in members for one in claims}
    devices = {
        (DRIVER, one["spec"]["pool"]["name"], each["name"]): each
        for one in slices
        for each in one["spec"].get("devices", ())
    }
    used = Counter(
        (r["driver"], r["pool"], r["device"])
        for one in taken
        for r in one["status"]["allocation"]["devices"]["results"]
    )
    for placed in found["pods"]:
        for got in placed["claims"]:
            (request,) = specs[got["name"]]["devices"]["requests"]
            for result in got["allocation"]["devices"]["results"]:
                key = result["driver"], result["pool"], result["device"]
                used[key] += 1
                assert result["pool"] == placed["node"]
                wanted = request.get("exactly") or next(
                    one for one in request["firstAvailable"]
                    if result["request"] == f"r/{one['name']}"
                )  # fmt: skip
                for selector in wanted.get("selectors", ()):
                    model = devices[key]["attributes"]["model"]["string"]
                    assert selector["cel"]["expression"] == selects(model)
    assert max(used.values(), default=0) <= 1
    for one in slices:
        for cut in one["spec"].get("sharedCounters", ()):
            pool = one["spec"]["pool"]["name"]
            taken_of = sum(
                amount(devices[key]["consumesCounters"][0]["counters"]["memory"]["value"])
                for key in used
                if key[1] == pool
            )
            assert taken_of <= amount(cut["counters"]["memory"]["value"])


def placed_on(found):
    return {one["name"]: one["node"] for one in found["pods"] if one["result"] == "Scheduled"}


# The long form has them all.
PARTS = [pytest.param(n, marks=() if n < 1 else pytest.mark.long) for n in range(20)]


@pytest.mark.parametrize("part", PARTS)
def test_members_with_different_claims_are_placed_exactly_when_feasible(part):
    """All members are placed if a placement exists, otherwise none; their allocations are
    consistent.
    """
    seen: Counter[Any] = Counter()
    for seed in range(part * 20, part * 20 + 20):
        cluster = make_cluster(Random(seed), equal_claims=False)
        found = simulate_case(cluster, {})
        is_feasible = next(assignments(cluster), None) is not None
        assert len(placed_on(found)) == (len(cluster[3]) if is_feasible else 0), seed
        seen[is_feasible] += 1
        if is_feasible:
            check(cluster, found)
    assert min(seen[True], seen[False]) >= 2


@pytest.mark.parametrize("part", PARTS)
def test_like_members_are_placed_best(part):
    """With the pack preference they use the fewest nodes, by enumeration."""
    seen: Counter[Any] = Counter()
    for seed in range(part * 20, part * 20 + 20):
        cluster = make_cluster(Random(1000 + seed), equal_claims=True)
        found = simulate_case(cluster, {"node": {"type": "pack"}})
        least = min((len(set(places)) for places in assignments(cluster)), default=0)
        assert len(set(placed_on(found).values())) == least, seed
        assert len(placed_on(found)) == (len(cluster[3]) if least else 0), seed
        seen[least] += 1
        if least:
            check(cluster, found)
    assert len(seen) >= 2


def by_attribute():
    """Return a configuration whose tree is of cliques, an attribute of devices, and nodes."""
    args = {"name": "ClusterTopologyPlacementGroup", "args": {"topologyLabels": [CLIQUE]}}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "trellis",
                "plugins": {"preEnqueue": {"enabled": [{"name": args["name"]}]}},
                "pluginConfig": [args],
            }
        ],
    }


def cliques(random):
    """Return nodes in cliques with one to three devices each, and as many claims as the group has
    members.
    """
    nodes, slices = [], []
    for i in range(random.randint(3, 6)):
        clique = {CLIQUE: {"string": random.choice("xyz")}}
        devices = [{"name": f"d{j}", "attributes": clique} for j in range(random.randint(1, 3))]
        nodes.append(node(f"n{i}", allocatable={"cpu": "8"}))
        slices.append(local_slice(f"n{i}", *devices))
    return nodes, slices, [], [[claim(f"c{i}-0")] for i in range(random.randint(2, 7))]


@pytest.mark.parametrize("batch", batches(20, 40, 20))
@pytest.mark.parametrize("hard", [True, False])
def test_an_attribute_of_devices_is_a_level(hard, batch):
    """A hard pack uses one clique; a preference the fewest; nodes' labels show neither."""
    seen: Counter[Any] = Counter()
    for seed in range(batch * 20, batch * 20 + 20):
        cluster = nodes, slices, _, members = cliques(Random(2000 + seed))
        claims = [each for one in members for each in one]
        pods = [member(i, f"c{i}-0") for i in range(len(members))]
        rule = {"clique": {"type": "pack", **({"hard": True} if hard else {})}}
        objects = [*nodes, *slices, *claims, gpu_class(), group(len(members), **rule)]
        found = simulated(objects, pods, by_attribute())
        devices_of: Counter[str] = Counter()
        clique_of: dict[str, str] = {}
        for one in slices:
            devices = one["spec"]["devices"]
            clique_of[one["spec"]["nodeName"]] = devices[0]["attributes"][CLIQUE]["string"]
            devices_of[clique_of[one["spec"]["nodeName"]]] += len(devices)
        largest = itertools.accumulate(sorted(devices_of.values(), reverse=True))
        least = next((n for n, sum_ in enumerate(largest, 1) if sum_ >= len(members)), 0)
        least = 0 if hard and least > 1 else least
        assert len({clique_of[at] for at in placed_on(found).values()}) == least, seed
        seen[least] += 1
        if least:
            check(cluster, found)
    assert len(seen) >= 2


@pytest.mark.parametrize("batch", batches(20, 60, 20))
def test_devices_that_many_nodes_reach_are_given_once(batch):
    """A member without a device on its own node gets the one that the others do not need."""
    seen: Counter[Any] = Counter()
    for seed in range(batch * 20, batch * 20 + 20):
        random = Random(3000 + seed)
        nodes = [node(f"n{i}", allocatable={"cpu": "1"}) for i in range(3)]
        local = [random.randint(0, 1) for _ in nodes]
        net = random.randint(0, 2)
        slices = [local_slice(f"n{i}", "d0") for i, number in enumerate(local) if number]
        shared = local_slice("a-net", *(f"d{i}" for i in range(net)))
        del shared["spec"]["nodeName"]
        shared["spec"]["allNodes"] = True
        slices += [shared] if net else []
        size = random.randint(1, 3)
        claims = [claim(f"c{i}-0") for i in range(size)]
        pods = [member(i, f"c{i}-0") for i in range(size)]
        found = simulated([*nodes, *slices, *claims, gpu_class(), group(size)], pods)
        is_feasible = sum(local) + net >= size
        assert len(placed_on(found)) == (size if is_feasible else 0), seed
        seen[is_feasible] += 1
        given = [
            (result["pool"], result["device"])
            for one in found["pods"]
            for got in one.get("claims", ())
            for result in got["allocation"]["devices"]["results"]
        ]
        assert len(given) == len(set(given)) == (size if is_feasible else 0)
    assert min(seen[True], seen[False]) >= 2


def test_a_claim_that_members_share_is_had_once():
    """All of them are placed where its device is, and each has another device of its own."""
    nodes = [node(f"n{i}", allocatable={"cpu": "8"}) for i in range(3)]
    slices = [
        local_slice("n0", "d0", "d1"),
        local_slice("n1", *(f"d{i}" for i in range(4))),
        local_slice("n2", "d0", "d1", "d2"),
    ]
    claims = [claim("shared"), *(claim(f"c{i}") for i in range(3))]
    pods = [member(i, "shared", f"c{i}") for i in range(3)]
    found = simulated([*nodes, *slices, *claims, gpu_class(), group(3)], pods)

    assert {"m-0": "n1", "m-1": "n1", "m-2": "n1"} == placed_on(found)
    got = {
        (one["name"], tuple(r["device"] for r in one["allocation"]["devices"]["results"]))
        for placed in found["pods"]
        for one in placed["claims"]
    }
    assert len(got) == 4
    assert len({devices for _, devices in got}) == 4


@pytest.mark.parametrize("batch", batches(30, 60, 30))
def test_devices_of_an_earlier_try_do_not_keep_a_group_where_it_does_not_fit(batch):
    """Claims that were written before a restart are freed where the group fits nowhere with them,
    not else.
    """
    seen: Counter[Any] = Counter()
    for seed in range(batch * 30, batch * 30 + 30):
        random = Random(4000 + seed)
        nodes, slices, taken, members = make_cluster(random, equal_claims=random.random() < 0.5)
        free = [
            (one["spec"]["nodeName"], each["name"])
            for one in slices
            for each in one["spec"].get("devices", ())
            if not any("counterSet" in part for part in each.get("consumesCounters", ()))
        ]
        used = {
            (r["pool"], r["device"])
            for one in taken
            for r in one["status"]["allocation"]["devices"]["results"]
        }
        free = [one for one in free if one not in used]
        random.shuffle(free)
        kept = []
        for number, claims in enumerate(members):
            for one in claims:
                request = one["spec"]["devices"]["requests"][0].get("exactly")
                is_plain = request is not None and request["count"] == 1
                if is_plain and not request.get("selectors") and free and random.random() < 0.5:
                    at, name = free.pop()
                    users = (f"m-{number}",) if random.random() < 0.5 else ()
                    one["status"] = allocated(name, node=at, users=users)
                    kept.append(one)
        cluster = nodes, slices, taken, members
        found = simulate_case(cluster, {})
        for one in kept:
            del one["status"]
        is_feasible = next(assignments(cluster), None) is not None
        assert len(placed_on(found)) == (len(members) if is_feasible else 0), seed
        seen[is_feasible, bool(kept)] += 1
        if is_feasible:
            check(cluster, found)
    assert seen[True, True] >= 4
    assert seen[False, True] >= 2


def test_devices_with_other_users_are_not_freed():
    """A claim that a running pod shares stays as it is, and the group waits."""
    nodes = [node("n0", allocatable={"cpu": "1"}), node("n1", allocatable={"cpu": "4"})]
    slices = [local_slice("n0", "d0"), local_slice("n1", "d0", "d1")]
    claims = [claim("c0", status=allocated("d0", node="n0", users=("busy",))), claim("c1")]
    busy = pod("busy", node_name="n0", requests={"cpu": "1"})
    busy["metadata"]["uid"] = "uid-busy"
    objects = [*nodes, *slices, *claims, busy, gpu_class(), group(2)]
    found = simulated(objects, [member(0, "c0"), member(1, "c1")])
    assert not placed_on(found)


def test_a_group_has_one_claim_of_a_template():
    """`simulate` makes it as the claim controller does; all members are placed where its one device
    is.
    """
    nodes = [node(f"n{i}", allocatable={"cpu": "8"}) for i in range(3)]
    slices = [local_slice("n2", "d0")]
    entry = {"name": "link", "resourceClaimTemplateName": "t"}
    ask = {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "t", "namespace": "default"},
        "spec": {"spec": {"devices": ask}},
    }
    ring = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "ring", "namespace": "default", "uid": "uid-ring"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}, "resourceClaims": [entry]},
    }
    pods = []
    for i in range(3):
        made = member(i)
        made["metadata"]["labels"] = {}
        made["spec"] |= {"resourceClaims": [entry], "schedulingGroup": {"podGroupName": "ring"}}
        pods.append(made)
    found = simulated([*nodes, *slices, template, gpu_class(), ring], pods)

    assert {f"m-{i}": "n2" for i in range(3)} == placed_on(found)
    assert {"ring-link-made"} == {one["name"] for got in found["pods"] for one in got["claims"]}
