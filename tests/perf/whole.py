"""Applications placed whole (`gang: true`) against pod by pod: their network cost on three cluster
shapes.

    python -m tests.perf.whole
    python -m tests.perf.whole --applications 10

Fifty random applications of 4 to 12 workloads, each in a partly full cluster with random path
costs: 3 to 14 between zones, 20 to 99 between regions. Pod by pod they are placed by our default
profile, also with TopologicalSort and NetworkMinCost. As a whole they are the same AppGroup with
`gang: true` and `minMembers` equal to the number of pods. The figure is `summary.networkCost`.
Prints a table; nothing is asserted.
"""

import argparse
import json
from collections import Counter
from random import Random
from statistics import median

import msgspec

from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.simulate.batch import Batch
from scheduler.simulate.setups import Setups
from scheduler.simulate.stage import AnswerOptions
from tests.perf import quality
from tests.perf.quality import SHAPES, WORKLOAD, Manifest

PODS, ORDERED, WHOLE = "pod by pod", "pod by pod, in order, NetworkMinCost", "whole"
RULES: dict[str, Manifest | None] = {
    PODS: None,
    ORDERED: quality.RULES["ours, with TopologicalSort and NetworkMinCost"],
    WHOLE: None,
}


def whole(group: Manifest, pods: list[Manifest]) -> Manifest:
    """Return the AppGroup as a gang of all these pods."""
    there = Counter(pod["metadata"]["labels"][WORKLOAD] for pod in pods)
    workloads = [
        one | {"minMembers": there[one["workload"]["selector"]]}
        for one in group["spec"]["workloads"]
    ]
    return group | {"spec": group["spec"] | {"gang": True, "workloads": workloads}}


class Row(msgspec.Struct):
    """The costs of the applications on one shape, by rule.

    Of the gangs also how many are proven. `seconds` are the solver's for the gangs, `gaps` the
    unproven shares of the cost of the others.
    """

    costs: dict[str, list[int]]
    placed: dict[str, int]
    proven: int = 0
    gaps: list[float] = []
    seconds: list[float] = []

    def dearer(self, other: str) -> int:
        """Return how many applications cost more when they are placed whole."""
        return sum(a > b for a, b in zip(self.costs[WHOLE], self.costs[other], strict=True))


def measure(shape: str, applications: int, seed: str = "") -> Row:
    """Place applications in clusters of a shape, each by every rule."""
    batch = Batch(Setups(Registry(IN_TREE)), AnswerOptions(), lambda _name: "")
    row = Row({name: [] for name in RULES}, dict.fromkeys(RULES, 0))
    for number in range(applications):
        random = Random(f"whole {shape} {number}{seed}")
        nodes, topology = quality.cluster(SHAPES[shape], random)
        group, pods = quality.application(random)
        there = [*nodes, topology, *quality.background(nodes, random)]
        for name, config in RULES.items():
            described = whole(group, pods) if name == WHOLE else group
            line = {"id": 0, "objects": [*there, described], "pending": pods, "config": config}
            found = json.loads(batch.answer(json.dumps(line).encode()))["simulation"]
            row.costs[name].append(found["summary"]["networkCost"])
            row.placed[name] += found["summary"]["scheduled"]
            if name == WHOLE:
                (reported,) = found["groups"]
                _note(row, reported)
    return row


def _note(row: Row, outcomes: Manifest) -> None:
    row.proven += outcomes["optimal"]
    row.seconds.append(outcomes["solverSeconds"])
    if not outcomes["optimal"] and "cost" in outcomes["terms"]:
        at = outcomes["terms"].index("cost")
        value, bound = outcomes["objective"][at], outcomes["bound"][at]
        row.gaps.append((value - bound) / value if value else 0.0)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Network cost of whole applications.")
    parser.add_argument("--applications", type=int, default=50)
    parser.add_argument("--seed", default="", help="any text, for other applications")
    given = parser.parse_args()
    for shape in SHAPES:
        row = measure(shape, given.applications, given.seed)
        print(
            f"{shape}: {row.proven} of {given.applications} proven, solver "
            f"{median(row.seconds):.2f} s "
            f"(median), {max(row.seconds):.2f} s at most; gap of the others "
            f"{median(row.gaps or [0.0]):.0%} (median), {max(row.gaps, default=0.0):.0%} at most"
        )
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
