"""A running server for e2e tests: the sandbox's or a real one, and `trellis` beside it."""

import asyncio
import base64
import io
import itertools
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from scheduler.cli.main import run as cli
from scheduler.testing import node, pod
from tests.apiserver.api import trusting
from tests.apiserver.patience import PATIENCE_S, until
from tests.apiserver.processes import free_ports

_numbers = itertools.count(1)
QUIET = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
---
apiVersion: trellis.dev/v1alpha1
kind: TrellisConfiguration
operators: {enabled: false}
"""


@dataclass
class LiveCluster:
    """An API server with a namespace of its own for each case.

    Nodes end in the namespace's name.
    """

    kubeconfig: Path
    session: aiohttp.ClientSession
    url: str
    ns: str

    async def post(self, plural: str, body: dict[str, Any]) -> None:
        """Create an object of the core group."""
        within = "" if plural in ("namespaces", "nodes") else f"/namespaces/{self.ns}"
        async with self.session.post(f"{self.url}/api/v1{within}/{plural}", json=body) as answer:
            assert 201 == answer.status, await answer.text()

    async def nodes(self, *sizes: str) -> list[str]:
        """Create nodes that only pods of this case may use."""
        names = [f"n{number}-{self.ns}" for number in range(len(sizes))]
        for name, cpu in zip(names, sizes, strict=True):
            await self.node(name, cpu=cpu, labels={"case": self.ns})
        return names

    async def node(self, name: str, **fields: Any) -> None:
        """Create a node."""
        raw = node(name, **fields)
        raw["status"]["capacity"] = raw["status"]["allocatable"]
        await self.post("nodes", raw)

    async def pod(
        self,
        name: str,
        *,
        scheduler: str = "trellis",
        spec: dict[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        """Create a pod of Trellis that selects this case's nodes."""
        whole = {"schedulerName": scheduler, "nodeSelector": {"case": self.ns}, **(spec or {})}
        raw = pod(name, namespace=self.ns, spec=whole, **fields)
        del raw["spec"]["nodeName"]
        del raw["status"]
        await self.post("pods", raw)

    async def clear(self) -> None:
        """Delete the pods of this case, at once."""
        url = f"{self.url}/api/v1/namespaces/{self.ns}/pods"
        async with self.session.delete(url, json={"gracePeriodSeconds": 0}) as answer:
            assert 200 == answer.status, await answer.text()

    async def ended(self, name: str) -> None:
        """Set the phase of a pod to Succeeded."""
        url = f"{self.url}/api/v1/namespaces/{self.ns}/pods/{name}/status"
        body = {"status": {"phase": "Succeeded"}}
        headers = {"Content-Type": "application/merge-patch+json"}
        async with self.session.patch(url, json=body, headers=headers) as answer:
            assert 200 == answer.status, await answer.text()

    async def lease(self, holder: str) -> None:
        """Create the scheduler's Lease with this `holder`."""
        url = f"{self.url}/apis/coordination.k8s.io/v1/namespaces/{self.ns}/leases"
        body = {"metadata": {"name": "trellis"}, "spec": {"holderIdentity": holder}}
        async with self.session.post(url, json=body) as answer:
            assert 201 == answer.status, await answer.text()

    async def node_of(self, name: str) -> str:
        """Return the node of a pod, '' without one."""
        async with self.session.get(
            f"{self.url}/api/v1/namespaces/{self.ns}/pods/{name}"
        ) as answer:
            return str((await answer.json())["spec"].get("nodeName") or "")

    async def is_bound(self, name: str) -> bool:
        """Return whether a pod is on a node."""
        return bool(await self.node_of(name))

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Wait for a condition, checking it at an interval."""
        await until(holds, f"what {self.ns} waits for")

    async def run(self, *words: str, path: str = "") -> tuple[int, str, str]:
        """Run `trellis` in a thread; return exit code, stdout and stderr.

        `path` is searched first.
        """
        return await asyncio.to_thread(self._run, words, path)

    def _run(self, words: Sequence[str], path: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.setenv("KUBECONFIG", str(self.kubeconfig))
            patch.setenv("PATH", path + os.pathsep + os.environ["PATH"])
            code = cli(list(words))
        return code, out.getvalue(), err.getvalue()

    async def start(
        self, words: Sequence[str], more: Mapping[str, str] | None = None
    ) -> asyncio.subprocess.Process:
        """Start `trellis` in a process of its own; `more` are variables of its environment."""
        own = {"KUBECONFIG": str(self.kubeconfig), "POD_NAMESPACE": "default"}
        environment = {**os.environ, **own, **(more or {})}
        pipe = asyncio.subprocess.PIPE
        command = [sys.executable, "-m", "scheduler.cli.main", *words]
        return await asyncio.create_subprocess_exec(
            *command, env=environment, stdout=pipe, stderr=pipe
        )


@asynccontextmanager
async def entered(kubeconfig: Path) -> AsyncIterator[LiveCluster]:
    """Create a namespace for the test on the server that a kubeconfig names."""
    config = yaml.safe_load(await asyncio.to_thread(kubeconfig.read_text))
    server, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    authority = base64.b64decode(server["certificate-authority-data"])
    headers = {"Authorization": f"Bearer {user['token']}"}
    connector = aiohttp.TCPConnector(ssl=trusting(authority))
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        mark = f"live-{os.getpid()}-{next(_numbers)}"
        cluster = LiveCluster(kubeconfig, session, server["server"], mark)
        await cluster.post("namespaces", {"metadata": {"name": mark}})
        try:
            yield cluster
        finally:
            # A real server goes on to the next case: no client of this test waits there.
            await cluster.clear()


@asynccontextmanager
async def daemon(
    cluster: LiveCluster, folder: Path, *, config: Path | None = None
) -> AsyncIterator[str]:
    """Run `trellis run` and yield the address of its endpoints once it is ready."""
    if config is None:
        config = folder / "config.yaml"
        await asyncio.to_thread(config.write_text, QUIET)
    (port,) = free_ports(1)
    words = ["run", "--config", str(config), "--bind-address", "127.0.0.1"]
    process = await cluster.start([*words, "--secure-port", str(port)])
    url = f"https://127.0.0.1:{port}"
    drain = asyncio.create_task(process.communicate())
    try:
        await until(lambda: answers(f"{url}/readyz"), "the daemon")
        yield url
    finally:
        process.terminate()
        await asyncio.wait_for(drain, PATIENCE_S)


async def answers(url: str) -> bool:
    """Return whether an endpoint without access control responds with success."""
    try:
        async with aiohttp.ClientSession() as session, session.get(url, ssl=False) as answer:
            return answer.status == 200
    except aiohttp.ClientError:
        return False
