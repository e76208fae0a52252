"""Heterogeneous members on 5,000 nodes in 50 racks: CPU seconds, proofs, and gaps without proof.

    python -m tests.perf.unlike
    python -m tests.perf.unlike --runs 3 --row "8 + 64 + 256, costs by rack"

Each run has another cluster: a quarter of the nodes full, an eighth idle, the rest 40 to 70 % used,
8 slots each; "idle" rows have all nodes idle, "full" ones six of seven full, so that no rack takes
a group. Composite groups have replicas of a head and workers, each in one rack, all needed; "apart"
has each pod of a replica on a node of its own, "two racks" four pods of each replica in either of
two racks. Seconds are CPU time of this process, model building included, with CP-SAT loaded before;
a stage has 20 s of the wall clock. Beside it is how often a descent (the larger pods first, onto
the fullest or the emptiest node) finds something better. Nothing here judges.
"""

import argparse
from collections.abc import Iterator, Sequence
from random import Random
from statistics import median
from time import process_time

import msgspec
from ortools.sat.python import cp_model  # noqa: F401 - loaded before the measurement

from scheduler.groups.problem import checker
from scheduler.groups.problem.answer import SolvedStage
from scheduler.groups.problem.classes import ClassRule, PairRule, PodClass, Traffic, TrafficCosts
from scheduler.groups.problem.instance import Level, LevelRule, SolveLimits
from scheduler.groups.problem.parts import LikeParts
from scheduler.groups.problem.roles import GroupProblem, Role
from scheduler.groups.solver.roles import descent, heterogeneous, result
from scheduler.groups.solver.roles.subgroups import split

RACKS, NODES, SLOTS = 50, 100, 8
LIMITS = SolveLimits(stage_s=20.0, total_s=60.0)
LEVELS = (Level("rack"), Level("node"))


class Row(msgspec.Struct, frozen=True):
    """A group by the sizes of its classes; `costs` by level create traffic between neighbouring
    classes.
    """

    name: str
    sizes: tuple[int, ...]
    costs: tuple[int, ...] = ()
    between: tuple[PairRule, ...] = ()
    is_idle: bool = False
    replicas: int = 0
    is_full: bool = False
    is_apart: bool = False
    racks: int = 1


WITH_FIRST = (PairRule("with", 0, 1, 0),)
ROWS = (
    Row("1 + 511", (1, 511)),
    Row("1 + 511, idle", (1, 511), is_idle=True),
    Row("1 + 511, head with workers", (1, 511), between=WITH_FIRST),
    Row("8 + 64 + 256, costs by rack", (8, 64, 256), (10,)),
    Row("8 + 64 + 256, costs by rack, idle", (8, 64, 256), (10,), is_idle=True),
    Row("8 + 64 + 256, costs by rack and node", (8, 64, 256), (10, 1)),
    Row("8 + 64 + 256, costs by rack and node, idle", (8, 64, 256), (10, 1), is_idle=True),
    Row("composite 16 x (1 + 7)", (1, 7), replicas=16),
    Row("composite 16 x (1 + 7), idle", (1, 7), replicas=16, is_idle=True),
    Row("composite 16 x (1 + 7), full", (1, 7), replicas=16, is_full=True),
    Row("composite 16 x (1 + 7), apart", (1, 7), replicas=16, is_apart=True),
    Row("composite 16 x (1 + 7), apart, idle", (1, 7), replicas=16, is_idle=True, is_apart=True),
    Row("composite 16 x (1 + 7), apart, full", (1, 7), replicas=16, is_full=True, is_apart=True),
    Row("composite 4 x (1 + 7), two racks", (1, 7), replicas=4, racks=2),
    Row("composite 4 x (1 + 7), two racks, full", (1, 7), replicas=4, is_full=True, racks=2),
)


def group(row: Row, rng: Random) -> GroupProblem:
    """Return the group of a row in a random cluster.

    A pod takes a slot, the first class more memory.
    """
    paths, free = [], []
    for rack in range(RACKS):
        for number in range(NODES):
            chance = rng.random()
            slots = 0 if chance < 0.25 else SLOTS if chance < 0.375 else rng.randint(2, 4)
            slots = SLOTS if row.is_idle else slots
            slots = slots if not row.is_full or rng.random() < 1 / 7 else 0
            paths.append((f"r{rack:02}", f"n{rack:02}-{number:03}"))
            free.append((slots, 4 * slots))
    kinds = tuple(
        Role(count * max(1, row.replicas), (1, 1 if at else 8), (SLOTS,) * len(paths))
        for at, count in enumerate(row.sizes)
    )
    if row.racks > 1:
        return alone(row, paths, free)
    if row.replicas:
        root = LikeParts("root", minimum=row.replicas)
        replica = LikeParts(
            "replica", 0, row.replicas, 0, sum(row.sizes), (0, 1), row.sizes,
            apart=1 if row.is_apart else -1,
        )  # fmt: skip
        parts = (root, replica)
        return GroupProblem(kinds, tuple(free), LEVELS, tuple(paths), 1, parts=parts)
    neighbours = range(len(row.sizes) - 1) if row.costs else ()
    return GroupProblem(
        kinds,
        tuple(free),
        LEVELS,
        tuple(paths),
        sum(row.sizes),
        classes=tuple(PodClass(f"c{at}", (at,)) for at in range(len(row.sizes))),
        between=row.between,
        traffic=tuple(Traffic(at, at + 1, 4 - at) for at in neighbours),
        costs=TrafficCosts(row.costs),
        unwished=(0, 1) if row.costs else (),
    )


def alone(
    row: Row, paths: Sequence[tuple[str, str]], free: Sequence[tuple[int, int]]
) -> GroupProblem:
    """Return replicas with rules that bind each of them: every one is a part and a class."""
    many = sum(row.sizes)
    kinds: list[Role] = []
    parts = [LikeParts("root", minimum=row.replicas)]
    classes: list[PodClass] = []
    for at in range(row.replicas):
        own = tuple(range(len(kinds), len(kinds) + len(row.sizes)))
        kinds += [
            Role(count, (1, 1 if number else 8), (SLOTS,) * len(paths))
            for number, count in enumerate(row.sizes)
        ]
        parts.append(LikeParts(f"replica {at}", 0, 1, -1, many, own, row.sizes))
        rule = LevelRule(
            "spread", min=many // row.racks, max=many // row.racks, partitions=row.racks
        )
        classes.append(PodClass(f"replica {at}", own, rules=(ClassRule(0, rule),), part=at + 1))
    return GroupProblem(
        tuple(kinds), tuple(free), LEVELS, tuple(paths), 1,
        classes=tuple(classes), parts=tuple(parts),
    )  # fmt: skip


class Run(msgspec.Struct, frozen=True):
    """The CPU seconds of one run, its stages, and whether a descent finds a better placement."""

    seconds: float
    stages: tuple[SolvedStage, ...]
    is_beaten: bool


def measured(row: Row, run: int) -> Run:
    """Return one run of a row."""
    asked = group(row, Random(f"{row.name} {run}"))
    started = process_time()
    found = heterogeneous.solve(asked, LIMITS)
    seconds = process_time() - started
    values = [one.value for one in found.stages]
    return Run(seconds, found.stages, any(each < values for each in greedy(asked)))


def greedy(asked: GroupProblem) -> Iterator[list[int]]:
    """Yield the placements of descents that break no rule."""
    for is_filling in (True, False):
        counts = descent.descent(asked, is_filling=is_filling)
        rows = counts.tolist()
        pieces = split(asked, rows) if asked.parts else ()
        if not checker.problems(asked, rows, pieces):
            yield [value for _, _, value in result.objective_of(asked, counts)]


def main() -> None:
    """Print a line for each row."""
    parser = argparse.ArgumentParser(description="Speed of groups of heterogeneous members.")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--row", action="append", help="only rows with this name")
    given = parser.parse_args()
    for row in ROWS:
        if given.row and row.name not in given.row:
            continue
        runs = [measured(row, run) for run in range(given.runs)]
        seconds = sorted(run.seconds for run in runs)
        proven = sum(bool(run.stages) and all(one.proven for one in run.stages) for run in runs)
        beaten = sum(run.is_beaten for run in runs)
        gaps = {
            f"{one.level} {one.measure}".strip(): (one.value, one.bound)
            for run in runs
            for one in run.stages
            if not one.proven
        }
        print(
            f"{row.name}: CPU {median(seconds):.2f} s, worst {seconds[-1]:.2f} s, "
            f"proven {proven} of {len(runs)}, a descent better in {beaten}"
            f"{f', (value, bound) {gaps}' if gaps else ''}"
        )


if __name__ == "__main__":
    main()
