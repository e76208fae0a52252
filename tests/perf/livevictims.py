"""Large evictions live: the daemon, its helper process and the embedded API server in one process.

    python -m tests.perf.livevictims
    python -m tests.perf.livevictims --size 500 --gangs 20

500 nodes with 8 GPUs each are full of pods of lower priority: single ones with one GPU, or with
`--gangs` groups of so many members with 8 GPUs. A group of `--size` members with 8 GPUs each is
created. Prints JSON: seconds from its creation to the first eviction and to the last binding, how
many pods were evicted, what the group's ConfigMap reported meanwhile, the solver's seconds, and the
CPU seconds of this process, API server included. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from random import Random
from typing import Any

import msgspec

from scheduler.base import logs
from scheduler.base.clock import RealClock
from scheduler.base.meters import Meters
from scheduler.config import default_config
from scheduler.daemon import Daemon, DaemonOptions
from scheduler.daemon.gctuning import keep, short_pauses
from scheduler.intree import registry
from scheduler.kube.connection.client import ApiClient
from scheduler.sandbox.kinds.kinds import CONFIGMAPS, PODS
from scheduler.sandbox.nodes.shape import ClusterShape, NodeGroup
from scheduler.sandbox.sandbox import Sandbox, SandboxOptions
from scheduler.serve.app import Address
from tests.perf.embedded import CREATORS
from tests.perf.evictions import GPU, GPUS, NODES, _pod

API = "/api/v1/namespaces/default"
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
PRIORITY = {"metadata": {"name": "high"}, "value": 100}


def _group(name: str, size: int, priority: int) -> dict[str, Any]:
    data = {"name": name, "size": str(size), "priority": str(priority), "constraints": "{}"}
    return {"metadata": {"name": name, "labels": {"sakkara.group": ""}}, "data": data}


def _fill(gangs: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the groups and the pods that fill all nodes."""
    if not gangs:
        pods = [_pod(f"low-{at}-{n}", 1, "", 0, at) for at in range(NODES) for n in range(GPUS)]
        return [], pods
    many = NODES // gangs
    groups = [_group(f"low-{number}", gangs, 0) for number in range(many)]
    pods = [
        _pod(f"low-{at % many}-{at // many}", GPUS, f"low-{at % many}", 0, at)
        for at in range(NODES)
    ]
    return groups, pods


async def _create(client: ApiClient, kind: str, objects: list[dict[str, Any]]) -> None:
    await _create_at(client, f"{API}/{kind}", objects)


async def _create_at(client: ApiClient, path: str, objects: list[dict[str, Any]]) -> None:
    left = iter(objects)

    async def some() -> None:
        for one in left:
            body = msgspec.json.encode(one)
            answer = await client.request("POST", path, body)
            if not answer.ok:
                raise RuntimeError(answer.message)

    await asyncio.gather(*(some() for _ in range(CREATORS)))


async def measure(size: int, gangs: int, limit_s: float) -> dict[str, Any]:
    """Return the figures of one run."""
    clock, meters = RealClock(), Meters()
    node = NodeGroup(count=NODES, name="node-{index:05}", cpu="96", memory="1Ti")
    node = msgspec.structs.replace(node, resources={GPU: str(GPUS)}, nodes_per_rack=25)
    async with Sandbox(SandboxOptions(shape=ClusterShape([node]), lazy=True)) as sandbox:
        path = str(sandbox.kubeconfig_path)
        client = await ApiClient.connect(path, clock=clock, meters=Meters())
        await _create_at(client, PRIORITY_CLASSES, [PRIORITY])
        groups, pods = _fill(gangs)
        for one in pods:  # no kubelet ends them
            one["spec"]["terminationGracePeriodSeconds"] = 0
        await _create(client, "configmaps", groups)
        await _create(client, "pods", pods)
        daemon = Daemon(
            default_config(registry()),
            registry(),
            await ApiClient.connect(path, clock=clock, meters=meters),
            clock=clock,
            random=Random(1),
            meters=meters,
            options=DaemonOptions("bench", address=Address(port=0), on_listed=keep),
        )
        running = asyncio.create_task(daemon.run())
        while len(daemon.engine.cluster.pods) < len(pods):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        began, cpu = time.perf_counter(), time.process_time()
        await _create(client, "configmaps", [_group("high", size, 100)])
        members = [_pod(f"high-{n}", GPUS, "high", 100, None) for n in range(size)]
        for one in members:
            one["spec"] = {**one["spec"], "priorityClassName": "high"}
        creating = asyncio.create_task(_create(client, "pods", members))
        first, reported, bound, low = 0.0, [""], 0, len(pods)
        while bound < size and time.perf_counter() - began < limit_s:
            await asyncio.sleep(0.05)
            there = [one.obj for one in sandbox.store.list(PODS)]
            low = sum(
                one["metadata"]["name"].startswith("low")
                and "deletionTimestamp" not in one["metadata"]
                for one in there
            )
            first = first or (time.perf_counter() - began if low < len(pods) else 0.0)
            bound = sum(
                one["metadata"]["name"].startswith("high") and bool(one["spec"].get("nodeName"))
                for one in there
            )
            found = _reported(sandbox)
            reported += [found] if found != reported[-1] else []
        figures = {
            "members": size,
            "bound": bound,
            "firstEvictionSeconds": round(first, 2),
            "lastBindSeconds": round(time.perf_counter() - began, 2),
            "evicted": len(pods) - low,
            "reported": reported[1:],
            "searchSeconds": round(meters.solver_search.labels("evict").sum, 2),
            "cpuSeconds": round(time.process_time() - cpu, 2),
        }
        await creating
        daemon.stop()
        await running
        await client.close()
    return figures


def _reported(sandbox: Sandbox) -> str:
    """Return the status in the group's ConfigMap."""
    for one in sandbox.store.list(CONFIGMAPS):
        if one.name == "high":
            data = one.obj.get("data", {})
            return f"{data.get('status', '')}: {data.get('message', '')}"[:200]
    return ""


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser()
    options.add_argument("--size", type=int, default=250)
    options.add_argument("--gangs", type=int, default=0)
    options.add_argument("--limit", type=float, default=120.0, help="seconds until it gives up")
    given = options.parse_args()
    logs.configure(level="error", form="json")
    with short_pauses():
        print(json.dumps(asyncio.run(measure(given.size, given.gangs, given.limit)), indent=2))


if __name__ == "__main__":
    main()
