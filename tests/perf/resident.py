"""The daemon with 5,000 nodes and 100,000 bound pods: the time until it is ready, and its memory.

Called by `table`. `trellis run` is a separate process with its defaults; the API server is the
embedded one, in this process. An hour of churn (ten pods a second) is replayed as fast as both can:
pods are created, scheduled and deleted, while the resident size is recorded.
"""

import asyncio
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

from scheduler.sandbox.kinds.kinds import NODES, PODS
from scheduler.sandbox.nodes.shape import plain_shape
from scheduler.sandbox.sandbox import Sandbox, SandboxOptions
from scheduler.sandbox.store.store import Deletion, ObjectStore
from tests.apiserver.patience import until
from tests.apiserver.processes import free_ports, running
from tests.perf.usage import cpu_seconds, rss_mib
from tests.perf.workload import CreatePods
from tests.real.schedulers import ROOT, Running

NODE_COUNT = 5000
BOUND = 100_000
CHURNED = 36_000
AT_ONCE = 500
BOUND_S = 600.0
READY_S = 600.0
NOW = Deletion(grace_period_s=0)


def started(folder: Path) -> dict[str, Any]:
    """Return how long the daemon takes until it is ready, from the start of its process."""
    return asyncio.run(_measured(folder, churn=0))


def churned(folder: Path) -> dict[str, Any]:
    """Return the resident size at first and over the churn; `residentMib` is the largest."""
    return asyncio.run(_measured(folder, churn=CHURNED))


async def _measured(folder: Path, *, churn: int) -> dict[str, Any]:
    options = SandboxOptions(plain_shape(NODE_COUNT), lazy=True, kubeconfig=folder / "kubeconfig")
    async with Sandbox(options) as sandbox:
        await _fill(sandbox.store)
        gc.collect()
        gc.freeze()  # as `trellis sandbox` does: its own collections are not the daemon's time
        started = monotonic()
        with _daemon(folder) as daemon:
            await until(lambda: asyncio.to_thread(_is_ready, daemon), "the daemon", READY_S)
            figures: dict[str, Any] = {
                "nodes": NODE_COUNT,
                "pods": BOUND,
                "readySeconds": monotonic() - started,
                "readyCpuSeconds": cpu_seconds(daemon.pid),
            }
            sizes = [rss_mib(daemon.pid)]
            started = monotonic()
            for first in range(0, churn, AT_ONCE):
                await _churn(sandbox.store, first)
                sizes.append(rss_mib(daemon.pid))
            return figures | {
                "residentMib": max(sizes),
                "residentMibAtFirst": sizes[0],
                "residentMibByEighth": [max(part) for part in _eighths(sizes[1:])],
                "churnedPods": churn,
                "churnSeconds": monotonic() - started,
            }


@contextmanager
def _daemon(folder: Path) -> Iterator[Running]:
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "scheduler.cli.main", "run"]
    command += [f"--kubeconfig={folder / 'kubeconfig'}", "--bind-address=127.0.0.1"]
    command += [f"--secure-port={port}", "--no-leader-elect", "--log-level=warning"]
    with running("trellis", command, folder / "log", {"PYTHONPATH": str(ROOT)}) as program:
        yield Running(program, f"https://127.0.0.1:{port}")


async def _fill(store: ObjectStore) -> None:
    """Bind pods to the nodes in turn, past the API."""
    names = [stored.obj["metadata"]["name"] for stored in store.list(NODES)]
    for number, manifest in enumerate(CreatePods(count=BOUND).manifests("trellis")):
        manifest["metadata"] |= {"name": f"bound-{number:06d}", "namespace": "default"}
        manifest["metadata"]["labels"] = {"app": f"app-{number % 500}"}
        manifest["spec"]["nodeName"] = names[number % len(names)]
        # An API server has its objects encoded already: ours encodes at the first question.
        store.create(PODS, manifest, "default", owned=True).tail()
        if not number % 1000:
            await asyncio.sleep(0)  # lets the sandbox's own actors keep up


async def _churn(store: ObjectStore, first: int) -> None:
    """Create pods, see them scheduled, and take them away again."""
    names = [f"churn-{number:06d}" for number in range(first, first + AT_ONCE)]
    for name, manifest in zip(names, CreatePods(count=AT_ONCE).manifests("trellis"), strict=True):
        manifest["metadata"] |= {"name": name, "namespace": "default"}
        manifest["metadata"]["labels"] = {"app": name}
        store.create(PODS, manifest, "default", owned=True)

    def are_bound() -> bool:
        pods = (store.get(PODS, "default", name).obj for name in names)
        return all(pod["spec"].get("nodeName") for pod in pods)

    await until(are_bound, f"{AT_ONCE} binds", BOUND_S)
    for name in names:
        store.delete(PODS, "default", name, NOW)


def _is_ready(daemon: Running) -> bool:
    if daemon.program.process.poll() is not None:
        raise AssertionError(f"the daemon ended: {daemon.program.tail()}")
    try:
        return daemon.get("/readyz").startswith("ok")
    except OSError:
        return False


def _eighths(sizes: list[float]) -> list[list[float]]:
    step = max(1, -(-len(sizes) // 8))
    return [sizes[first : first + step] for first in range(0, len(sizes), step)]
