"""A group on either API server: the sandbox's and, where it was built, the real kube-apiserver."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from scheduler.base.clock import RealClock
from scheduler.base.meters import Meters
from scheduler.config import default_config
from scheduler.daemon import Daemon, DaemonOptions
from scheduler.intree import registry
from scheduler.kube.connection.client import ApiClient
from scheduler.sandbox.kinds.kinds import RELEASES
from scheduler.serve.app import Address
from tests.apiserver.patience import asked
from tests.e2e.operatorcluster import real, sandbox
from tests.e2e.podgroups import served

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "groups"
MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
pytestmark = pytest.mark.allow_blocking("servers and clients are set up on the test's loop")
Json = dict[str, Any]


class Cluster:
    """A client, and the daemon beside it."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def send(self, method: str, path: str, body: Json | None = None) -> Json:
        data = b"" if body is None else json.dumps(body).encode()
        response = await self._client.request(method, path, data)
        assert response.ok, f"{method} {path}: {response.code} {response.message}"
        answer: Json = json.loads(response.body)
        return answer

    async def data_until(self, name: str, status: str) -> dict[str, str]:
        """Read a ConfigMap until it has this status."""
        path = f"{MAPS}/{name}"
        found = await asked(
            lambda: self.send("GET", path), lambda one: one["data"].get("status") == status, path
        )
        data: dict[str, str] = found["data"]
        return data


@asynccontextmanager
async def running(kubeconfig: Path) -> AsyncIterator[Cluster]:
    clock, meters = RealClock(), Meters()
    client = await ApiClient.connect(str(kubeconfig), clock=clock, meters=meters)
    daemon = Daemon(
        default_config(registry()),
        registry(),
        await ApiClient.connect(str(kubeconfig), clock=clock, meters=meters),
        clock=clock,
        random=Random(0),
        meters=meters,
        options=DaemonOptions("test", address=Address(port=0)),
    )
    task = asyncio.create_task(daemon.run())
    try:
        yield Cluster(client)
    finally:
        daemon.stop()
        await task
        await client.close()


@pytest.fixture(params=[*RELEASES, pytest.param("real", marks=pytest.mark.real)])
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cluster]:
    is_real = request.param == "real"
    opened = real(tmp_path) if is_real else sandbox(tmp_path, request.param)
    async with opened as kubeconfig, running(kubeconfig) as found:
        yield found


def node(number: int) -> Json:
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{number}"},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def member(number: int, template: Json) -> Json:
    meta = {"name": f"pod-{number}", "labels": template["metadata"]["labels"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}


async def test_the_designs_example(cluster: Cluster):
    """8 pods with rack pack and node spread are placed 3 + 3 + 2 in one rack, in the spelling of
    the design text.
    """
    for number in range(6):
        made = await cluster.send("POST", "/api/v1/nodes", node(number))
        made["status"] |= node(number)["status"]
        await cluster.send("PUT", f"/api/v1/nodes/node-{number}/status", made)
    (tree,) = yaml.safe_load_all((EXAMPLES / "topology.yaml").read_text())
    group, job = yaml.safe_load_all((EXAMPLES / "job.yaml").read_text())
    await cluster.send("POST", MAPS, tree)
    await cluster.send("POST", MAPS, group)
    template = job["spec"]["template"]
    for number in range(8):
        await cluster.send("POST", PODS, member(number, template))
    data = await cluster.data_until("group-a", "Bound")
    pods = (await cluster.send("GET", PODS))["items"]

    on = Counter(pod["spec"].get("nodeName") for pod in pods)
    assert [2, 3, 3] == sorted(on.values())
    assert 1 == len(json.loads(data["placement"])["root"])
    assert data["rank"].startswith("[(pod-")
    assert {"name", "size", "constraints", "schedTotalTimeMilli", "schedSolverTimeMilli"} <= set(
        data
    )


EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


def condition_of(gang: Json, condition: str) -> Json:
    found = (gang.get("status") or {}).get("conditions") or ()
    return next((one for one in found if one["type"] == condition), {})


async def add_nodes(cluster: Cluster, racks: list[str]) -> None:
    """Create nodes of four CPUs in these racks."""
    for number, rack in enumerate(racks):
        one = node(number)
        one["metadata"]["labels"] = {"topology.trellis.dev/rack": rack}
        made = await cluster.send("POST", "/api/v1/nodes", one)
        made["status"] |= one["status"]
        await cluster.send("PUT", f"/api/v1/nodes/node-{number}/status", made)


async def test_a_gang_in_kubernetes_own_words(cluster: Cluster):
    """No pod starts while the rack is too small; then all are in one rack, with condition and
    event.

    The version is the newest that the server serves, with the condition of this version.
    """
    api = await served(lambda path: cluster.send("GET", path))
    await add_nodes(cluster, ["a", "b"])
    gang, job = yaml.safe_load_all((EXAMPLES / "gang.yaml").read_text())
    gang["spec"]["schedulingPolicy"]["gang"]["minCount"] = 6
    await cluster.send("POST", api.path(), api.written(gang))
    template = job["spec"]["template"]
    for number in range(6):
        body = {"metadata": {"labels": {}}, "spec": template["spec"]}
        await cluster.send("POST", PODS, member(number, body))
    path = f"{api.path()}/training"

    async def condition_is(status: str) -> Json:
        def holds(one: Json) -> bool:
            return condition_of(one, api.scheduled).get("status") == status

        found = await asked(lambda: cluster.send("GET", path), holds, path)
        return condition_of(found, api.scheduled)

    waits = await condition_is("False")
    early = (await cluster.send("GET", PODS))["items"]
    one = node(2)
    one["metadata"]["labels"] = {"topology.trellis.dev/rack": "b"}
    made = await cluster.send("POST", "/api/v1/nodes", one)
    await cluster.send(
        "PUT", "/api/v1/nodes/node-2/status", made | {"status": made["status"] | one["status"]}
    )
    await condition_is("True")
    pods = (await cluster.send("GET", PODS))["items"]
    events = await asked(
        lambda: cluster.send("GET", EVENTS),
        lambda found: {"FailedScheduling", "Scheduled"} <= reasons_about(found, "PodGroup"),
        EVENTS,
    )

    assert "Unschedulable" == waits["reason"], waits
    assert "does not fit" in waits["message"]
    assert {None} == {pod["spec"].get("nodeName") for pod in early}
    assert {"node-1", "node-2"} == {pod["spec"]["nodeName"] for pod in pods}
    assert {"PodGroup", "Pod"} <= {one["regarding"]["kind"] for one in events["items"]}


def reasons_about(events: Json, kind: str) -> set[str]:
    return {one["reason"] for one in events["items"] if one["regarding"]["kind"] == kind}
