"""The cost of the network plugins per pod, and the speed of ordering the queue by applications.

    python -m tests.perf.network
    python -m tests.perf.network --profile

Three rows: filter and score of one pod of a shop with 200 placed pods on 5,000 nodes; decisions per
second of a whole engine with 1,000 applications and 20,000 placed pods; ordering 10,000 waiting
pods. CPU time, with the machine's factor beside it. Writes one JSON file below results/.
"""

import argparse
import cProfile
import gc
import json
import pstats
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import msgspec

from scheduler.base.clock import RealClock, perf_s
from scheduler.config import load
from scheduler.engine.effects import Answer, Bind, Listed, Watched
from scheduler.engine.engine import Engine
from scheduler.engine.queue.groupactive import GroupedActiveQueue
from scheduler.engine.queue.pod import QueuedPod
from scheduler.framework.registry import Registry
from scheduler.framework.running.answers import States
from scheduler.intree import IN_TREE
from scheduler.objects.kinds import BY_KIND
from scheduler.objects.plain import read_pod
from scheduler.testing import node, pod
from scheduler.testing.scene import Scene
from tests.perf.machine import machine, speed, versions

SCHEMA = "trellis-network/1"
REGIONS, ZONES_EACH = 5, 10
REGION, ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
GROUP, WORKLOAD = "appgroup.diktyo.x-k8s.io", "appgroup.diktyo.x-k8s.io.workload"
# Online Boutique, as the design text has it.
SHOP = {1: (2, 3, 4, 6, 8, 9, 10), 2: (11,), 8: (2, 3, 4, 5, 6, 7), 9: (3,)}
ARGS = {"dependents": "Count", "networkTopologyName": "nt-default"}
GOALS = {"filterAndScoreUs": 300.0, "decisionsPerSecond": 2000.0, "queueSortMs": 100.0}


def nodes(count: int) -> list[dict[str, Any]]:
    """Return nodes spread over regions and zones."""
    found = []
    for number in range(count):
        region, zone = number % REGIONS, number // REGIONS % ZONES_EACH
        labels = {REGION: f"r{region}", ZONE: f"r{region}z{zone}"}
        found.append(node(f"n{number}", labels=labels, pods="110", cpu="64", memory="256Gi"))
    return found


def topology() -> dict[str, Any]:
    """Return costs and capacities between all regions, and all zones of a region."""

    def level(key: str, pairs: dict[str, list[str]], cost: int) -> dict[str, Any]:
        origins = [
            {
                "origin": origin,
                "costList": [
                    {"destination": other, "networkCost": cost + i % 7, "bandwidthCapacity": "100T"}
                    for i, other in enumerate(others)
                ],
            }
            for origin, others in pairs.items()
        ]
        return {"topologyKey": key, "originList": origins}

    names = [f"r{number}" for number in range(REGIONS)]
    regions = {one: [other for other in names if other != one] for one in names}
    zones = {
        f"{name}z{i}": [f"{name}z{j}" for j in range(ZONES_EACH) if i != j]
        for name in names
        for i in range(ZONES_EACH)
    }
    tables = [level(REGION, regions, 20), level(ZONE, zones, 5)]
    return {
        "apiVersion": "networktopology.diktyo.x-k8s.io/v1alpha1",
        "kind": "NetworkTopology",
        "metadata": {"name": "nt-default", "namespace": "default"},
        "spec": {"weights": [{"name": "UserDefined", "topologyList": tables}]},
    }


def shop(name: str) -> dict[str, Any]:
    """Return the AppGroup of a shop with its order."""

    def ref(number: int) -> dict[str, str]:
        return {"kind": "Deployment", "name": f"p{number}", "selector": f"p{number}"}

    workloads = [
        {
            "workload": ref(number),
            "dependencies": [
                {"workload": ref(other), "maxNetworkCost": 15, "minBandwidth": "10M"}
                for other in SHOP.get(number, ())
            ],
        }
        for number in range(1, 12)
    ]
    order = [{"workload": ref(number), "index": number} for number in range(1, 12)]
    return {
        "apiVersion": "appgroup.diktyo.x-k8s.io/v1alpha1",
        "kind": "AppGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"numMembers": 11, "topologySortingAlgorithm": "KahnSort", "workloads": workloads},
        "status": {"topologyOrder": order},
    }


def member(name: str, group: str, workload: int, on: str = "") -> dict[str, Any]:
    """Return a pod of a shop."""
    labels = {GROUP: group, WORKLOAD: f"p{workload}"}
    requests = {"cpu": "10m", "memory": "16Mi"}
    made = pod(name, node_name=on, labels=labels, requests=requests)
    made["spec"] = {key: value for key, value in made["spec"].items() if value is not None}
    return made


def one_pod(profiling: bool) -> dict[str, float]:
    """Measure filter and score of one pod of a shop, the workloads in turn."""
    scene = Scene("NetworkOverhead", ARGS)
    placed = [member(f"s{n}", "shop", n % 11 + 1, f"n{n * 37 % 5000}") for n in range(200)]
    scene.fill(nodes(5000), placed, (), [shop("shop"), topology()])
    pods = [read_pod(member(f"new{n}", "shop", n + 1)) for n in range(11)]
    cycles = [scene.cycle(one) for one in pods]

    def decide(number: int) -> None:
        cycle, view, states = cycles[number % 11], scene.nodes(), States()
        scene.runner.pre_filter(cycle, view, states)
        feasible, _ = scene.runner.filter(cycle, view, states, view.exists)
        scene.runner.score(cycle, view.among(feasible), states)

    def decide_all(times: int) -> None:
        for number in range(times):
            decide(number)

    def place_and_decide(number: int) -> None:
        # A pod of the shop moves between any two decisions, so that no result comes from a cache.
        mover = msgspec.convert(placed[number % 200], BY_KIND["Pod"].struct)
        spec = msgspec.structs.replace(mover.spec, node_name=f"n{(number * 101 + 7) % 5000}")
        mover = msgspec.structs.replace(mover, spec=spec)
        started = process_time()
        scene.follow(scene.cluster.put_pod(mover))
        spent["follow"] += process_time() - started
        started = process_time()
        decide(number)
        spent["decide"] += process_time() - started

    for number in range(50):
        decide(number)
    rounds = []
    for _ in range(5):
        spent = {"follow": 0.0, "decide": 0.0}
        for number in range(220):
            place_and_decide(number)
        rounds.append({name: seconds / 220 * 1e6 for name, seconds in spent.items()})
    if profiling:
        _profiled(lambda: decide_all(2000))
    return {
        "filterAndScoreUs": round(median(one["decide"] for one in rounds), 1),
        "followUs": round(median(one["follow"] for one in rounds), 1),
    }


def decisions(profiling: bool) -> dict[str, float]:
    """Measure an engine with the default plugins and NetworkOverhead over 1,000 shops."""
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "trellis",
                "plugins": {"multiPoint": {"enabled": [{"name": "NetworkOverhead", "weight": 5}]}},
                "pluginConfig": [{"name": "NetworkOverhead", "args": ARGS}],
            }
        ],
    }
    registry = Registry(IN_TREE)
    engine = Engine(load(json.dumps(config), file="bench", registry=registry).profiles, registry)

    def struct(manifest: dict[str, Any]) -> Any:
        kind = manifest.get("kind", "Pod")
        made = msgspec.convert(manifest, BY_KIND[kind].struct)
        if kind != "Pod":
            return made
        meta = msgspec.structs.replace(made.metadata, uid=f"uid-{made.metadata.name}")
        spec = msgspec.structs.replace(made.spec, scheduler_name="trellis")
        return msgspec.structs.replace(made, metadata=meta, spec=spec)

    groups = [shop(f"shop{number}") for number in range(1000)]
    placed = [
        member(f"s{n}", f"shop{n % 1000}", n // 1000 % 11 + 1, f"n{n * 37 % 5000}")
        for n in range(20_000)
    ]
    lists = {
        "Node": [{**one, "kind": "Node"} for one in nodes(5000)],
        "AppGroup": groups,
        "NetworkTopology": [topology()],
        "Pod": placed,
    }
    for kind, manifests in lists.items():
        engine.handle(Listed(kind, tuple(map(struct, manifests))), 1.0)
    waiting = [struct(member(f"w{n}", f"shop{n * 7 % 1000}", n % 11 + 1)) for n in range(3000)]
    by_uid = {one.metadata.uid: one for one in waiting}

    def place_all(pods: list[Any]) -> tuple[int, float]:
        bound, now = 0, 2.0
        started = process_time()
        for one in pods:
            engine.handle(Watched("Pod", "ADDED", one), now)
        while engine.has_work():
            now += 0.01
            for effect in engine.run(now, 64):
                if isinstance(effect, Bind):
                    bound += 1
                    engine.handle(Answer(effect.id, 201), now)
                    one = by_uid[effect.uid]
                    spec = msgspec.structs.replace(one.spec, node_name=effect.node)
                    echo = msgspec.structs.replace(one, spec=spec)
                    engine.handle(Watched("Pod", "MODIFIED", echo), now)
        return bound, process_time() - started

    place_all(waiting[:300])
    gc.collect()
    gc.freeze()
    rates = []
    for part in range(3):
        begin = 300 + part * 900
        bound, seconds = place_all(waiting[begin : begin + 900])
        rates.append(bound / seconds)
    if profiling:
        more = [struct(member(f"x{n}", f"shop{n % 1000}", n % 11 + 1)) for n in range(1000)]
        by_uid.update({one.metadata.uid: one for one in more})
        _profiled(lambda: place_all(more))
    return {"decisionsPerSecond": round(median(rates), 0)}


def queue_sort() -> dict[str, float]:
    """Measure enqueuing 10,000 pods of 1,000 applications and popping them in order."""
    scene = Scene("TopologicalSort")
    scene.fill(objects=[shop(f"shop{number}") for number in range(1000)])
    pods = [read_pod(member(f"w{n}", f"shop{n * 7 % 1000}", n % 11 + 1)) for n in range(10_000)]
    times: dict[str, list[float]] = {"lineUpAndEmpty": [], "sorted": []}
    for _ in range(5):
        queued = [QueuedPod(one, number, number * 1e-3) for number, one in enumerate(pods)]
        for ticket, one in enumerate(queued):
            one.ticket = ticket
        plugin: Any = scene.plugin
        lineup = GroupedActiveQueue(plugin)
        started = process_time()
        for one in queued:
            lineup.push(None, one)
        times["lineUpAndEmpty"].append(process_time() - started)
        keyed = process_time()
        ordered = sorted(queued, key=plugin.sort_key)
        times["sorted"].append(process_time() - keyed)
        started = process_time()
        popped = []
        while (first := lineup.pop(frozenset())) is not None:
            lineup.leave(first)
            popped.append(first)
        times["lineUpAndEmpty"][-1] += process_time() - started
        assert len(popped) == len(ordered) == len(pods)
    return {
        "queueSortMs": round(median(times["sorted"]) * 1e3, 1),
        "lineUpAndEmptyMs": round(median(times["lineUpAndEmpty"]) * 1e3, 1),
    }


def _profiled(work: Any) -> None:
    profile = cProfile.Profile()
    profile.runcall(work)
    pstats.Stats(profile).sort_stats("tottime").print_stats(25)


def main() -> None:
    """Measure, print, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    parser.add_argument("--only", choices=("pod", "decisions", "queue"))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    given = parser.parse_args()
    here, pace, started = machine(), speed(), perf_s()
    figures: dict[str, float] = {}
    if given.only in (None, "pod"):
        figures |= one_pod(given.profile)
    if given.only in (None, "decisions"):
        figures |= decisions(given.profile)
    if given.only in (None, "queue"):
        figures |= queue_sort()
    rows = {
        name: {
            "goal": goal,
            "figure": figures[name],
            "onReferenceMachine": round(
                figures[name] * pace["factor"]
                if name != "decisionsPerSecond"
                else figures[name] / pace["factor"],
                1,
            ),
        }
        for name, goal in GOALS.items()
        if name in figures
    }
    result = {
        "schema": SCHEMA,
        "machine": here,
        "speed": pace,
        "versions": versions(None),
        "seconds": round(perf_s() - started, 1),
        "figures": figures,
        "rows": rows,
    }
    print(json.dumps({"speed": pace, "figures": figures, "rows": rows}, indent=2))
    if given.only is None and not given.profile:
        stamp = datetime.fromtimestamp(RealClock().now(), UTC).strftime("%Y%m%dT%H%M%SZ")
        given.out.mkdir(parents=True, exist_ok=True)
        (given.out / f"network-{stamp}.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
