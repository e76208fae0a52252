"""The waiting time of other tenants' pods while one tenant floods the scheduler, and without a
flood.

    python -m tests.perf.overload --nodes 500 --flood 100000 --groups 10000

One embedded API server and one daemon. Four tenants create pods at a steady rate and delete them a
moment after they are bound; each wait from creation to binding is measured at the server. Phases
follow one another in one run: `quiet`, then `arriving` while the flood is made (pods that can never
run, groups of absurd size, and changes of nodes and of waiting pods without end), `present` while
it exists and the changes continue, and `after` its deletion. Then pods are churned, and the
daemon's resident memory is read at equal steps. Prints and writes JSON: p50, p99 and the longest
wait in milliseconds for each phase, memory in MiB. With `--stages` the waits are divided
(`marked.py`): from the server to the watch, to the engine, to the head of the queue, to the bind,
and back to the server.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec

from scheduler.sandbox.api.request import parse
from scheduler.sandbox.kinds.kinds import NAMESPACES, NODES, PODS, Resource
from scheduler.sandbox.nodes.shape import plain_shape
from scheduler.sandbox.sandbox import Sandbox, SandboxOptions
from scheduler.sandbox.store.collection import DELETED, StoreChange
from scheduler.sandbox.store.store import Deletion, ObjectStore
from tests.apiserver.patience import until
from tests.perf import marked
from tests.perf.pageload import RESULTS, SCHEDULER, daemon

AT_ONCE = Deletion(grace_period_s=0)
TENANTS = ("red", "green", "blue", "grey")
FLOODED = "flood"
POD_GROUP = "scheduling.x-k8s.io/pod-group"
GROUPS = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{FLOODED}/podgroups"
# No node has that much; no API server accepts a larger group.
ABSURD_CPU, ABSURD_SIZE = "100000", 10_000
CHANGES_EACH_S = 100
# With a configuration file groups are off unless it names their plugin.
WITH_GROUPS = {"preEnqueue": {"enabled": [{"name": "ClusterTopologyPlacementGroup"}]}}
BY_TURNS = {"queueSort": {"enabled": [{"name": "NamespaceSort"}], "disabled": [{"name": "*"}]}}
STEP = 1000


def manifest(name: str, namespace: str, cpu: str, **labels: str) -> dict[str, Any]:
    """Return a pod."""
    resources = {"requests": {"cpu": cpu, "memory": "16Mi"}}
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "schedulerName": SCHEDULER,
            "containers": [{"name": "c", "image": "i", "resources": resources}],
        },
    }


class Waits:
    """Record the seconds from creation to binding of the other tenants' pods, by phase, from the
    changes of the server's store.
    """

    def __init__(self, store: ObjectStore) -> None:
        self.phase = "warm"
        self.of: dict[str, list[float]] = {}
        self.bound: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self._since: dict[tuple[str, str], tuple[str, float]] = {}
        # When pods were created and bound, to divide their waits into stages.
        self.ends: dict[tuple[str, str], tuple[str, float, float]] = {}
        store.listen(self._changed)

    @property
    def open(self) -> int:
        """Return how many pods wait now."""
        return len(self._since)

    def _changed(self, resource: Resource, change: StoreChange) -> None:
        meta = change.stored.obj["metadata"]
        if resource.kind != "Pod" or meta["namespace"] == FLOODED:
            return
        key, is_bound = (meta["namespace"], meta["name"]), change.stored.obj["spec"].get("nodeName")
        if not is_bound and change.type != DELETED:
            self._since.setdefault(key, (self.phase, monotonic()))
        elif is_bound and key in self._since:
            phase, since = self._since.pop(key)
            now = monotonic()
            self.of.setdefault(phase, []).append(now - since)
            if phase != "churn":
                self.ends[key] = phase, since, now
            self.bound.put_nowait(key)


class Load:
    """The actions of the tenants and of the flood on the server's store."""

    def __init__(self, store: ObjectStore, waits: Waits, rate: float) -> None:
        self._store = store
        self._waits = waits
        self._rate = rate
        self._number = 0
        self.flooded = 0

    async def tenants(self) -> None:
        """Create pods at a steady rate until cancelled."""
        due = monotonic()
        while True:
            self._number += 1
            tenant = TENANTS[self._number % len(TENANTS)]
            one = manifest(f"p{self._number}", tenant, "100m")
            self._store.create(PODS, one, tenant, owned=True)
            due += 1 / self._rate
            await asyncio.sleep(max(0.0, due - monotonic()))

    async def clean(self) -> None:
        """Delete pods shortly after they are bound, until cancelled."""
        while True:
            namespace, name = await self._waits.bound.get()
            await asyncio.sleep(0)
            self._store.delete(PODS, namespace, name, AT_ONCE)

    async def flood(self, pods: int, groups: int) -> None:
        """Create pods that can never run, and groups of absurd size with one member each."""
        kind = parse(self._store.kinds, "POST", GROUPS, "").resource
        for number in range(groups):
            spec = {"metadata": {"name": f"g{number}"}, "spec": {"minMember": ABSURD_SIZE}}
            self._store.create(kind, spec, FLOODED, owned=True)
            one = manifest(f"m{number}", FLOODED, "1", **{POD_GROUP: f"g{number}"})
            self._store.create(PODS, one, FLOODED, owned=True)
            await asyncio.sleep(0)
        for number in range(pods):
            one = manifest(f"f{number}", FLOODED, ABSURD_CPU)
            self._store.create(PODS, one, FLOODED, owned=True)
            self.flooded += 1
            await asyncio.sleep(0)

    async def changes(self) -> None:
        """Change a node and a waiting pod of the flood, over and over, until cancelled."""
        nodes = [stored.obj["metadata"]["name"] for stored in self._store.list(NODES)]
        number = 0
        while True:
            number += 1
            for _ in range(CHANGES_EACH_S // 20):
                self._touch(NODES, "", nodes[number % len(nodes)], number)
                if self.flooded:
                    self._touch(PODS, FLOODED, f"f{number % self.flooded}", number)
                number += 1
            await asyncio.sleep(0.1)

    def _touch(self, kind: Resource, namespace: str, name: str, number: int) -> None:
        def edit(obj: dict[str, Any]) -> dict[str, Any]:
            notes = {**obj["metadata"].get("annotations", {}), "touched": str(number)}
            return {**obj, "metadata": {**obj["metadata"], "annotations": notes}}

        self._store.change(kind, namespace, name, edit)

    async def ebb(self) -> None:
        """Delete the pods of the flood."""
        for stored in list(self._store.list(PODS, FLOODED)):
            self._store.delete(PODS, FLOODED, stored.obj["metadata"]["name"], AT_ONCE)
            await asyncio.sleep(0)

    async def churn(self, pods: int) -> None:
        """Create, bind and delete this many pods, as fast as possible."""
        for _ in range(pods // 100):
            for _ in range(100):
                self._number += 1
                one = manifest(f"p{self._number}", TENANTS[0], "100m")
                self._store.create(PODS, one, TENANTS[0], owned=True)
            await until(lambda: not self._waits.open, "binds", 300.0)


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process, without its children."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    found = next(line for line in lines if line.startswith("VmRSS"))
    return round(int(found.split()[1]) / 1024, 1)


def reported(waits: list[float]) -> dict[str, float]:
    """Return the number of waits and their p50, p99 and maximum in milliseconds."""
    cut = statistics.quantiles(waits, n=100) if len(waits) > 1 else [waits[0]] * 99
    return {
        "pods": len(waits),
        "p50": round(cut[49] * 1e3, 1),
        "p99": round(cut[98] * 1e3, 1),
        "longest": round(max(waits) * 1e3, 1),
    }


def stage_durations(waits: Waits, times: marked.Times) -> dict[str, dict[str, dict[str, float]]]:
    """Return statistics of the durations (see `reported`) by phase and stage, over the pods with a
    time for every stage.
    """
    found: dict[str, dict[str, list[float]]] = {}
    for key, (phase, made, bound) in waits.ends.items():
        known = times.get(key, {})
        moments = [made, *(known[stage] for stage in marked.STAGES if stage in known), bound]
        if len(moments) == len(marked.STAGES) + 2:
            for stage, since, until_then in zip(
                (*marked.STAGES, "bound"), moments, moments[1:], strict=False
            ):
                found.setdefault(phase, {}).setdefault(stage, []).append(until_then - since)
    return {phase: {s: reported(of) for s, of in stages.items()} for phase, stages in found.items()}


async def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of all phases."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place, ExitStack() as stack:
        folder = Path(place)
        kubeconfig = folder / "kubeconfig"
        shape = plain_shape(given.nodes)
        async with Sandbox(SandboxOptions(shape=shape, kubeconfig=kubeconfig)) as sandbox:
            store = sandbox.store
            for name in (*TENANTS, FLOODED):
                store.create(NAMESPACES, {"metadata": {"name": name}})
            plugins = {**WITH_GROUPS, **(BY_TURNS if given.turns else {})}
            module: tuple[str, ...] = ("scheduler.cli.main",)
            if given.profile:
                module = ("cProfile", "-o", given.profile, "-m", *module)
            if given.stages:
                module = ("tests.perf.marked", str(folder / "marks"), FLOODED)
            one = stack.enter_context(
                daemon(folder, kubeconfig, SCHEDULER, module=module, plugins=plugins)
            )
            await one.wait_ready()
            pid = one.program.process.pid
            waits, memory = Waits(store), dict[str, float]()
            load = Load(store, waits, given.rate)
            cleaning = asyncio.create_task(load.clean())
            tenants = asyncio.create_task(load.tenants())
            running = {cleaning, tenants}

            async def phase(name: str, seconds: float) -> None:
                gc.collect()
                waits.phase = name
                await asyncio.sleep(seconds)
                memory[name] = resident_mib(pid)

            await phase("warm", 5)
            await phase("quiet", given.seconds)
            waits.phase = "arriving"
            running.add(asyncio.create_task(load.changes()))
            await load.flood(given.flood, given.groups)
            # Objects that the daemon has not read yet are still arriving.
            await until(lambda: not waits.open, "the last of the flood", 300.0)
            memory["arriving"] = resident_mib(pid)
            await phase("present", given.seconds)
            for task in running - {cleaning, tenants}:
                task.cancel()
            waits.phase = "ebbing"
            await load.ebb()
            await phase("ebbing", 5)
            await phase("after", given.seconds)
            tenants.cancel()
            await until(lambda: not waits.open, "the last binds", 300.0)
            waits.phase = "churn"
            memory_mib = []
            for _ in range(given.churn // STEP):
                await load.churn(STEP)
                memory_mib.append(resident_mib(pid))
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            stages: dict[str, Any] = {}
            if given.stages:
                one.program.stop()
                times, long = marked.read(folder / "marks")
                stages = {
                    "stages": stage_durations(waits, times),
                    "long": sorted(long, key=lambda one: -one[2])[:60],
                }
    return {
        "nodes": given.nodes,
        "flood": given.flood,
        "groups": given.groups,
        "podsPerSecond": given.rate,
        "queueSort": "NamespaceSort" if given.turns else "PrioritySort",
        "waits": {name: reported(of) for name, of in waits.of.items() if name != "churn"},
        "memoryMiB": memory,
        "churned": given.churn,
        "memoryOverChurnMiB": memory_mib,
        **stages,
        "load": [round(value, 1) for value in os.getloadavg()],
    }


def main(words: list[str] | None = None) -> dict[str, Any]:
    """Measure once, print and write the result."""
    options = argparse.ArgumentParser()
    options.add_argument("--nodes", type=int, default=500)
    options.add_argument("--flood", type=int, default=100_000, help="pods that can never run")
    options.add_argument("--groups", type=int, default=10_000, help="groups of absurd size")
    options.add_argument("--rate", type=float, default=20.0, help="pods of the others, each second")
    options.add_argument("--seconds", type=float, default=60.0, help="of each phase")
    options.add_argument(
        "--churn", type=int, default=20_000, help="pods that come and go at the end"
    )
    options.add_argument("--turns", action="store_true", help="with NamespaceSort")
    options.add_argument("--stages", action="store_true", help="divide the waits into stages")
    options.add_argument("--profile", help="a file for the daemon's profile, which slows it down")
    given = options.parse_args(words)
    gc.disable()
    figures = asyncio.run(measure(given))
    RESULTS.mkdir(exist_ok=True)
    turns = "-turns" if given.turns else ""
    name = f"overload-{given.nodes}-{given.flood}{turns}.json"
    (RESULTS / name).write_text(msgspec.json.format(msgspec.json.encode(figures)).decode())
    print(json.dumps(figures, indent=1))
    return figures


if __name__ == "__main__":
    main()
