"""The duration of NUMA placement at 5,000 nodes of 8 zones with 4 resources, and its memory.

Run as `python -m tests.perf.numa`; prints one JSON document. CPU time of this process, medians;
`atReference` multiplies by the machine's factor: a hint, no measurement (see `machine.speed`).

A figure is for pods of new shapes, without cached results; `Known` figures are for pods of a known
shape, each of which was placed. Those of filter include pre-filter, except for `Alone`. `Landed` is
the update after the placement. `Odd` are amounts that need an exact comparison if another amount is
near. The worst pods need all eight zones.
"""

import gc
import sys
from random import Random
from statistics import median
from time import process_time
from typing import Any

import msgspec

from scheduler.engine.effects import Watched
from scheduler.framework.running.answers import States
from scheduler.kube.watching.decode import Decoder
from scheduler.objects.kinds import BY_KIND
from scheduler.objects.plain import read_node, read_pod
from scheduler.objects.reports.podfingerprint import fingerprint, mark_of
from scheduler.testing.scene import Scene
from tests.perf.machine import machine, speed

NODES, ZONES, TIMES = 5000, 8, 60
NAME = "NodeResourceTopologyMatch"
GIB = 2**30
DEVICE = "example.com/nic"
PAGES = "hugepages-2Mi"
PARTS = ("", "Alone", "Landed")
GOALS = {
    "filterUs": 150.0,
    "leastNumaNodesMs": 2.0,
    "leastNumaNodesWorstMs": 20.0,
    "memoryMib": 60.0,
}


def report_line(name: str, scope: str, free: dict[str, list[int]], text: str = "") -> bytes:
    """Return a watch line with a report as agents write it: amounts in bytes, distances, fields."""
    zones = [
        {
            "name": f"node-{zone}",
            "type": "Node",
            "costs": [
                {"name": f"node-{other}", "value": 10 if other == zone else 12 + abs(other - zone)}
                for other in range(ZONES)
            ],
            "resources": [
                {
                    "name": resource,
                    "capacity": str(amounts[zone] + 3),
                    "allocatable": str(amounts[zone] + 2),
                    "available": str(amounts[zone]),
                }
                for resource, amounts in free.items()
            ],
        }
        for zone in range(ZONES)
    ]
    body = {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "managedFields": [{"manager": "agent", "time": "2026-01-01T00:00:00Z"}],
        },
        "attributes": [
            {"name": "topologyManagerPolicy", "value": "single-numa-node"},
            {"name": "topologyManagerScope", "value": scope},
            {"name": "nodeTopologyPodsFingerprint", "value": text},
        ],
        "zones": zones,
    }
    return msgspec.json.encode({"type": "ADDED", "object": body})


def free_amounts(random: Random) -> dict[str, list[int]]:
    """Return the free amounts of nodes' zones: nine in ten nodes have 8 free CPUs in one zone."""
    most = 16 if random.random() < 0.9 else 7
    return {
        "cpu": [random.randint(0, most - 1) for _ in range(ZONES - 1)] + [most],
        "memory": [random.randrange(16 * GIB, 64 * GIB) for _ in range(ZONES)],
        PAGES: [random.randrange(2 * GIB, 8 * GIB) for _ in range(ZONES)],
        DEVICE: [random.randint(2, 8) for _ in range(ZONES)],
    }


def far_apart(_random: Random) -> dict[str, list[int]]:
    """Return zones of which only all eight together have the amounts of the worst pod."""
    return {
        "cpu": [1, 1, 1, 1, 9, 9, 9, 9],
        "memory": [9 * GIB] * 4 + [GIB] * 4,
        PAGES: [GIB, 9 * GIB] * 4,
        DEVICE: [9, 1] * 4,
    }


def each_elsewhere(_random: Random) -> dict[str, list[int]]:
    """Return zones of which any two suffice for each resource, but only all eight for all four."""

    def in_two(first: int, amount: int) -> list[int]:
        return [amount if zone in (first, first + 1) else 0 for zone in range(ZONES)]

    return {
        "cpu": in_two(0, 9),
        "memory": in_two(2, 36 * GIB),
        PAGES: in_two(4, 9 * GIB),
        DEVICE: in_two(6, 9),
    }


def build(args: dict[str, Any], capacity: Any, scope: str) -> tuple[Scene, float]:
    """Return a scene of 5,000 nodes with reports, and the MiB that the reports took."""
    random = Random(5)
    scene = Scene(NAME, args)
    decoder = Decoder(BY_KIND["NodeResourceTopology"], lambda fault: sys.exit(str(fault)))
    offers = {"cpu": "128", "memory": "512Gi", PAGES: "64Gi", DEVICE: "64", "pods": "110"}
    for index in range(NODES):
        meta = {"name": f"node-{index}"}
        raw = {"kind": "Node", "metadata": meta, "status": {"allocatable": offers}}
        scene.follow(scene.cluster.put_node(read_node(raw)))
    gc.collect()
    before = resident_mib()
    for index in range(NODES):
        event = decoder.line(report_line(f"node-{index}", scope, capacity(random)))
        assert isinstance(event, Watched)
        scene.follow(scene.cluster.put_object(event.kind, event.object))
    gc.collect()
    return scene, resident_mib() - before


def pod(
    name: str, *, cpus: int, gib: int = 4, nics: int = 1, less_bytes: int = 0
) -> dict[str, Any]:
    """Return a Guaranteed pod that requests four resources."""
    memory = str(gib * GIB - less_bytes)
    amounts = {"cpu": str(cpus), "memory": memory, PAGES: f"{gib // 4}Gi", DEVICE: str(nics)}
    container = {"name": "main", "resources": {"requests": amounts, "limits": amounts}}
    return {
        "kind": "Pod",
        "metadata": {"namespace": "default", "name": name},
        "spec": {"schedulerName": "trellis", "containers": [container]},
    }


def filter_us(
    name: str, scene: Scene, *, is_known: bool = False, is_odd: bool = False
) -> dict[str, float]:
    """Return the CPU time for one pod by `name`: pre-filter and filter, filter alone, or the update
    after its placement.
    """
    found: list[tuple[float, ...]] = []
    for number in range(TIMES):
        gib = 4 if is_known else 4 + number
        called = f"p{number}-{is_known}-{is_odd}"
        raw = pod(called, cpus=8, gib=gib, less_bytes=1 + number if is_odd else 0)
        cycle = scene.cycle(read_pod(raw))
        nodes, states = scene.nodes(), States()
        started = process_time()
        scene.runner.pre_filter(cycle, nodes, states)
        prepared = process_time()
        scene.runner.filter(cycle, nodes, states, nodes.exists)
        ended = process_time()
        # One pod is placed, as between two decisions of the engine.
        change = scene.cluster.assume(cycle.pod, f"node-{number}")
        landing = process_time()
        scene.follow(change)
        found.append((ended - started, ended - prepared, process_time() - landing))
    times = [1e6 * median(each) for each in zip(*found, strict=True)]
    return {f"{name}{part}Us": took for part, took in zip(PARTS, times, strict=True)}


def score_ms(scene: Scene, *, is_known: bool = False, **asked: int) -> float:
    """Return the CPU time of score for one pod on all nodes."""
    found = []
    for number in range(TIMES // 3):
        less = 0 if is_known else 4096 * (1 + number)
        cycle = scene.cycle(read_pod(pod(f"s{number}-{is_known}", less_bytes=less, **asked)))
        nodes, states = scene.nodes(), States()
        scene.runner.pre_filter(cycle, nodes, states)
        started = process_time()
        scene.runner.score(cycle, nodes, states)
        found.append((process_time() - started) * 1e3)
        if is_known:
            scene.follow(scene.cluster.assume(cycle.pod, f"node-{number}"))
    return median(found)


def report_us(scene: Scene, random: Random) -> float:
    """Return the CPU time of taking in a report that accounts for the node's 20 pods."""
    decoder = Decoder(BY_KIND["NodeResourceTopology"], lambda fault: sys.exit(str(fault)))
    found = []
    for number in range(TIMES):
        name = f"node-{number}"
        for one in range(20):
            raw = pod(f"{name}-{one}", cpus=1)
            raw["spec"]["nodeName"], raw["status"] = name, {"phase": "Running"}
            scene.follow(scene.cluster.put_pod(read_pod(raw)))
        here = scene.cluster.pods.on(name).values()
        marks = [mark_of(one.pod.metadata.namespace, one.pod.metadata.name) for one in here]
        took = 0.0
        for _ in range(2):
            line = report_line(name, "pod", free_amounts(random), fingerprint(marks))
            started = process_time()
            event = decoder.line(line)
            assert isinstance(event, Watched)
            scene.follow(scene.cluster.put_object(event.kind, event.object))
            took = (process_time() - started) * 1e6
        found.append(took)  # the second: marks of pods are made once
    return median(found)


def resident_mib() -> float:
    """Return the resident size of this process."""
    with open("/proc/self/statm") as file:  # noqa: PTH123 - not a file to read ahead
        return int(file.read().split()[1]) * 4096 / 2**20


def measure() -> dict[str, Any]:
    """Return the figures."""
    reserving = {"cacheResyncPeriodSeconds": 5}
    least = {"scoringStrategy": {"type": "LeastNUMANodes"}}
    cached, memory = build(reserving, free_amounts, "pod")
    plain, plain_memory = build({}, free_amounts, "pod")
    counting, _ = build(reserving | least, free_amounts, "pod")
    worst = [build(least, capacity, "pod")[0] for capacity in (far_apart, each_elsewhere)]
    figures = {
        **filter_us("filter", plain),
        **filter_us("filterOdd", plain, is_odd=True),
        **filter_us("filterKnown", plain, is_known=True),
        **filter_us("filterReserving", cached),
        **filter_us("filterReservingKnown", cached, is_known=True),
        "reportUs": report_us(cached, Random(6)),
        "leastAllocatedMs": score_ms(plain, cpus=8),
        "leastAllocatedKnownMs": score_ms(cached, cpus=8, is_known=True),
        "leastNumaNodesMs": score_ms(counting, cpus=8),
        "leastNumaNodesKnownMs": score_ms(counting, cpus=8, is_known=True),
        "leastNumaNodesWorstMs": max(
            score_ms(worst[0], cpus=40, gib=40, nics=40),
            score_ms(worst[1], cpus=18, gib=72, nics=18),
        ),
        "memoryMib": memory,
        "memoryWithoutCacheMib": plain_memory,
    }
    factor = speed()["factor"]
    times = {name: value for name, value in figures.items() if not name.endswith("Mib")}
    return {
        "schema": "trellis-numa/1",
        "machine": {**machine(), "factor": factor},
        "figures": {name: round(value, 2) for name, value in figures.items()},
        "atReference": {name: round(value * factor, 2) for name, value in times.items()},
        "goals": GOALS,
    }


if __name__ == "__main__":
    print(msgspec.json.format(msgspec.json.encode(measure()), indent=2).decode())
