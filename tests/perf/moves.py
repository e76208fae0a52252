"""The planner of moves at scale: seconds to the first plan and to the answer, moves, bound.

Run: python -m tests.perf.moves [SECONDS] Nodes of 8 GPUs, filled with a mix of 1, 2, 4 and 8 GPU
pods as in the openb trace, spread over the nodes, then thinned until the given share of the GPUs is
free. Jobs wait that need 8 nodes of 8 GPUs.
"""

from __future__ import annotations

import sys
from random import Random

from scheduler.base.clock import perf_s
from scheduler.moves.solver.planner import SearchLimits, plan
from scheduler.moves.solver.problem import Claim, Fit, Node, Pod, Problem, Role, Unit

# GPUs, milli-cores in hundreds, GiB, weight: the whole-GPU part of the openb mix.
MIX = ((1, 80, 32, 70), (2, 160, 64, 14), (4, 320, 128, 6), (8, 640, 256, 10))
CPU, MEMORY = 960, 512


def cluster(count: int, free_share: float, jobs: int, pods_of_a_job: int, seed: int) -> Problem:
    """Return nodes with running pods of single-pod units, and jobs that wait."""
    rng = Random(seed)
    left = [[8, CPU, MEMORY] for _ in range(count)]
    placed: list[tuple[int, tuple[int, int, int]]] = []
    shapes, odds = [one[:3] for one in MIX], [one[3] for one in MIX]
    misses = 0
    while misses < 200:
        request = rng.choices(shapes, odds)[0]
        node = rng.randrange(count)
        if all(a >= b for a, b in zip(left[node], request, strict=True)):
            left[node] = [a - b for a, b in zip(left[node], request, strict=True)]
            placed.append((node, request))
            misses = 0
        else:
            misses += 1
    rng.shuffle(placed)
    kept = []
    while placed and sum(one[0] for one in left) < free_share * 8 * count:
        node, request = placed.pop()
        if left[node][0] + request[0] == 8:
            kept.append((node, request))  # the last pod of a node stays: no node is free
            continue
        left[node] = [a + b for a, b in zip(left[node], request, strict=True)]
    placed += kept
    pods = tuple(Pod(f"p{at}", node, request, 0) for at, (node, request) in enumerate(placed))
    units = tuple(Unit(pod.name, (at,)) for at, pod in enumerate(pods))
    nodes = tuple(Node(f"n{at}", tuple(free)) for at, free in enumerate(left))
    claim = Claim("job", (Role((8, 160, 64), pods_of_a_job, 0),), copies=jobs)
    everywhere = (frozenset(range(count)),)
    return Problem(("gpu", "cpu", "memory"), nodes, pods, units, everywhere, Fit((claim,)))


def measure(title: str, problem: Problem, seconds: float) -> None:
    """Print one row."""
    started = perf_s()
    found = plan(problem, SearchLimits(seconds))
    took = perf_s() - started
    bound = sum(stage.bound for stage in found.stages if stage.name.startswith("units"))
    print(
        f"{title:34} {found.verdict.value:11} {len(found.moves):5} moves, bound {bound:5}, "
        f"gap {found.gap:6.1%}, first plan {found.first_s:5.2f} s, answer {took:6.2f} s"
    )


def main() -> None:
    """Print all rows."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    plan(cluster(4, 0.5, 1, 1, 0))  # loads CP-SAT
    measure("500 nodes, 1 job of 8 x 8", cluster(500, 0.3, 1, 8, 1), seconds)
    measure("500 nodes, 10 jobs of 8 x 8", cluster(500, 0.3, 10, 8, 1), seconds)
    measure("500 nodes, 10 jobs, another fill", cluster(500, 0.3, 10, 8, 2), seconds)
    measure("500 nodes, 18 jobs of 8 x 8", cluster(500, 0.4, 18, 8, 1), seconds)
    measure("500 nodes, 41 jobs of 8 x 8", cluster(500, 0.7, 41, 8, 1), seconds)
    measure("500 nodes, 41 jobs, too few free", cluster(500, 0.3, 41, 8, 1), seconds)
    measure("5,000 nodes, 1 pod of 8", cluster(5000, 0.2, 1, 1, 2), seconds)
    measure("500 nodes, 41 gangs of 10 x 6", gangs(500, 41), seconds)


def gangs(count: int, copies: int) -> Problem:
    """Return KAI's published benchmark: 3 pods of 1 GPU per node, gangs of 10 pods of 6."""
    pods = tuple(Pod(f"p{n}-{i}", n, (1,), 0) for n in range(count) for i in range(3))
    units = tuple(Unit(pod.name, (at,)) for at, pod in enumerate(pods))
    nodes = tuple(Node(f"n{n}", (5,)) for n in range(count))
    claim = Claim("gang", (Role((6,), 10, 0),), copies=copies)
    return Problem(("gpu",), nodes, pods, units, (frozenset(range(count)),), Fit((claim,)))


if __name__ == "__main__":
    main()
