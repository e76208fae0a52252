"""What FragmentationAware costs plain pods: 5,000 nodes, a fifth of them with 8 GPUs, in process.

Engines of the default configuration and of the profile `gpu` place the same pods in turn. Prints
JSON: microseconds of CPU per pod of each, and the ratio pair by pair.

    python -m tests.perf.besidepacking --kinds 20
"""

import argparse
import gc
import json
import os
from statistics import median
from time import process_time

from scheduler.config import default_config, load
from scheduler.config.presets import PRESETS
from scheduler.engine.effects import Watched
from scheduler.intree import registry
from scheduler.objects.plain import read_node
from tests.perf import decisions, interleaved
from tests.perf.workload import CreateNodes

GPU, GPUS, EVERY = "nvidia.com/gpu", "8", 5
# Pods that one engine decides before the other one takes its turn.
TURN = 50


def drive(preset: str, kinds: int) -> decisions.Drive:
    """Return an engine of this configuration that has placed the pods of the warm-up."""
    plugins, text = registry(), PRESETS[preset]
    loaded = load(text, file=preset, registry=plugins) if text else default_config(plugins)
    made = decisions.Drive(interleaved.NODES, process_time, loaded.profiles)
    labels = {"topology.kubernetes.io/zone": decisions.ZONES}
    nodes = CreateNodes(count=interleaved.NODES, labels=labels).manifests()
    for manifest in list(nodes)[::EVERY]:
        for amounts in (manifest["status"]["allocatable"], manifest["status"]["capacity"]):
            amounts[GPU] = GPUS
        made.engine.handle(Watched("Node", "MODIFIED", read_node(manifest)), 1.0)
    made.decide(list(interleaved.pods(interleaved.WARM_UP, "warm", kinds, spread=False)))
    made.reset()
    return made


def pair(kinds: int) -> dict[str, float]:
    """Return the microseconds of CPU per pod of both: events, decisions, answers.

    The engines take turns every few pods, so that other load on the machine slows both.
    """
    drives = {preset: drive(preset, kinds) for preset in ("default", "gpu")}
    wanted = list(interleaved.pods(interleaved.PODS, "pod", kinds, spread=False))
    gc.collect()
    gc.freeze()
    for number, start in enumerate(range(0, interleaved.PODS, TURN)):
        for preset in list(drives)[:: 1 if number % 2 else -1]:
            drives[preset].decide(wanted[start : start + TURN])
    gc.unfreeze()
    for preset, made in drives.items():
        if made.binds != interleaved.PODS:
            raise AssertionError(f"{preset}: {made.binds} binds for {interleaved.PODS} pods")
    return {
        preset: 1e6 * sum(made.seconds.values()) / interleaved.PODS
        for preset, made in drives.items()
    }


def main() -> None:
    """Measure pairs and print them."""
    parser = argparse.ArgumentParser(prog="python -m tests.perf.besidepacking", description=__doc__)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--kinds", type=int, default=1)
    wanted = parser.parse_args()
    found = [pair(wanted.kinds) for _ in range(wanted.pairs)]
    ratios = [one["gpu"] / one["default"] for one in found]
    figures = {
        "kinds": wanted.kinds,
        "microseconds": {name: [round(one[name]) for one in found] for name in found[0]},
        "ratios": [round(one, 3) for one in ratios],
        "median": round(median(ratios), 3),
        "load": [round(one, 1) for one in os.getloadavg()],
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
