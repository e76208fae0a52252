"""The daemon with extenders on the embedded API server: extenders choose the nodes, over HTTPS."""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from scheduler.base.clock import RealClock
from scheduler.base.meters import Meters
from scheduler.config import Loaded, load
from scheduler.daemon import Daemon, DaemonOptions
from scheduler.daemon.inbox import Arrived
from scheduler.engine.decisionlog import Header, encode_header, encode_step
from scheduler.engine.effects import Effects, Event
from scheduler.engine.engine import Engine
from scheduler.engine.settings import engine_settings
from scheduler.intree import registry
from scheduler.kube.connection.client import ApiClient
from scheduler.sandbox.nodes.shape import plain_shape
from scheduler.sandbox.sandbox import Sandbox, SandboxOptions
from scheduler.serve.app import Address
from scheduler.simulate.replay import replay
from tests.apiserver.certificates import write_certificates
from tests.apiserver.patience import asked
from tests.e2e.extenderserver import ExtenderServer, Json, extender_server, never

COLLECTION = "/api/v1/namespaces/default/pods"

pytestmark = pytest.mark.allow_blocking("server, daemon and certificates are set up on one loop")


class LiveCluster:
    """A sandbox and a daemon with one extender, whose fields are those of the configuration."""

    def __init__(self, client: ApiClient, loaded: Loaded) -> None:
        self.client = client
        self.loaded = loaded

    async def create(self, name: str, **spec: Any) -> None:
        """Create a pod."""
        container = {"name": "main", "image": "registry.example/app:1"}
        spec = {"schedulerName": "trellis", "containers": [container], **spec}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        answer = await self.client.request("POST", COLLECTION, json.dumps(body).encode())
        assert answer.ok, answer.message

    async def until(self, name: str, holds: Any) -> Json:
        """Wait until a pod is as it should be, and return it."""

        async def pod() -> Json:
            found: Json = json.loads((await self.client.request("GET", path)).body)
            return found

        path = f"{COLLECTION}/{name}"
        return await asked(pod, holds, path)


def is_bound(pod: Json) -> bool:
    """Return whether a pod has a node."""
    return bool(pod["spec"].get("nodeName"))


def is_refused(pod: Json) -> bool:
    """Return whether a pod's condition has a rejection reason."""
    return any(c["status"] == "False" for c in pod["status"].get("conditions", ()))


@asynccontextmanager
async def cluster(
    tmp_path: Path, server: ExtenderServer, record: Any = None, **fields: Any
) -> AsyncIterator[LiveCluster]:
    """Run sandbox and daemon until the block ends; check that the daemon exits with code 0."""
    extender = {"urlPrefix": server.url, "httpTimeout": "5s", **fields}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "extenders": [extender],
    }
    text = json.dumps(config)
    options = SandboxOptions(shape=plain_shape(4), kubeconfig=tmp_path / "kubeconfig")
    async with Sandbox(options) as sandbox:
        clock, meters = RealClock(), Meters()
        path = str(sandbox.kubeconfig_path)
        client = await ApiClient.connect(path, clock=clock, meters=Meters())
        loaded = load(text, file="(test)", registry=registry())
        daemon = Daemon(
            loaded,
            registry(),
            await ApiClient.connect(path, clock=clock, meters=meters),
            clock=clock,
            random=Random(1),
            meters=meters,
            options=DaemonOptions("test", address=Address(port=0), record=record),
        )
        running = asyncio.create_task(daemon.run())
        try:
            yield LiveCluster(client, loaded)
        finally:
            daemon.stop()
            assert 0 == await running
            await client.close()


def names(body: Json) -> list[str]:
    """Return the node names in a request to an extender."""
    return [node["metadata"]["name"] for node in body["Nodes"]["items"]]


async def answer_extender(client: list[ApiClient], verb: str, body: Json) -> Any:
    """Filter by the pod's name, prefer higher numbers, and bind by the API server."""
    if verb == "bind":
        target = {"kind": "Node", "name": body["Node"]}
        meta = {"name": body["PodName"], "uid": body["PodUID"]}
        binding = json.dumps({"metadata": meta, "target": target}).encode()
        answer = await client[0].request("POST", f"{COLLECTION}/{body['PodName']}/binding", binding)
        return {} if answer.ok else {"Error": answer.message}
    if verb == "rank":
        return [{"Host": name, "Score": int(name[-1]) * 2} for name in names(body)]
    if body["Pod"]["metadata"]["name"] == "refused":
        failed = dict.fromkeys(names(body), "not today")
        return {"Nodes": {"items": []}, "FailedNodes": failed}
    kept = [node for node in body["Nodes"]["items"] if node["metadata"]["name"] != "node-3"]
    return {"Nodes": {"items": kept}, "FailedNodes": {"node-3": "reserved"}}


async def test_pods_go_where_extenders_say(tmp_path: Path):
    """An extender over TLS filters, scores, binds and rejects with whole nodes, and the log
    replays.
    """
    write_certificates(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    ca = base64.b64encode((tmp_path / "ca.crt").read_bytes()).decode()
    clients: list[ApiClient] = []
    steps: list[bytes] = []

    async def rule(verb: str, body: Json) -> Any:
        return await answer_extender(clients, verb, body)

    class Steps:
        def arrive(self, _event: Event) -> int:
            return 0

        def record(
            self, now: float, arrived: list[Arrived], cycles: int, effects: tuple[Effects, ...]
        ) -> None:
            steps.append(encode_step(now, [event for event, _ in arrived], cycles, effects))

    fields = {
        "filterVerb": "sift",
        "prioritizeVerb": "rank",
        "weight": 100,
        "bindVerb": "bind",
        "enableHTTPS": True,
        "tlsConfig": {"caData": ca},
    }
    async with (
        extender_server(rule, tls) as server,
        cluster(tmp_path, server, Steps(), **fields) as running,
    ):
        clients.append(running.client)
        await running.create("first")
        await running.create("refused")
        first = await running.until("first", is_bound)
        refused = await running.until("refused", is_refused)
        loaded = running.loaded

    assert "node-2" == first["spec"]["nodeName"]
    (condition,) = refused["status"]["conditions"]
    assert "Unschedulable" == condition["reason"]
    assert condition["message"].startswith("0/4 nodes are available: 4 not today.")
    (asked,) = [
        body for body in server.bodies("sift") if body["Pod"]["metadata"]["name"] == "first"
    ]
    assert {"status", "spec", "metadata"} == set(asked["Nodes"]["items"][0])
    assert 1 == len(server.bodies("bind"))
    log = [encode_header(Header("test")), *steps]
    result = replay(log, lambda _: build(loaded))
    assert (None, True) == (result.difference, result.turns > 0)


def build(loaded: Loaded) -> Engine:
    """Return an engine as the daemon makes it, for a replay."""
    return Engine(loaded.profiles, registry(), settings=engine_settings(loaded))


async def test_an_extender_that_does_not_answer(tmp_path: Path):
    """The pod is rejected with that reason. The daemon stops without error while a request
    is open.
    """
    async with (
        extender_server(never) as server,
        cluster(tmp_path, server, filterVerb="sift", httpTimeout="100ms") as running,
    ):
        await running.create("waits")
        pod = await running.until("waits", is_refused)

    (condition,) = pod["status"]["conditions"]
    assert "SchedulerError" == condition["reason"]
    assert "context deadline exceeded" in condition["message"]


async def test_an_ignorable_extender_that_is_away(tmp_path: Path):
    """An ignorable extender that cannot be reached does not affect scheduling."""
    gone = ExtenderServer("http://127.0.0.1:1")
    async with cluster(tmp_path, gone, filterVerb="sift", ignorable=True) as running:
        await running.create("goes")
        assert is_bound(await running.until("goes", is_bound))
