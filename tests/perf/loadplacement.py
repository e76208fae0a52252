"""Placements with load-aware scoring beside kube-scheduler's defaults: acceptance in figures.

Run as `python -m tests.perf.loadplacement`. 200 nodes in process on a simulated clock; every node's
agent reports every 60 s the node's true usage over the last 60 s. Pods use a fraction of their
requests, with noise; some nodes are hot from the start although little is requested on them, which
requests cannot show. A burst of 1,000 pods arrives. When all have settled, the highest true
utilisation of a node and the spread over nodes are compared. Prints one JSON document.
"""

import json
import sys
from dataclasses import dataclass, field
from random import Random
from statistics import mean, pstdev
from typing import Any

from scheduler.base.clock import rfc3339
from scheduler.testing.builders import node, pod
from scheduler.testing.scenario import Scenario

NODES, BURST = 200, 1000
CORES, GIB = 32, 128
INTERVAL_S = 60
START_S = 20  # from binding to the first usage: images, mounts
SETTLE_S = 240
Use = tuple[float, float]  # cores, GiB


def config(*, args: dict[str, Any] | None) -> str:
    """Return kube-scheduler's default profile, with the plugin if it has arguments."""
    profile: dict[str, Any] = {"schedulerName": "trellis"}
    if args is not None:
        weighted = {"name": "LoadAwareScheduling", "weight": 10}
        profile["plugins"] = {"multiPoint": {"enabled": [weighted]}}
        profile["pluginConfig"] = [{"name": "LoadAwareScheduling", "args": args}]
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return json.dumps(head | {"profiles": [profile]})


OFF = {"cpu": 1, "memory": 1}
CONTESTANTS = {
    "kube-scheduler's defaults": None,
    "load-aware": {"dominantResourceWeight": 5},
    "load-aware, plain mean of resources": {},
    "load-aware, estimates off": {
        "dominantResourceWeight": 5,
        "estimatedScalingFactors": OFF,
        "estimateInFilter": False,
    },
}


@dataclass
class Load:
    """The true usage: of the node itself, and of pods from `START_S` after their binding."""

    random: Random
    base: dict[str, Use] = field(default_factory=dict)
    pods: dict[str, tuple[str, float, Use]] = field(default_factory=dict)

    def of_pod(self, name: str, now: float) -> Use:
        """Return a pod's present usage, with a tenth of noise."""
        _, since, (cores, gib) = self.pods[name]
        if now < since + START_S:
            return 0.0, 0.0
        return cores * self.random.uniform(0.9, 1.1), gib

    def of_node(self, name: str, now: float, *, noise: bool = True) -> Use:
        """Return a node's present usage."""
        cores, gib = self.base[name]
        cores *= self.random.uniform(0.95, 1.05) if noise else 1.0
        for of, since, (more_cores, more_gib) in self.pods.values():
            if of == name and now >= since + START_S:
                cores, gib = cores + more_cores, gib + more_gib
        return min(cores, CORES), min(gib, GIB)


class PlacementRun:
    """One run: the cluster, its load, and agents that report in turn."""

    def __init__(self, args: dict[str, Any] | None, base: dict[str, Use], seed: int) -> None:
        self.load = Load(Random(seed), dict(base))
        self.names = list(base)
        self.silent: set[str] = set()
        self.wants: dict[str, Use] = {}
        self.scenario = Scenario(
            *(node(name, cpu=str(CORES), memory=f"{GIB}Gi") for name in self.names),
            config=config(args=args),
        )
        self.start = self.scenario.now
        self.use: dict[str, list[tuple[float, Use]]] = {name: [] for name in self.names}
        for name in self.names:
            self.report(name)

    def report(self, name: str) -> None:
        """Write a node's NodeMetric, as its agent does: averages over the last interval."""
        now = self.scenario.now
        self.use[name].append((now, self.load.of_node(name, now)))
        self.use[name] = [one for one in self.use[name] if one[0] > now - INTERVAL_S]
        seen = [one[1] for one in self.use[name]]
        pods = [
            {
                "namespace": "default",
                "name": pod_name,
                "priority": "koord-prod",
                "podUsage": {"resources": amounts(self.load.of_pod(pod_name, now))},
            }
            for pod_name, (where, since, _) in self.load.pods.items()
            if where == name and now >= since + START_S
        ]
        used = mean(use[0] for use in seen), mean(use[1] for use in seen)
        self.scenario.apply(
            {
                "apiVersion": "slo.koordinator.sh/v1alpha1",
                "kind": "NodeMetric",
                "metadata": {"name": name},
                "spec": {"metricCollectPolicy": {"reportIntervalSeconds": INTERVAL_S}},
                "status": {
                    "updateTime": rfc3339(now),
                    "nodeMetric": {"nodeUsage": {"resources": amounts(used)}},
                    "podsMetric": pods,
                },
            }
        )

    def ask(self, name: str, request: Use, use: Use) -> None:
        """Create a pod that requests `request` and will use `use`."""
        self.wants[name] = use
        cores, gib = request
        asked = {"cpu": f"{int(cores * 1000)}m", "memory": f"{int(gib * 1024)}Mi"}
        self.scenario.apply(pod(name, requests=asked))

    def second(self) -> None:
        """Advance by a second; a sixtieth of the agents measure and report."""
        self.scenario.advance(1)
        now = self.scenario.now
        for name in [name for name in self.wants if name not in self.load.pods]:
            where = self.scenario.node_of(name)
            if where:
                self.load.pods[name] = (where, now, self.wants.pop(name))
        turn = int(now - self.start) % INTERVAL_S
        for place, name in enumerate(self.names):
            if place % INTERVAL_S == turn and name not in self.silent:
                self.report(name)

    def utilisation(self) -> list[Use]:
        """Return each node's present usage of CPU and memory, 0..1."""
        now = self.scenario.now
        uses = [self.load.of_node(name, now, noise=False) for name in self.names]
        return [(cores / CORES, gib / GIB) for cores, gib in uses]


def amounts(use: Use) -> dict[str, str]:
    """Return quantities."""
    return {"cpu": f"{int(use[0] * 1000)}m", "memory": f"{int(use[1] * 1024)}Mi"}


def hot_nodes(random: Random) -> dict[str, Use]:
    """Return the nodes' initial usage: every fifth is hot."""
    found = {}
    for index in range(NODES):
        share = random.uniform(0.5, 0.6) if index % 5 == 0 else random.uniform(0.05, 0.2)
        found[f"node-{index:03}"] = (share * CORES, share * GIB)
    return found


def lopsided_nodes(random: Random) -> dict[str, Use]:
    """Return nodes of which half have hot CPUs and idle memory, and half the reverse."""
    found = {}
    for index in range(NODES):
        hot, idle = random.uniform(0.4, 0.5), random.uniform(0.05, 0.15)
        cpu, memory = (hot, idle) if index % 2 else (idle, hot)
        found[f"node-{index:03}"] = (cpu * CORES, memory * GIB)
    return found


def equal_pods(random: Random, number: int) -> tuple[Use, Use]:
    """Return request and usage of a pod: it uses half to all of its request."""
    del number
    cores = random.choice([1.0, 2.0, 3.0])
    share = random.uniform(0.5, 1.0)
    return (cores, cores * 4), (cores * share, cores * 4 * share)


def two_kinds_of_pods(random: Random, number: int) -> tuple[Use, Use]:
    """Return request and use of a pod that needs mostly CPU, or mostly memory."""
    share = random.uniform(0.5, 1.0)
    cores, gib = (2.0, 1.0) if number % 2 else (0.25, 8.0)
    return (cores, gib), (cores * share, gib * share)


SITUATIONS: dict[str, Any] = {
    "hot nodes": (hot_nodes, equal_pods),
    "lopsided nodes, two kinds of pods": (lopsided_nodes, two_kinds_of_pods),
}


def burst(args: dict[str, Any] | None, situation: str, *, pods: int = BURST) -> dict[str, float]:
    """Return peak and spread of utilisation after a burst of pods."""
    nodes, make = SITUATIONS[situation]
    random = Random(7)
    run = PlacementRun(args, nodes(random), seed=11)
    for number in range(pods):
        run.ask(f"pod-{number:04}", *make(random, number))
    for _ in range(SETTLE_S):
        run.second()
    found = run.utilisation()
    return {
        "peakCpu": max(cpu for cpu, _ in found),
        "peakMemory": max(memory for _, memory in found),
        "peak": max(max(one) for one in found),
        "spreadCpu": pstdev(cpu for cpu, _ in found),
        "spreadMemory": pstdev(memory for _, memory in found),
        "placed": float(len(run.load.pods)),
        "nodesOver65": float(sum(cpu > 0.65 for cpu, _ in found)),
    }


def main() -> dict[str, Any]:
    """Return the table."""
    table = {
        situation: {name: burst(args, situation) for name, args in CONTESTANTS.items()}
        for situation in SITUATIONS
    }
    return {
        "nodes": NODES,
        "pods": BURST,
        "intervalSeconds": INTERVAL_S,
        "table": table,
        "peakOfDefaults": {
            situation: rows["load-aware"]["peak"] / rows["kube-scheduler's defaults"]["peak"]
            for situation, rows in table.items()
        },
        "goal": 0.85,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(), indent=2) + "\n")
