"""The whole sandbox as kubectl shows it: workloads, rollouts, drains, and the command line around
it.
"""

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from scheduler.sandbox.controllers.workqueue import ControllerLoop, Interest, WorkQueue
from scheduler.sandbox.kinds.kinds import NODES, PODS
from scheduler.sandbox.nodes.podlifecycle import SimulatedPace
from scheduler.sandbox.nodes.shape import plain_shape
from scheduler.sandbox.sandbox import Sandbox, SandboxOptions
from scheduler.sandbox.store.collection import DELETED, StoreChange
from scheduler.sandbox.store.store import ObjectStore
from tests.apiserver.patience import PATIENCE_S

KUBECTL = shutil.which("kubectl")
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "sandbox"
needs_kubectl = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: "web:1"}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {maxUnavailable: 2, selector: {matchLabels: {app: web}}}
"""


class Binder:
    """The simplest scheduler: every new pod is bound to the next node that takes pods."""

    def __init__(self, store: ObjectStore) -> None:
        self.work_queue = WorkQueue()
        self._store = store
        self._count = 0

    def interests(self) -> list[Interest]:
        return [(PODS, self._handle)]

    def act(self, key: str, now: float) -> None:
        namespace, name = key.split("/")
        pod = self._store.find(PODS, namespace, name)
        nodes = [s.name for s in self._store.list(NODES) if not s.obj["spec"].get("unschedulable")]
        if pod is None or pod.obj["spec"].get("nodeName") or not nodes:
            return
        self._count += 1
        spec = {**pod.obj["spec"], "nodeName": nodes[self._count % len(nodes)]}
        self._store.replace(PODS, pod, {**pod.obj, "spec": spec})

    def _handle(self, change: StoreChange) -> None:
        if change.type != DELETED and not change.stored.obj["spec"].get("nodeName"):
            self.work_queue.add(change.stored.key)


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[Sandbox]:
    """A sandbox with three nodes and a binder."""
    options = SandboxOptions(
        shape=plain_shape(3), kubeconfig=tmp_path / "kubeconfig", pace=SimulatedPace(stop_s=0.1)
    )
    async with Sandbox(options) as running:
        turns = ControllerLoop(running.store, [Binder(running.store)])
        task = asyncio.create_task(turns.run())
        yield running
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def kubectl(sandbox: Sandbox, *words: str, text: str = "") -> str:
    """Run kubectl; its output, and an assertion that it succeeded."""
    process = await asyncio.create_subprocess_exec(
        str(KUBECTL),
        "--kubeconfig",
        str(sandbox.kubeconfig_path),
        "--cache-dir",
        str(sandbox.kubeconfig_path.parent / "cache"),
        *words,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate(text.encode())
    assert 0 == process.returncode, output.decode()
    return output.decode()


async def pods(sandbox: Sandbox) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(await kubectl(sandbox, "get", "pods", "-o", "json"))[
        "items"
    ]
    return found


@needs_kubectl
@pytest.mark.allow_blocking("starting a child process opens files")
async def test_a_deployment_runs_and_moves(sandbox):
    """Apply, rollout status, scale, cordon, drain under a budget, and delete all work with
    kubectl.
    """
    await kubectl(sandbox, "apply", "-f", "-", text=WEB)
    reported = await kubectl(sandbox, "rollout", "status", "deployment/web", "--timeout=120s")
    assert "successfully rolled out" in reported
    running = await pods(sandbox)
    assert ["Running"] * 4 == [pod["status"]["phase"] for pod in running]

    await kubectl(sandbox, "scale", "deployment/web", "--replicas=6")
    await kubectl(sandbox, "rollout", "status", "deployment/web", "--timeout=120s")
    assert 6 == len(await pods(sandbox))

    await kubectl(sandbox, "cordon", "node-1")
    await kubectl(sandbox, "drain", "node-0", "--ignore-daemonsets", "--timeout=120s")
    await kubectl(sandbox, "rollout", "status", "deployment/web", "--timeout=120s")
    alive = [pod for pod in await pods(sandbox) if "deletionTimestamp" not in pod["metadata"]]
    assert 6 == len(alive)
    assert "node-0" not in {pod["spec"]["nodeName"] for pod in alive}

    await kubectl(sandbox, "delete", "deployment/web", "--cascade=foreground", "--timeout=120s")
    assert [] == await pods(sandbox)


async def test_the_examples_work(sandbox):
    """Every manifest of the documentation's folder can be applied, and its pods run."""
    lines = await sandbox.apply(str(EXAMPLES / "workloads.yaml"))
    assert lines

    def is_quiet() -> bool:
        found = [stored.obj for stored in sandbox.store.list(PODS)]
        return bool(found) and all(pod["status"]["phase"] != "Pending" for pod in found)

    woken = asyncio.Event()
    watch = sandbox.store.watch(PODS, wake=woken.set)
    async with asyncio.timeout(PATIENCE_S):
        while not is_quiet():
            await woken.wait()
            woken.clear()
            watch.changes()
    watch.close()


@pytest.mark.allow_blocking("starting a child process opens files")
async def test_the_command_line_starts_and_stops_it(tmp_path: Path):
    """`up` prints where it is and writes a private kubeconfig; `status` finds it.

    SIGINT ends it cleanly.
    """
    path = tmp_path / "kubeconfig"
    shape = str(EXAMPLES / "shape.yaml")
    up = await trellis(tmp_path, "up", "--shape", shape, "--kubeconfig", str(path))
    assert up.stdout is not None
    line = (await up.stdout.readline()).decode()
    assert line.startswith("sandbox is up: https://127.0.0.1:"), await up.communicate()
    assert 0o600 == path.stat().st_mode & 0o777

    status, second = await trellis(tmp_path, "status"), await trellis(tmp_path, "up")
    (listed, _), (_, complaint) = await asyncio.gather(status.communicate(), second.communicate())
    assert str(path) in listed.decode()
    assert 1 == second.returncode
    assert b"runs already" in complaint

    up.send_signal(signal.SIGINT)
    _, rest = await up.communicate()
    assert 0 == up.returncode
    assert b"Traceback" not in rest


@pytest.mark.allow_blocking("starting a child process opens files")
async def test_foreign_kubeconfigs_are_safe(tmp_path: Path):
    """A file that no sandbox wrote is never overwritten."""
    path = tmp_path / "config"
    path.write_text("clusters: [{name: production}]\n")
    up = await trellis(tmp_path, "up", "--kubeconfig", str(path))
    _, complaint = await up.communicate()

    assert 2 == up.returncode
    assert b"was not written by a sandbox" in complaint
    assert "clusters: [{name: production}]\n" == path.read_text()


async def trellis(folder: Path, *words: str) -> asyncio.subprocess.Process:
    """Start `trellis sandbox …` with its state in `folder`."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "from scheduler.cli.main import main; main()",
        "sandbox",
        *words,
        env={**os.environ, "XDG_RUNTIME_DIR": str(folder)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
