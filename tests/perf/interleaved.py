"""Plain pods of several kinds in turn, in process: rows of tests.perf.table, and of
tests.house.measure.

Real clusters place pods of many kinds beside each other, so that cached results of one kind are
stale when its next pod arrives. A kind has requests and a label of its own, and spreads over zones
if requested.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import msgspec

from scheduler.engine.engine import Engine
from scheduler.objects.pod import Pod
from tests.perf import decisions
from tests.perf.workload import CreatePods

NODES, PODS, WARM_UP = 5000, 1500, 400


def pods(count: int, prefix: str, kinds: int, *, spread: bool) -> Iterator[Pod]:
    """Yield plain pods of this many kinds in turn, as the engine receives them."""
    for number, manifest in enumerate(CreatePods(count=count).manifests(decisions.SCHEDULER)):
        kind = number % kinds
        name = f"{prefix}-{number:05d}"
        manifest["metadata"] |= {
            "name": name,
            "namespace": "bench",
            "uid": f"{name}-0000-0000",
            "resourceVersion": str(number + 1),
            "labels": {"app": f"app-{kind}"},
        }
        spec = manifest["spec"]
        asked = {"cpu": f"{50 + 10 * kind}m", "memory": f"{64 + 8 * kind}Mi"}
        spec["containers"][0]["resources"] = {"requests": asked}
        if spread:
            spec["topologySpreadConstraints"] = [
                {
                    "maxSkew": 5,
                    "topologyKey": "topology.kubernetes.io/zone",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"app": f"app-{kind}"}},
                }
            ]
        yield msgspec.convert(manifest, Pod)


def as_it_is(_engine: Engine) -> None:
    """Change nothing in a measured engine."""


def microseconds(
    kinds: int, *, spread: bool = False, change: Callable[[Engine], None] = as_it_is
) -> float:
    """Return the CPU time of `Engine.run` per pod on 5,000 nodes, of an engine that `change` has
    seen.
    """
    drive = decisions.Drive(NODES, clock=process_time)
    change(drive.engine)
    drive.decide(list(pods(WARM_UP, "warm", kinds, spread=spread)))
    drive.reset()
    wanted = list(pods(PODS, "pod", kinds, spread=spread))
    gc.collect()
    gc.freeze()
    drive.decide(wanted)
    gc.unfreeze()
    if drive.binds != PODS:
        raise AssertionError(f"{drive.binds} binds for {PODS} pods")
    return 1e6 * drive.seconds["run"] / PODS


def _row(kinds: int, spread: bool, _folder: Path) -> dict[str, Any]:
    return {"runMicroseconds": microseconds(kinds, spread=spread)}


def row(kinds: int, *, spread: bool = False) -> Callable[[Path], dict[str, Any]]:
    """Return the function that measures a row of the table."""
    return partial(_row, kinds, spread)
