"""A generated trace for `simulate --trace`: 50,000 pods, 50 shapes, 2,000 nodes, half with GPUs.

Write it, then replay it:

    python -m tests.perf.week DIR                               # GPUs suffice
    python -m tests.perf.week DIR --mean-duration-s 56850       # GPUs fill up, gangs wait
    trellis simulate --snapshot DIR/nodes.json --trace DIR/week.csv
"""

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SEED = 20261128
PODS, NODES, SHAPES = 50_000, 2_000, 50
# Rows arrive as if each had three pods on average, 1.3 times as fast as a week allows.
_ROWS_PER_S = PODS / 3 / 604_800 * 1.3
_COLUMNS = "arrival,duration,namespace,shape,count,gang,cpu,memory,nvidia.com/gpu"


def nodes() -> Iterator[dict[str, Any]]:
    """Yield the nodes: every other one has 8 GPUs, 20 are in one rack."""
    for number in range(NODES):
        has_gpus = bool(number % 2)
        name = f"n{number}"
        offered = {
            "cpu": "96" if has_gpus else "64",
            "memory": "768Gi" if has_gpus else "256Gi",
            "pods": "110",
        }
        labels = {
            "kubernetes.io/hostname": name,
            "topology.kubernetes.io/zone": f"z{number % 3}",
            "example.com/rack": f"r{number // 20}",
        }
        if has_gpus:
            offered["nvidia.com/gpu"] = "8"
            labels["nvidia.com/gpu.product"] = "AH"[number % 4 // 2]
        ready = [{"type": "Ready", "status": "True"}]
        status = {"allocatable": offered, "capacity": offered, "conditions": ready}
        metadata = {"name": name, "labels": labels}
        yield {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def rows(mean_duration_s: float) -> Iterator[str]:
    """Yield rows of the trace: single pods, jobs of 2 and 5 pods, and gangs of 8 pods with GPUs."""
    rng = random.Random(SEED)
    shapes: list[tuple[str, int, int, int, int]] = []
    for number in range(SHAPES):
        if number % 2:
            cpu, memory = rng.choice([4, 8, 12]), rng.choice([16, 32, 64])
            gpus, gang = rng.choice([1, 1, 1, 2, 4, 8]), rng.choice([1, 1, 1, 8])
            shapes.append((f"gpu{number}", cpu, memory, gpus, gang))
        else:
            cpu, memory = rng.choice([1, 2, 4, 8, 16]), rng.choice([2, 4, 8, 32])
            shapes.append((f"cpu{number}", cpu, memory, 0, 1))
    pods, arrival = 0, 0.0
    while pods < PODS:
        arrival += rng.expovariate(_ROWS_PER_S)
        shape, cpu, memory, gpus, gang = rng.choice(shapes)
        count = gang if gang > 1 else rng.choice([1, 1, 1, 2, 5])
        duration = rng.expovariate(1 / mean_duration_s)
        team = f"team{rng.randrange(4)}"
        asked = f"{cpu},{memory}Gi,{gpus or ''}"
        size = gang if gang > 1 else ""
        yield f"{arrival:.1f},{duration:.0f},{team},{shape},{count},{size},{asked}"
        pods += count


def main() -> None:
    """Write nodes.json and week.csv into a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--mean-duration-s", type=float, default=28_800)
    wanted = parser.parse_args()
    wanted.folder.mkdir(parents=True, exist_ok=True)
    listed = {"apiVersion": "v1", "kind": "List", "items": list(nodes())}
    (wanted.folder / "nodes.json").write_text(json.dumps(listed), encoding="utf-8")
    text = "\n".join((_COLUMNS, *rows(wanted.mean_duration_s)))
    (wanted.folder / "week.csv").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
