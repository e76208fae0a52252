"""A live hour on the sandbox with a decision log, replayed as a trace: are the placements equal?

    python -m tests.perf.hour DIR --seconds 3600

`trellis run` schedules what arrives at random on a sandbox: pods, gangs, pods of a higher priority
that may evict, ends and deletions. A watch of the API server records the node of each pod.
Afterwards `trellis trace --decision-log` writes the trace, and the replay behind `trellis simulate
--trace F --ties uid` decides again. Prints JSON with the pods whose nodes differ, in order of
arrival. DIR keeps the log, the nodes and the trace. `--replay` replays what DIR has.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from heapq import heappop, heappush
from pathlib import Path
from random import Random
from typing import Any

import aiohttp

from scheduler.cli.inputs import cmdio
from scheduler.engine.attempt.cycle import Ties
from scheduler.sandbox.nodes.shape import plain_shape
from scheduler.sandbox.sandbox import Sandbox, SandboxOptions
from scheduler.simulate.stage import AnswerOptions, staged
from scheduler.simulate.traces.manifests import read_lines
from scheduler.simulate.traces.play import TracePlayer
from scheduler.snapshot.documents import SourceFile, items_of
from scheduler.snapshot.snapshot import read_snapshot
from tests.e2e.livecluster import LiveCluster, daemon, entered

PODS, PRIORITIES = "/api/v1/pods", "/apis/scheduling.k8s.io/v1/priorityclasses"
GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/{}/podgroups"
HOST, RACK, ZONE = (
    "kubernetes.io/hostname",
    "topology.trellis.dev/rack",
    "topology.kubernetes.io/zone",
)
HIGH = "high"
# Finished pods stay this long, as a garbage collector would leave them.
_KEPT_S = 10.0
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
---
apiVersion: trellis.dev/v1alpha1
kind: TrellisConfiguration
decisionLog: {{path: {log}}}
"""

Manifest = dict[str, Any]


class Load:
    """Pods and groups at random, all from one seed."""

    def __init__(self, seed: int, mean_s: float) -> None:
        self._rng = Random(seed)
        self._mean_s = mean_s
        self._number = 0

    def pause(self, rate: float) -> float:
        """Return the seconds until the next arrival."""
        return self._rng.expovariate(rate)

    def arrival(self) -> tuple[Manifest | None, list[tuple[Manifest, float]]]:
        """Return a group if there is one, and pods with the seconds until they are deleted."""
        self._number += 1
        rng = self._rng
        if rng.random() >= 0.08:
            pod = self._pod(f"p-{self._number}")
            self._constrain(pod["spec"], pod["metadata"]["labels"])
            return None, [(pod, self._deleted_after_s())]
        name, size = f"g-{self._number}", rng.randint(2, 6)
        constraints = {"topology": [{"key": RACK}]} if rng.random() < 0.5 else None
        spec: Manifest = {"schedulingPolicy": {"gang": {"minCount": size}}}
        if constraints is not None:
            spec["schedulingConstraints"] = constraints
        group = {
            "apiVersion": "scheduling.k8s.io/v1alpha2",
            "kind": "PodGroup",
            "metadata": {"name": name},
            "spec": spec,
        }
        first = self._pod(f"{name}-0")
        pods = []
        for rank in range(size):
            pod = json.loads(json.dumps(first))
            pod["metadata"]["name"] = f"{name}-{rank}"
            pod["spec"]["schedulingGroup"] = {"podGroupName": name}
            pods.append((pod, self._deleted_after_s()))
        return group, pods

    def _pod(self, name: str) -> Manifest:
        rng = self._rng
        cpu, memory = rng.choice([250, 500, 1000, 1000, 2000, 3000]), rng.choice([1, 1, 2, 4, 8])
        runs = max(rng.expovariate(1 / self._mean_s), 2.0)
        resources = {"requests": {"cpu": f"{cpu}m", "memory": f"{memory}Gi"}}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "labels": {"app": f"a{rng.randrange(12)}"},
                "annotations": {"trellis.dev/simulate-run-for": f"{runs:.3f}"},
            },
            "spec": {
                "schedulerName": "trellis",
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "main:1", "resources": resources}],
            },
        }

    def _constrain(self, spec: Manifest, labels: dict[str, str]) -> None:
        drawn = self._rng.random()
        same = {"labelSelector": {"matchLabels": labels}}
        if drawn < 0.12:
            spec["nodeSelector"] = {ZONE: f"zone-{self._rng.choice('abc')}"}
        elif drawn < 0.22:
            term = {**same, "topologyKey": HOST}
            required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
            spec["affinity"] = {"podAntiAffinity": required}
        elif drawn < 0.32:
            constraint = {**same, "topologyKey": ZONE, "maxSkew": 1}
            how = self._rng.choice(["DoNotSchedule", "ScheduleAnyway"])
            spec["topologySpreadConstraints"] = [{**constraint, "whenUnsatisfiable": how}]
        if self._rng.random() < 0.08:
            spec["priorityClassName"] = HIGH

    def _deleted_after_s(self) -> float:
        is_early = self._rng.random() < 0.15
        return self._rng.expovariate(1 / self._mean_s) if is_early else float("inf")


class Client:
    """Creates and deletes on the server, and notes each pod's node by watching."""

    def __init__(self, cluster: LiveCluster) -> None:
        self._cluster = cluster
        self.nodes: dict[str, str] = {}
        self.arrived: list[str] = []
        self.finished: list[tuple[float, str]] = []
        self.evicted: set[str] = set()
        self._deleted: set[str] = set()

    async def create(self, path: str, body: Manifest) -> None:
        """Create an object at a path."""
        url = f"{self._cluster.url}{path.format(self._cluster.ns)}"
        async with self._cluster.session.post(url, json=body) as answer:
            assert answer.status == 201, await answer.text()

    async def create_pod(self, body: Manifest) -> None:
        """Create a pod in the namespace of this run."""
        await self.create("/api/v1/namespaces/{}/pods", body)
        self.arrived.append(body["metadata"]["name"])

    async def delete_pod(self, name: str) -> None:
        """Delete a pod; a pod that the scheduler evicted is already deleted."""
        self._deleted.add(name)
        url = f"{self._cluster.url}/api/v1/namespaces/{self._cluster.ns}/pods/{name}"
        async with self._cluster.session.delete(url) as answer:
            assert answer.status in (200, 404), await answer.text()

    async def watch(self) -> None:
        """Note nodes and ends of pods until the task is cancelled."""
        version, seen = "0", set[str]()
        while True:
            params = {"watch": "true", "resourceVersion": version}
            timeout = aiohttp.ClientTimeout(total=None)
            url = f"{self._cluster.url}{PODS}"
            async with self._cluster.session.get(url, params=params, timeout=timeout) as answer:
                assert answer.status == 200, await answer.text()
                async for line in answer.content:
                    event = json.loads(line)
                    assert event["type"] in ("ADDED", "MODIFIED", "DELETED"), event
                    pod = event["object"]
                    version = pod["metadata"]["resourceVersion"]
                    name = pod["metadata"]["name"]
                    if node := pod["spec"].get("nodeName"):
                        self.nodes[name] = node
                    is_done = pod["status"].get("phase") in ("Succeeded", "Failed")
                    if is_done and name not in seen:
                        seen.add(name)
                        self.finished.append((time.monotonic() + _KEPT_S, name))
                    if event["type"] == "DELETED" and name not in self._deleted:
                        self.evicted.add(name)


async def live(folder: Path, wanted: argparse.Namespace) -> Manifest:
    """Run the hour; return the results seen by the API server."""
    shape, kubeconfig = plain_shape(wanted.nodes), folder / "kubeconfig"
    config = folder / "config.yaml"
    text = CONFIG.format(log=folder / "decisions.log")
    await asyncio.to_thread(config.write_text, text, encoding="utf-8")
    async with (
        Sandbox(SandboxOptions(shape=shape, kubeconfig=kubeconfig)),
        entered(kubeconfig) as cluster,
    ):
        client = Client(cluster)
        await client.create(PRIORITIES, {"metadata": {"name": HIGH}, "value": 100})
        async with daemon(cluster, folder, config=config):
            watching = asyncio.create_task(client.watch())
            await _create(client, Load(wanted.seed, wanted.mean_duration_s), wanted, watching)
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
    return {
        "seconds": wanted.seconds,
        "arrived": client.arrived,
        "nodes": client.nodes,
        "evicted": sorted(client.evicted),
    }


async def _create(
    client: Client, load: Load, wanted: argparse.Namespace, watching: "asyncio.Task[None]"
) -> None:
    """Create arriving pods and delete due ones until the time has passed."""
    now = time.monotonic()
    end, following = now + wanted.seconds, now + load.pause(wanted.rate)
    due: list[tuple[float, str]] = []
    while now < end:
        if watching.done():
            watching.result()
        while client.finished:
            heappush(due, client.finished.pop())
        if now >= following:
            group, pods = load.arrival()
            if group is not None:
                await client.create(GROUPS, group)
            for pod, after_s in pods:
                await client.create_pod(pod)
                if after_s < wanted.seconds:
                    heappush(due, (now + after_s, pod["metadata"]["name"]))
            following += load.pause(wanted.rate)
        while due and due[0][0] <= now:
            await client.delete_pod(heappop(due)[1])
        await asyncio.sleep(0.05)
        now = time.monotonic()


def replayed(folder: Path) -> tuple[dict[str, str], Manifest]:
    """Make the trace of the decision log and run it; return nodes by pod, and the figures."""
    nodes, trace = folder / "nodes.json", folder / "trace.jsonl"
    words = ["trace", "--decision-log", str(folder / "decisions.log"), "--nodes", str(nodes)]
    with trace.open("wb") as out:
        subprocess.run([sys.executable, "-m", "scheduler.cli.main", *words], stdout=out, check=True)
    cluster = read_snapshot(items_of(SourceFile("nodes", nodes.read_bytes())))
    stage = staged(cluster, cmdio.setups("").default, AnswerOptions(ties=Ties.UID))
    player, found = TracePlayer(stage, "trellis"), dict[str, str]()

    def bound(pod: str, node: str, _at: float) -> None:
        found[pod.partition("/")[2]] = node

    player.on_bound = bound
    with trace.open("rb") as lines:
        player.play(read_lines(lines, "trace"), lambda _pods, _s: None)
    summary = player.summary()
    waited = sum(tally.refused for tally in summary.waiting)
    figures = {"playedPods": summary.pods, "waited": waited, "evictedInPlay": summary.evicted}
    return found, figures


def compared(seen: Manifest, found: dict[str, str]) -> Manifest:
    """Return how many pods have the node that they had, and those that have not."""
    different = list(_different(seen, found))
    gangs = {name.rpartition("-")[0] for name in seen["nodes"] if name.startswith("g-")}
    return {
        "liveSeconds": seen["seconds"],
        "created": len(seen["arrived"]),
        "bound": len(seen["nodes"]),
        "gangs": len(gangs),
        "evicted": len(seen["evicted"]),
        "equal": sum(found.get(name) == node for name, node in seen["nodes"].items()),
        "different": len(different),
        "firstDifferent": different[:10],
    }


def _different(seen: Manifest, found: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    for name in seen["arrived"]:
        then, now = seen["nodes"].get(name, ""), found.get(name, "")
        if then != now:
            yield name, then, now


def main() -> None:
    """Run, replay, compare, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.perf.hour", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--nodes", type=int, default=30)
    parser.add_argument("--rate", type=float, default=0.9, help="arrivals per second")
    parser.add_argument("--mean-duration-s", type=float, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--replay", action="store_true", help="only replay what the folder has")
    wanted = parser.parse_args()
    wanted.folder.mkdir(parents=True, exist_ok=True)
    record = wanted.folder / "live.json"
    if not wanted.replay:
        seen = asyncio.run(live(wanted.folder.absolute(), wanted))
        record.write_text(json.dumps(seen), encoding="utf-8")
    found, figures = replayed(wanted.folder)
    print(json.dumps(compared(json.loads(record.read_text()), found) | figures, indent=1))


if __name__ == "__main__":
    main()
