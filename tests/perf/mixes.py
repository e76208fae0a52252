"""Pods without devices: how many are rejected if cpu and memory are packed by each score.

Three generated mixes arrive one pod after the other until they request all of the scarcer resource;
a pod is placed at once or rejected for good. Through the real engine, ties as in the daemon.

Two figures have a lower bound that follows from totals. Refused: the fewest pods whose requests
exceed what all nodes offer. Imbalance: the least for the cpu and memory that the placed pods
request, if these could be split over the nodes at will.

    python -m tests.perf.mixes --seeds 42 43 44 45 46
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from ortools.linear_solver import pywraplp

from scheduler.engine.attempt.cycle import Ties
from tests.perf.openb.data import Order, TraceNode, TracePod
from tests.perf.openb.inengine import Cluster, configuration

# Of a node and of a pod: milli of a core, MiB.
Shape = tuple[int, int]
Mix = tuple[Sequence[tuple[Shape, int]], Sequence[tuple[Shape, float]]]

# If the user wants balance as well: the weight beside FragmentationAware, which has 1.
BALANCE_WEIGHT = 3
# Weight of the rest of the scarce resource on a node: the default of 0.01 is that for devices.
# With balance it stays at that: the weight fills nodes one after the other, against the balance.
NODE_FIT = 0.03
_RATIO = {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}
# The strategies of NodeResourcesFit, with their arguments.
STRATEGIES: Mapping[str, Mapping[str, Any]] = {
    "LeastAllocated": {},
    "MostAllocated": {},
    "RequestedToCapacityRatio": {"requestedToCapacityRatio": _RATIO},
}


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
    """Yield pods until they request all of one resource."""
    rng = np.random.default_rng(seed)
    nodes, pods = mix
    whole = np.array([shape for shape, _ in nodes]).T @ np.array([count for _, count in nodes])
    weights = np.array([weight for _, weight in pods])
    asked = np.zeros(2)
    while (asked < whole).all():
        shape = pods[int(rng.choice(len(pods), p=weights / weights.sum()))][0]
        asked += shape
        yield shape


def by_scarcity(mix: Mix) -> list[str]:
    """Return cpu and memory, first the one whose expected requests are more of what nodes offer."""
    nodes, pods = mix
    offered, asked = (
        np.sum([np.multiply(shape, count) for shape, count in counted], axis=0)
        for counted in (nodes, pods)
    )
    cpu, memory = asked / offered
    return ["cpu", "memory"] if cpu > memory else ["memory", "cpu"]


class Outcome(msgspec.Struct):
    """Shares from 0 to 1: rejected pods, and used cpu and memory.

    `imbalance` is the mean difference of the two used shares, per node; `least_...` are the lower
    bounds.
    """

    refused: float
    least_refused: float
    cpu: float
    memory: float
    imbalance: float
    least_imbalance: float

    @property
    def above_floor(self) -> float:
        """Return the imbalance less the least that the totals in use allow."""
        return self.imbalance - self.least_imbalance


class Compared(msgspec.Struct, frozen=True):
    """The score plugins of a policy with their arguments; `weights` where they are not 1."""

    scores: Mapping[str, Mapping[str, Any]]
    weights: Mapping[str, int] = {}


def least_refused(mix: Mix, pods: Sequence[Shape]) -> int:
    """Return the fewest pods to reject so that the others' requests do not exceed the totals."""
    offered = np.array([shape for shape, _ in mix[0]]).T @ np.array([count for _, count in mix[0]])
    asked = np.array(pods)
    found = 0
    for place, excess in enumerate((asked.sum(axis=0) - offered).tolist()):
        largest = np.sort(asked[:, place])[::-1].cumsum()
        found = max(found, int(np.searchsorted(largest, excess)) + 1 if excess > 0 else 0)
    return found


def least_imbalance(mix: Mix, used: Shape) -> float:
    """Return the least mean difference per node of the used shares, for these total amounts in use.

    A linear program over the kinds of nodes: the difference is convex, so in some optimum all nodes
    of one kind have the same amounts in use.
    """
    solver = pywraplp.Solver.CreateSolver("GLOP")
    objective, totals = solver.Objective(), [solver.Constraint(one, one) for one in used]
    for offered, count in mix[0]:
        apart = solver.NumVar(0, 1, "")
        objective.SetCoefficient(apart, count)
        above, below = (solver.Constraint(0, solver.infinity()) for _ in range(2))
        for place, sign in ((0, 1), (1, -1)):
            part = solver.NumVar(0, 1, "")
            totals[place].SetCoefficient(part, count * offered[place])
            above.SetCoefficient(part, sign)
            below.SetCoefficient(part, -sign)
        above.SetCoefficient(apart, 1)
        below.SetCoefficient(apart, 1)
    objective.SetMinimization()
    if solver.Solve() != pywraplp.Solver.OPTIMAL:
        raise RuntimeError(f"no split of {used} over the nodes was found")
    return float(objective.Value() / sum(count for _, count in mix[0]))


def run_seed(mix: Mix, policy: Compared, seed: int) -> Outcome:
    """Run one seed."""
    kinds, _ = mix
    nodes = [
        TraceNode(f"{cpu}-{memory}-{number}", cpu, memory, 0, "")
        for (cpu, memory), count in kinds
        for number in range(count)
    ]
    rng = np.random.default_rng(seed)
    order = Order(pods=np.zeros(0, dtype=np.int64), ranks=rng.permutation(len(nodes)))
    configured = configuration(policy.scores, policy.weights)
    cluster = Cluster(nodes, order, configured, Ties.UID, shares=False)
    pods = list(arrivals(mix, seed))
    placed = [
        cluster.place(number, TracePod(cpu, memory, 0, 0, ""))
        for number, (cpu, memory) in enumerate(pods, start=1)
    ]
    offered, used = zip(*(cluster.amounts(name) for name in ("cpu", "memory")), strict=True)
    cpu, memory = (one / all_of_it for one, all_of_it in zip(used, offered, strict=True))
    totals = [shape for shape, is_placed in zip(pods, placed, strict=True) if is_placed]
    cpu_used, memory_used = (int(one) for one in np.sum(totals, axis=0))
    return Outcome(
        refused=1 - sum(placed) / len(pods),
        least_refused=least_refused(mix, pods) / len(pods),
        cpu=float(used[0].sum() / offered[0].sum()),
        memory=float(used[1].sum() / offered[1].sum()),
        imbalance=float(np.abs(cpu - memory).mean()),
        least_imbalance=least_imbalance(mix, (cpu_used, memory_used)),
    )


def policies(mix: Mix) -> dict[str, Compared]:
    """Return the policies that are compared, by name."""
    _, pods = mix
    both = [{"name": name, "weight": 1} for name in ("cpu", "memory")]
    shapes = [
        {"weight": weight, "cpu": f"{cpu}m", "memory": f"{memory}Mi"}
        for (cpu, memory), weight in pods
    ]
    scarce, other = by_scarcity(mix)
    packed = {"resources": [scarce], "beside": [other]}
    known = {**packed, "shapes": shapes, "shapesWeight": 1_000_000}
    fit = {"nodeFit": NODE_FIT}
    balance = "NodeResourcesBalancedAllocation"
    classical = {
        name: Compared(
            {
                "NodeResourcesFit": {"scoringStrategy": {"type": name, "resources": both, **more}},
                balance: {},
            }
        )
        for name, more in STRATEGIES.items()
    }
    return {
        **classical,
        "FragmentationAware": Compared({"FragmentationAware": {**known, **fit}}),
        "FragmentationAware, mix learned": Compared({"FragmentationAware": {**packed, **fit}}),
        "FragmentationAware and balance": Compared(
            {"FragmentationAware": known, balance: {}}, {balance: BALANCE_WEIGHT}
        ),
    }


def _ahead(outcomes: Mapping[tuple[str, str], Sequence[Outcome]], mix: str, policy: str) -> str:
    """Return the least lead over the strategies of kube-scheduler, seed by seed, in points.

    Of the pods refused, and of the imbalance above its floor.
    """
    fewer, nearer = [], []
    for strategy in STRATEGIES:
        for own, other in zip(outcomes[mix, policy], outcomes[mix, strategy], strict=True):
            fewer.append(other.refused - own.refused)
            nearer.append(other.above_floor - own.above_floor)
    return f"{100 * min(fewer):.2f} | {100 * min(nearer):.2f}"


def main() -> None:
    """Print a table of means, and one of the leads seed by seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[42, 43, 44, 45, 46])
    wanted = parser.parse_args()
    print("| mix | score | refused | at least | cpu used | memory used | imbalance | above floor |")
    print("|---|---|---|---|---|---|---|---|")
    outcomes: dict[tuple[str, str], list[Outcome]] = {}
    for name, mix in mixes().items():
        for policy, compared in policies(mix).items():
            runs = [run_seed(mix, compared, seed) for seed in wanted.seeds]
            refused, least, cpu, memory, apart, floor = (
                100 * float(np.mean([getattr(run, field) for run in runs]))
                for field in Outcome.__struct_fields__
            )
            print(
                f"| {name} | {policy} | {refused:.2f} | {least:.2f} | {cpu:.2f} | {memory:.2f} | "
                f"{apart:.2f} | {apart - floor:.2f} |",
                flush=True,
            )
            outcomes[name, policy] = runs
    print("\n| mix | score | fewer refused | nearer to the floor |\n|---|---|---|---|")
    for name, mix in mixes().items():
        for policy in policies(mix):
            if policy not in STRATEGIES:
                print(f"| {name} | {policy} | {_ahead(outcomes, name, policy)} |")


if __name__ == "__main__":
    main()
