"""Decisions per second in process: the engine alone, all nodes scored, every bind answered at once.

    python -m tests.perf.decisions
    python -m tests.perf.decisions --nodes 5000 --pods 2000 --profile

No API server, no sockets, no asyncio: the result is the engine's own cost of a pod. Besides `run`
(the cycles) it measures the intake: a new pod, the answer to its bind, and the watch's echo of the
bound pod. Objects are decoded before the clock starts.
"""

import argparse
import cProfile
import gc
import io
import os
import pstats
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from scheduler.base.clock import RealClock, perf_s
from scheduler.base.meters import Meters
from scheduler.config import default_config
from scheduler.engine.effects import Answer, Bind, Effects, Event, Listed, Record, Watched
from scheduler.engine.engine import Engine
from scheduler.framework.profile import ProfileSpec
from scheduler.intree import registry
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from tests.perf.machine import machine, versions
from tests.perf.workload import CreateNodes, CreatePods

NODES = (1000, 5000, 15000)
SCHEMA = "trellis-decisions/1"
SCHEDULER = "trellis"
ZONES = ["zone-a", "zone-b", "zone-c"]
CYCLES = 64
# Pods that are decided before the measurement.
WARM_UP = 300
POINTS = "scheduler_framework_extension_point_duration_seconds"


class Drive:
    """An engine over simple nodes, with a stopwatch around each of its doors, read from `clock`.

    It has the default profile, unless others are given.
    """

    def __init__(
        self,
        nodes: int,
        clock: Callable[[], float] = perf_s,
        specs: Sequence[ProfileSpec] = (),
    ) -> None:
        self._clock = clock
        specs = specs or [
            spec for spec in default_config(registry()).profiles if spec.scheduler_name == SCHEDULER
        ]
        self.meters = Meters()
        self.engine = Engine(specs, registry(), meters=self.meters, stopwatch=perf_s)
        self.seconds = {"run": 0.0, "pod": 0.0, "answer": 0.0, "echo": 0.0}
        self.binds = self.events = 0
        self._now = 1.0
        self._pods: dict[str, Pod] = {}
        made = CreateNodes(count=nodes, labels={"topology.kubernetes.io/zone": ZONES}).manifests()
        objects = tuple(msgspec.convert(manifest, Node) for manifest in made)
        self.engine.handle(Listed("Node", objects), self._now)
        for kind in ("Pod", "Namespace"):
            self.engine.handle(Listed(kind, ()), self._now)

    def decide(self, pods: Sequence[Pod]) -> None:
        """Take pods in, decide them all, answer and echo every bind."""
        for pod in pods:
            self._pods[pod.metadata.uid] = pod
            self._handle("pod", Watched("Pod", "ADDED", pod))
        while self.engine.has_work():
            self._now += 0.001
            started = self._clock()
            effects = self.engine.run(self._now, CYCLES)
            self.seconds["run"] += self._clock() - started
            self._carry_out(effects)
        # The last answers leave their events in the outbox.
        self._carry_out(self.engine.run(self._now, 0))

    def reset(self) -> None:
        """Start to measure: drop the warm-up's figures."""
        self.seconds = dict.fromkeys(self.seconds, 0.0)
        self.binds = self.events = 0

    def _carry_out(self, effects: Sequence[Effects]) -> None:
        for effect in effects:
            if isinstance(effect, Bind):
                self.binds += 1
                self._handle("answer", Answer(effect.id, 201))
                pod = self._pods.pop(effect.uid)
                spec = msgspec.structs.replace(pod.spec, node_name=effect.node)
                bound = msgspec.structs.replace(pod, spec=spec)
                self._handle("echo", Watched("Pod", "MODIFIED", bound))
            elif isinstance(effect, Record):
                self.events += 1

    def _handle(self, what: str, event: Event) -> None:
        started = self._clock()
        self.engine.handle(event, self._now)
        self.seconds[what] += self._clock() - started


def measure(nodes: int, pods: int) -> dict[str, Any]:
    """Return the figures of one run over this many nodes; raise if a pod is not placed."""
    drive = Drive(nodes)
    drive.decide(plain_pods(WARM_UP, "warm"))
    drive.reset()
    before = point_seconds(drive.meters)
    wanted = plain_pods(pods, "pod")
    gc.collect()
    gc.freeze()
    cpu_s = process_time()
    drive.decide(wanted)
    cpu_s = process_time() - cpu_s
    gc.unfreeze()
    if drive.binds != pods or drive.events != pods:
        raise AssertionError(f"{drive.binds} binds and {drive.events} events for {pods} pods")
    total = sum(drive.seconds.values())
    after = point_seconds(drive.meters)
    return {
        "nodes": nodes,
        "pods": pods,
        "decisionsPerSecond": pods / total,
        "cpuMicrosecondsPerPod": 1e6 * cpu_s / pods,
        "cyclesPerSecond": pods / drive.seconds["run"],
        "microsecondsPerPod": {
            **{what: 1e6 * each / pods for what, each in drive.seconds.items()},
            "total": 1e6 * total / pods,
        },
        "pointMicrosecondsPerPod": {
            point: 1e6 * (each - before.get(point, 0.0)) / pods for point, each in after.items()
        },
    }


def plain_pods(count: int, prefix: str) -> list[Pod]:
    """Return the standard pods of the workloads as the engine gets them."""
    manifests = CreatePods(count=count).manifests(SCHEDULER)
    pods = []
    for number, manifest in enumerate(manifests):
        manifest["metadata"] |= {
            "name": f"{prefix}-{number:05d}",
            "namespace": "bench",
            "uid": f"{prefix}-{number:05d}-0000-0000",
            "resourceVersion": str(number + 1),
        }
        pods.append(msgspec.convert(manifest, Pod))
    return pods


def point_seconds(meters: Meters) -> dict[str, float]:
    """Return the seconds spent per extension point so far."""
    found: dict[str, float] = {}
    for sample in meters.framework_extension_point_duration.samples():
        point = sample.labels[0]
        value = sample.value
        found[point] = found.get(point, 0.0) + (value if isinstance(value, float) else value.sum)
    return found


def profiled(nodes: int, pods: int, lines: int = 45) -> str:
    """Return the profile of a run, by own time, as text."""
    drive = Drive(nodes)
    drive.decide(plain_pods(WARM_UP, "warm"))
    profile = cProfile.Profile()
    wanted = plain_pods(pods, "pod")
    profile.enable()
    drive.decide(wanted)
    profile.disable()
    text = io.StringIO()
    stats = pstats.Stats(profile, stream=text).strip_dirs()
    stats.sort_stats("tottime").print_stats(lines)
    return text.getvalue()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; return the exit code."""
    options = _options(arguments)
    now = datetime.fromtimestamp(RealClock().now(), UTC)
    file = options.output / f"decisions-{now:%Y%m%dT%H%M%SZ}.json"
    options.output.mkdir(parents=True, exist_ok=True)
    runs = [
        [measure(nodes, options.pods) for _ in range(options.repeat)] for nodes in options.nodes
    ]
    medians = [_median(each) for each in runs]
    report = {
        "schema": SCHEMA,
        "machine": machine(),
        "versions": versions(None),
        "runs": [run for each in runs for run in each],
        "medians": medians,
    }
    file.write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    console = Console(width=140)
    console.print(_table(medians, options.repeat))
    console.print(f"written to {file}")
    if options.profile:
        for nodes in options.nodes:
            text = f"{nodes} nodes, {options.pods} pods, under cProfile\n"
            text += profiled(nodes, options.pods)
            file.with_suffix(f".{nodes}.txt").write_text(text)
            print(text)
    return 0


def _median(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the median of every figure, also inside of tables."""
    found: dict[str, Any] = {}
    for name, value in runs[0].items():
        values = [run[name] for run in runs]
        found[name] = _median(values) if isinstance(value, dict) else median(values)
    return found


def _table(medians: list[dict[str, Any]], repeat: int) -> Table:
    points = list(medians[0]["pointMicrosecondsPerPod"])
    shown = Table(title=f"decisions, all nodes scored, µs per pod (medians of {repeat})")
    for heading in (
        "nodes",
        "decisions/s",
        "CPU",
        "total",
        "run",
        "pod",
        "answer",
        "echo",
        *points,
    ):
        shown.add_column(heading, justify="right")
    for each in medians:
        spent, at = each["microsecondsPerPod"], each["pointMicrosecondsPerPod"]
        shown.add_row(
            f"{each['nodes']:.0f}",
            f"{each['decisionsPerSecond']:.0f}",
            f"{each['cpuMicrosecondsPerPod']:.0f}",
            *(f"{spent[name]:.0f}" for name in ("total", "run", "pod", "answer", "echo")),
            *(f"{at[name]:.0f}" for name in points),
        )
    return shown


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    results = os.environ.get("TRELLIS_BENCH_DIR", Path(__file__).parent / "results")
    parser = argparse.ArgumentParser(prog="python -m tests.perf.decisions", description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=NODES)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path(results))
    parser.add_argument("--profile", action="store_true", help="also tell where the time goes")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
