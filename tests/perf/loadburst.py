"""Reports of 5,000 nodes that arrive at once: how long a separate daemon's loop is blocked.

    python -m tests.perf.loadburst --nodes 5000

The embedded API server in this process has nodes with a NodeMetric each, then changes every one at
once. Read from the daemon's metrics, before and after: decoded updates, and the upper bounds of the
buckets of the slowest turn of the engine and the latest wake-up of the loop. Prints and writes
JSON. Asserts nothing.
"""

import argparse
import asyncio
import json
import ssl
import sys
import tempfile
import urllib.request
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any

import msgspec
import yaml
from prometheus_client.parser import text_string_to_metric_families

from scheduler.base.clock import RealClock, rfc3339
from scheduler.sandbox.kinds.kinds import NODES, Resource
from scheduler.sandbox.nodes.shape import plain_shape
from scheduler.sandbox.sandbox import Sandbox, SandboxOptions
from scheduler.sandbox.store.store import ObjectStore
from tests.apiserver.patience import until
from tests.apiserver.processes import free_ports, running
from tests.perf.embedded import RESULTS
from tests.perf.loadaware import report_line
from tests.perf.machine import speed
from tests.perf.usage import cpu_seconds
from tests.real.schedulers import ROOT

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles:
- plugins: {multiPoint: {enabled: [{name: LoadAwareScheduling, weight: 10}]}}
---
apiVersion: trellis.dev/v1alpha1
kind: TrellisConfiguration
operators:
  networkTopology: {enabled: false}
"""
TURNS = "trellis_engine_run_duration_seconds"
LAG = "trellis_event_loop_lag_seconds"
EVENTS = "trellis_watch_events_total"
WAIT_S = 300.0


def report(name: str, random: Random) -> dict[str, Any]:
    """Return a NodeMetric as koordlet writes it, of now."""
    body: dict[str, Any] = msgspec.json.decode(report_line(name, 0, random))["object"]
    body["metadata"] = {"name": name}
    body["status"]["updateTime"] = rfc3339(RealClock().now())
    return body


class Seen:
    """The daemon's metrics at one time."""

    def __init__(self, text: str) -> None:
        self.buckets: dict[str, dict[float, float]] = {TURNS: {}, LAG: {}}
        self.events = 0.0
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == EVENTS and sample.labels.get("kind") == "NodeMetric":
                    self.events += sample.value
                elif sample.name.removesuffix("_bucket") in self.buckets and "le" in sample.labels:
                    bound = float(sample.labels["le"])
                    self.buckets[sample.name.removesuffix("_bucket")][bound] = sample.value

    def longest_ms(self, name: str, before: "Seen") -> float:
        """Return the upper bound of the highest bucket that increased since, in milliseconds."""
        now, then = self.buckets[name], before.buckets[name]
        counts = [(bound, now[bound] - then.get(bound, 0.0)) for bound in sorted(now)]
        total = counts[-1][1]
        return round(1000 * next(bound for bound, count in counts if count >= total), 1)


def _asked(url: str, token: str) -> str:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # the daemon's serving certificate is its own
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, context=context, timeout=10) as answer:
        text: str = answer.read().decode()
        return text


def _resource(store: ObjectStore) -> Resource:
    found = store.kinds.of_kind("slo.koordinator.sh/v1alpha1", "NodeMetric")
    if found is None:
        raise RuntimeError("the sandbox serves no NodeMetric")
    return found


async def measure(nodes: int, folder: Path) -> dict[str, Any]:
    """Bring up server and daemon, change every report at once, and return the figures."""
    random = Random(8)
    options = SandboxOptions(plain_shape(nodes), lazy=True, kubeconfig=folder / "kubeconfig")
    async with Sandbox(options) as sandbox:
        store = sandbox.store
        metrics = _resource(store)
        names = [stored.obj["metadata"]["name"] for stored in store.list(NODES)]
        for name in names:
            one = report(name, random)
            store.create(metrics, {**one}, owned=True)
            store.update(metrics, one, subresource="status")
            await asyncio.sleep(0)
        config = yaml.safe_load((folder / "kubeconfig").read_text())
        token = config["users"][0]["user"]["token"]
        (port,) = free_ports(1)
        (folder / "config.yaml").write_text(CONFIG)
        command = [sys.executable, "-m", "scheduler.cli.main", "run"]
        command += [f"--config={folder / 'config.yaml'}"]
        command += [f"--kubeconfig={folder / 'kubeconfig'}", "--bind-address=127.0.0.1"]
        command += [f"--secure-port={port}", "--log-level=warning"]
        with running("trellis", command, folder / "log", {"PYTHONPATH": str(ROOT)}) as program:
            url, pid = f"https://127.0.0.1:{port}", program.process.pid

            async def look() -> Seen:
                return Seen(await asyncio.to_thread(_asked, f"{url}/metrics", token))

            async def is_ready() -> bool:
                try:
                    answer = await asyncio.to_thread(_asked, f"{url}/readyz", token)
                except OSError:
                    return False
                return answer.startswith("ok")

            await until(is_ready, f"the daemon: {program.tail()}", WAIT_S)
            await asyncio.sleep(3.0)  # whatever the start left behind is not the burst's
            before, spent, began = await look(), cpu_seconds(pid), monotonic()
            for name in names:
                store.update(metrics, report(name, random), subresource="status")
            written = monotonic() - began

            async def all_seen() -> bool:
                return (await look()).events - before.events >= nodes

            await until(all_seen, "all updates", WAIT_S)
            seen = monotonic() - began
            await asyncio.sleep(1.0)  # the probe of the loop's lag reports its own delay
            after = await look()
            return {
                "nodes": nodes,
                "updates": after.events - before.events,
                "writtenSeconds": round(written, 2),
                "seenSeconds": round(seen, 2),
                "daemonCpuSeconds": round(cpu_seconds(pid) - spent, 2),
                "longestTurnAtMostMs": after.longest_ms(TURNS, before),
                "loopLateAtMostMs": after.longest_ms(LAG, before),
                "machineFactor": round(speed()["factor"], 2),
            }


def main() -> None:
    """Measure and write the result."""
    options = argparse.ArgumentParser()
    options.add_argument("--nodes", type=int, default=5000)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(measure(given.nodes, Path(folder)))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"loadburst-{given.nodes}.json").write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
