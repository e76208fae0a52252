"""Network-aware placement through an API server: the documentation's shop, by operators and daemon.

Pods are put up before the daemon starts, so that all of them wait in one queue and its order shows.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from operators.api import Connection
from operators.health import OperatorsHealth
from operators.run import run_operators
from operators.settings import OperatorsSettings
from scheduler.base.clock import RealClock
from scheduler.base.meters import Meters
from scheduler.config import Loaded, load
from scheduler.daemon import Daemon, DaemonOptions
from scheduler.daemon.solving import Solving
from scheduler.demo.stage import costs
from scheduler.engine.decision import Decision
from scheduler.engine.queue.pod import QueuedPod
from scheduler.intree import registry
from scheduler.kube.connection.client import ApiClient
from scheduler.kube.connection.credentials import Credentials
from scheduler.kube.writing.fence import FencedApi
from scheduler.objects.groups.appgroup import WORKLOAD_LABEL
from scheduler.serve.app import Address
from scheduler.state.view import ClusterView
from tests.apiserver.patience import asked
from tests.e2e.operatorcluster import DEFINITIONS, real, sandbox, until_ok

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples" / "network"
PODS = "/api/v1/namespaces/shop/pods"
GROUP = "/apis/appgroup.diktyo.x-k8s.io/v1alpha1/namespaces/shop/appgroups"
TOPOLOGY = "/apis/networktopology.diktyo.x-k8s.io/v1alpha1/namespaces/default/networktopologies"
ZONES = {"z1": "us-west-1", "z2": "us-west-1", "z3": "us-east-1", "z4": "us-east-1"}
MERGE = "application/merge-patch+json"
SETTINGS = OperatorsSettings(status_interval_s=0.1, definition_poll_s=0.1)
SERVERS = (
    pytest.param("sandbox", marks=pytest.mark.long),
    pytest.param("real", marks=pytest.mark.real),
)
Json = dict[str, Any]


class LiveCluster:
    """A server, and the daemon with its operators while `running`."""

    def __init__(self, kubeconfig: Path, client: ApiClient) -> None:
        self._kubeconfig = kubeconfig
        self._client = client
        self.config = configured("scheduler.yaml")
        self.placed: list[str] = []

    async def send(self, method: str, path: str, body: Any = None, **more: Any) -> Json:
        data = b"" if body is None else json.dumps(body).encode()
        response = await self._client.request(method, path, data, **more)
        assert response.ok, f"{method} {path}: {response.code} {response.message}"
        answer: Json = json.loads(response.body)
        return answer

    async def define(self) -> None:
        """Create the kinds and wait until their objects can be listed."""
        for name in ("appgroups", "networktopologies"):
            crd = yaml.safe_load((ROOT / "crds" / f"{name}.yaml").read_text())
            await self.send("POST", DEFINITIONS, crd)
        for path in (GROUP, TOPOLOGY):
            await until_ok(self._client, path)

    async def nodes(self) -> None:
        """Create four nodes in each zone, each with capacity for eight pods of the shop."""
        amounts = {"cpu": "800m", "memory": "4Gi", "pods": "110"}
        for zone, region in ZONES.items():
            labels = {
                "topology.kubernetes.io/zone": zone,
                "topology.kubernetes.io/region": region,
            }
            for number in range(4):
                meta = {"name": f"{zone}-{number}", "labels": labels}
                await self.send("POST", "/api/v1/nodes", {"metadata": meta})
                status = {"status": {"capacity": amounts, "allocatable": amounts}}
                path = f"/api/v1/nodes/{zone}-{number}/status"
                await self.send("PATCH", path, status, content_type=MERGE)

    async def pods(self) -> list[Json]:
        found: list[Json] = (await self.send("GET", PODS))["items"]
        return found

    async def put_up(self, deployments: list[Json]) -> None:
        """Create the pods of Deployments, as their controller would."""
        for deployment in deployments:
            for number in range(deployment["spec"]["replicas"]):
                await self.pod(f"{deployment['metadata']['name']}-{number}", deployment)

    async def pod(self, name: str, deployment: Json) -> None:
        template = deployment["spec"]["template"]
        meta = {"name": name, "labels": template["metadata"]["labels"]}
        await self.send("POST", PODS, {"metadata": meta, "spec": template["spec"]})

    async def until_bound(self, *names: str) -> list[Json]:
        """Wait until all pods, or those named, have a node."""

        async def wanted() -> list[Json]:
            pods = await self.pods()
            return [pod for pod in pods if not names or pod["metadata"]["name"] in names]

        return await asked(
            wanted, lambda pods: all("nodeName" in pod["spec"] for pod in pods), "nodes for pods"
        )

    async def order(self, other_than: list[str] | None = None) -> list[str]:
        """Wait for an order of the shop's workloads, or for another one."""

        async def order() -> list[str]:
            group = await self.send("GET", f"{GROUP}/shop")
            entries = group.get("status", {}).get("topologyOrder", ())
            found = sorted(entries, key=lambda entry: entry["index"])
            return [entry["workload"]["selector"] for entry in found]

        return await asked(order, lambda found: found and found != other_than, "an order")

    async def note(self, pod: str, reason: str) -> str:
        """Wait for an event on a pod and return its message."""
        where = f"regarding.name={pod},reason={reason}"
        path = f"/apis/events.k8s.io/v1/namespaces/shop/events?fieldSelector={where}"
        found = await asked(
            lambda: self.send("GET", path), lambda events: events["items"], f"{reason} of {pod}"
        )
        return str(found["items"][0]["note"])

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the daemon.

        `placed` are the workloads of the pods in the order of their decisions.
        """
        clock, meters = RealClock(), Meters()
        credentials = await Credentials.load(clock, str(self._kubeconfig))
        health = OperatorsHealth(meters, clock)

        def operators(
            view: ClusterView, api: FencedApi, solving: Solving
        ) -> Coroutine[Any, Any, None]:
            connection = Connection(api, credentials)
            return run_operators(SETTINGS, view, connection, health, clock, solving)

        daemon = Daemon(
            self.config,
            registry(),
            await ApiClient.connect(str(self._kubeconfig), clock=clock, meters=meters),
            clock=clock,
            random=Random(0),
            meters=meters,
            options=DaemonOptions("test", address=Address(port=0), operators=operators),
        )
        observation = daemon.engine.observation
        reported, self.placed = observation.on_decision, []

        def note(queued: QueuedPod, decision: Decision) -> None:
            reported(queued, decision)
            assert decision.node, decision
            self.placed.append(queued.pod.metadata.labels[WORKLOAD_LABEL])

        observation.on_decision = note
        task = asyncio.create_task(daemon.run())
        try:
            yield
        finally:
            daemon.stop()
            await task


def zone_of(pod: Json) -> str:
    name: str = pod["spec"]["nodeName"]
    return name.partition("-")[0]


def configured(name: str) -> Loaded:
    path = EXAMPLES / name
    return load(path.read_text(), file=str(path), registry=registry())


@pytest.fixture(params=SERVERS)
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LiveCluster]:
    opened = real if request.param == "real" else sandbox
    async with opened(tmp_path) as kubeconfig:
        client = await ApiClient.connect(str(kubeconfig), clock=RealClock(), meters=Meters())
        yield LiveCluster(kubeconfig, client)
        await client.close()


@pytest.mark.allow_blocking("servers and clients are set up on the test's loop")
async def test_the_examples_give_the_documented_results(cluster: LiveCluster):
    """The pods are placed in order and near each other, in another order seconds after an edit, and
    also without costs.
    """
    namespace, group, *deployments = yaml.safe_load_all((EXAMPLES / "shop.yaml").read_text())
    (topology,) = yaml.safe_load_all((EXAMPLES / "topology.yaml").read_text())
    count = sum(one["spec"]["replicas"] for one in deployments)
    cart = next(one for one in deployments if one["metadata"]["name"] == "cart")
    await cluster.define()
    await cluster.nodes()
    await cluster.send("POST", "/api/v1/namespaces", namespace)
    await cluster.send("POST", TOPOLOGY, topology)
    await cluster.send("POST", GROUP, group)
    async with cluster.running():
        order = await cluster.order()

    await cluster.put_up(deployments)
    async with cluster.running():
        pods = await cluster.until_bound()
        assert len(cluster.placed) == count
        assert cluster.placed == sorted(cluster.placed, key=order.index)
        assert cluster.placed[0] == "frontend"
        nodes = (await cluster.send("GET", "/api/v1/nodes"))["items"]
        objects = [
            *({"kind": "Node", "apiVersion": "v1", **one} for one in nodes),
            *({"kind": "Pod", "apiVersion": "v1", **one} for one in pods),
            group,
            topology,
        ]
        found = costs(objects, cluster.config, configured("defaults.yaml"))
        assert found.pods == count
        assert found.placed <= 0.8 * found.otherwise

        turned = {"spec": {"topologySortingAlgorithm": "ReverseKahn"}}
        await cluster.send("PATCH", f"{GROUP}/shop", turned, content_type=MERGE)
        assert await cluster.order(other_than=order) == order[::-1]

        await cluster.send("DELETE", f"{TOPOLOGY}/nt-default")
        await cluster.pod("cart-blind", cart)
        await cluster.until_bound("cart-blind")
        reported = await cluster.note("cart-blind", "MissingObject")
        assert 'NetworkTopology "nt-default" was not found in namespace(s) default' in reported

        await cluster.send("POST", TOPOLOGY, topology)
        await cluster.pod("cart-late", cart)
        (late,) = await cluster.until_bound("cart-late")
        # Without the costs it goes to an empty node, which is in another zone.
        assert zone_of(late) in {zone_of(pod) for pod in pods}

    for pod in await cluster.pods():
        await cluster.send("DELETE", f"{PODS}/{pod['metadata']['name']}?gracePeriodSeconds=0")
    await cluster.put_up(deployments)
    async with cluster.running():
        await cluster.until_bound()
        assert cluster.placed == sorted(cluster.placed, key=order[::-1].index)
