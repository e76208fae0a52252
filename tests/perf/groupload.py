"""Ordinary pods beside a group that is decided repeatedly: their loss of throughput.

    python -m tests.perf.groupload --nodes 1000 --pods 3000 --members 1024

Runs the embedded cluster twice, with and without the group, and writes JSON: pods bound per second
in both, their ratio, how long the solver worked, by how much the loop was late (the API server in
the same process included), and which callbacks blocked it for how long. The time before the first
pods are bound and the group was decided a few times is left out. Asserts nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from pathlib import Path
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
from scheduler.sandbox.kinds.kinds import NODES, PODS
from scheduler.sandbox.nodes.shape import plain_shape
from scheduler.sandbox.sandbox import Sandbox, SandboxOptions
from scheduler.serve.app import Address
from tests.perf.embedded import CREATORS, RESULTS, pod
from tests.perf.loopwatch import LoopWatch, Spans
from tests.perf.machine import speed

MAPS = "/api/v1/namespaces/default/configmaps"
# Neither 256 nor 1,024 is a multiple of seven: the solver must prove that there is no placement,
# and find the conflict.
RULES = {"node": {"factor": 7}}
WARM_PODS = 300
WARM_SOLVES = 3


def config_map(name: str, label: str, data: dict[str, str]) -> dict[str, Any]:
    """Return a labelled ConfigMap."""
    return {"metadata": {"name": name, "labels": {label: ""}}, "data": data}


def group(turn: int, size: int) -> dict[str, str]:
    """Return the group's data; each turn has another version, which is decided again."""
    rules = json.dumps(RULES) + " " * (turn % 7)
    return {"name": "g", "size": str(size), "priority": "0", "constraints": rules}


async def keep_asking(client: ApiClient, sandbox: Sandbox, size: int) -> None:
    """Describe a tree and a group, make its members, and touch its rules all the time."""
    names = [stored.name for stored in sandbox.store.list(NODES)]
    racks: dict[str, Any] = {f"r{n}": {name: {} for name in names[n::20]} for n in range(20)}
    tree = {"tree": json.dumps(racks), "level-names": '["rack", "node"]'}
    await send(client, "POST", MAPS, config_map("tree", "sakkara.topology", tree))
    await send(client, "POST", MAPS, config_map("g", "sakkara.group", group(0, size)))
    for number in range(size):
        member = json.loads(pod(100_000 + number))
        member["metadata"]["labels"] = {"sakkara.group.name": "g"}
        await send(client, "POST", "/api/v1/namespaces/default/pods", member)
    turn = 0
    while True:
        turn += 1
        body = msgspec.json.encode({"data": group(turn, size)})
        await client.request(
            "PATCH", f"{MAPS}/g", body, content_type="application/merge-patch+json"
        )
        await asyncio.sleep(0.2)


def placed(sandbox: Sandbox) -> int:
    """Return how many pods have a node."""
    return sum(bool(one.obj["spec"].get("nodeName")) for one in sandbox.store.list(PODS))


async def send(client: ApiClient, method: str, path: str, body: dict[str, Any]) -> None:
    """Send one request; a failure ends the measurement."""
    answer = await client.request(method, path, msgspec.json.encode(body))
    if not answer.ok:
        raise RuntimeError(answer.message)


async def lateness(spans: Spans) -> None:
    """Record the delay of the loop, sampled a hundred times a second."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + 0.01
        await asyncio.sleep(0.01)
        spans.add(max(0.0, loop.time() - due), 0.0)


async def bind(client: ApiClient, sandbox: Sandbox, numbers: range) -> float:
    """Create ordinary pods and wait until all of them are placed; return the seconds."""
    already, left, began = placed(sandbox), iter(numbers), time.perf_counter()

    async def create() -> None:
        for number in left:
            await client.request("POST", "/api/v1/namespaces/default/pods", pod(number))

    await asyncio.gather(*(create() for _ in range(CREATORS)))
    while placed(sandbox) < already + len(numbers):  # noqa: ASYNC110 - a benchmark may poll
        await asyncio.sleep(0.05)
    return time.perf_counter() - began


def look_inside(watch: LoopWatch, daemon: Daemon) -> None:
    """Time the parts of a turn of the engine."""
    engine = daemon.engine
    watch.time(daemon._loop, "turn", "turn")
    watch.time(engine, "handle", "turn: one event")
    watch.time(engine.suspended, "answer", "turn: the solver's answer")
    watch.time(engine.groups, "settle", "turn: groups settle")
    watch.time(engine.groups, "advance", "turn: groups advance")
    watch.time(engine.groups, "plan", "turn: a group begins its plan")
    watch.time(engine, "run", "turn: cycles")
    watch.time(engine.intake.view, "flush", "turn: the view")
    watch.time(daemon._executor, "submit", "turn: effects handed out")


async def measure(nodes: int, pods: int, members: int) -> dict[str, Any]:
    """Bind ordinary pods beside a group of this size (0: none) and return the speed."""
    with short_pauses():
        return await _measured(nodes, pods, members)


async def _measured(nodes: int, pods: int, members: int) -> dict[str, Any]:
    clock, meters = RealClock(), Meters()
    async with Sandbox(SandboxOptions(shape=plain_shape(nodes))) as sandbox:
        path = str(sandbox.kubeconfig_path)
        creator = await ApiClient.connect(path, clock=clock, meters=Meters())
        daemon = Daemon(
            default_config(registry()),
            registry(),
            await ApiClient.connect(path, clock=clock, meters=meters),
            clock=clock,
            random=Random(1),
            meters=meters,
            options=DaemonOptions("bench", address=Address(port=0), on_listed=keep),
        )
        keep()
        running = asyncio.create_task(daemon.run())
        await bind(creator, sandbox, range(200_000, 200_000 + WARM_PODS))
        asking = asyncio.create_task(keep_asking(creator, sandbox, members)) if members else None
        solved = meters.solver_duration.labels("done")
        while members and solved.count < WARM_SOLVES:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        solves, solved_s, late = solved.count, solved.sum, Spans()
        with LoopWatch() as watch:
            look_inside(watch, daemon)
            watching = asyncio.create_task(lateness(late))
            took = await bind(creator, sandbox, range(pods))
            watching.cancel()
        if asking is not None:
            asking.cancel()
        daemon.stop()
        await running
        await creator.close()
    return {
        "podsPerSecond": round(pods / took),
        "solves": solved.count - solves,
        "solverSeconds": round(solved.sum - solved_s, 2),
        "loopLate": late.figures(),
        "loopBlocked": watch.figures(),
    }


def main() -> None:
    """Measure both and write the result."""
    options = argparse.ArgumentParser()
    options.add_argument("--nodes", type=int, default=1000)
    options.add_argument("--pods", type=int, default=3000)
    options.add_argument("--members", type=int, default=256)
    given = options.parse_args()
    logs.configure(level="error", form="json")
    alone = asyncio.run(measure(given.nodes, given.pods, 0))
    beside = asyncio.run(measure(given.nodes, given.pods, given.members))
    figures = {
        "nodes": given.nodes,
        "pods": given.pods,
        "groupSize": given.members,
        "alone": alone,
        "besideGroups": beside,
        "ratio": round(beside["podsPerSecond"] / alone["podsPerSecond"], 2),
        "machineFactor": round(speed()["factor"], 2),
    }
    RESULTS.mkdir(exist_ok=True)
    Path(RESULTS / f"groupload-{given.nodes}-{given.pods}-{given.members}.json").write_text(
        json.dumps(figures, indent=2) + "\n"
    )
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
