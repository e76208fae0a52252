"""The speed of `simulate`: many small cases in one process, and one case of a thousand nodes.

Called by `table`. Both answer from bytes to bytes, as the command line does; the same input is
answered twice, by two processes with different hash seeds, and the bytes are compared.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from time import perf_counter
from typing import Any

from tests.perf.workload import NODE, POD, CreateNodes, CreatePods, laid_over
from tests.real.schedulers import ROOT

CASES = 1500
ZONES = ["zone-1", "zone-2", "zone-3"]


def batch(folder: Path) -> dict[str, Any]:
    """Return the figures of `simulate --batch` over small cases; process start included."""
    file = folder / "cases.jsonl"
    file.write_text("".join(json.dumps(case) + "\n" for case in small_cases(CASES)))
    figures = _twice(["--batch", str(file)])
    return {
        **figures,
        "cases": CASES,
        "casesPerSecond": CASES / figures["seconds"],
        "casesPerCpuSecond": CASES / figures["cpuSeconds"],
    }


def large(folder: Path) -> dict[str, Any]:
    """Return the figures of one snapshot with 1,000 nodes and 1,000 pending pods."""
    nodes = CreateNodes(count=1000, labels={"topology.kubernetes.io/zone": ZONES})
    pods = CreatePods(count=1000, namespace="default")
    items = [*nodes.manifests(), *pods.manifests("trellis")]
    file = folder / "snapshot.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return {**_twice(["--snapshot", str(file), "-o", "json"]), "nodes": 1000, "pods": 1000}


def small_cases(count: int) -> Iterator[dict[str, Any]]:
    """Yield cases of five nodes, four bound and three pending pods, all different."""
    for number in range(count):
        nodes = []
        for place in range(5):
            name = f"node-{number}-{place}"
            node = laid_over(NODE, {"metadata": {"name": name}})
            node["metadata"]["labels"] = {
                "kubernetes.io/hostname": name,
                "topology.kubernetes.io/zone": ZONES[place % 3],
            }
            nodes.append(node)
        pods = []
        for place in range(7):
            pod = deepcopy(POD)
            pod["metadata"] |= {"name": f"pod-{place}", "namespace": "default"}
            pod["metadata"]["labels"] = {"app": f"app-{number % 7}"}
            pod["spec"]["schedulerName"] = "trellis"
            requests = {"cpu": f"{100 + 10 * (number % 50)}m", "memory": "500Mi"}
            pod["spec"]["containers"][0]["resources"] = {"requests": requests}
            if place < 4:
                pod["spec"]["nodeName"] = f"node-{number}-{place}"
            pods.append(pod)
        yield {"id": number, "objects": [*nodes, *pods]}


def _twice(arguments: list[str]) -> dict[str, Any]:
    runs = [_run(arguments, seed) for seed in ("1", "2")]
    return {
        "seconds": min(run["seconds"] for run in runs),
        "cpuSeconds": min(run["cpuSeconds"] for run in runs),
        "isDeterministic": runs[0]["digest"] == runs[1]["digest"],
    }


def _run(arguments: list[str], hash_seed: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "scheduler.cli.main", "simulate", *arguments]
    before = _children_s()
    started = perf_counter()
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        check=False,
    )
    seconds = perf_counter() - started
    if done.returncode:
        raise AssertionError(f"simulate ended with {done.returncode}: {done.stderr[-500:]!r}")
    digest = hashlib.sha256(done.stdout).hexdigest()
    return {"seconds": seconds, "cpuSeconds": _children_s() - before, "digest": digest}


def _children_s() -> float:
    times = os.times()
    return times.children_user + times.children_system
