"""`trellis agent load` compared with known load on this machine: its accuracy and its cost.

Run as root as `python -m tests.perf.loadagent`: it creates control groups named like those of pods,
puts a process that burns one core into one and a process with 500 MiB into another, and lets the
agent report to a sandbox. The processes' true usage comes from `/proc/<pid>`; other processes take
CPU from the burner, so its own time is the reference. Prints one JSON document.
"""

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import msgspec
import yaml

from scheduler.base.clock import RealClock, parse_rfc3339
from scheduler.base.meters import Meters
from scheduler.kube.connection.client import ApiClient
from scheduler.kube.connection.credentials import Credentials
from scheduler.objects.quantity import milli_quantity, quantity
from scheduler.sandbox.api.server import ApiServer
from scheduler.sandbox.start import new_store
from scheduler.testing.builders import node, pod
from tests.perf.machine import machine, speed

CRD = Path(__file__).parents[2] / "crds" / "nodemetrics.yaml"
METRICS = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
ROOT = Path("/sys/fs/cgroup")
ALLOCATED_MIB = 500
IDLE_PODS = 30
WINDOW_S = 60
BURN = "while True: pass"
HOLD = f"import time; allocated = bytearray(b'x' * ({ALLOCATED_MIB} << 20)); time.sleep(9999)"
# The agent as in a pod: there it reads the service account, whose path the kubelet sets.
IN_POD = (
    "from pathlib import Path; import scheduler.kube.connection.credentials as c; "
    "c.SERVICE_TOKEN = "
    "Path({token!r}); from scheduler.cli.main import main; main()"
)
TICKS = os.sysconf("SC_CLK_TCK")


def service_account(folder: Path, server: ApiServer) -> Path:
    """Write the files that the kubelet mounts into a pod."""
    (folder / "token").write_text(server.token)
    (folder / "ca.crt").write_bytes(server.authority)
    return folder


def hierarchies() -> list[Path]:
    """Return where a pod's group has to be made."""
    if (ROOT / "cgroup.controllers").exists():
        return [ROOT]
    return [ROOT / "cpuacct", ROOT / "memory"]


@contextlib.contextmanager
def groups(uids: list[str]) -> Iterator[None]:
    """Make the control groups of pods, and remove them."""
    made = []
    for top in hierarchies():
        for path in (top / "kubepods", top / "kubepods" / "burstable"):
            if not path.exists():
                path.mkdir()
                made.append(path)
        for uid in uids:
            made.append(top / "kubepods" / "burstable" / f"pod{uid}")
            made[-1].mkdir()
    try:
        yield
    finally:
        for path in reversed(made):
            with contextlib.suppress(OSError):
                path.rmdir()


@contextlib.contextmanager
def process(code: str, uid: str) -> Iterator[int]:
    """Run Python code in a pod's group."""
    with subprocess.Popen([sys.executable, "-c", f"input()\n{code}"], stdin=subprocess.PIPE) as one:
        for top in hierarchies():
            procs = top / "kubepods" / "burstable" / f"pod{uid}" / "cgroup.procs"
            procs.write_text(str(one.pid))
        assert one.stdin is not None
        one.stdin.write(b"\n")
        one.stdin.flush()
        try:
            yield one.pid
        finally:
            one.kill()


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process, its threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory(pid: int, field: str) -> int:
    """Return bytes of a process by a field of its status."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    return 0


async def send(client: ApiClient, method: str, path: str, body: Any = None) -> Any:
    """Send a request and return the answer."""
    data = b"" if body is None else msgspec.json.encode(body)
    response = await client.request(method, path, data)
    assert response.ok, f"{method} {path}: {response.code} {response.message}"
    return msgspec.json.decode(response.body)


async def prepare(client: ApiClient, uids: list[str]) -> dict[str, str]:
    """Make node, NodeMetric and pods; return the name of each uid's pod."""
    definition = yaml.safe_load(CRD.read_text())
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await send(client, "POST", crds, definition)
    await send(client, "POST", "/api/v1/nodes", node("here"))
    policy = {"aggregateDurationSeconds": WINDOW_S, "reportIntervalSeconds": 10}
    metric = {
        "apiVersion": "slo.koordinator.sh/v1alpha1",
        "kind": "NodeMetric",
        "metadata": {"name": "here"},
        "spec": {"metricCollectPolicy": policy},
    }
    await send(client, "POST", METRICS, metric)
    names = {}
    for number, uid in enumerate(uids):
        raw = pod(f"pod-{number}", node_name="here", requests={"cpu": "1"})
        raw["metadata"]["annotations"] = {"kubernetes.io/config.hash": uid}
        await send(client, "POST", "/api/v1/namespaces/default/pods", raw)
        names[uid] = f"pod-{number}"
    return names


async def watch(client: ApiClient, seconds: float, pids: dict[str, int]) -> dict[str, Any]:
    """Read counters every half second for a while; return them by name as (time, value)."""
    clock = RealClock()
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in pids}
    allocated = []
    end = monotonic() + seconds
    while monotonic() < end:
        for name, pid in pids.items():
            found[name].append((clock.now(), cpu_s(pid)))
        allocated.append((clock.now(), float(memory(pids["holder"], "RssAnon"))))
        await asyncio.to_thread(threading.Event().wait, 0.5)
    report = await send(client, "GET", f"{METRICS}/here")
    return {"cpu": found, "allocated": allocated, "report": report}


def rate(series: list[tuple[float, float]], end: float, window_s: float) -> float:
    """Return the rate of a counter over a window."""
    inside = [one for one in series if end - window_s <= one[0] <= end]
    return (inside[-1][1] - inside[0][1]) / (inside[-1][0] - inside[0][0])


async def measure() -> dict[str, Any]:
    """Return the figures."""
    uids = [str(uuid4()) for _ in range(IDLE_PODS + 2)]
    with tempfile.TemporaryDirectory() as folder:
        store = new_store(RealClock(), with_crds=False)
        async with ApiServer(store) as server:
            account = service_account(Path(folder), server)
            kubeconfig = server.kubeconfig(Path(folder) / "kubeconfig")
            credentials = await Credentials.load(RealClock(), str(kubeconfig))
            client = ApiClient(credentials, clock=RealClock(), meters=Meters())
            names = await prepare(client, uids)
            command = [sys.executable, "-c", IN_POD.format(token=str(account / "token"))]
            command += ["agent", "load", "--node-name", "here"]
            address = urlsplit(server.url)
            inside = {
                "KUBERNETES_SERVICE_HOST": str(address.hostname),
                "KUBERNETES_SERVICE_PORT": str(address.port),
                "HOME": folder,
            }
            with (
                groups(uids),
                process(BURN, uids[0]) as burner,
                process(HOLD, uids[1]) as holder,
                # It starts before the loop has work.
                subprocess.Popen(command, env=os.environ | inside) as agent,  # noqa: ASYNC220
            ):
                try:
                    pids = {"burner": burner, "holder": holder, "agent": agent.pid}
                    seen = await watch(client, WINDOW_S + 30, pids)
                    peak = memory(agent.pid, "VmHWM")
                finally:
                    agent.terminate()
            await client.close()
    return result(seen, names, uids, peak)


def result(
    seen: dict[str, Any], names: dict[str, str], uids: list[str], peak: int
) -> dict[str, Any]:
    """Return the reported values beside the true ones."""
    status = seen["report"]["status"]
    end = parse_rfc3339(status["updateTime"]) or 0.0
    pods = {one["name"]: one["podUsage"]["resources"] for one in status["podsMetric"]}
    burned = rate(seen["cpu"]["burner"], end, WINDOW_S)
    reported = milli_quantity(pods[names[uids[0]]]["cpu"]) / 1000
    inside = [value for at, value in seen["allocated"] if end - WINDOW_S <= at <= end]
    allocated = sum(inside) / len(inside)
    figures = quantity(pods[names[uids[1]]]["memory"])
    agent = seen["cpu"]["agent"]
    return {
        "cpu": {"cores": burned, "reportedCores": reported, "error": reported / burned - 1},
        "memory": {"bytes": allocated, "reportedBytes": figures, "error": figures / allocated - 1},
        "agent": {
            "coreShare": rate(agent, agent[-1][0], WINDOW_S),
            "coreShareAtReference": rate(agent, agent[-1][0], WINDOW_S) * speed()["factor"],
            "peakMib": peak / 2**20,
            "pods": len(pods),
        },
        "goals": {"error": 0.05, "coreShare": 0.01, "peakMib": 60},
        "windowSeconds": WINDOW_S,
        "machine": machine(),
    }


if __name__ == "__main__":
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(asyncio.run(measure()))).decode())
