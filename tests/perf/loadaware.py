"""The duration of load-aware placement at 5,000 nodes with 100,000 pods.

Run as `python -m tests.perf.loadaware`; prints one JSON document. CPU time of this process,
medians; `atReference` multiplies by the machine's factor: a hint, no measurement (see
`machine.speed`).
"""

import sys
from random import Random
from statistics import median
from time import process_time
from typing import Any

import msgspec

from scheduler.base.clock import rfc3339
from scheduler.daemon.loop import MOST_EVENTS
from scheduler.engine.effects import Watched
from scheduler.framework.running.answers import States
from scheduler.kube.watching.decode import Decoder
from scheduler.objects.kinds import BY_KIND
from scheduler.objects.plain import read_node, read_pod
from scheduler.plugins.loadaware import LoadAwareScheduling
from scheduler.testing.builders import node, pod
from scheduler.testing.scene import NOW, Scene
from tests.perf.machine import machine, speed

NODES, PODS_PER_NODE = 5000, 20
TURN = MOST_EVENTS  # the largest batch that the daemon's loop processes before it yields
GOALS = {"filterAndScoreUs": 200.0, "nodeMetricUpdateUs": 50.0, "turnOfUpdatesMs": 50.0}


def report_line(name: str, age_s: float, random: Random) -> bytes:
    """Return a watch line with a NodeMetric as koordlet writes it: odd figures for every pod."""
    pods = [
        {
            "namespace": "default",
            "name": f"{name}-{number}",
            "priority": "koord-prod",
            "qos": "LS",
            "podUsage": {"resources": usage(random, 0.5, 2)},
        }
        for number in range(PODS_PER_NODE)
    ]
    percentiles = {
        kind: {"resources": usage(random, 20, 64)} for kind in ("avg", "p50", "p90", "p95", "p99")
    }
    windows = [{"duration": d, "usage": percentiles} for d in ("5m0s", "10m0s", "30m0s")]
    body = {
        "apiVersion": "slo.koordinator.sh/v1alpha1",
        "kind": "NodeMetric",
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "7"},
        "spec": {"metricCollectPolicy": {"reportIntervalSeconds": 60}},
        "status": {
            "updateTime": rfc3339(NOW - age_s),
            "nodeMetric": {
                "nodeUsage": {"resources": usage(random, 20, 64)},
                "aggregatedNodeUsages": windows,
                "systemUsage": {"resources": usage(random, 1, 2)},
            },
            "podsMetric": pods,
        },
    }
    return msgspec.json.encode({"type": "MODIFIED", "object": body})


def usage(random: Random, cores: float, gib: float) -> dict[str, str]:
    """Return usage somewhere below these amounts, in the units that agents write."""
    return {
        "cpu": f"{int(random.random() * cores * 1e9)}n",
        "memory": f"{int(random.random() * gib * 2**20)}Ki",
    }


def build(random: Random) -> tuple[Scene, Decoder]:
    """Return a scene of 5,000 nodes that have reported, with 100,000 pods."""
    scene = Scene(LoadAwareScheduling)
    decoder = Decoder(BY_KIND["NodeMetric"], lambda fault: sys.exit(str(fault)))
    for index in range(NODES):
        name = f"node-{index}"
        scene.follow(scene.cluster.put_node(read_node(node(name, cpu="64", memory="256Gi"))))
        for number in range(PODS_PER_NODE):
            raw = pod(
                f"{name}-{number}",
                node_name=name,
                requests={"cpu": f"{100 * (number % 7 + 1)}m", "memory": "1Gi"},
            )
            moment = rfc3339(NOW - random.randrange(3600))
            raw["status"]["conditions"] = [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": moment}
            ]
            scene.follow(scene.cluster.put_pod(read_pod(raw)))
        take(scene, decoder, report_line(name, random.randrange(60), random))
    return scene, decoder


def take(scene: Scene, decoder: Decoder, line: bytes) -> None:
    """Process a line of the watch."""
    event = decoder.line(line)
    assert isinstance(event, Watched)
    scene.follow(scene.cluster.put_object(event.kind, event.object))


def spent_us(work: Any, times: int) -> list[float]:
    """Return the CPU time of each call."""
    found = []
    for _ in range(times):
        started = process_time()
        work()
        found.append((process_time() - started) * 1e6)
    return found


def turn_ms(scene: Scene, events: list[Any]) -> float:
    """Return the CPU time of one turn full of updates, in milliseconds."""
    started = process_time()
    for event in events:
        scene.follow(scene.cluster.put_object(event.kind, event.object))
    return (process_time() - started) * 1e3


def measure() -> dict[str, Any]:
    """Return the figures."""
    random = Random(8)
    scene, decoder = build(random)
    cycles = [
        scene.cycle(read_pod(pod(f"new-{n}", requests={"cpu": f"{n + 1}", "memory": "2Gi"})))
        for n in range(8)
    ]
    turn = iter(cycles * 1000)

    def decide() -> None:
        cycle, nodes, states = next(turn), scene.nodes(), States()
        scene.runner.pre_filter(cycle, nodes, states)
        feasible, _ = scene.runner.filter(cycle, nodes, states, nodes.exists)
        scene.runner.score(cycle, nodes.among(feasible), states)

    names = [f"node-{random.randrange(NODES)}" for _ in range(NODES)]
    lines = [report_line(name, 0, random) for name in names]
    events: list[Any] = [decoder.line(line) for line in lines]
    changes = [scene.cluster.put_object("NodeMetric", event.object) for event in events]
    ledger = scene.plugin.tracker
    following = iter(changes)
    decoding = iter(lines)
    placing = iter(range(NODES))

    def place() -> None:
        index = next(placing)
        raw = read[index]
        scene.follow(scene.cluster.assume(raw, f"node-{index}"))

    read = [read_pod(pod(f"late-{n}", requests={"cpu": "1"})) for n in range(NODES)]
    figures = {
        "filterAndScoreUs": median(spent_us(decide, 400)),
        "nodeMetricUpdateUs": median(spent_us(lambda: ledger.apply(next(following)), NODES)),
        "nodeMetricDecodeUs": median(spent_us(lambda: decoder.line(next(decoding)), NODES)),
        "assumeUs": median(spent_us(place, NODES)),
    }
    turns = [turn_ms(scene, events[at : at + TURN]) for at in range(0, NODES, TURN)]
    figures["turnOfUpdatesMs"] = max(turns)
    waiting = [one.pod for one in cycles]
    figures["hintUs"] = median(
        spent_us(
            lambda: [scene.plugin.hint(change, one) for change in changes[:100] for one in waiting],
            20,
        )
    ) / (100 * len(waiting))
    factor = speed()["factor"]
    return {
        "nodes": NODES,
        "pods": NODES * PODS_PER_NODE,
        "measured": figures,
        "factor": factor,
        "atReference": {name: value * factor for name, value in figures.items()},
        "goals": GOALS,
        "machine": machine(),
    }


if __name__ == "__main__":
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(measure())).decode() + "\n")
