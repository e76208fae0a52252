"""Small random clusters with a group whose members have rules among themselves, and the true
results for them.

`SmallCluster` writes the objects; `SmallCluster.answers` tries every assignment of members to
nodes, and every set of victims, with the rules of Kubernetes written pod by pod. Shares only the
wording of messages with the product; used by test_certificates.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, Self

import msgspec

from scheduler.testing import node
from tests.unit.plugins.groupobjects import config_map, group
from tests.unit.simulate.asking import pod

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
PORT = 29500
Where = tuple[str, ...]


class Old(msgspec.Struct, frozen=True):
    """An existing pod: its node, whether it is like a member, whether it uses the port, its
    priority.
    """

    name: str
    node: str
    is_equal: bool
    has_port: bool
    priority: int


class SmallCluster(msgspec.Struct, frozen=True):
    """Nodes with CPUs, zone and rack; pods of one CPU; a group of `size` with its rules.

    `anti` is the topology key of a required anti-affinity of members (and pods like them) or empty;
    `spread` are (key, maxSkew, minDomains or 0), `levels` the rules of rack and node.
    """

    nodes: Mapping[str, tuple[int, str, str]]
    old: tuple[Old, ...]
    size: int
    priority: int
    anti: str
    spread: tuple[tuple[str, int, int], ...]
    has_port: bool
    levels: Mapping[str, Mapping[str, Any]]

    @property
    def crosses(self) -> bool:
        """Return whether a rack has nodes of several zones."""
        return len({(rack, zone) for _, zone, rack in self.nodes.values()}) > len(
            {rack for _, _, rack in self.nodes.values()}
        )

    def objects(self) -> list[dict[str, Any]]:
        """Return the cluster as manifests."""
        tree: dict[str, dict[str, Any]] = {}
        for name, (_, _, rack) in self.nodes.items():
            tree.setdefault(rack, {})[name] = {}
        data = {"tree": json.dumps(tree), "level-names": '["rack", "node"]'}
        return [
            *(
                node(name, cpu=str(cpus), memory="64Gi", pods="110", labels=self._labels(name))
                for name, (cpus, _, _) in self.nodes.items()
            ),
            config_map("tree", "sakkara.topology", data),
            group("g", self.size, self.levels, priority=self.priority),
            *(self._placed(one) for one in self.old),
            *(self._member(f"g-{at}") for at in range(self.size)),
        ]

    def changed(self, **fields: Any) -> Self:
        """Return the cluster with other fields."""
        return msgspec.structs.replace(self, **fields)

    def fits(self) -> bool:
        """Return whether the group fits without evictions."""
        return self.best(self.old) is not None

    def best(self, there: Sequence[Old]) -> list[int] | None:
        """Return the objective of the best assignment beside these pods.

        None without one.
        """
        found = [
            self._objective(where)
            for where in itertools.combinations_with_replacement(self.nodes, self.size)
            if self._holds(where, there)
        ]
        return min(found, default=None)

    def least_victims(self) -> tuple[int, ...] | None:
        """Return the fewest victims by priority from the highest; None if no set helps."""
        lower = [one for one in self.old if one.priority < self.priority]
        ranks = sorted({one.priority for one in lower}, reverse=True)
        costs = (
            (tuple(sum(one.priority == rank for one in gone) for rank in ranks), gone)
            for number in range(len(lower) + 1)
            for gone in itertools.combinations(lower, number)
        )
        for cost, gone in sorted(costs, key=lambda each: each[0]):
            if self.best([one for one in self.old if one not in gone]) is not None:
                return cost
        return None

    def _holds(self, where: Where, there: Sequence[Old]) -> bool:
        """Return whether all rules hold for every member with the others in place."""
        pods = Counter(where)
        for name, number in pods.items():
            here = [one for one in there if one.node == name]
            if number + len(here) > self.nodes[name][0]:
                return False
            if self.has_port and (number > 1 or any(one.has_port for one in here)):
                return False
        is_equal = Counter(one.node for one in there if one.is_equal) + pods
        if self.anti:
            totals = self._by_domain(self.anti, is_equal)
            if any(totals[self._domain(self.anti, name)] > 1 for name in pods):
                return False
        for key, skew, fewest in self.spread:
            totals = self._by_domain(key, is_equal)
            domains = {self._domain(key, name) for name in self.nodes}
            for name in pods:
                own = self._domain(key, name)
                others = {each: totals[each] - (each == own) for each in domains}
                least = min(others.values()) if len(domains) >= fewest else 0
                if others[own] + 1 - least > skew:
                    return False
        return self._levels_hold(pods)

    def _levels_hold(self, pods: Counter[str]) -> bool:
        racks: Counter[str] = Counter()
        for name, number in pods.items():
            racks[self.nodes[name][2]] += number
        for level, used in (("rack", racks), ("node", pods)):
            rule = self.levels.get(level, {})
            parents: dict[str, int] = Counter(
                "" if level == "rack" else self.nodes[name][2] for name in used
            )
            if rule.get("partitions") and set(parents.values()) != {rule["partitions"]}:
                return False
            if any(number % rule.get("factor", 1) for number in used.values()):
                return False
            if rule.get("hard") and rule.get("type") == "pack" and set(parents.values()) != {1}:
                return False
        return True

    def _objective(self, where: Where) -> list[int]:
        pods = Counter(where)
        racks: Counter[str] = Counter()
        for name, number in pods.items():
            racks[self.nodes[name][2]] += number
        found = []
        for level, used in (("rack", racks), ("node", pods)):
            squares = sum(number * number for number in used.values())
            is_spread = self.levels.get(level, {}).get("type") == "spread"
            found += [squares] if is_spread else [len(used), -squares]
        return found

    def _by_domain(self, key: str, pods: Mapping[str, int]) -> Counter[str]:
        totals: Counter[str] = Counter()
        for name, number in pods.items():
            totals[self._domain(key, name)] += number
        return totals

    def _domain(self, key: str, name: str) -> str:
        return name if key == HOST else self.nodes[name][1]

    def _labels(self, name: str) -> dict[str, str]:
        return {HOST: name, ZONE: self.nodes[name][1]}

    def _member(self, name: str) -> dict[str, Any]:
        spec: dict[str, Any] = {"priority": self.priority} | self._affinity()
        if self.spread:
            spec["topologySpreadConstraints"] = [
                {
                    "maxSkew": skew,
                    "topologyKey": key,
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"app": "g"}},
                    **({"minDomains": fewest} if fewest else {}),
                }
                for key, skew, fewest in self.spread
            ]
        labels = {"sakkara.group.name": "g", "app": "g"}
        return self._pod(name, labels, spec, has_port=self.has_port)

    def _placed(self, one: Old) -> dict[str, Any]:
        # Pods like a member exclude members as well: anti-affinity is symmetric.
        spec: dict[str, Any] = {"priority": one.priority, "nodeName": one.node}
        labels = {"app": "g"} if one.is_equal else {"app": "other"}
        return self._pod(one.name, labels, spec, has_port=one.has_port)

    def _affinity(self) -> dict[str, Any]:
        if not self.anti:
            return {}
        term = {"labelSelector": {"matchLabels": {"app": "g"}}, "topologyKey": self.anti}
        rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        return {"affinity": {"podAntiAffinity": rule}}

    def _pod(
        self, name: str, labels: dict[str, str], spec: dict[str, Any], *, has_port: bool
    ) -> dict[str, Any]:
        made: dict[str, Any] = pod(name, labels=labels, requests={"cpu": "1"}, spec=spec)
        if has_port:
            ports = [{"containerPort": PORT, "hostPort": PORT}]
            made["spec"]["containers"][0]["ports"] = ports
        return made


def random_cluster(rng: Random, *, evicts: bool) -> SmallCluster:
    """Return a random cluster.

    If the group `evicts`, its priority is higher than that of some existing pods.
    """
    zones, racks = rng.randint(1, 3), rng.randint(1, 3)
    crosses = rng.random() < 0.3
    nodes = {}
    for at in range(rng.randint(2, 5)):
        rack = at % racks
        zone = rng.randrange(zones) if crosses else rack % zones
        nodes[f"n{at}"] = (rng.randint(1, 3), f"z{zone}", f"r{rack}")
    old: list[Old] = []
    used: Counter[str] = Counter()
    ported: set[str] = set()
    for at in range(rng.randint(2, 7) if evicts else rng.randint(0, 4)):
        name = rng.choice(list(nodes))
        if used[name] >= nodes[name][0]:
            continue
        used[name] += 1
        has_port = name not in ported and rng.random() < 0.25
        ported |= {name} if has_port else set()
        old.append(Old(f"old-{at}", name, rng.random() < 0.35, has_port, rng.choice([0, 1, 20])))
    spread = tuple(
        (key, rng.randint(1, 2), rng.choice([0, 0, 2, 3]))
        for key in (ZONE, HOST)
        if rng.random() < 0.35
    )
    return SmallCluster(
        nodes,
        tuple(old),
        rng.randint(1, 4),
        10 if evicts else 0,
        rng.choice(["", "", HOST, ZONE]),
        spread,
        rng.random() < 0.25,
        dict(_levels(rng)),
    )


def _levels(rng: Random) -> Iterator[tuple[str, dict[str, Any]]]:
    for level in ("rack", "node"):
        chance = rng.random()
        kind = rng.choice(["pack", "spread"])
        if chance < 0.4:
            yield level, {"type": kind}
        elif chance < 0.5:
            yield level, {"type": "pack", "hard": True}
        elif chance < 0.6:
            yield level, {"type": kind, "partitions": 2}
        elif chance < 0.7:
            yield level, {"type": kind, "factor": 2}
