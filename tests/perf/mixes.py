"""Pods without devices: how many are refused when cpu and memory are packed by each score.

Three generated mixes arrive one pod after the other until they ask for all of the scarcer resource;
a pod is placed at once or refused for good. Through the real engine, ties as in the daemon.

    python -m tests.perf.mixes --seeds 42 43 44 45 46
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from scheduler.engine.attempt.cycle import Ties
from tests.perf.openb.data import Order, TraceNode, TracePod
from tests.perf.openb.inengine import Cluster, configuration

# Of a node and of a pod: milli of a core, MiB.
Shape = tuple[int, int]
Mix = tuple[Sequence[tuple[Shape, int]], Sequence[tuple[Shape, float]]]


def mixes() -> dict[str, Mix]:
    """Return by name the nodes with their numbers, and the pods with their frequencies."""
    opposed = (
        [((64_000, 262_144), 200)],
        [
            ((1000, 1024), 0.30),
            ((2000, 16_384), 0.25),
            ((4000, 4096), 0.15),
            ((8000, 8192), 0.10),
            ((1000, 8192), 0.10),
            ((16_000, 131_072), 0.03),
            ((8000, 65_536), 0.05),
            ((24_000, 24_576), 0.02),
        ],
    )
    two_kinds = (
        [((64_000, 131_072), 100), ((32_000, 262_144), 100)],
        [
            ((500, 512), 0.25),
            ((1000, 2048), 0.25),
            ((2000, 4096), 0.15),
            ((4000, 32_768), 0.10),
            ((8000, 65_536), 0.05),
            ((8000, 8192), 0.10),
            ((16_000, 16_384), 0.06),
            ((16_000, 131_072), 0.04),
        ],
    )
    rng = np.random.default_rng(7)
    cores = np.clip(np.round(np.exp(rng.normal(8.6, 1.1, 40)) / 250) * 250, 250, 48_000)
    per_core = np.exp(rng.normal(np.log(4096), 0.8, 40))
    memory = np.clip(np.round(cores / 1000 * per_core / 256) * 256, 256, 196_608)
    shapes = [((int(c), int(m)), 1.0) for c, m in zip(cores, memory, strict=True)]
    return {
        "opposed": opposed,
        "two kinds of nodes": two_kinds,
        "lognormal": ([((96_000, 393_216), 150)], shapes),
    }


def arrivals(mix: Mix, seed: int) -> Iterator[Shape]:
    """Yield pods until they ask for all of one resource."""
    rng = np.random.default_rng(seed)
    nodes, pods = mix
    whole = np.array([shape for shape, _ in nodes]).T @ np.array([count for _, count in nodes])
    weights = np.array([weight for _, weight in pods])
    asked = np.zeros(2)
    while (asked < whole).all():
        shape = pods[int(rng.choice(len(pods), p=weights / weights.sum()))][0]
        asked += shape
        yield shape


class Outcome(msgspec.Struct):
    """The pods that arrived and were refused, and the parts of cpu and memory in use."""

    arrived: int
    refused: int
    cpu: float
    memory: float
    imbalance: float


def play(mix: Mix, scores: Mapping[str, Mapping[str, Any]], seed: int) -> Outcome:
    """Play one seed; imbalance is the mean difference of both parts in use, per node."""
    kinds, _ = mix
    nodes = [
        TraceNode(f"{cpu}-{memory}-{number}", cpu, memory, 0, "")
        for (cpu, memory), count in kinds
        for number in range(count)
    ]
    rng = np.random.default_rng(seed)
    order = Order(pods=np.zeros(0, dtype=np.int64), ranks=rng.permutation(len(nodes)))
    cluster = Cluster(nodes, order, configuration(scores), Ties.UID, shares=False)
    arrived = refused = 0
    for arrived, (cpu, memory) in enumerate(arrivals(mix, seed), start=1):
        refused += not cluster.place(arrived, TracePod(cpu, memory, 0, 0, ""))
    columns = [cluster.amounts(name) for name in ("cpu", "memory")]
    cpu_part, memory_part = (float(used.sum() / offered.sum()) for offered, used in columns)
    parts = [used / offered for offered, used in columns]
    imbalance = float(np.abs(parts[0] - parts[1]).mean())
    return Outcome(arrived, refused, cpu_part, memory_part, imbalance)


def policies(mix: Mix) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the score plugins that are compared, with their arguments."""
    _, pods = mix
    both = [{"name": name, "weight": 1} for name in ("cpu", "memory")]
    shapes = [
        {"weight": weight, "cpu": f"{cpu}m", "memory": f"{memory}Mi"}
        for (cpu, memory), weight in pods
    ]
    packed = {"resources": ["memory"], "beside": ["cpu"]}
    ratio = {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}
    strategies: dict[str, dict[str, Any]] = {
        "LeastAllocated": {},
        "MostAllocated": {},
        "RequestedToCapacityRatio": {"requestedToCapacityRatio": ratio},
    }
    classical: dict[str, dict[str, dict[str, Any]]] = {
        name: {
            "NodeResourcesFit": {"scoringStrategy": {"type": name, "resources": both, **more}},
            "NodeResourcesBalancedAllocation": {},
        }
        for name, more in strategies.items()
    }
    known = {"FragmentationAware": {**packed, "shapes": shapes, "shapesWeight": 1_000_000}}
    return {
        **classical,
        "FragmentationAware": known,
        "FragmentationAware, mix learned": {"FragmentationAware": packed},
        "FragmentationAware and balance": {**known, "NodeResourcesBalancedAllocation": {}},
    }


def main() -> None:
    """Print a table of means."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[42, 43, 44, 45, 46])
    wanted = parser.parse_args()
    print("| mix | score | refused | cpu used | memory used | imbalance |")
    print("|---|---|---|---|---|---|")
    for name, mix in mixes().items():
        for policy, scores in policies(mix).items():
            runs = [play(mix, scores, seed) for seed in wanted.seeds]
            refused = 100 * np.mean([run.refused / run.arrived for run in runs])
            cpu, memory, apart = (
                100 * np.mean([getattr(run, field) for run in runs])
                for field in ("cpu", "memory", "imbalance")
            )
            print(
                f"| {name} | {policy} | {refused:.2f} % | {cpu:.2f} % | {memory:.2f} % | "
                f"{apart:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
