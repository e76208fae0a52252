"""The embedded cluster under load: sandbox and daemon in one process, pods created over HTTPS.

    python -m tests.perf.embedded --nodes 1000 --pods 10000

Prints and writes JSON: seconds until the nodes are ready, seconds until all pods are bound, CPU per
pod. Asserts nothing.
"""

import argparse
import asyncio
import gc
import resource
import time
from pathlib import Path
from random import Random

import msgspec

from scheduler.base import logs
from scheduler.base.clock import RealClock
from scheduler.base.meters import Meters
from scheduler.config import default_config
from scheduler.daemon import Daemon, DaemonOptions
from scheduler.intree import registry
from scheduler.kube.connection.client import ApiClient
from scheduler.sandbox.kinds.kinds import PODS
from scheduler.sandbox.nodes.shape import plain_shape
from scheduler.sandbox.sandbox import Sandbox, SandboxOptions
from scheduler.serve.app import Address

RESULTS = Path(__file__).parent / "results"
CREATORS = 16


def pod(number: int) -> bytes:
    """Return an ordinary pod as JSON."""
    container = {
        "name": "main",
        "image": "registry.example/app:1",
        "resources": {"requests": {"cpu": "100m", "memory": "200Mi"}},
    }
    return msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"pod-{number:05}", "namespace": "default"},
            "spec": {"schedulerName": "trellis", "containers": [container]},
        }
    )


async def measure(nodes: int, pods: int) -> dict[str, float]:
    """Start everything, create the pods, wait until all are bound; return the figures."""
    clock, meters = RealClock(), Meters()
    started = time.perf_counter()
    async with Sandbox(SandboxOptions(shape=plain_shape(nodes))) as sandbox:
        ready = time.perf_counter() - started
        path = str(sandbox.kubeconfig_path)
        creator = await ApiClient.connect(path, clock=clock, meters=Meters())
        daemon = Daemon(
            default_config(registry()),
            registry(),
            await ApiClient.connect(path, clock=clock, meters=meters),
            clock=clock,
            random=Random(1),
            meters=meters,
            options=DaemonOptions("bench", address=Address(port=0)),
        )
        gc.freeze()
        running = asyncio.create_task(daemon.run())
        cpu_before = time.process_time()
        began = time.perf_counter()
        numbers = iter(range(pods))

        async def create() -> None:
            for number in numbers:
                answer = await creator.request(
                    "POST", "/api/v1/namespaces/default/pods", pod(number)
                )
                if not answer.ok:
                    raise RuntimeError(answer.message)

        await asyncio.gather(*(create() for _ in range(CREATORS)))
        created = time.perf_counter() - began
        done = asyncio.Event()

        def look() -> None:
            bound = sum(bool(one.obj["spec"].get("nodeName")) for one in sandbox.store.list(PODS))
            if bound == pods:
                done.set()
            else:
                asyncio.get_running_loop().call_later(0.1, look)

        look()
        await done.wait()
        bound_s = time.perf_counter() - began
        cpu = time.process_time() - cpu_before
        daemon.stop()
        await running
        await creator.close()
    return {
        "nodes": nodes,
        "pods": pods,
        "nodesReadySeconds": round(ready, 2),
        "createdSeconds": round(created, 2),
        "boundSeconds": round(bound_s, 2),
        "podsPerSecond": round(pods / bound_s),
        "cpuMsPerPodAllTogether": round(1000 * cpu / pods, 2),
        "peakMib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main() -> None:
    """Measure once and write the result."""
    options = argparse.ArgumentParser()
    options.add_argument("--nodes", type=int, default=1000)
    options.add_argument("--pods", type=int, default=10_000)
    given = options.parse_args()
    logs.configure(level="error", form="json")
    figures = asyncio.run(measure(given.nodes, given.pods))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"embedded-{given.nodes}-{given.pods}.json").write_text(
        msgspec.json.format(msgspec.json.encode(figures)).decode()
    )
    print(figures)


if __name__ == "__main__":
    main()
