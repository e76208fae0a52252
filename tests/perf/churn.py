"""The engine's memory while pods arrive, are bound or rejected, and are deleted: a million of them.

    python -m tests.perf.churn --pods 1000000

In process, without an API server (`inprocess.WorkloadRun`). Pods arrive a hundred at a time and are
deleted when the next hundred have arrived: plain ones of a few kinds, ones with a label of their
own as those of StatefulSets, and one in twenty that fits nowhere. Nodes are replaced from time to
time. Prints and writes JSON: resident memory in MiB and objects of the collector at equal steps,
and pods per second.
"""

import argparse
import gc
import json
import os
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec

from tests.perf.inprocess import SCHEDULER, WorkloadRun
from tests.perf.pageload import RESULTS
from tests.perf.workload import Manifest

NODES, WAVE, KINDS = 500, 100, 7
CAPACITY = {"cpu": "32", "memory": "128Gi", "pods": "110"}


def node(number: int) -> Manifest:
    """Return a node; one with a new number has a new name."""
    name = f"n{number}"
    meta = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return {
        "kind": "Node",
        "metadata": meta,
        "status": {"capacity": CAPACITY, "allocatable": CAPACITY},
    }


def pod(number: int) -> Manifest:
    """Return a pod whose properties follow from its number."""
    fits = number % 20 != 0
    labels = {"app": f"a{number % KINDS}"}
    if number % 5 == 0:
        labels["apps.kubernetes.io/pod-index"] = str(number)
    wants = {"cpu": "100m" if fits else "1000", "memory": f"{16 << number % 3}Mi"}
    container = {"name": "c", "image": "i", "resources": {"requests": wants}}
    meta = {"name": f"p{number}", "namespace": f"t{number % 11}", "labels": labels}
    return {
        "kind": "Pod",
        "metadata": meta,
        "spec": {"schedulerName": SCHEDULER, "containers": [container]},
        "status": {},
    }


def resident_mib() -> float:
    """Return the resident memory of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    found = next(line for line in lines if line.startswith("VmRSS"))
    return round(int(found.split()[1]) / 1024, 1)


class Churn:
    """A cluster through which pods go."""

    def __init__(self) -> None:
        self.workload_run = WorkloadRun()
        self.number = self._nodes = 0
        self._here: list[Any] = []
        self._offered: list[Any] = []
        for _ in range(NODES):
            self._add_node()

    def wave(self) -> None:
        """Create pods, wait until they are bound or rejected, and delete those before them."""
        workload_run = self.workload_run
        coming = [workload_run.decoded(pod(self.number + n)) for n in range(WAVE)]
        self.number += WAVE
        workload_run.create(coming, awaited=False)
        for one in self._here:
            workload_run.remove(one)
        while workload_run.engine.has_work():
            workload_run.turn()
        self._here = coming
        if self.number % (10 * WAVE) == 0:
            workload_run.remove(self._offered.pop(0))
            self._add_node()

    def _add_node(self) -> None:
        self._nodes += 1
        one = self.workload_run.decoded(node(self._nodes))
        self._offered.append(one)
        self.workload_run.add(one)


def measure(pods: int, step: int) -> dict[str, Any]:
    """Run this many pods; return the memory after each `step`."""
    churn = Churn()
    memory_mib: list[float] = []
    objects: list[int] = []
    began = monotonic()
    while churn.number < pods:
        churn.wave()
        if churn.number % step == 0:
            gc.collect()
            memory_mib.append(resident_mib())
            objects.append(len(gc.get_objects()))
            print(churn.number, memory_mib[-1], objects[-1], flush=True)
    took_s = monotonic() - began
    return {
        "nodes": NODES,
        "pods": pods,
        "binds": churn.workload_run.binds,
        "podsPerSecond": round(pods / took_s),
        "step": step,
        "memoryMiB": memory_mib,
        "objects": objects,
        "load": [round(value, 1) for value in os.getloadavg()],
    }


def main(words: list[str] | None = None) -> dict[str, Any]:
    """Measure once, print and write the result."""
    options = argparse.ArgumentParser()
    options.add_argument("--pods", type=int, default=1_000_000)
    options.add_argument("--step", type=int, default=100_000)
    given = options.parse_args(words)
    figures = measure(given.pods, given.step)
    RESULTS.mkdir(exist_ok=True)
    text = msgspec.json.format(msgspec.json.encode(figures)).decode()
    (RESULTS / f"churn-{given.pods}.json").write_text(text)
    print(json.dumps(figures, indent=1))
    return figures


if __name__ == "__main__":
    main()
