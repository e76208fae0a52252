"""Applications placed whole, by who talks to whom, against pod by pod: their network cost on three cluster shapes.

    python -m tests.perf.whole
    python -m tests.perf.whole --applications 10

Fifty random applications of up to eight workloads, each in a cluster that is partly full. Pod by pod they are
an AppGroup, by our profile without a file and with TopologicalSort and NetworkMinCost beside; whole they
are one PodGroup with a class for each workload, whose `traffic` is the AppGroup's dependencies. Two pods that talk
cost 1 on two nodes of a zone, 10 in two zones, 60 in two regions, the same for all: costs that differ
from zone to zone have no words in a PodGroup. The figure is `summary.networkCost`. Prints a table; nothing judges.
"""

import argparse
import json
from random import Random
from statistics import median
from typing import Any

import msgspec

from scheduler.framework.registry import Registry
from scheduler.plugins.intree import IN_TREE
from scheduler.whatif.batch import Batch
from scheduler.whatif.setups import Setups
from scheduler.whatif.stage import Options
from tests.perf import quality
from tests.perf.quality import REGION, SHAPES, WORKLOAD, ZONE, Manifest

MOST_CLASSES = 8
ZONE_COST, REGION_COST = 10, 60  # and 1 from node to node
LEVEL_COSTS = {"region": REGION_COST - ZONE_COST, "zone": ZONE_COST - 1, "node": 1}
PODS, ORDERED, WHOLE = "pod by pod", "pod by pod, in order, NetworkMinCost", "whole"


RULES: dict[str, Manifest | None] = {
    PODS: None,
    ORDERED: quality.RULES["ours, with TopologicalSort and NetworkMinCost"],
    WHOLE: None,
}


def tree(nodes: list[Manifest]) -> Manifest:
    """Return the ConfigMap of the tree of regions, zones and nodes."""
    units: dict[str, dict[str, dict[str, Manifest]]] = {}
    for one in nodes:
        labels = one["metadata"]["labels"]
        zones = units.setdefault(labels[REGION], {})
        zones.setdefault(labels[ZONE], {})[one["metadata"]["name"]] = {}
    data = {"tree": json.dumps(units), "level-names": json.dumps([*LEVEL_COSTS])}
    meta = {"name": "tree", "namespace": "default", "labels": {"sakkara.topology": ""}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def topology(nodes: list[Manifest]) -> Manifest:
    """Return costs that are the same between any two zones of a region, and any two regions."""
    places = {(one["metadata"]["labels"][REGION], one["metadata"]["labels"][ZONE]) for one in nodes}
    pairs = {
        REGION: {(a, b): REGION_COST for a, _ in places for b, _ in places if a != b},
        ZONE: {(a, b): ZONE_COST for r, a in places for q, b in places if r == q and a != b},
    }
    levels = []
    for key, costs in pairs.items():
        ways: dict[str, list[Manifest]] = {}
        for (origin, destination), cost in sorted(costs.items()):
            ways.setdefault(origin, []).append({"destination": destination, "networkCost": cost})
        origins = [{"origin": origin, "costList": found} for origin, found in ways.items()]
        levels.append({"topologyKey": key, "originList": origins})
    return {
        "apiVersion": "networktopology.diktyo.x-k8s.io/v1alpha1",
        "kind": "NetworkTopology",
        "metadata": {"name": "nt-default", "namespace": "default"},
        "spec": {"weights": [{"name": "UserDefined", "topologyList": levels}]},
    }


def application(random: Random) -> tuple[Manifest, list[Manifest]]:
    """Return an AppGroup of at most eight workloads, and its pods."""
    while True:
        group, pods = quality.application(random)
        if len(group["spec"]["workloads"]) <= MOST_CLASSES:
            return group, pods


def whole(group: Manifest, pods: list[Manifest]) -> tuple[Manifest, list[Manifest]]:
    """Return the PodGroup that says of an application what its AppGroup does, and pods that name it."""
    workloads = group["spec"]["workloads"]
    traffic = [
        {"between": [one["workload"]["name"], on["workload"]["name"]], "weight": 1}
        for one in workloads
        for on in one["dependencies"]
    ]
    said: dict[str, Any] = {
        "classes": {one["workload"]["name"]: {} for one in workloads},
        "traffic": traffic,
        "costs": LEVEL_COSTS,
    }
    annotations = {f"sakkara.group/{key}": json.dumps(value) for key, value in said.items()}
    annotations["sakkara.group/class-label"] = WORKLOAD
    meta = {"name": "whole", "namespace": "default", "annotations": annotations}
    described = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": meta,
        "spec": {"minMember": len(pods)},
    }
    label = {"scheduling.x-k8s.io/pod-group": "whole"}
    named = [
        pod | {"metadata": pod["metadata"] | {"labels": pod["metadata"]["labels"] | label}}
        for pod in pods
    ]
    return described, named


class Row(msgspec.Struct):
    """The costs of the applications on one shape, by rule, and how many of the whole ones are proven."""

    costs: dict[str, list[int]]
    placed: dict[str, int]
    proven: int = 0

    def dearer(self, other: str) -> int:
        """Return how many applications are dearer when they are placed whole."""
        return sum(a > b for a, b in zip(self.costs[WHOLE], self.costs[other], strict=True))


def measure(shape: str, applications: int) -> Row:
    """Place applications in clusters of a shape, each by every rule."""
    batch = Batch(Setups(Registry(IN_TREE)), Options(), lambda _name: "")
    row = Row({name: [] for name in RULES}, dict.fromkeys(RULES, 0))
    for number in range(applications):
        random = Random(f"whole {shape} {number}")
        nodes, _ = quality.cluster(SHAPES[shape], random)
        group, pods = application(random)
        objects = [*nodes, topology(nodes), group, *quality.background(nodes, random)]
        described, named = whole(group, pods)
        as_one = [*objects, tree(nodes), described]
        for name, config in RULES.items():
            there, asking = (as_one, named) if name == WHOLE else (objects, pods)
            line = {"id": 0, "objects": there, "pending": asking, "config": config}
            found = json.loads(batch.answer(json.dumps(line).encode()))["simulation"]
            row.costs[name].append(found["summary"]["networkCost"])
            row.placed[name] += found["summary"]["scheduled"]
            if name == WHOLE:
                (told,) = found["groups"]
                row.proven += told["optimal"]
    return row


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Network cost of whole applications.")
    parser.add_argument("--applications", type=int, default=50)
    given = parser.parse_args()
    for shape in SHAPES:
        row = measure(shape, given.applications)
        print(f"{shape}: {row.proven} of {given.applications} proven")
        for name, costs in row.costs.items():
            ratio = median(
                a / b if b else 1.0 for a, b in zip(row.costs[WHOLE], costs, strict=True)
            )
            print(
                f"  {name:40} cost {sum(costs):7}, {row.placed[name]} pods placed; whole is "
                f"x{sum(row.costs[WHOLE]) / max(1, sum(costs)):.2f} of it (median x{ratio:.2f}), "
                f"dearer in {row.dearer(name)}"
            )


if __name__ == "__main__":
    main()
