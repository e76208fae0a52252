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


def microseconds(preset: str, kinds: int) -> float:
    """Return the CPU of one engine per pod: events, decisions, answers."""
    plugins, text = registry(), PRESETS[preset]
    loaded = load(text, file=preset, registry=plugins) if text else default_config(plugins)
    drive = decisions.Drive(interleaved.NODES, process_time, loaded.profiles)
    labels = {"topology.kubernetes.io/zone": decisions.ZONES}
    nodes = CreateNodes(count=interleaved.NODES, labels=labels).manifests()
    for manifest in list(nodes)[::EVERY]:
        for amounts in (manifest["status"]["allocatable"], manifest["status"]["capacity"]):
            amounts[GPU] = GPUS
        drive.engine.handle(Watched("Node", "MODIFIED", read_node(manifest)), 1.0)
    drive.play(list(interleaved.pods(interleaved.WARM_UP, "warm", kinds, spread=False)))
    drive.reset()
    wanted = list(interleaved.pods(interleaved.PODS, "pod", kinds, spread=False))
    gc.collect()
    gc.freeze()
    drive.play(wanted)
    gc.unfreeze()
    if drive.binds != interleaved.PODS:
        raise AssertionError(f"{drive.binds} binds for {interleaved.PODS} pods")
    return 1e6 * sum(drive.seconds.values()) / interleaved.PODS


def main() -> None:
    """Measure pairs, the order of a pair changing each time, and print them."""
    parser = argparse.ArgumentParser(prog="python -m tests.perf.besidepacking", description=__doc__)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--kinds", type=int, default=1)
    wanted = parser.parse_args()
    found: dict[str, list[float]] = {"default": [], "gpu": []}
    for number in range(wanted.pairs):
        for preset in list(found)[:: 1 if number % 2 else -1]:
            found[preset].append(microseconds(preset, wanted.kinds))
    ratios = [mine / plain for plain, mine in zip(found["default"], found["gpu"], strict=True)]
    figures = {
        "kinds": wanted.kinds,
        "microseconds": {name: [round(one) for one in many] for name, many in found.items()},
        "ratios": [round(one, 3) for one in ratios],
        "median": round(median(ratios), 3),
        "load": [round(one, 1) for one in os.getloadavg()],
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
