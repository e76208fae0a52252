"""`explain`, `snapshot` and what the daemon remembers, against running servers.

The cases run on the sandbox and, with KUBEBUILDER_ASSETS, on a real kube-apiserver.
"""

import asyncio
import base64
import io
import itertools
import json
import os
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from scheduler.cli.main import run as cli
from scheduler.sandbox.sandbox import Options, Sandbox
from scheduler.sandbox.shape import plain_shape
from scheduler.testing import node, pod
from tests.apiserver.api import trusting
from tests.apiserver.processes import free_ports

DEADLINE_S = 60.0
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
class World:
    """An API server with a namespace of its own for each case; nodes end in the namespace's name."""

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
        """Create nodes that this case's pods may use, and nobody else's."""
        names = [f"n{number}-{self.ns}" for number in range(len(sizes))]
        for name, cpu in zip(names, sizes, strict=True):
            raw = node(name, cpu=cpu, labels={"case": self.ns})
            raw["status"]["capacity"] = raw["status"]["allocatable"]
            await self.post("nodes", raw)
        return names

    async def pod(self, name: str, **fields: Any) -> None:
        """Create a pod of ours that asks for this case's nodes."""
        fields.setdefault("spec", {})
        fields["spec"] |= {"schedulerName": "trellis", "nodeSelector": {"case": self.ns}}
        raw = pod(name, namespace=self.ns, **fields)
        del raw["spec"]["nodeName"]
        del raw["status"]
        await self.post("pods", raw)

    async def lease(self, holder: str) -> None:
        """Create the scheduler's Lease, held by `holder`."""
        url = f"{self.url}/apis/coordination.k8s.io/v1/namespaces/{self.ns}/leases"
        body = {"metadata": {"name": "trellis"}, "spec": {"holderIdentity": holder}}
        async with self.session.post(url, json=body) as answer:
            assert 201 == answer.status, await answer.text()

    async def is_bound(self, name: str) -> bool:
        """Whether a pod is on a node."""
        async with self.session.get(
            f"{self.url}/api/v1/namespaces/{self.ns}/pods/{name}"
        ) as answer:
            return bool((await answer.json())["spec"].get("nodeName"))

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Wait for a condition, asking every so often."""
        async with asyncio.timeout(DEADLINE_S):
            while not await holds():
                await asyncio.to_thread(threading.Event().wait, 0.05)

    async def run(self, *words: str, path: str = "") -> tuple[int, str, str]:
        """Run `trellis` in a thread; return exit code, stdout and stderr. `path` is searched first."""
        return await asyncio.to_thread(self._run, words, path)

    def _run(self, words: Sequence[str], path: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.setenv("KUBECONFIG", str(self.kubeconfig))
            patch.setenv("PATH", path + os.pathsep + os.environ["PATH"])
            code = cli(list(words))
        return code, out.getvalue(), err.getvalue()

    async def start(self, words: Sequence[str]) -> asyncio.subprocess.Process:
        """Start `trellis` in a process of its own."""
        environment = os.environ | {"KUBECONFIG": str(self.kubeconfig), "POD_NAMESPACE": "default"}
        pipe = asyncio.subprocess.PIPE
        command = [sys.executable, "-m", "scheduler.cli.main", *words]
        return await asyncio.create_subprocess_exec(
            *command, env=environment, stdout=pipe, stderr=pipe
        )


@pytest.fixture(params=["sandbox", pytest.param("real", marks=pytest.mark.real)])
def kubeconfig(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return the kubeconfig of the server; that of a sandbox is written when it starts."""
    if request.param == "real":
        found: Path = request.getfixturevalue("real_cluster").kubeconfig
        return found
    return tmp_path / "kubeconfig"


@asynccontextmanager
async def entered(kubeconfig: Path) -> AsyncIterator[World]:
    """Make a namespace of one's own on the server that a kubeconfig names."""
    config = yaml.safe_load(await asyncio.to_thread(kubeconfig.read_text))
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"])
    headers = {"Authorization": f"Bearer {user['token']}"}
    connector = aiohttp.TCPConnector(ssl=trusting(authority))
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        mark = f"live-{os.getpid()}-{next(_numbers)}"
        world = World(kubeconfig, session, cluster["server"], mark)
        await world.post("namespaces", {"metadata": {"name": mark}})
        yield world


@pytest.fixture
async def world(kubeconfig: Path, tmp_path: Path) -> AsyncIterator[World]:
    """Give a server and a namespace on it."""
    async with AsyncExitStack() as stack:
        if kubeconfig.is_relative_to(tmp_path):
            options = Options(shape=plain_shape(0), kubeconfig=kubeconfig)
            await stack.enter_async_context(Sandbox(options))
        yield await stack.enter_async_context(entered(kubeconfig))


@asynccontextmanager
async def daemon(world: World, folder: Path) -> AsyncIterator[str]:
    """Run `trellis run` and yield the address of its endpoints once it is ready."""
    config = folder / "config.yaml"
    await asyncio.to_thread(config.write_text, QUIET)
    (port,) = free_ports(1)
    words = ["run", "--config", str(config), "--bind-address", "127.0.0.1"]
    process = await world.start([*words, "--secure-port", str(port)])
    url = f"https://127.0.0.1:{port}"
    drain = asyncio.create_task(process.communicate())
    try:
        await world.until(lambda: answers(f"{url}/readyz"))
        yield url
    finally:
        process.terminate()
        await asyncio.wait_for(drain, DEADLINE_S)


async def answers(url: str) -> bool:
    """Whether an endpoint that anybody may ask says yes."""
    try:
        async with aiohttp.ClientSession() as session, session.get(url, ssl=False) as answer:
            return answer.status == 200
    except aiohttp.ClientError:
        return False


async def test_explain_and_snapshot_of_a_live_cluster(world: World, tmp_path: Path):
    """Computed here from what the server lists; the snapshot places the same pods the same way."""
    small, large = await world.nodes("1", "8")
    await world.pod("p", requests={"cpu": "2"})
    await world.pod("huge", requests={"cpu": "99"})

    code, out, err = await world.run("explain", "p", "-n", world.ns)
    assert (0, "") == (code, err)
    assert f"{world.ns}/p would go to {large}" == out.splitlines()[0]
    assert any(
        line.startswith(f"{small} ") and "Insufficient cpu" in line for line in out.splitlines()
    )
    code, out, _ = await world.run("explain", f"{world.ns}/huge", "--node", small, "-o", "json")
    assert 3 == code
    (only,) = json.loads(out)["nodes"]
    assert (small, "NodeResourcesFit") == (only["name"], only["rejectedBy"])
    assert ["Insufficient cpu"] == only["plugins"]["NodeResourcesFit"]["reasons"]
    assert "Success" == only["plugins"]["NodeAffinity"]["code"]
    code, _, err = await world.run("explain", "none", "-n", world.ns)
    assert 2 == code
    assert "no such pod" in err

    for form in ("json", "yaml"):
        code, out, err = await world.run("snapshot", "-o", form)
        assert (0, "") == (code, err)
        file = tmp_path / f"cluster.{form}"
        await asyncio.to_thread(file.write_text, out)
        code, out, _ = await world.run("simulate", "--snapshot", str(file), "-o", "json")
        placed = {
            pod["name"]: pod["node"]
            for pod in json.loads(out)["pods"]
            if pod["namespace"] == world.ns
        }
        assert {"p": large, "huge": None} == placed
        assert 3 == code


async def test_a_stranger_is_told_what_is_missing(world: World, tmp_path: Path):
    """Without rights, with a wrong token, without a server: one line, exit code 1."""
    config = yaml.safe_load(await asyncio.to_thread(world.kubeconfig.read_text))
    config["users"][0]["user"]["token"] = "wrong"
    world.kubeconfig = tmp_path / "stranger"
    await asyncio.to_thread(world.kubeconfig.write_text, yaml.safe_dump(config))
    code, out, err = await world.run("explain", "p")
    assert (1, "") == (code, out)
    assert "error: cannot list nodes: Unauthorized" in err

    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    await asyncio.to_thread(world.kubeconfig.write_text, yaml.safe_dump(config))
    code, out, err = await world.run("snapshot")
    assert 1 == code
    assert "cannot list nodes" in err
    assert "Traceback" not in err


async def test_what_the_daemon_decided(world: World, tmp_path: Path):
    """By its address, every node with every plugin's part; the same node as `explain` foretold."""
    small, large = await world.nodes("1", "8")
    await world.pod("p", requests={"cpu": "2"})
    await world.pod("huge", requests={"cpu": "99"})
    _, foretold, _ = await world.run("explain", "p", "-n", world.ns, "-o", "name")
    async with daemon(world, tmp_path) as url:
        await world.until(lambda: world.is_bound("p"))
        code, out, err = await world.run(
            "explain", "p", "-n", world.ns, "--daemon", url, "-o", "json"
        )
        assert (0, "") == (code, err)
        past = json.loads(out)
        assert ("PastDecision", large, 1) == (past["kind"], past["node"], past["attempts"])
        assert foretold.strip() == past["node"]
        told = {one["name"]: one for one in past["nodes"]}
        assert ("NodeResourcesFit", ["Insufficient cpu"]) == (
            told[small]["rejectedBy"],
            told[small]["reasons"],
        )
        assert told[large]["feasible"]

        code, out, _ = await world.run(
            "explain", f"{world.ns}/huge", "--daemon", url, "--node", small
        )
        assert 3 == code
        assert "no node was found: 0/" in out.splitlines()[0]
        assert f"{small}: NodeResourcesFit: Insufficient cpu" in out
        code, _, err = await world.run("explain", "none", "-n", world.ns, "--daemon", url)
        assert 1 == code
        assert f'no decision about pod "{world.ns}/none" is kept' in err
        code, _, err = await world.run("explain", "p", "--daemon", url, "--token", "wrong")
        assert 1 == code
        assert "Unauthorized; --token takes one that may get /debug/decisions/*" in err


async def test_the_leader_is_found_and_reached_by_port_forward(world: World, tmp_path: Path):
    """The Lease names the pod, kubectl forwards; here a stand-in for kubectl says to which port."""
    await world.nodes("8")
    await world.pod("p")
    async with daemon(world, tmp_path) as url:
        await world.until(lambda: world.is_bound("p"))
        kubectl = tmp_path / "kubectl"
        port = url.rpartition(":")[2]
        script = f'#!/bin/sh\necho "$@" > {tmp_path}/words\necho "Forwarding from 127.0.0.1:{port} -> 10259"\nexec sleep 60\n'
        await asyncio.to_thread(kubectl.write_text, script)
        kubectl.chmod(0o700)
        code, _, err = await world.run("explain", "p", "-n", world.ns, "--past", path=str(tmp_path))
        assert 2 == code
        assert "no daemon leads (Lease trellis); name one" in err

        await world.lease("trellis-0_c0ffee")
        code, out, err = await world.run(
            "explain", "p", "-n", world.ns, "--past", path=str(tmp_path)
        )
        assert (0, "") == (code, err)
        assert "was chosen; 1 of " in out
        words = await asyncio.to_thread((tmp_path / "words").read_text)
        assert f"--namespace {world.ns} port-forward pod/trellis-0 :10259" == words.strip()

        await asyncio.to_thread(kubectl.write_text, "#!/bin/sh\necho no such pod >&2\nexit 1\n")
        code, _, err = await world.run("explain", "p", "--daemon", "a/b", path=str(tmp_path))
        assert 2 == code
        assert "no port-forward to a/b: no such pod" in err
