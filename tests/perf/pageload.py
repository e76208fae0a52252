"""Pods that are placed with an open page and a decision log, and without both.

    python -m tests.perf.pageload --nodes 1000 --pods 10000 --rounds 20

One embedded API server, one daemon with a decision log, and a reader of `/ui` that follows the
events and asks for the plan every five seconds, as an open view does. Rounds alternate (plain,
shown, shown, plain, …), each with the same number of new pods, which are deleted at its end: in a
plain one the daemon neither draws the page nor writes the log (`accounted.py`). One daemon is used,
since two equal ones differ by more than either costs. Prints and writes JSON: for each round pods
per second of the daemon's CPU time, and of wall time, and for both the median of the ratios of
neighbours with its 95 % interval: other work changes the speed of a machine by a third within a
minute, and affects neighbours equally. Rounds are long enough for the page to be drawn in each. The
usage of the page's own process is reported separately. `shares` are the shares of page and log in
the daemon's own time. More than twenty rounds narrow the interval. `--what nothing` does the same
in all rounds: the deviation of its ratios from 1 is the error of the measurement.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import random
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import clock_gettime, monotonic
from typing import Any

import aiohttp
import msgspec
import yaml

from scheduler.sandbox.kinds.kinds import NODES, PODS
from scheduler.sandbox.nodes.shape import plain_shape
from scheduler.sandbox.sandbox import Sandbox, SandboxOptions
from scheduler.sandbox.store.store import Deletion
from tests.apiserver.patience import until
from tests.apiserver.processes import free_ports, running
from tests.perf import accounted
from tests.perf.workload import CreatePods
from tests.real.schedulers import Running

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).parent / "results"
AT_ONCE = Deletion(grace_period_s=0)
PLAN_EVERY_S = 5.0
WARM = 2
DRAWN_S = 0.5
DRAWS = 2000
SCHEDULER = "trellis-measured"
LOGGED, LOOKED_AT = ("log", "both"), ("page", "both")


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process, without its children, with nanosecond resolution."""
    return clock_gettime((~pid << 3) | 2)  # the id that clock_getcpuclockid(3) gives


def children(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == pid:
                found.append(int(folder.name))
    return found


@contextmanager
def daemon(
    folder: Path,
    kubeconfig: Path,
    name: str,
    *words: str,
    module: Sequence[str] = ("scheduler.cli.main",),
    plugins: Mapping[str, Any] | None = None,
) -> Iterator[Running]:
    """Run a daemon for the pods of one schedulerName; `module` is a module and its own arguments.

    `plugins` are those of its profile, if they differ from the default.
    """
    (port,) = free_ports(1)
    config = folder / f"{name}.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "leaderElection": {"leaderElect": False},
                "profiles": [{"schedulerName": name, "plugins": dict(plugins or {})}],
            }
        )
    )
    command = [sys.executable, "-m", *module, "run", f"--config={config}"]
    command += [f"--kubeconfig={kubeconfig}", "--bind-address=127.0.0.1", f"--secure-port={port}"]
    command += ["--log-level=warning", *words]
    with running(name, command, folder / f"{name}.log", {"PYTHONPATH": str(ROOT)}) as program:
        yield Running(program, f"https://127.0.0.1:{port}")


class Reader:
    """A reader of the page: events as they arrive, and the plan every few seconds."""

    def __init__(self, url: str, token: str) -> None:
        self._url = f"{url}/ui/api"
        self._headers = {"Authorization": f"Bearer {token}"}
        self.events = self.plans = self.bytes = 0

    async def look(self) -> None:
        """Read until cancelled."""
        connector = aiohttp.TCPConnector(ssl=False)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(
            headers=self._headers, connector=connector, timeout=timeout
        ) as session:
            await asyncio.gather(self._follow(session), self._plan(session))

    async def _follow(self, session: aiohttp.ClientSession) -> None:
        async with session.get(f"{self._url}/events") as answer:
            assert answer.status == 200, await answer.text()
            async for chunk in answer.content.iter_any():
                self.bytes += len(chunk)
                self.events += chunk.count(b"event: ")

    async def _plan(self, session: aiohttp.ClientSession) -> None:
        while True:
            async with session.get(f"{self._url}/plan") as answer:
                assert answer.status == 200, await answer.text()
                await answer.read()
                self.plans += 1
            await asyncio.sleep(PLAN_EVERY_S)


async def one_round(
    sandbox: Sandbox, found: Running, name: str, number: int, pods: int, parts: Path
) -> dict[str, Any]:
    """Place some pods and take them away again."""
    store = sandbox.store
    gc.collect()  # here and not within the round: the server's pauses would count as the daemon's
    names = [f"{name}-{number:02d}-{at:05d}" for at in range(pods)]
    pid = found.program.process.pid
    helpers = {child: cpu_s(child) for child in children(pid)}
    part = accounted.read(parts)
    began, used = monotonic(), cpu_s(pid)
    for at, manifest in enumerate(CreatePods(count=pods).manifests(SCHEDULER)):
        manifest["metadata"] |= {"name": names[at], "namespace": "default"}
        store.create(PODS, manifest, "default", owned=True)
        if not at % 50:
            await asyncio.sleep(0)
    left = set(names)

    def are_bound() -> bool:
        for one in list(left):
            if store.get(PODS, "default", one).obj["spec"].get("nodeName"):
                left.discard(one)
        return not left

    await until(are_bound, f"{pods} binds", 600.0)
    took, used = monotonic() - began, cpu_s(pid) - used
    part = {key: now - part[key] for key, now in accounted.read(parts).items()}
    helped = sum(cpu_s(child) - helpers.get(child, 0.0) for child in children(pid))
    for one in names:
        store.delete(PODS, "default", one, AT_ONCE)
    return {
        "name": name,
        "cpuMilliseconds": round(used * 1e3, 3),
        "podsPerCpuSecond": round(pods / used, 1),
        **{f"{key}Milliseconds": round(seconds * 1e3, 3) for key, seconds in part.items()},
        "milliseconds": round(took * 1e3, 3),
        "podsPerSecond": round(pods / took, 1),
        "pageProcessCpuSeconds": round(helped, 2),
    }


async def measure(nodes: int, pods: int, rounds: int, what: str = "both") -> dict[str, Any]:
    """Return the figures of all rounds; `what` is "page", "log", "both" or "nothing"."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place, ExitStack() as stack:
        folder = Path(place)
        kubeconfig = folder / "kubeconfig"
        async with Sandbox(
            SandboxOptions(shape=plain_shape(nodes), kubeconfig=kubeconfig)
        ) as sandbox:
            assert len(sandbox.store.list(NODES)) == nodes
            token = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]["token"]
            log = folder / "decisions.jsonl"
            parts = folder / "parts"
            words = (f"--decision-log={log}",) if what in LOGGED else ()
            counting = ("tests.perf.accounted", str(parts))
            one = stack.enter_context(
                daemon(folder, kubeconfig, SCHEDULER, *words, module=counting)
            )
            await one.wait_ready()
            reader = Reader(one.url, token)
            looking = asyncio.create_task(reader.look() if what in LOOKED_AT else _nothing())
            await until(lambda: reader.plans or what not in LOOKED_AT, "the page", 60.0)
            found = []
            for number in range(-WARM, rounds):
                # The first ones are for imports, tables and the page's process, and not counted.
                order = ["plain", "shown"]
                for name in order if number % 2 else reversed(order):
                    accounted.switch(parts, on=name == "shown" and what != "nothing")
                    taken = await one_round(sandbox, one, name, number, pods, parts)
                    found += [taken] if number >= 0 else []
                    accounted.switch(parts, on=False)
                    await _drawn(parts)
                assert not looking.done(), looking.exception()
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
            size = log.stat().st_size if words else 0
    by_cpu, by_clock = _ratios(found, "cpuMilliseconds"), _ratios(found, "milliseconds")
    return {
        "what": what,
        "nodes": nodes,
        "pods": pods,
        "rounds": found,
        "shares": {
            part: round(
                sum(one.get(f"{part}Milliseconds", 0.0) for one in found if one["name"] == "shown")
                / sum(one["cpuMilliseconds"] for one in found if one["name"] == "shown"),
                4,
            )
            for part in accounted.SLOT
        },
        "ratioCpu": round(statistics.median(by_cpu), 4),
        "ratioCpuInterval": _interval(by_cpu),
        "ratioClock": round(statistics.median(by_clock), 4),
        "ratioClockInterval": _interval(by_clock),
        "pageEvents": reader.events,
        "pageBytes": reader.bytes,
        "plans": reader.plans,
        "logBytes": size,
        "load": [round(one, 1) for one in os.getloadavg()],
    }


async def _drawn(parts: Path) -> None:
    """Wait until no drawing is in progress: the work of a shown round must not count in a plain
    one.
    """
    before = -1.0
    while before != (before := accounted.read(parts)["page"]):  # noqa: ASYNC110 - must be polled
        await asyncio.sleep(DRAWN_S)


async def _nothing() -> None:
    await asyncio.Event().wait()


def _ratios(found: Sequence[dict[str, Any]], field: str) -> list[float]:
    """Return the ratio of throughputs in each pair of neighbours: the plain round's cost divided by
    the other's.
    """
    pairs = [
        {one["name"]: one[field] for one in found[at : at + 2]} for at in range(0, len(found), 2)
    ]
    return [one["plain"] / one["shown"] for one in pairs]


def _interval(ratios: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of their median, by drawing with replacement."""
    draw = random.Random(1)
    drawn = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(DRAWS))
    return round(drawn[int(0.025 * DRAWS)], 4), round(drawn[int(0.975 * DRAWS)], 4)


def main(words: list[str] | None = None) -> dict[str, Any]:
    """Measure once, print and write the result."""
    options = argparse.ArgumentParser()
    options.add_argument("--nodes", type=int, default=1000)
    options.add_argument("--pods", type=int, default=10_000)
    options.add_argument("--rounds", type=int, default=20)
    options.add_argument("--what", choices=("page", "log", "both", "nothing"), default="both")
    given = options.parse_args(words)
    gc.disable()
    figures = asyncio.run(measure(given.nodes, given.pods, given.rounds, given.what))
    RESULTS.mkdir(exist_ok=True)
    name = f"page-{given.what}-{given.nodes}-{given.pods}.json"
    (RESULTS / name).write_text(msgspec.json.format(msgspec.json.encode(figures)).decode())
    print(json.dumps(figures, indent=1))
    return figures


if __name__ == "__main__":
    main()
