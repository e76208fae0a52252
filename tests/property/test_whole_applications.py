"""Applications that are gangs, through `simulate`, compared with every placement.

A few nodes in zones and regions, some without either; random path costs, listed for one direction
or both, or not at all; links with little capacity, some of it used by another application;
dependencies with limits and bandwidth, bound pods, pods beyond the minimum, incomplete workloads.
The application is placed if and only if it fits, with the most pods, at the least cost. The oracle
shares no code with the product.
"""

import itertools
import json
from collections import Counter
from fractions import Fraction
from math import ceil
from random import Random
from typing import Any

import pytest

from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.simulate.batch import Batch
from scheduler.simulate.setups import Setups
from scheduler.simulate.stage import AnswerOptions
from tests.property.batches import batches

BATCH = 25
GROUP, WORKLOAD = "appgroup.diktyo.x-k8s.io", "appgroup.diktyo.x-k8s.io.workload"
REGION, ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
MOST_WAITING = 5
Manifest = dict[str, Any]
# The shipped profile's plugins, and as much time as a busy machine may need.
PLUGINS = {
    "multiPoint": {"enabled": [{"name": "NetworkOverhead", "weight": 5}]},
    "preEnqueue": {"enabled": [{"name": "ClusterTopologyPlacementGroup"}]},
}
ARGS = {
    "ClusterTopologyPlacementGroup": {"solverTimeLimitSeconds": 60.0},
    "NetworkOverhead": {"dependents": "Count", "indirect": "Count"},
}
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": "trellis",
            "plugins": PLUGINS,
            "pluginConfig": [{"name": name, "args": args} for name, args in ARGS.items()],
        }
    ],
}
Place = tuple[str, str]


def node(name: str, place: Place, cpu: int) -> Manifest:
    """Return a node; an empty region or zone is a label that it lacks."""
    labels = {key: value for key, value in zip((REGION, ZONE), place, strict=True) if value}
    amounts = {"cpu": str(cpu), "memory": "64Gi", "pods": "30"}
    ready = [{"type": "Ready", "status": "True"}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": ready},
    }


def pod(name: str, workload: str, cpu: int, on: str = "") -> Manifest:
    """Return a pod of the application, pending or bound to a node."""
    labels = {GROUP: "app", WORKLOAD: workload}
    spec: Manifest = {
        "schedulerName": "trellis",
        "containers": [{"name": "c", "resources": {"requests": {"cpu": str(cpu)}}}],
    }
    if on:
        spec["nodeName"] = on
    meta = {"name": name, "namespace": "default", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


class SimulatedCluster:
    """One case: `places` and `cpu` by node, listed `costs` by level, and dependencies with their
    limits.
    """

    def __init__(self, rng: Random) -> None:
        names = [f"n{number}" for number in range(rng.choice([2, 3, 3, 4]))]
        zones = [("r0", "z0"), ("r0", "z1"), ("r1", "z2"), ("r1", "z3"), ("", ""), ("r1", "")]
        self.places = {name: rng.choice(zones[: rng.choice([4, 4, 4, 6])]) for name in names}
        self.cpu = {name: rng.randint(1, 4) for name in names}
        known = 0.9 if rng.random() < 0.7 else 0.5
        self.costs: dict[str, dict[Place, int]] = {REGION: {}, ZONE: {}}
        for level, ends in ((REGION, ("r0", "r1")), (ZONE, ("z0", "z1")), (ZONE, ("z2", "z3"))):
            for link in (ends, ends[::-1]):
                if rng.random() < known:
                    self.costs[level][link] = rng.choice([0, 1, 3, 8, 20, 60])
        workloads = [f"w{number}" for number in range(rng.choice([1, 2, 2, 3, 3]))]
        pairs = {(rng.choice(workloads), rng.choice(workloads)) for _ in range(3)}
        limits = [None, 0, 5, 20, 10_000, 10_000]
        self.on = {pair: rng.choice(limits) for pair in sorted(pairs)}
        # The traffic of a pod, the capacity of links by level, and their present use.
        is_narrow = rng.random() < 0.4
        self.sends = {pair: rng.choice([0, 3, 5]) if is_narrow else 0 for pair in self.on}
        self.carries: dict[str, dict[Place, int]] = {
            level: {link: rng.choice([4, 8, 20]) for link in sorted(links) if rng.random() < 0.7}
            for level, links in self.costs.items()
        }
        self.others = rng.sample(names, 2) if is_narrow and rng.random() < 0.5 else []
        self.least = {one: rng.choice([1, 1, 2]) for one in workloads}
        self.bound_pods: list[tuple[str, int, str]] = []
        for _ in range(rng.choice([0, 0, 0, 1, 2])):
            where, cpu = rng.choice(names), 1
            self.bound_pods.append((rng.choice(workloads), cpu, where))
        self.waiting: list[tuple[str, int]] = []
        for one in workloads:
            least = self.least[one] + rng.choice([0, 0, 0, 1, -1 if rng.random() < 0.2 else 0])
            self.waiting += [(one, rng.choice([1, 1, 2])) for _ in range(least)]
        self.waiting = self.waiting[:MOST_WAITING]

    @property
    def objects(self) -> list[Manifest]:
        """Return all objects but the pods that wait."""
        levels = []
        for key, costs in self.costs.items():
            origins: dict[str, list[Manifest]] = {}
            for (origin, destination), cost in costs.items():
                path: Manifest = {"destination": destination, "networkCost": cost}
                carried = self.carries[key].get((origin, destination))
                path |= {} if carried is None else {"bandwidthCapacity": carried}
                origins.setdefault(origin, []).append(path)
            listed = [{"origin": name, "costList": paths} for name, paths in origins.items()]
            levels.append({"topologyKey": key, "originList": listed})
        topology = {
            "apiVersion": "networktopology.diktyo.x-k8s.io/v1alpha1",
            "kind": "NetworkTopology",
            "metadata": {"name": "nt-default", "namespace": "default"},
            "spec": {"weights": [{"name": "UserDefined", "topologyList": levels}]},
        }
        workloads = [
            {
                "workload": self._ref(one),
                "minMembers": least,
                "dependencies": [
                    {"workload": self._ref(second)}
                    | ({} if limit is None else {"maxNetworkCost": limit})
                    | {"minBandwidth": self.sends[first, second]}
                    for (first, second), limit in self.on.items()
                    if first == one
                ],
            }
            for one, least in self.least.items()
        ]
        group = {
            "apiVersion": "appgroup.diktyo.x-k8s.io/v1alpha1",
            "kind": "AppGroup",
            "metadata": {"name": "app", "namespace": "default"},
            "spec": {"gang": True, "workloads": workloads},
        }
        nodes = [node(name, place, self.cpu[name]) for name, place in self.places.items()]
        stands = [pod(f"s{at}", one, cpu, on) for at, (one, cpu, on) in enumerate(self.bound_pods)]
        return [*nodes, topology, group, *stands, *self._other()]

    def _other(self) -> list[Manifest]:
        """Return an application of two pods, the first of which sends 3 to the second."""
        if not self.others:
            return []
        ends = [pod(f"o{at}", f"o{at}", 0, on) for at, on in enumerate(self.others)]
        for one in ends:
            one["metadata"]["labels"][GROUP] = "other"
        on = {"workload": self._ref("o1"), "minBandwidth": 3, "maxNetworkCost": 10_000}
        workloads = [
            {"workload": self._ref("o0"), "dependencies": [on]},
            {"workload": self._ref("o1")},
        ]
        group = {
            "apiVersion": "appgroup.diktyo.x-k8s.io/v1alpha1",
            "kind": "AppGroup",
            "metadata": {"name": "other", "namespace": "default"},
            "spec": {"workloads": workloads},
        }
        return [group, *ends]

    @property
    def pending(self) -> list[Manifest]:
        """Return the pods that wait."""
        return [pod(f"p{at}", one, cpu) for at, (one, cpu) in enumerate(self.waiting)]

    @staticmethod
    def _ref(name: str) -> Manifest:
        return {"kind": "Deployment", "name": f"{name}-deployment", "selector": name}

    # The oracle

    def path_cost(self, here: str, there: str) -> int | None:
        """Return the cost of the path between two nodes, None if it is unknown."""
        one, other = self.places[here], self.places[there]
        if here == there:
            return 0
        if one == other:
            return None if one == ("", "") else 1
        level, at = (ZONE, 1) if one[0] == other[0] else (REGION, 0)
        if ("", "") in (one, other):
            return None
        costs, ends = self.costs[level], (one[at], other[at])
        return costs.get(ends, costs.get(ends[::-1]))

    def cost(self, pods: list[tuple[str, str]]) -> int:
        """Return the cost of all pairs of pods (workload, node) with traffic."""
        total = 0
        for first, second in self.on:
            for at, (one, here) in enumerate(pods):
                for number, (other, there) in enumerate(pods):
                    if at != number and (one, other) == (first, second):
                        cost = self.path_cost(here, there)
                        total += 100 if cost is None else cost
        return total

    def cost_of_others(self) -> int:
        """Return the cost of the other application."""
        cost = self.path_cost(*self.others) if self.others else 0
        return 100 if cost is None else cost

    def is_within(self, pods: list[tuple[str, str]], new: range) -> bool:
        """Return whether no new pod breaks a limit with any other pod."""
        for (first, second), limit in self.on.items():
            for at, (one, here) in enumerate(pods):
                for number, (other, there) in enumerate(pods):
                    if at == number or (one, other) != (first, second):
                        continue
                    if at not in new and number not in new:
                        continue
                    if self.is_beyond(here, there, limit or 0):
                        return False
        return True

    def is_beyond(self, here: str, there: str, limit: int) -> bool:
        """Return whether the known cost of a path is above a limit.

        A node without zone and region is beyond every limit, except on one node.
        """
        if here == there or (self.places[here] == self.places[there] != ("", "")):
            return False
        if ("", "") in (self.places[here], self.places[there]):
            return True
        cost = self.path_cost(here, there)
        return cost is not None and cost > limit

    def link(self, here: str, there: str) -> tuple[str, Place] | None:
        """Return the level and ends of the link that the traffic uses, None within one domain or if
        a node lacks the label.
        """
        one, other = self.places[here], self.places[there]
        level, at = (ZONE, 1) if one[0] == other[0] else (REGION, 0)
        ends = one[at], other[at]
        return (level, ends) if one[at] != other[at] and all(ends) else None

    def load(self, pods: list[tuple[str, str]]) -> dict[tuple[str, Place], int]:
        """Return the traffic of pods (workload, node) over each link, in whole bits."""
        found: dict[tuple[str, Place], Fraction] = {}
        for (first, second), amount in self.sends.items():
            taking = [there for other, there in pods if other == second]
            for here in (here for one, here in pods if one == first):
                for there in taking:
                    if amount and (link := self.link(here, there)) is not None:
                        share = Fraction(amount, len(taking))
                        found[link] = found.get(link, Fraction(0)) + share
        return {link: ceil(sent - Fraction(1, 1000)) for link, sent in found.items()}

    def is_narrow(self, stands: list[tuple[str, str]], pods: list[tuple[str, str]]) -> bool:
        """Return whether a limited link carries more than its capacity with all pods, and more than
        before.
        """
        taken = {}
        if self.others and (link := self.link(*self.others)) is not None:
            taken[link] = 3
        before, after = self.load(stands), self.load(pods)
        for level, links in self.carries.items():
            for ends, most in links.items():
                here, back = (level, ends), (level, ends[::-1])
                both = [here] if ends[::-1] in self.costs[level] else [here, back]
                now, then, own = (
                    sum(sent.get(link, 0) for link in both) for sent in (after, before, taken)
                )
                if now > max(most - own, then):
                    return True
        return False

    def best(self) -> tuple[int, int] | None:
        """Return (number of unplaced pods, cost) of the best placement, or None if too few pods
        fit.
        """
        stands = [(one, on) for one, _, on in self.bound_pods]
        present = Counter(one for one, *_ in (*self.bound_pods, *self.waiting))
        size = sum(self.least.values())
        if any(present[one] < least for one, least in self.least.items()):
            return None
        needed = max(1, size - len(stands))
        found = None
        for where in itertools.product([None, *self.places], repeat=len(self.waiting)):
            placed = [
                (one, cpu, name)
                for (one, cpu), name in zip(self.waiting, where, strict=True)
                if name is not None
            ]
            left = len(self.waiting) - len(placed)
            if len(placed) < needed or (found is not None and left > found[0]):
                continue
            used: Counter[str] = Counter()
            for _, cpu, name in (*self.bound_pods, *placed):
                used[name] += cpu
            if any(used[name] > self.cpu[name] for name in {name for *_, name in placed}):
                continue
            pods = [*stands, *((one, name) for one, _, name in placed)]
            there = Counter(one for one, _ in pods)
            if any(there[one] < least for one, least in self.least.items()):
                continue
            if not self.is_within(pods, range(len(stands), len(pods))):
                continue
            if self.is_narrow(stands, pods):
                continue
            value = left, self.cost(pods)
            found = value if found is None else min(found, value)
        return found


@pytest.fixture(scope="module", name="batch_of")
def _batch_of() -> Batch:
    return Batch(Setups(Registry(IN_TREE)), AnswerOptions(), lambda _name: "")


def simulated(batch: Batch, cluster: SimulatedCluster) -> Manifest:
    """Return the result of `simulate` for a case."""
    line = {"id": 0, "objects": cluster.objects, "pending": cluster.pending, "config": CONFIG}
    found: Manifest = json.loads(batch.answer(json.dumps(line).encode()))["simulation"]
    return found


@pytest.mark.parametrize("batch", batches(25, 1_000))
def test_it_is_placed_if_it_fits_and_at_the_least_cost(batch_of: Batch, batch: int):
    """The most pods are placed, at the least cost of all pairs with traffic.

    None are placed if too few fit.
    """
    placed = refused = 0
    for number in range(BATCH):
        cluster = SimulatedCluster(Random(f"whole {batch}/{number}"))
        if not cluster.waiting:
            continue
        found, best = simulated(batch_of, cluster), cluster.best()
        summary = found["summary"]
        if best is None:
            assert 0 == summary["scheduled"], (batch, number)
            refused += 1
            continue
        assert len(cluster.waiting) - best[0] == summary["scheduled"], (batch, number)
        assert best[1] == summary["networkCost"] - cluster.cost_of_others(), (batch, number)
        (reported,) = found["groups"]
        assert reported["optimal"], (batch, number)
        placed += 1
    assert placed >= BATCH // 4
    assert refused
