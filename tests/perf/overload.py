"""What one tenant's flood costs the others: from creation to binding, with and without it, in one run.

    python -m tests.perf.overload
    python -m tests.perf.overload --pods 20000 --groups 2000 --pace 400 --contestant kube-scheduler

A real API server with 500 nodes, and one scheduler. A quiet tenant creates a pod twenty times a second and deletes
it two seconds after it is bound. Meanwhile another tenant creates pods that can never run (too large for any node,
for nodes that are not there, each unlike the last), groups with absurd numbers, and relabels its pods without end. Told is
how long the quiet tenant's pods waited before the flood, while it comes, and while it stands.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import islice
from time import monotonic
from typing import Any

from tests.apiserver.patience import pause
from tests.apiserver.realcluster import RealCluster, start_cluster
from tests.perf.bench import find_assets
from tests.perf.contestants import contestant
from tests.perf.observer import Observer
from tests.perf.usage import cpu_seconds
from tests.perf.workload import CreateNodes, encoded
from tests.real.api import Api
from tests.real.schedulers import Scheduler

NODES = CreateNodes(500)
QUIET, FLOOD = "quiet", "flood"
EVERY_S, STAYS_S = 0.05, 2.0
BURSTS_PER_S = 20
ABSURD = ("0", "-1", "999999999999999999999", "1e9", "NaN", "8" * 4000)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the figures as JSON; return the exit code."""
    parser = argparse.ArgumentParser(prog="overload", description=__doc__)
    parser.add_argument("--contestant", default="trellis", choices=("trellis", "kube-scheduler"))
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--pace", type=int, default=500, help="flooding pods a second, at most")
    parser.add_argument("--seconds", type=float, default=60.0, help="before the flood, and after")
    options = parser.parse_args(arguments)
    if not find_assets():
        print("needs a real kube-apiserver: run `make tools`", file=sys.stderr)
        return 2
    found = asyncio.run(measured(contestant(options.contestant, gangs=False), options))
    print(json.dumps({"contestant": options.contestant, **found}, indent=1))
    return 0


async def measured(scheduler: Scheduler, options: argparse.Namespace) -> dict[str, Any]:
    """Return the waits of the quiet tenant's pods, phase by phase."""
    with start_cluster(name=f"overload-{scheduler.name}") as cluster:
        async with Api(cluster) as api:
            for name in (QUIET, FLOOD):
                await api.expect("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
            await api.create_all("/api/v1/nodes", encoded(NODES.manifests()))
            with scheduler.start(cluster) as running:
                await running.wait_ready()
                tenant = Tenant(cluster, scheduler)
                async with tenant.at_work():
                    figures: dict[str, Any] = {}
                    for phase, work in (
                        ("before", partial(pause, options.seconds)),
                        ("comes", partial(flood, api, scheduler, options)),
                        ("stands", partial(relabel, api, options.seconds)),
                    ):
                        first, since, cpu = tenant.created, monotonic(), cpu_seconds(running.pid)
                        await work()
                        seconds = monotonic() - since
                        await pause(STAYS_S)
                        figures[phase] = {
                            **tenant.waits(first),
                            "seconds": seconds,
                            "schedulerCpuShare": (cpu_seconds(running.pid) - cpu) / seconds,
                        }
        return figures


class Tenant:
    """Creates a pod now and then, sees it bound, and deletes it."""

    def __init__(self, cluster: RealCluster, scheduler: Scheduler) -> None:
        self._cluster = cluster
        self._scheduler = scheduler
        self._observer = Observer(cluster, scheduler.encoding)
        self._asked: dict[str, float] = {}

    @property
    def created(self) -> int:
        """How many pods it has created."""
        return len(self._asked)

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Create pods while the block runs."""
        async with Api(self._cluster) as api:
            _, version = await api.list(f"/api/v1/namespaces/{QUIET}/pods")
            tasks = [
                asyncio.create_task(self._observer.watch(version)),
                asyncio.create_task(self._create(api)),
            ]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _create(self, api: Api) -> None:
        path = f"/api/v1/namespaces/{QUIET}/pods"
        began = monotonic()
        async with asyncio.TaskGroup() as each:
            while True:
                key = f"q-{self.created:06d}"
                self._asked[key] = monotonic()
                spec = pod_spec(self._scheduler, {"cpu": "10m"})
                await api.expect("POST", path, {"metadata": {"name": key}, "spec": spec})
                each.create_task(self._end(api, f"{path}/{key}"))
                await pause(max(began + EVERY_S * self.created - monotonic(), 0.0))

    async def _end(self, api: Api, path: str) -> None:
        await pause(STAYS_S)
        await api.expect("DELETE", path, {"gracePeriodSeconds": 0})

    def waits(self, first: int) -> dict[str, Any]:
        """Return percentiles of the waits, in milliseconds, of the pods from number `first` on."""
        asked = list(self._asked.items())[first:]
        bound = self._observer.bound
        waits = sorted(
            1000 * (bound[f"{QUIET}/{key}"] - at) for key, at in asked if f"{QUIET}/{key}" in bound
        )
        if not waits:
            raise AssertionError("no pod of the quiet tenant was bound")
        at = {share: waits[min(int(len(waits) * share), len(waits) - 1)] for share in (0.5, 0.99)}
        return {
            "pods": len(asked),
            "bound": len(waits),
            "p50Ms": at[0.5],
            "p99Ms": at[0.99],
            "worstMs": waits[-1],
        }


async def flood(api: Api, scheduler: Scheduler, options: argparse.Namespace) -> None:
    """Create groups and pods at a bounded pace."""
    groups = (group(number) for number in range(options.groups))
    await api.create_all(f"/api/v1/namespaces/{FLOOD}/configmaps", encoded(groups))
    pods = never(scheduler, options.pods, options.groups)
    began, made = monotonic(), 0
    while made < options.pods:
        some = encoded(islice(pods, max(options.pace // BURSTS_PER_S, 1)))
        await api.create_all(f"/api/v1/namespaces/{FLOOD}/pods", some)
        made += len(some)
        await pause(max(began + made / options.pace - monotonic(), 0.0))


async def relabel(api: Api, seconds: float) -> None:
    """Change labels of flooding pods, one after the other."""
    until, number = monotonic() + seconds, 0
    while monotonic() < until:
        path = f"/api/v1/namespaces/{FLOOD}/pods/f-{number % 1000:06d}"
        await api.patch(path, {"metadata": {"labels": {"turn": str(number)}}})
        number += 1


def group(number: int) -> dict[str, Any]:
    """Return a group of which no number makes sense."""
    size, priority = ABSURD[number % len(ABSURD)], ABSURD[(number + 2) % len(ABSURD)]
    rules = '{"node": {"type": "pack", "min": 999999999999, "factor": -7}}'
    return {
        "metadata": {"name": f"g-{number}", "labels": {"sakkara.group": ""}},
        "data": {"name": f"g-{number}", "size": size, "priority": priority, "constraints": rules},
    }


def never(scheduler: Scheduler, count: int, groups: int) -> Iterator[dict[str, Any]]:
    """Yield pods that no node takes: a tenth each unlike all others, a tenth members of groups."""
    for number in range(count):
        labels: dict[str, str] = {}
        spec = pod_spec(scheduler, {"cpu": "100000"})
        match number % 10:
            case 0:
                spec = pod_spec(scheduler, {"cpu": str(100_000 + number)})
            case 1 | 2 | 3:
                spec = pod_spec(scheduler, {"cpu": "1m"}) | {"nodeSelector": {"no": "where"}}
            case 4 if groups:
                labels = {"sakkara.group.name": f"g-{number % groups}"}
        yield {"metadata": {"name": f"f-{number:06d}", "labels": labels}, "spec": spec}


def pod_spec(scheduler: Scheduler, requests: dict[str, str]) -> dict[str, Any]:
    """Return the spec of a pod."""
    part = {"name": "main", "image": "pause", "resources": {"requests": requests}}
    return {"schedulerName": scheduler.scheduler_name, "containers": [part]}


if __name__ == "__main__":
    sys.exit(main())
