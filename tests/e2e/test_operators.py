"""The operators against an API server: the sandbox in the default suite, the real one as well."""

import asyncio
import json
import os
import signal
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
from scheduler.kube.client import ApiClient
from scheduler.kube.credentials import Credentials
from scheduler.objects.meta import ObjectMeta
from scheduler.objects.node import Node
from scheduler.sandbox.server import ApiServer
from scheduler.sandbox.start import new_store
from scheduler.state.cluster import Cluster
from scheduler.state.view import LiveView
from tests.apiserver.realcluster import start_cluster

LIMIT_S = 20.0
CRDS = Path(__file__).parents[2] / "crds"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEFINITION = f"{DEFINITIONS}/networktopologies.networktopology.diktyo.x-k8s.io"
KIND = "/apis/networktopology.diktyo.x-k8s.io/v1alpha1"
TOPOLOGIES = f"{KIND}/namespaces/default/networktopologies"

Json = dict[str, Any]

# The sandbox and kubernetes-asyncio read files now and then; that is for their own tests.
pytestmark = pytest.mark.allow_blocking("servers and clients are set up on the test's loop")

SETTINGS = OperatorsSettings(
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
        self._told = asyncio.Event()

    def _put(self, before: OperatorRecord, **changes: Any) -> None:
        super()._put(before, **changes)
        self._tell()

    def enter(self, name: str, state: State) -> None:
        super().enter(name, state)
        self._tell()

    def _tell(self) -> None:
        state = self.statistics()[0].state
        if [state] != self.states[-1:]:
            self.states.append(state)
        self._told.set()

    async def wait_for(self, state: str, restarts: int | None = None) -> OperatorRecord:
        """Wait until the one operator is in a state, and has restarted that often."""
        async with asyncio.timeout(LIMIT_S):
            while True:
                self._told.clear()
                record = next(iter(self.statistics()), None)
                if record and record.state == state and restarts in (None, record.restarts):
                    return record
                await self._told.wait()


class World:
    """An API server, the cluster in memory, and the operators between them."""

    def __init__(self, client: ApiClient, credentials: Credentials) -> None:
        self.client = client
        self.credentials = credentials
        self.cluster = Cluster()
        self.view = LiveView(self.cluster)
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
        before = set(self.cluster.table.rows)
        for name in before - set(names):
            self.view.note(self.cluster.drop_node(name))
        for name in set(names) - before:
            self.view.note(self.cluster.put_node(Node(metadata=ObjectMeta(name=name))))
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
        async with asyncio.timeout(LIMIT_S):
            while (await self.client.request("GET", TOPOLOGIES)).ok != here:
                await before_asking_again()

    async def change_spec(self) -> None:
        """List a way twice, which is a new generation."""
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

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._path = f"{TOPOLOGIES}?watch=true&fieldSelector=metadata.name%3D{name}"
        self.versions: list[Json] = []
        self._from_start = True

    async def until(self, holds: Callable[[Json], Any]) -> Json:
        """Watch until a version satisfies, and return it."""
        async with asyncio.timeout(LIMIT_S):
            while True:
                async with aclosing(self._watch()) as versions:
                    async for version in versions:
                        self.versions.append(version)
                        if holds(version):
                            return version
                await before_asking_again()

    async def _watch(self) -> AsyncGenerator[Json, None]:
        """Yield versions until the server ends the watch, as it does when a definition changes."""
        known = self.versions and not self._from_start
        last = self.versions[-1]["metadata"]["resourceVersion"] if known else "0"
        self._from_start = False
        path, rest = f"{self._path}&resourceVersion={last}", b""
        async with self._world.client.stream(path, silence_s=LIMIT_S) as stream:
            while chunk := await stream.read():
                *lines, rest = (rest + chunk).split(b"\n")
                for event in map(json.loads, lines):
                    if event["type"] == "ERROR":
                        self._from_start = True
                        return
                    yield event["object"]


async def before_asking_again() -> None:
    """Wait a moment where a server can only be asked again, always below a deadline."""
    await asyncio.sleep(0.05)


def count_is(count: int) -> Callable[[Json], bool]:
    return lambda one: one.get("status", {}).get("nodeCount") == count


@asynccontextmanager
async def sandbox(tmp_path: Path) -> AsyncIterator[Path]:
    store = new_store(RealClock(), with_crds=False)
    async with ApiServer(store) as server:
        yield server.kubeconfig(tmp_path / "kubeconfig")


@asynccontextmanager
async def real(tmp_path: Path) -> AsyncIterator[Path]:
    with start_cluster(name="operators") as cluster:
        yield cluster.kubeconfig


@pytest.fixture(params=["sandbox", pytest.param("real", marks=pytest.mark.real)])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    async with {"sandbox": sandbox, "real": real}[request.param](tmp_path) as kubeconfig:
        clock = RealClock()
        credentials = await Credentials.load(clock, str(kubeconfig))
        client = ApiClient(credentials, clock=clock, meters=Meters())
        yield World(client, credentials)
        await client.close()


async def test_the_status_follows_the_nodes(world: World):
    """The kind is waited for in peace; then nodes, spec and status stay in step, and nothing else."""
    world.nodes("n1", "n2")
    async with world.operators():
        await world.health.wait_for("waiting")
        assert world.health.healthy()
        await world.define()
        await world.health.wait_for("running")
        created = await world.create()
        seen = Seen(world, "nt-default")
        first = await seen.until(count_is(2))
        world.nodes("n1", "n2", "n3")
        await seen.until(count_is(3))
        world.nodes("n3")
        await seen.until(count_is(1))
        await world.change_spec()
        last = await seen.until(lambda one: one["status"].get("observedGeneration") == 2)

    assert created["metadata"]["generation"] == first["status"]["observedGeneration"] == 1
    assert ("Ready", "True") == tuple(
        first["status"]["conditions"][0][k] for k in ("type", "status")
    )
    assert "ListedTwice" == last["status"]["conditions"][0]["reason"]
    assert not {"finalizers", "annotations"} & set(last["metadata"])
    (record,) = world.health.statistics()
    assert ("stopped", 0, "") == (record.state, record.restarts, record.last_error)


async def test_a_crash_of_kopf_stays_its_own(world: World):
    """It starts again and serves on; our signals, our tasks and the loop never notice."""
    loop = asyncio.get_running_loop()
    terminated, ours = asyncio.Event(), asyncio.create_task(asyncio.Event().wait())
    loop.add_signal_handler(signal.SIGTERM, terminated.set)
    interrupt = signal.getsignal(signal.SIGINT)
    try:
        await world.define()
        await world.create()
        seen = Seen(world, "nt-default")
        async with world.operators():
            world.nodes("n1")
            await seen.until(count_is(1))
            for restarts, name in enumerate(("resource observer", "multidimensional"), start=1):
                victim = next(t for t in asyncio.all_tasks() if t.get_name().startswith(name))
                victim.cancel()
                await world.health.wait_for("running", restarts)
                world.nodes(*(f"n{number}" for number in range(restarts + 1)))
                await seen.until(count_is(restarts + 1))
            assert "ended without an error" in world.health.statistics()[0].last_error
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.wait_for(terminated.wait(), LIMIT_S)
            assert not ours.done()
            assert interrupt == signal.getsignal(signal.SIGINT)
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        ours.cancel()
    again = ["down", "starting", "running"]
    assert ["starting", "running", *again, *again, "stopped"] == world.health.states


async def test_churn_is_few_writes(world: World):
    """However fast nodes come and go, the status is written once per interval, and ends right."""
    churn_s, interval_s, step_s = 1.0, 0.3, 0.005
    loop = asyncio.get_running_loop()
    await world.define()
    await world.create()
    seen = Seen(world, "nt-default")
    settings = OperatorsSettings(status_interval_s=interval_s, definition_poll_s=0.1)
    async with world.operators(settings):
        await seen.until(count_is(0))
        before, end, changes = len(seen.versions), loop.time() + churn_s, 0

        def step() -> None:
            nonlocal changes
            changes += 1
            world.nodes(*(f"n{number}" for number in range(1 + changes % 2)))
            if loop.time() < end:
                loop.call_later(step_s, step)
            else:
                world.nodes(*(f"n{number}" for number in range(7)))

        step()
        await seen.until(count_is(7))

    assert changes > 50
    assert len(seen.versions) - before <= churn_s / interval_s + 2


async def test_an_older_definition_is_served(world: World):
    """Without status subresource the count alone is written; a newer definition is noticed."""
    await world.define(legacy=True)
    await world.create()
    world.nodes("n1", "n2")
    seen = Seen(world, "nt-default")
    async with world.operators():
        old = await seen.until(count_is(2))
        world.nodes("n1")
        await seen.until(count_is(1))
        found = await world.send("GET", DEFINITION)
        found["spec"] = definition()["spec"]
        await world.send("PUT", DEFINITION, found)
        await seen.until(lambda one: one["status"].get("observedGeneration"))

    assert {"nodeCount": 2} == old["status"]


async def test_a_definition_that_goes_is_no_crash(world: World):
    """The operator waits for it again, and serves it when it is back."""
    await world.define()
    await world.create()
    world.nodes("n1")
    async with world.operators():
        await Seen(world, "nt-default").until(count_is(1))
        await world.send("DELETE", DEFINITION)
        await world.wait_served(here=False)
        await world.health.wait_for("waiting")
        await world.define()
        await world.create()
        await Seen(world, "nt-default").until(count_is(1))

    assert 0 == world.health.statistics()[0].restarts


async def test_new_tokens_and_authorities_are_taken_over(tmp_path: Path):
    """A server that comes back with other ones is served on, and nothing counts as a crash."""
    clock, store = RealClock(), new_store(RealClock())
    async with ApiServer(store) as server:
        port = int(server.url.rpartition(":")[2])
        credentials = await Credentials.load(clock, str(server.kubeconfig(tmp_path / "config")))
        world = World(ApiClient(credentials, clock=clock, meters=Meters()), credentials)
        await world.create()
        world.nodes("n1")
        async with world.operators():
            await Seen(world, "nt-default").until(count_is(1))
            await server.stop()
            async with ApiServer(store, port=port) as other:
                other.kubeconfig(tmp_path / "config")
                await world.client._refresh(force=False)  # as it does by itself every minute
                await world.health.wait_for("starting", restarts=0)
                await world.change_spec()
                seen = Seen(world, "nt-default")
                await seen.until(lambda one: one["status"]["observedGeneration"] == 2)
        await world.client.close()
