"""A cluster with everything that Trellis measures, and the daemon, run as the chart defines.

Used by the test of alerts and dashboards, and by docs/generate/dashboard_pictures.py. The sandbox
is in this process; the daemon is a separate one and reaches it through a wire that can be cut.
"""

import asyncio
import itertools
import json
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import yaml

from scheduler.base.clock import RealClock, rfc3339
from scheduler.sandbox.nodes.shape import shape_of
from scheduler.sandbox.sandbox import Sandbox, SandboxOptions
from scheduler.serve.certificates import self_signed
from tests.apiserver.processes import Program, free_ports, running
from tests.chart.test_chart import render
from tests.e2e.livecluster import LiveCluster, answers, entered
from tests.monitoring.prometheus import Prometheus, prometheus

Json = dict[str, Any]
DAY_S = 86400.0
DRIVER = "gpu.example.com"
SHAPE = {
    "apiVersion": "trellis.dev/v1alpha1",
    "kind": "ClusterShape",
    "nodes": [
        {
            "name": "node-{index:02}",
            "count": 18,
            "cpu": 16,
            "memory": "64Gi",
            "zones": ["zone-a", "zone-b", "zone-c"],
            "nodesPerRack": 2,
            "devices": [{"driver": DRIVER, "count": 4}],
            "labels": {"pool": "general"},
            "annotations": {"trellis.dev/simulate-load": "cpu=15% memory=10% use=60% every=1s"},
        },
        {
            "name": "stage-0",
            "count": 1,
            "cpu": 16,
            "memory": "64Gi",
            "labels": {"pool": "stage"},
            "annotations": {"trellis.dev/simulate-load": "cpu=2% memory=2% use=5% every=1s"},
        },
        {
            "name": "numa-{index}",
            "count": 3,
            "cpu": 16,
            "memory": "64Gi",
            "labels": {"pool": "numa"},
            "taints": [{"key": "pool", "value": "numa", "effect": "NoSchedule"}],
            "annotations": {
                "trellis.dev/simulate-load": "cpu=5% memory=5% every=1s",
                "trellis.dev/simulate-numa": "zones=4 policy=single-numa-node scope=pod "
                "report-after=25s",
            },
        },
        {
            "name": "dead-0",
            "count": 1,
            "cpu": 4,
            "labels": {"pool": "dead"},
            "annotations": {"trellis.dev/simulate-stopped": "true"},
        },
    ],
}
# A third-party plugin that violates invariants, offered as packages offer theirs.
MOODY = '''
"""Raises for pods with a mood."""

from scheduler.framework import Plugin


class Moody(Plugin):
    """Raises for pods with a mood."""

    reads = ("self.labels",)

    def filter(self, cycle, nodes):
        """Raise for a pod with a mood."""
        if "mood" in cycle.pod.metadata.labels:
            raise RuntimeError("not in the mood")
'''
VALUES = (
    "fullnameOverride=trellis",
    "serviceMonitor.enabled=true",
    "prometheusRule.enabled=true",
    "grafanaDashboard.enabled=true",
    "agents.load.enabled=true",
)
DEADLINE_S = 60.0
DEFAULT = "/api/v1/namespaces/default"
GROUP = "group-"
TOPOLOGIES = "/apis/networktopology.diktyo.x-k8s.io/v1alpha1/namespaces/default/networktopologies"
APPLICATIONS = "/apis/appgroup.diktyo.x-k8s.io/v1alpha1/namespaces/default/appgroups"
DEVICES = "/apis/resource.k8s.io/v1"
ROLES = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNT_KINDS = {
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "ClusterRole": f"{ROLES}/clusterroles",
    "ClusterRoleBinding": f"{ROLES}/clusterrolebindings",
    "Role": f"{ROLES}/namespaces/{{}}/roles",
    "RoleBinding": f"{ROLES}/namespaces/{{}}/rolebindings",
}
MERGE = {"Content-Type": "application/merge-patch+json"}
CLAIMED = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
PACKED = {"rack": {"type": "pack"}}


class Wire:
    """A connection to the API server that can be cut."""

    def __init__(self, host: str, port: int) -> None:
        self._there = (host, port)
        self._open: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def listen(self) -> int:
        """Start listening; return the port."""
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def cut(self) -> None:
        """Break all connections; new ones are accepted."""
        for writer in self._open:
            writer.transport.abort()

    async def close(self) -> None:
        """Close all connections."""
        assert self._server is not None
        self._server.close()
        self.cut()
        await self._server.wait_closed()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            back, forth = await asyncio.open_connection(*self._there)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, forth}
        try:
            await asyncio.gather(_copy(reader, forth), _copy(back, writer))
        finally:
            self._open -= {writer, forth}
            for one in (writer, forth):
                one.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.transport.abort()


class Watched:
    """The cluster, the watched daemon, and its observers."""

    def __init__(self, cluster: LiveCluster, folder: Path, wire: Wire, chart: list[Json]) -> None:
        self.cluster = cluster
        self.folder = folder
        self.wire = wire
        self.port = free_ports(1)[0]
        self.config = folder / "config.yaml"
        self.certificate = (folder / "tls.crt", folder / "tls.key")
        self._chart = chart
        self._stack = ExitStack()
        self._program: Program | None = None
        self._numbers = itertools.count()

    def rendered(self, kind: str) -> list[Json]:
        """Return the chart's objects of a kind."""
        return [one for one in self._chart if one["kind"] == kind]

    def dashboards(self) -> dict[str, Json]:
        """Return the dashboards as their ConfigMaps have them."""
        maps = [
            one["data"] for one in self.rendered("ConfigMap") if "config.yaml" not in one["data"]
        ]
        return {name: json.loads(text) for data in maps for name, text in data.items()}

    # The daemon

    @property
    def pid(self) -> int:
        """Return the daemon's process."""
        assert self._program is not None
        return self._program.pid

    async def start(self) -> None:
        """Start the daemon as the Deployment does."""
        self._program = self._stack.enter_context(self.daemon(self.config, self.port))
        await self.until(lambda: answers(f"https://127.0.0.1:{self.port}/livez"))

    async def stop(self) -> None:
        """End the daemon, while its API server in this process continues."""
        if self._program is not None:
            await asyncio.to_thread(self._program.stop)
        self._stack.close()

    @contextmanager
    def daemon(self, config: Path, port: int) -> Iterator[Program]:
        """Run a daemon."""
        certificate, key = self.certificate
        words = ["run", "--config", config, "--bind-address", "127.0.0.1", "--secure-port", port]
        words += ["--tls-cert-file", certificate, "--tls-private-key-file", key]
        environment = {
            "KUBECONFIG": str(self.folder / "through-the-wire"),
            "POD_NAMESPACE": "default",
            "PYTHONPATH": os.pathsep.join(
                (str(self.folder / "site"), os.environ.get("PYTHONPATH", ""))
            ),
        }
        command = [sys.executable, "-m", "scheduler.cli.main", *map(str, words)]
        with running(
            "trellis", command, self.folder / f"daemon-{port}.log", environment
        ) as program:
            yield program

    def signal(self, number: signal.Signals, pid: int | None = None) -> None:
        """Send a signal to the daemon, or to one of its children."""
        os.kill(self.pid if pid is None else pid, number)

    def helpers(self) -> list[int]:
        """Return the daemon's child processes: that of the solver, while it runs."""
        path = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        return [int(word) for word in path.read_text().split()] if path.exists() else []

    def certify(self, days: float) -> None:
        """Install a certificate that expires in this many days."""
        pair = self_signed(("localhost",), RealClock().now() - (365 - days) * DAY_S)
        for file, content in zip(self.certificate, pair, strict=True):
            file.write_bytes(content)

    # The cluster

    async def send(self, method: str, path: str, body: Any = None, **more: Any) -> Json:
        """Send a request to the API server, not through the wire."""
        async with self.cluster.session.request(
            method, self.cluster.url + path, json=body, **more
        ) as answer:
            text = await answer.text()
        assert answer.status < 300 or (method == "DELETE" and answer.status == 404), text
        found: Json = json.loads(text)
        return found

    async def pods(self, count: int, **how: Any) -> list[str]:
        """Create pods; return their names."""
        bodies = [pod(f"p{next(self._numbers)}", **how) for _ in range(count)]
        await asyncio.gather(*(self.send("POST", f"{DEFAULT}/pods", one) for one in bodies))
        return [one["metadata"]["name"] for one in bodies]

    async def group(self, size: int, rules: Json | None = None, **how: Any) -> list[str]:
        """Create a group with its members; return their names and its own."""
        name = f"{GROUP}{next(self._numbers)}"
        data = {"name": name, "size": str(size), "constraints": json.dumps(rules or PACKED)}
        meta = {"name": name, "labels": {"sakkara.group": ""}}
        await self.send("POST", f"{DEFAULT}/configmaps", {"metadata": meta, "data": data})
        return [*await self.pods(size, labels={"sakkara.group.name": name}, **how), name]

    async def measured(self, hours_ago: float) -> None:
        """Set the time of the network's cost calculation to the past."""
        at = rfc3339(RealClock().now() - 3600 * hours_ago)
        path = f"{TOPOLOGIES}/nt-default/status"
        await self.send("PATCH", path, {"status": {"weightCalculationTime": at}}, headers=MERGE)

    async def delete(self, names: list[str]) -> None:
        """Delete pods and descriptions of groups."""
        for name in names:
            kind = "configmaps" if name.startswith(GROUP) else "pods"
            await self.send("DELETE", f"{DEFAULT}/{kind}/{name}?gracePeriodSeconds=0")

    async def until(
        self, holds: Callable[[], Awaitable[bool]], limit_s: float = DEADLINE_S
    ) -> None:
        """Wait for a condition, checking it at an interval."""
        async with asyncio.timeout(limit_s):
            while not await holds():
                await pause(0.2)


async def pause(seconds: float) -> None:
    """Sleep in real time, for the processes of the test."""
    await asyncio.to_thread(threading.Event().wait, seconds)


def pod(
    name: str,
    *,
    cpu: str = "100m",
    memory: str = "64Mi",
    scheduler: str = "trellis",
    labels: dict[str, str] | None = None,
    limits: Json | None = None,
    **spec: Any,
) -> Json:
    """Return a pod; with `limits` it is guaranteed."""
    resources: Json = {"requests": {"cpu": cpu, "memory": memory}}
    if limits:
        resources = {"requests": limits, "limits": limits}
    container = {"name": "main", "image": "registry.example/app:1", "resources": resources}
    whole = {"schedulerName": scheduler, "containers": [container], **spec}
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": whole}


@asynccontextmanager
async def watched(folder: Path) -> AsyncIterator[tuple[Watched, Prometheus]]:
    """Set up the cluster; the daemon is not started yet."""
    async with (
        Sandbox(SandboxOptions(shape=shape_of(SHAPE), kubeconfig=folder / "kubeconfig")) as _,
        entered(folder / "kubeconfig") as cluster,
    ):
        wire = Wire("127.0.0.1", int(cluster.url.rpartition(":")[2]))
        try:
            one = Watched(cluster, folder, wire, render(*VALUES))
            _write_files(one, await wire.listen())
            await _furnish(one)
            await _enrol(one)
            (monitor,), (rules,) = (
                one.rendered("ServiceMonitor"),
                one.rendered("PrometheusRule"),
            )
            token = cluster.session.headers["Authorization"].removeprefix("Bearer ")
            with prometheus(folder, monitor, rules, f"127.0.0.1:{one.port}", token) as watcher:
                try:
                    yield one, watcher
                finally:
                    await one.stop()
        finally:
            await wire.close()


def _write_files(one: Watched, port: int) -> None:
    text = (one.folder / "kubeconfig").read_text()
    (one.folder / "through-the-wire").write_text(
        text.replace(one.cluster.url, f"https://127.0.0.1:{port}")
    )
    one.config.write_text(configuration(one))
    one.certify(300)
    offered = one.folder / "site" / "moody-1.dist-info"
    offered.mkdir(parents=True)
    (offered / "METADATA").write_text("Metadata-Version: 2.1\nName: moody\nVersion: 1\n")
    (offered / "entry_points.txt").write_text("[trellis.plugins]\nMoody = moody:Moody\n")
    (offered.parent / "moody.py").write_text(MOODY)


async def _enrol(one: Watched) -> None:
    """Give the daemon the account and the roles of the chart, and no others."""
    for kind, plural in ACCOUNT_KINDS.items():
        for each in one.rendered(kind):
            if "agent" not in each["metadata"]["name"]:
                await one.send("POST", plural.format("sys"), each)
    (account,) = (
        each["metadata"]["name"]
        for each in one.rendered("ServiceAccount")
        if "agent" not in each["metadata"]["name"]
    )
    path = f"{ACCOUNT_KINDS['ServiceAccount']}/{{}}/token".format("sys", account)
    token = (await one.send("POST", path, {"spec": {}}))["status"]["token"]
    file = one.folder / "through-the-wire"
    config = yaml.safe_load(file.read_text())
    config["users"][0]["user"] = {"token": token}
    file.write_text(yaml.safe_dump(config))


def configuration(one: Watched) -> str:
    """Return the chart's configuration in a hurry, with a second profile, a plugin and an
    extender.
    """
    (text,) = (
        each["data"]["config.yaml"]
        for each in one.rendered("ConfigMap")
        if "config.yaml" in each["data"]
    )
    kube, ours = yaml.safe_load_all(text)
    (profile,) = kube["profiles"]
    profile["plugins"]["multiPoint"]["enabled"].append({"name": "Moody"})
    profile.setdefault("pluginConfig", []).extend(
        [
            {"name": "LoadAwareScheduling", "args": {"nodeMetricExpirationSeconds": 6}},
            {"name": "NodeResourceTopologyMatch", "args": {"cacheResyncPeriodSeconds": 2}},
        ]
    )
    for each in profile["pluginConfig"]:
        if each["name"] == "NetworkOverhead":
            each["args"]["weightsName"] = "NetperfCosts"
    hasty = json.loads(json.dumps(profile)) | {"schedulerName": "hasty"}
    hasty["pluginConfig"].append(
        {
            "name": "ClusterTopologyPlacementGroup",
            "args": {"solver": "CPSAT", "solverTimeLimitSeconds": 0.001},
        }
    )
    kube["profiles"].append(hasty)
    (dead,) = free_ports(1)
    kube["extenders"] = [
        {
            "urlPrefix": f"http://127.0.0.1:{dead}",
            "filterVerb": "filter",
            "managedResources": [{"name": "example.com/device", "ignoredByScheduler": True}],
        }
    ]
    spec = {"schedulerName": "trellis", "containers": [{"name": "main", "image": "main"}]}
    shape = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "small"}, "spec": spec}
    shapes = [{"name": "small", "manifest": yaml.safe_dump(shape)}]
    ours["capacity"] = {"intervalSeconds": 5, "shapes": shapes}
    return yaml.safe_dump_all([kube, ours])


async def _furnish(one: Watched) -> None:
    """Create the objects that placement reads: a network with an application, a PriorityClass, a
    DeviceClass.
    """
    zones = [f"zone-{letter}" for letter in "abc"]
    costs = [
        {
            "origin": here,
            "costList": [
                {"destination": there, "networkCost": 5} for there in zones if there != here
            ],
        }
        for here in zones
    ]
    lists = [{"topologyKey": "topology.kubernetes.io/zone", "originList": costs}]
    spec: Json = {
        "configmapName": "none",
        "weights": [{"name": "UserDefined", "topologyList": lists}],
    }
    spec["timeRangeInMinutes"] = 600  # the costs calculated two hours ago have not expired
    await one.send("POST", TOPOLOGIES, {"metadata": {"name": "nt-default"}, "spec": spec})
    await one.measured(0)
    front, back = (
        {"kind": "Deployment", "apiVersion": "apps/v1", "name": name, "selector": name}
        for name in ("front", "back")
    )
    workloads = [{"workload": front, "dependencies": [{"workload": back}]}, {"workload": back}]
    shop = {"numMembers": 2, "topologySortingAlgorithm": "KahnSort", "workloads": workloads}
    await one.send("POST", APPLICATIONS, {"metadata": {"name": "shop"}, "spec": shop})
    tree: dict[str, Json] = {"stage": {"stage-0": {}}}
    for number in range(18):
        tree.setdefault(f"rack-{number // 3}", {})[f"node-{number:02}"] = {}
    data = {"level-names": '["rack", "node"]', "tree": json.dumps(tree), "name": "tree"}
    meta = {"name": "tree", "labels": {"sakkara.topology": ""}}
    await one.send("POST", f"{DEFAULT}/configmaps", {"metadata": meta, "data": data})
    await one.send("POST", "/api/v1/namespaces", {"metadata": {"name": "sys"}})
    urgent = {"metadata": {"name": "urgent"}, "value": 1000}
    await one.send("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", urgent)
    chosen = {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}
    await one.send(
        "POST", f"{DEVICES}/deviceclasses", {"metadata": {"name": "gpu"}, "spec": chosen}
    )
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    template = {"metadata": {"name": "gpu"}, "spec": {"spec": {"devices": {"requests": [request]}}}}
    await one.send("POST", f"{DEVICES}/namespaces/default/resourceclaimtemplates", template)
