"""The distance within placed applications: total network cost by rule and cluster shape.

    python -m tests.perf.quality
    python -m tests.perf.quality --applications 50 --out results.json

Fifty random applications, each placed into a cluster that is partly full, by: random choice among
feasible nodes, kube-scheduler's default plugins, the peer's rule (its queue sort and
NetworkOverhead with its own arguments, weight 5; in the order of KahnSort, and of ReverseKahn), our
profile without a file, and ours with TopologicalSort and NetworkMinCost beside. The figure is
`summary.networkCost`: the sum over all pairs of pods with traffic. Writes one JSON file below
results/ and prints the table.
"""

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from scheduler.base.clock import RealClock
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.objects.quantity import milli_quantity
from scheduler.simulate.batch import Batch
from scheduler.simulate.setups import Setups
from scheduler.simulate.stage import AnswerOptions
from tests.perf.machine import machine, versions

SCHEMA = "trellis-network-quality/1"
GROUP, WORKLOAD = "appgroup.diktyo.x-k8s.io", "appgroup.diktyo.x-k8s.io.workload"
REGION, ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
# Regions, zones in each, nodes in each.
SHAPES = {"two regions": (2, 2, 4), "many regions": (5, 3, 3), "one region": (1, 6, 5)}
NODE_MILLI = 8000
Manifest = dict[str, Any]


def profile(*plugins: tuple[str, int], sort: str = "", **args: Manifest) -> Manifest:
    """Return a configuration with kube-scheduler's defaults and these plugins beside."""
    lists: Manifest = {"multiPoint": {"enabled": [{"name": n, "weight": w} for n, w in plugins]}}
    if not plugins:
        # Every profile has this plugin; the basis of the comparison is kube-scheduler's own set.
        lists["multiPoint"]["disabled"] = [{"name": "NetworkOverhead"}]
    if sort:
        lists["queueSort"] = {"enabled": [{"name": sort}], "disabled": [{"name": "*"}]}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "trellis",
                "plugins": lists,
                "pluginConfig": [{"name": name, "args": given} for name, given in args.items()],
            }
        ],
    }


PEER = {"dependents": "Ignore", "bandwidth": "Ignore"}
RULES: dict[str, Manifest | None] = {
    "kube-scheduler's defaults": profile(),
    "the peer's rule": profile(
        ("NetworkOverhead", 5), sort="TopologicalSort", NetworkOverhead=PEER
    ),
    "the peer's rule, dependencies first": profile(
        ("NetworkOverhead", 5), sort="TopologicalSort", NetworkOverhead=PEER
    ),
    "ours, without a file": None,
    "ours, with TopologicalSort and NetworkMinCost": profile(
        ("NetworkOverhead", 5),
        ("NetworkMinCost", 5),
        sort="TopologicalSort",
        NetworkOverhead={"dependents": "Count", "indirect": "Count"},
    ),
}
BASIS, PEERS = "kube-scheduler's defaults", "the peer's rule"
REVERSED = "the peer's rule, dependencies first"


def cluster(shape: tuple[int, int, int], random: Random) -> tuple[list[Manifest], Manifest]:
    """Return the nodes of a shape, and the costs between its zones and regions."""
    regions, zones, each = shape
    nodes: list[Manifest] = []
    costs: Manifest = {REGION: {}, ZONE: {}}
    for one in range(regions):
        for other in range(one):
            _link(costs[REGION], f"r{one}", f"r{other}", random.randrange(20, 100))
        for zone in range(zones):
            for other in range(zone):
                _link(costs[ZONE], f"r{one}z{zone}", f"r{one}z{other}", random.randrange(3, 15))
            nodes += [_node(f"r{one}z{zone}n{n}", f"r{one}", f"r{one}z{zone}") for n in range(each)]
    levels = [
        {
            "topologyKey": key,
            "originList": [{"origin": o, "costList": costs_to} for o, costs_to in table.items()],
        }
        for key, table in costs.items()
    ]
    topology = {
        "apiVersion": "networktopology.diktyo.x-k8s.io/v1alpha1",
        "kind": "NetworkTopology",
        "metadata": {"name": "nt-default", "namespace": "default"},
        "spec": {"weights": [{"name": "UserDefined", "topologyList": levels}]},
    }
    return nodes, topology


def application(random: Random) -> tuple[Manifest, list[Manifest]]:
    """Return an AppGroup whose workloads form a random graph without rings, and its pods."""
    count = random.randrange(4, 13)
    names = [f"w{number}" for number in range(count)]
    depends: dict[str, list[str]] = {name: [] for name in names}
    for number in range(1, count):
        for parent in random.sample(range(number), min(number, random.choice((1, 1, 2, 3)))):
            depends[names[parent]].append(names[number])

    def ref(name: str) -> Manifest:
        return {"kind": "Deployment", "name": name, "selector": name}

    group = {
        "apiVersion": "appgroup.diktyo.x-k8s.io/v1alpha1",
        "kind": "AppGroup",
        "metadata": {"name": "app", "namespace": "default"},
        "spec": {
            "numMembers": count,
            "topologySortingAlgorithm": "KahnSort",
            "workloads": [
                {
                    "workload": ref(name),
                    "dependencies": [
                        {"workload": ref(on), "maxNetworkCost": 10000} for on in depends[name]
                    ],
                }
                for name in names
            ],
        },
        # Names are made in an order that keeps all dependencies.
        "status": {
            "topologyOrder": [{"workload": ref(n), "index": i} for i, n in enumerate(names, 1)]
        },
    }
    pods = []
    for name in names:
        milli = random.choice((100, 250, 500, 1000))
        pods += [_pod(f"{name}-{n}", name, milli) for n in range(random.randrange(1, 5))]
    random.shuffle(pods)
    return group, pods


def turned(group: Manifest) -> Manifest:
    """Return an AppGroup with its order turned round."""
    order = group["status"]["topologyOrder"]
    last = len(order) + 1
    return group | {"status": {"topologyOrder": [e | {"index": last - e["index"]} for e in order]}}


def background(nodes: list[Manifest], random: Random) -> list[Manifest]:
    """Return pods without an application that fill the nodes unevenly."""
    pods = []
    for number, node in enumerate(nodes):
        pod = _pod(f"other-{number}", "", random.randrange(0, NODE_MILLI * 3 // 4, 100))
        pod["metadata"]["labels"] = {}
        pod["spec"]["nodeName"] = node["metadata"]["name"]
        pods.append(pod)
    return pods


def by_chance(
    nodes: list[Manifest], placed: list[Manifest], pods: list[Manifest], random: Random
) -> list[Manifest]:
    """Assign each pod to a random feasible node."""
    free = {node["metadata"]["name"]: NODE_MILLI for node in nodes}
    for pod in placed:
        free[pod["spec"]["nodeName"]] -= _milli(pod)
    found = []
    for pod in pods:
        name = random.choice([name for name, left in free.items() if left >= _milli(pod)])
        free[name] -= _milli(pod)
        found.append({**pod, "spec": {**pod["spec"], "nodeName": name}})
    return found


def measure(applications: int, seed: int = 0) -> dict[str, dict[str, Any]]:
    """Return per shape and rule the total cost, and how many pods were placed."""
    batch = Batch(Setups(Registry(IN_TREE)), AnswerOptions(), lambda _name: "")

    def summary(
        objects: list[Manifest], pending: list[Manifest], config: Manifest | None
    ) -> Manifest:
        line = {"id": 0, "objects": objects, "pending": pending, "config": config}
        answer = json.loads(batch.answer(json.dumps(line).encode()))
        found: Manifest = answer["simulation"]["summary"]
        return found

    rows: dict[str, dict[str, Any]] = {}
    for shape, sizes in SHAPES.items():
        row: dict[str, Any] = {
            name: {"cost": 0, "placed": 0, "worseThanPeer": 0} for name in ("random", *RULES)
        }
        for number in range(applications):
            random = Random(f"{seed} {shape} {number}")
            nodes, topology = cluster(sizes, random)
            group, pods = application(random)
            placed = background(nodes, random)
            objects = [*nodes, topology, group, *placed]
            anywhere = by_chance(nodes, placed, pods, random)
            costs = {"random": summary([*objects, *anywhere], [], RULES[BASIS])}
            costs["random"]["scheduled"] = len(anywhere)
            for name, config in RULES.items():
                own = turned(group) if name == REVERSED else group
                costs[name] = summary([*nodes, topology, own, *placed], pods, config)
            for name, found in costs.items():
                row[name]["cost"] += found["networkCost"]
                row[name]["placed"] += found["scheduled"]
                worse = found["networkCost"] > costs[PEERS]["networkCost"]
                row[name]["worseThanPeer"] += int(worse)
        basis, peer = row[BASIS]["cost"], row[PEERS]["cost"]
        for found in row.values():
            found["ofDefaults"] = round(found["cost"] / basis, 3)
            found["ofPeer"] = round(found["cost"] / peer, 3)
        rows[shape] = row
    return rows


def _link(table: Manifest, one: str, other: str, cost: int) -> None:
    for origin, destination in ((one, other), (other, one)):
        table.setdefault(origin, []).append({"destination": destination, "networkCost": cost})


def _node(name: str, region: str, zone: str) -> Manifest:
    amounts = {"cpu": f"{NODE_MILLI}m", "memory": "64Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {REGION: region, ZONE: zone}},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def _pod(name: str, workload: str, milli: int) -> Manifest:
    requests = {"cpu": f"{milli}m", "memory": f"{milli // 4 + 1}Mi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {GROUP: "app", WORKLOAD: workload},
        },
        "spec": {
            "schedulerName": "trellis",
            "containers": [{"name": "c", "image": "app", "resources": {"requests": requests}}],
        },
    }


def _milli(pod: Manifest) -> int:
    return milli_quantity(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])


def main() -> None:
    """Measure, print, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--applications", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    rows = measure(given.applications, given.seed)
    for shape, row in rows.items():
        print(shape)
        for name, found in row.items():
            print(
                f"  {name:48} {found['cost']:8} x{found['ofDefaults']:.2f} of defaults"
                f" x{found['ofPeer']:.2f} of peer, {found['placed']} placed,"
                f" {found['worseThanPeer']} dearer than the peer's"
            )
    stamp = datetime.fromtimestamp(RealClock().now(), UTC).strftime("%Y%m%dT%H%M%SZ")
    out = given.out or Path(__file__).parent / "results" / f"network-quality-{stamp}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    result = {
        "schema": SCHEMA,
        "machine": machine(),
        "versions": versions(None),
        "applications": given.applications,
        "seed": given.seed,
        "shapes": {
            name: dict(zip(("regions", "zonesEach", "nodesEach"), sizes, strict=True))
            for name, sizes in SHAPES.items()
        },
        "rows": rows,
    }
    out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
