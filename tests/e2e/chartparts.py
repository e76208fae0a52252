"""What takes the rights that the usual run of a profile does without: measurements, NodeMetrics, agents."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from operators.agents.load.agent import SOURCE
from operators.nodemetric.figures import SOURCE_ANNOTATION
from tests.apiserver.processes import free_ports
from tests.e2e.chartworld import RELEASE, Json, Server

NETWORK = "/apis/networktopology.diktyo.x-k8s.io/v1alpha1/namespaces/default/networktopologies"
SLICES = "/apis/trellis.dev/v1alpha1/namespaces/default/networktopologyslices"
MAPS = "/api/v1/namespaces/default/configmaps"
METRICS = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"


async def measured(server: Server) -> None:
    """Measured costs between nodes are published, follow the measurement, and go with it."""
    await server.post(MAPS, _latencies(100))
    topology = {
        "apiVersion": "networktopology.diktyo.x-k8s.io/v1alpha1",
        "kind": "NetworkTopology",
        "metadata": {"name": "measured", "namespace": "default"},
        "spec": {"configmapName": "latencies"},
    }
    await server.post(NETWORK, topology)
    first = await server.until(SLICES, lambda found: found["items"])
    await server.patch(f"{MAPS}/latencies", _latencies(9000))
    # A changed object is measured at once.
    await server.patch(f"{NETWORK}/measured", {"spec": {"freqUpdate": 7}})
    await server.until(SLICES, lambda found: _origins(found) != _origins(first))
    await server.patch(f"{NETWORK}/measured", {"spec": {"configmapName": None}})
    await server.until(SLICES, lambda found: not found["items"])


def _origins(slices: Json) -> list[Any]:
    return [one["origins"] for one in slices["items"]]


def _latencies(microseconds: int) -> Json:
    key = "netperf_p90_latency_microseconds.origin.node-0.destination.node-{}"
    data = {key.format(number): str(microseconds * number) for number in range(1, 6)}
    return {"metadata": {"name": "latencies", "namespace": "default"}, "data": data}


async def metrics_come_and_go(server: Server) -> None:
    """A NodeMetric is made for each node, set right when it says something else, and not without a node."""
    path = f"{METRICS}/node-0"
    await server.until(METRICS, lambda found: "node-0" in _names(found))
    wanted = (await server.get(path))["spec"]
    policy = {"metricCollectPolicy": {"reportIntervalSeconds": 7}}
    await server.patch(path, {"spec": policy})
    await server.until(path, lambda found: found["spec"] == wanted)
    kind = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric"}
    await server.post(METRICS, kind | {"metadata": {"name": "nobody"}, "spec": {}})
    await server.until(METRICS, lambda found: "nobody" not in _names(found))


def _source(found: Json) -> str:
    return str(found["metadata"].get("annotations", {}).get(SOURCE_ANNOTATION, ""))


def _names(found: Json) -> list[str]:
    return [one["metadata"]["name"] for one in found["items"]]


async def load_agent(server: Server) -> None:
    """The agent of a node reports into its NodeMetric."""
    spec = await server.template("daemonsets", f"{RELEASE}-load-agent")
    group = server.folder / "cgroup"
    group.mkdir()
    (group / "cgroup.controllers").write_text("cpu memory\n")
    places = {"/host/proc": "/proc", "/host/cgroup": str(group)}
    async with server.program(spec, "--sample-seconds", "0.2", places=places, node="node-5"):
        await server.until(f"{METRICS}/node-5", lambda found: SOURCE == _source(found))


async def bandwidth_agent(server: Server) -> None:
    """The agent of a node advertises the speed of its link."""
    spec = await server.template("daemonsets", f"{RELEASE}-bandwidth-agent")
    card = server.folder / "sys" / "class" / "net" / "eth0"
    (card / "device").mkdir(parents=True)
    (card / "operstate").write_text("up\n")
    (card / "speed").write_text("1000\n")
    more = ("--sysfs", str(server.folder / "sys"), "--interface", "eth0")
    resource = "network.aware.com/bandwidth"
    async with server.program(spec, *more, places={}, node="node-5"):
        path = "/api/v1/nodes/node-5"
        await server.until(path, lambda found: resource in found["status"]["allocatable"])


@asynccontextmanager
async def netperf_agent(server: Server) -> AsyncIterator[None]:
    """Run the agent of a node, which looks who the others are: nobody."""
    spec = await server.template("daemonsets", f"{RELEASE}-netperf-agent")
    (server.folder / "key").write_text("0123456789abcdef" * 2)
    port, metrics = free_ports(2)
    more = ("--port", str(port), "--metrics-port", str(metrics), "--bind-address", "127.0.0.1")
    places = {"/etc/trellis-netperf": str(server.folder)}
    async with server.program(spec, *more, places=places, node="node-5"):
        yield
