"""A cluster for the operators: an API server, sandbox or real, its state in memory, a client."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from operators.api import Connection
from operators.health import OperatorRecord, OperatorsHealth, State
from operators.run import run_operators
from operators.settings import OperatorsSettings
from scheduler.base.clock import RealClock
from scheduler.base.meters import Meters
from scheduler.kube.connection.client import ApiClient
from scheduler.kube.connection.credentials import Credentials
from scheduler.objects.node import Node, NodeMeta
from scheduler.sandbox.api.server import ApiServer
from scheduler.sandbox.kinds.kinds import RELEASES
from scheduler.sandbox.start import new_store
from scheduler.state.cluster import Cluster
from scheduler.state.view import LiveView
from tests.apiserver.patience import PATIENCE_S, asked
from tests.apiserver.realcluster import start_cluster

CRDS = Path(__file__).parents[2] / "crds"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEFINITION = f"{DEFINITIONS}/networktopologies.networktopology.diktyo.x-k8s.io"
KIND = "/apis/networktopology.diktyo.x-k8s.io/v1alpha1"
TOPOLOGIES = f"{KIND}/namespaces/default/networktopologies"

Json = dict[str, Any]

SETTINGS = OperatorsSettings(
    enabled=("networktopology",),
    status_interval_s=0.1,
    definition_poll_s=0.1,
    definition_check_s=0.2,
    restart_first_s=0.05,
    restart_limit_s=0.1,
)


def definition(*, legacy: bool = False) -> Json:
    """Return our CRD, or one as older clusters have it: no status subresource, few fields."""
    found: Json = yaml.safe_load((CRDS / "networktopologies.yaml").read_text())
    if legacy:
        version = found["spec"]["versions"][0]
        del version["subresources"]
        del version["additionalPrinterColumns"]
        status = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
        for field in set(status) - {"nodeCount", "weightCalculationTime"}:
            del status[field]
    return found


def topology(name: str = "nt-default", cost: int = 5) -> Json:
    zone = {"origin": "Z1", "costList": [{"destination": "Z2", "networkCost": cost}]}
    lists = [{"topologyKey": "topology.kubernetes.io/zone", "originList": [zone]}]
    return {
        "apiVersion": "networktopology.diktyo.x-k8s.io/v1alpha1",
        "kind": "NetworkTopology",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "configmapName": "netperf-metrics",
            "weights": [{"name": "UserDefined", "topologyList": lists}],
        },
    }


class NotingHealth(OperatorsHealth):
    """Health that a test can wait for."""

    def __init__(self) -> None:
        super().__init__(Meters(), RealClock())
        self.states: list[str] = []
        self._changed = asyncio.Event()

    def _put(self, before: OperatorRecord, **changes: Any) -> None:
        super()._put(before, **changes)
        self._tell()

    def enter(self, name: str, state: State) -> None:
        super().enter(name, state)
        self._tell()

    def _tell(self) -> None:
        state = next(iter(self.records.values())).state
        if [state] != self.states[-1:]:
            self.states.append(state)
        self._changed.set()

    async def wait_for(self, state: str, restarts: int | None = None) -> OperatorRecord:
        """Wait until the one operator is in a state, and has restarted that often."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                self._changed.clear()
                record = next(iter(self.records.values()), None)
                if record and record.state == state and restarts in (None, record.restarts):
                    return record
                await self._changed.wait()


class LiveCluster:
    """An API server, the state of its cluster in memory, and the operators between them."""

    def __init__(self, client: ApiClient, credentials: Credentials) -> None:
        self.client = client
        self.credentials = credentials
        self.state = Cluster()
        self.view = LiveView(self.state)
        self.health = NotingHealth()

    @asynccontextmanager
    async def operators(self, settings: OperatorsSettings = SETTINGS) -> AsyncIterator[None]:
        """Run the operators until the block ends."""
        connection = Connection(self.client, self.credentials)
        task = asyncio.create_task(
            run_operators(settings, self.view, connection, self.health, RealClock())
        )
        try:
            yield
        finally:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    def nodes(self, *names: str) -> None:
        """Make these the nodes of the cluster."""
        before = set(self.state.table.rows)
        for name in before - set(names):
            self.view.note(self.state.drop_node(name))
        for name in set(names) - before:
            self.view.note(self.state.put_node(Node(metadata=NodeMeta(name=name))))
        self.view.flush()

    async def send(self, method: str, path: str, body: Json | None = None, **more: Any) -> Json:
        data = json.dumps(body).encode() if body is not None else b""
        response = await self.client.request(method, path, data, **more)
        assert response.ok, f"{method} {path}: {response.code} {response.message}"
        answer: Json = json.loads(response.body)
        return answer

    async def define(self, **how: Any) -> None:
        """Create the CRD and wait until its objects can be listed."""
        await self.send("POST", DEFINITIONS, definition(**how))
        await self.wait_served(here=True)

    async def wait_served(self, *, here: bool) -> None:
        await until_ok(self.client, TOPOLOGIES, ok=here)

    async def change_spec(self) -> None:
        """List a link twice, which raises the generation."""
        await self.send(
            "PATCH",
            f"{TOPOLOGIES}/nt-default",
            {"spec": {"weights": topology(cost=7)["spec"]["weights"] * 2}},
            content_type="application/merge-patch+json",
        )

    async def create(self, name: str = "nt-default") -> Json:
        return await self.send("POST", TOPOLOGIES, topology(name))


class Seen:
    """The versions of an object as a watch shows them."""

    def __init__(self, cluster: LiveCluster, name: str) -> None:
        self._cluster = cluster
        self._path = f"{TOPOLOGIES}?watch=true&fieldSelector=metadata.name%3D{name}"
        self.versions: list[Json] = []
        self._from_start = True

    async def until(self, holds: Callable[[Json], Any]) -> Json:
        """Watch until a version satisfies, and return it."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                async with aclosing(self._watch()) as versions:
                    async for version in versions:
                        self.versions.append(version)
                        if holds(version):
                            return version
                # Asked again at once: the request itself is what takes the time.

    async def _watch(self) -> AsyncGenerator[Json, None]:
        """Yield versions until the server ends the watch, as it does when a definition changes."""
        known = self.versions and not self._from_start
        last = self.versions[-1]["metadata"]["resourceVersion"] if known else "0"
        self._from_start = False
        # Asked for anew now and then: while a definition changes, a watch may be left hanging.
        path, rest = f"{self._path}&timeoutSeconds=5&resourceVersion={last}", b""
        async with self._cluster.client.stream(path, silence_s=PATIENCE_S) as stream:
            while chunk := await stream.read():
                *lines, rest = (rest + chunk).split(b"\n")
                for event in map(json.loads, lines):
                    if event["type"] == "ERROR":
                        self._from_start = True
                        return
                    yield event["object"]


async def until_ok(client: ApiClient, path: str, *, ok: bool = True) -> None:
    """Repeat a request until it succeeds, or no longer succeeds."""
    await asked(lambda: client.request("GET", path), lambda response: response.ok == ok, path)


def count_is(count: int) -> Callable[[Json], bool]:
    return lambda one: one.get("status", {}).get("nodeCount") == count


@asynccontextmanager
async def sandbox(tmp_path: Path, release: str = RELEASES[0]) -> AsyncIterator[Path]:
    store = new_store(RealClock(), with_crds=False, release=release)
    async with ApiServer(store) as server:
        yield server.kubeconfig(tmp_path / "kubeconfig")


@asynccontextmanager
async def real(tmp_path: Path) -> AsyncIterator[Path]:
    with start_cluster(name="operators") as cluster:
        yield cluster.kubeconfig


@asynccontextmanager
async def open_cluster(kind: str, tmp_path: Path) -> AsyncIterator[LiveCluster]:
    """Open a cluster on a new server, "sandbox" or "real", without definitions."""
    async with {"sandbox": sandbox, "real": real}[kind](tmp_path) as kubeconfig:
        clock = RealClock()
        credentials = await Credentials.load(clock, str(kubeconfig))
        client = ApiClient(credentials, clock=clock, meters=Meters())
        yield LiveCluster(client, credentials)
        await client.close()


SERVERS = ("sandbox", pytest.param("real", marks=pytest.mark.real))
