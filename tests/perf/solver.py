"""The solver's speed table: placements and victims on random clusters, median and worst of 20 runs.

    python -m tests.perf.solver
    python -m tests.perf.solver --runs 3 --row "1,000 nodes, 64 pods"
    python -m tests.perf.solver --solver CPSAT --runs 3

Each run has another cluster: a quarter of the nodes full, an eighth idle, the rest 40 to 70 % used,
8 slots each. Seconds are CPU time of this process, model building included, without other work. The
result is JSON (`trellis-solver/1`) and a printed table; nothing is asserted.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from statistics import median
from time import process_time
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from scheduler.base.clock import RealClock
from scheduler.groups.problem.instance import (
    Candidate,
    Instance,
    Leaf,
    Level,
    LevelRule,
    PreemptionInstance,
    SolveLimits,
    Solver,
)
from scheduler.groups.solver.solve import solve
from scheduler.groups.solver.victims import onerole
from tests.perf.machine import machine, speed
from tests.real.schedulers import ROOT

SCHEMA = "trellis-solver/1"
SLOTS = 8
PATIENT = SolveLimits(stage_s=20.0, total_s=60.0)
VICTIMS_S = 3.0
RULES = {
    "pack/pack": (LevelRule("pack"), LevelRule("pack")),
    "pack/spread": (LevelRule("pack"), LevelRule("spread")),
    "spread/pack": (LevelRule("spread"), LevelRule("pack")),
    "spread/spread": (LevelRule("spread"), LevelRule("spread")),
    "4 partitions/pack": (LevelRule("spread", partitions=4), LevelRule("pack")),
    "pack/range [2,4]": (LevelRule("pack"), LevelRule("pack", min=2, max=4)),
    "pack/factor 4": (LevelRule("pack"), LevelRule("pack", factor=4)),
}
HARD_RULES = {
    "none": (LevelRule(), LevelRule()),
    "hard pack": (LevelRule("pack", hard=True), LevelRule()),
    "2 partitions": (LevelRule("spread", partitions=2), LevelRule()),
    "factor 2": (LevelRule(), LevelRule(factor=2)),
}


class Row(msgspec.Struct, frozen=True):
    """One row: the cluster's shape, the group's size, and the goal in seconds."""

    name: str
    shape: tuple[int, ...]
    size: int
    goal: float
    gangs: int = 0


ROWS = (
    Row("100 nodes, 8 pods", (10, 10), 8, 0.1),
    Row("100 nodes, 64 pods", (10, 10), 64, 0.1),
    Row("1,000 nodes, 64 pods", (5, 10, 20), 64, 0.3),
    Row("1,000 nodes, 256 pods", (5, 10, 20), 256, 1.0),
    Row("1,000 nodes, 1,024 pods", (5, 10, 20), 1024, 2.0),
    Row("5,000 nodes, 512 pods", (10, 20, 25), 512, 0.25),
    Row("10,000 nodes, 256 pods", (20, 20, 25), 256, 1.5),
    Row("victims: 2,000 nodes, 700 groups, 64 pods", (50, 40), 64, 1.0, 700),
    Row("victims: 2,000 nodes, 700 groups, 256 pods", (50, 40), 256, 1.0, 700),
)


def paths(shape: tuple[int, ...]) -> list[tuple[str, ...]]:
    """Return the paths of all leaves of an even tree."""
    found: list[tuple[str, ...]] = [()]
    for width in shape:
        found = [(*path, f"u{at:03}") for path in found for at in range(width)]
    return found


def levels(shape: tuple[int, ...], rules: tuple[LevelRule, LevelRule]) -> tuple[Level, ...]:
    """Return the levels: rows by default, racks and nodes with the rules."""
    names = ("row", "rack", "node")[-len(shape) :]
    return tuple(
        Level(name, rule)
        for name, rule in zip(
            names, ((LevelRule(),) * len(shape) + rules)[-len(shape) :], strict=True
        )
    )


def instance(row: Row, rules: tuple[LevelRule, LevelRule], seed: int) -> Instance:
    """Return a group in a randomly used cluster."""
    rng = Random(f"{row.name} {seed}")

    def slots() -> int:
        chance = rng.random()
        if chance < 0.25:
            return 0
        return SLOTS if chance < 0.375 else SLOTS - round(SLOTS * rng.uniform(0.4, 0.7))

    leaves = tuple(Leaf(path, slots()) for path in paths(row.shape))
    return Instance(levels(row.shape, rules), leaves, row.size)


def preemption(row: Row, rules: tuple[LevelRule, LevelRule], seed: int) -> PreemptionInstance:
    """Return a group and a nearly full cluster: part of its pods are eviction candidates, the
    others are fixed.
    """
    rng = Random(f"{row.name} {seed}")
    found = paths(row.shape)
    free = [SLOTS] * len(found)
    share = len(found) * SLOTS * 0.97 / row.gangs
    candidates = []
    for at in range(row.gangs):
        freed = _gang(rng, free, max(1, int(rng.uniform(0.3, 1.7) * share)))
        if freed:
            amounts: dict[int, tuple[int, ...]] = {leaf: (n,) for leaf, n in freed.items()}
            name, priority = f"g{at:04}", rng.randrange(4)
            candidates.append(Candidate(name, priority, sum(freed.values()), amounts))
    free = [sum(rng.random() < 0.1 for _ in range(have)) for have in free]
    leaves = tuple(Leaf(path, -1, (have,)) for path, have in zip(found, free, strict=True))
    return PreemptionInstance(
        Instance(levels(row.shape, rules), leaves, row.size, (1,)), tuple(candidates)
    )


def _gang(rng: Random, free: list[int], pods: int) -> dict[int, int]:
    """Reserve the capacity of one group, mostly on neighbouring nodes."""
    freed: dict[int, int] = {}
    leaf = rng.randrange(len(free))
    for _ in range(len(free)):
        if pods == 0:
            break
        if free[leaf] > 0:
            taken = min(pods, free[leaf], rng.randint(1, SLOTS))
            free[leaf] -= taken
            pods -= taken
            freed[leaf] = freed.get(leaf, 0) + taken
        leaf = (leaf + 1) % len(free) if rng.random() < 0.8 else rng.randrange(len(free))
    return freed


def measure(
    row: Row, runs: int, solver: Solver, victims_s: float = VICTIMS_S
) -> Iterator[dict[str, Any]]:
    """Yield the figures of a row, one for each set of rules."""
    for name, rules in (HARD_RULES if row.gangs else RULES).items():
        seconds, proven, placed, gaps = [], 0, 0, 0
        for seed in range(runs):
            if row.gangs:
                ask = _victims(row, rules, seed, victims_s)
            else:
                ask = _place(row, rules, seed, solver)
            started = process_time()
            outcome, is_proven, gap = ask()
            seconds.append(process_time() - started)
            placed += outcome == "placed"
            proven += is_proven
            gaps = max(gaps, gap)
        yield {
            "row": row.name,
            "rules": name,
            "goalSeconds": row.goal,
            "medianSeconds": round(median(seconds), 4),
            "worstSeconds": round(max(seconds), 4),
            "runs": runs,
            "placed": placed,
            "proven": proven,
            "widestGap": gaps,
        }


Ask = Callable[[], tuple[str, bool, int]]


def _place(row: Row, rules: tuple[LevelRule, LevelRule], seed: int, solver: Solver) -> Ask:
    asked = instance(row, rules, seed)

    def ask() -> tuple[str, bool, int]:
        answer = solve(asked, PATIENT, solver)
        return answer.outcome, answer.optimal, max((one.gap for one in answer.stages), default=0)

    return ask


def _victims(row: Row, rules: tuple[LevelRule, LevelRule], seed: int, limit_s: float) -> Ask:
    asked = preemption(row, rules, seed)
    limits = SolveLimits(stage_s=0.8 * limit_s, total_s=limit_s)

    def ask() -> tuple[str, bool, int]:
        answer = onerole.solve(asked, limits)
        return answer.outcome, answer.optimal, max((one.gap for one in answer.stages), default=0)

    return ask


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; return the exit code."""
    parser = argparse.ArgumentParser(description="the solver's speed table")
    parser.add_argument("--row", action="append", choices=[row.name for row in ROWS])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--solver", choices=["Auto", "CPSAT", "Exact"], default="Auto")
    parser.add_argument("--victims-s", type=float, default=VICTIMS_S, help="time for victims")
    parser.add_argument("--output", type=Path, default=ROOT / "tests/perf/results")
    options = parser.parse_args(arguments)
    for _ in measure(ROWS[0], 1, options.solver):  # loads modules once
        pass
    report: dict[str, Any] = {
        "schema": SCHEMA,
        "solver": options.solver,
        "victimsLimitSeconds": options.victims_s,
        "machine": machine(),
        "speed": speed(),
    }
    report["rows"] = [
        figures
        for row in ROWS
        if not options.row or row.name in options.row
        for figures in measure(row, options.runs, options.solver, options.victims_s)
    ]
    report["speedAfter"] = speed()
    now = datetime.fromtimestamp(RealClock().now(), UTC)
    options.output.mkdir(parents=True, exist_ok=True)
    file = options.output / f"solver-{options.solver}-{now:%Y%m%dT%H%M%SZ}.json"
    file.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")
    _print(report)
    print(file)
    return 0


def _print(report: dict[str, Any]) -> None:
    table = Table(title=f"CPU seconds (machine factor {report['speed']['factor']:.2f})")
    for heading in ("row", "rules", "goal", "median", "worst", "placed", "proven", "gap"):
        table.add_column(heading)
    for one in report["rows"]:
        table.add_row(
            one["row"],
            one["rules"],
            f"{one['goalSeconds']:g}",
            f"{one['medianSeconds']:.3f}",
            f"{one['worstSeconds']:.3f}",
            f"{one['placed']}/{one['runs']}",
            f"{one['proven']}/{one['runs']}",
            str(one["widestGap"]),
        )
    Console(width=140).print(table)


if __name__ == "__main__":
    sys.exit(main())
