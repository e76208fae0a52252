"""A server with nodes, its controllers and a budget, for tests of MovePlans on a running server.

On the real server kube-controller-manager makes the pods; the test acts as kubelets and the
budget's controller.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.sandbox.nodes.shape import ClusterShape, NodeGroup
from scheduler.sandbox.sandbox import Sandbox, SandboxOptions
from scheduler.testing import node
from tests.apiserver.patience import PATIENCE_S, pause
from tests.apiserver.processes import free_ports
from tests.apiserver.realcluster import start_kube_controller_manager
from tests.e2e.livecluster import LiveCluster, answers, entered

Json = dict[str, Any]
CRD = Path(__file__).parents[2] / "crds" / "moveplans.yaml"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PLANS = "/apis/trellis.dev/v1alpha1/moveplans"
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles:
- schedulerName: trellis
---
apiVersion: trellis.dev/v1alpha1
kind: TrellisConfiguration
page: {enabled: false}
operators:
  appGroup: {enabled: false}
  networkTopology: {enabled: false}
  movePlan: {enabled: true}
"""
CPUS = 4  # of each node
SERVERS = [
    pytest.param("sandbox", marks=pytest.mark.long),
    pytest.param("real", marks=pytest.mark.real),
]
ENDED = ("Succeeded", "Failed")
PHASES = ("Proposed", "Executing", "Completed", "Aborted")
TEMPLATE: Json = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {
        "schedulerName": "trellis",
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "web:1", "resources": {"requests": {"cpu": "1"}}}],
    },
}
PLAN = {
    "apiVersion": "trellis.dev/v1alpha1",
    "kind": "MovePlan",
    "metadata": {"name": "defragment"},
}


class Live:
    """Requests to the server, and what kubelets and the budget's controller do on a real one."""

    def __init__(self, cluster: LiveCluster, *, is_real: bool) -> None:
        self.cluster, self.is_real = cluster, is_real
        self.core = f"/api/v1/namespaces/{cluster.ns}"
        self.apps = f"/apis/apps/v1/namespaces/{cluster.ns}"
        self.budgets = f"/apis/policy/v1/namespaces/{cluster.ns}/poddisruptionbudgets"
        self.fewest = 99  # Ready pods of the Deployment or StatefulSet
        self.least = 1  # Ready pods that the budget demands
        self.generation = 0  # of the budget
        self.holds = False  # whether new pods keep their scheduling gates

    async def send(self, method: str, path: str, body: Any = None) -> Json:
        """Send a request; assert that it succeeds."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        async with self.cluster.session.request(
            method, self.cluster.url + path, data=json.dumps(body), headers={"Content-Type": kind}
        ) as answer:
            found: Json = await answer.json()
            assert answer.status < 300 or answer.status in (404, 409), found
            return found

    async def pods(self) -> list[Json]:
        """Return the pods of the namespace; remove their scheduling gates unless they are kept, and
        act as the kubelets of a real server.
        """
        found: list[Json] = (await self.send("GET", f"{self.core}/pods"))["items"]
        for one in found if not self.holds else ():
            if one["spec"].get("schedulingGates") and "deletionTimestamp" not in one["metadata"]:
                path = f"{self.core}/pods/{one['metadata']['name']}"
                await self.send("PATCH", path, {"spec": {"schedulingGates": None}})
        if self.is_real:
            for one in found:
                ends = "deletionTimestamp" in one["metadata"]
                if ends and one["status"]["phase"] == "Running":
                    # A Job with a failure policy creates the replacement once the phase is final.
                    path = f"{self.core}/pods/{one['metadata']['name']}/status"
                    await self.send("PATCH", path, {"status": {"phase": "Failed"}})
                elif one["spec"].get("nodeName") and not is_ready(one):
                    status = {
                        "phase": "Running",
                        "conditions": [{"type": "Ready", "status": "True"}],
                    }
                    path = f"{self.core}/pods/{one['metadata']['name']}/status"
                    await self.send("PATCH", path, {"status": status})
            ready = sum(is_web(one) and is_ready(one) for one in found)
            await self.allow(ready - self.least)
        assert all(used <= CPUS for used in used_by_node(found).values()), used_by_node(found)
        return found

    async def budget(self, least: int) -> None:
        """Create the budget, or change how many Ready pods it demands; return once it counts."""
        spec = {"minAvailable": least, "selector": {"matchLabels": {"app": "web"}}}
        body = {"metadata": {"name": "web"}, "spec": spec}
        if self.generation:
            await self.send("PATCH", f"{self.budgets}/web", {"spec": {"minAvailable": least}})
        else:
            await self.send("POST", self.budgets, body)
        self.least, self.generation = least, self.generation + 1
        while True:
            await self.pods()
            status = (await self.send("GET", f"{self.budgets}/web")).get("status", {})
            seen = status.get("observedGeneration"), status.get("desiredHealthy")
            if seen == (self.generation, least):
                return
            await pause()

    async def allow(self, disruptions: int) -> None:
        """Write the status of the budget."""
        status = {
            "observedGeneration": self.generation,
            "disruptionsAllowed": max(0, disruptions),
            "currentHealthy": disruptions + self.least,
            "desiredHealthy": self.least,
            "expectedPods": 2,
        }
        await self.send("PATCH", f"{self.budgets}/web/status", {"status": status})

    async def web(self, count: int) -> dict[str, str]:
        """Return the nodes of the Deployment's pods once so many are Ready."""
        while True:
            found = [one for one in await self.pods() if is_web(one) and is_ready(one)]
            if len(found) == count:
                return {one["metadata"]["name"]: one["spec"]["nodeName"] for one in found}
            await pause()

    async def gang(self, count: int = 0) -> dict[str, str]:
        """Return the nodes of the gang's pods that stay, once at least so many are Ready."""
        while True:
            found = {
                one["metadata"]["name"]: one["spec"]["nodeName"]
                for one in await self.pods()
                if one["metadata"].get("labels", {}).get("app") == "gang"
                and "deletionTimestamp" not in one["metadata"]
                and is_ready(one)
            }
            if len(found) >= count:
                return found
            await pause()

    async def filler(self, name: str, spec: Json, cpu: str) -> None:
        """Create a pod that another scheduler has bound."""
        container = {"name": "main", "image": "x:1", "resources": {"requests": {"cpu": cpu}}}
        spec = {"schedulerName": "other", "containers": [container], **spec}
        await self.send("POST", f"{self.core}/pods", {"metadata": {"name": name}, "spec": spec})

    async def plan(self, *phases: str) -> Json:
        """Return the plan once it is in one of these phases; note how few pods are Ready."""
        while True:
            ready = sum(is_web(one) and is_ready(one) for one in await self.pods())
            self.fewest = min(self.fewest, ready)
            found = await self.send("GET", f"{PLANS}/defragment")
            if found.get("status", {}).get("phase") in phases:
                return found
            await pause()

    async def changed(self, state: tuple[str, ...]) -> tuple[str, ...]:
        """Return the state of the plan once it differs from this one."""
        while True:
            found = state_of(await self.plan(*PHASES))
            if found != state:
                return found
            await pause()

    async def reasons(self) -> list[str]:
        """Return the reasons of the plan's events."""
        path = "/apis/events.k8s.io/v1/namespaces/default/events"
        found = (await self.send("GET", path))["items"]
        return [one["reason"] for one in found if one["regarding"]["kind"] == "MovePlan"]

    async def event(self, reason: str) -> None:
        """Return once the plan has an event with this reason."""
        while reason not in await self.reasons():
            await pause()

    async def node_of(self, name: str) -> str:
        """Return the node of a pod once it is bound."""
        while True:
            for one in await self.pods():
                if one["metadata"]["name"] == name and one["spec"].get("nodeName"):
                    return str(one["spec"]["nodeName"])
            await pause()


def used_by_node(pods: Iterable[Json]) -> Counter[str]:
    """Return the cpu that the pods of each node request; ended pods use none."""
    used: Counter[str] = Counter()
    for one in pods:
        if one["spec"].get("nodeName") and one["status"].get("phase") not in ENDED:
            for container in one["spec"]["containers"]:
                requests = container.get("resources", {}).get("requests", {})
                used[one["spec"]["nodeName"]] += int(requests.get("cpu", 0))
    return used


def state_of(plan: Json) -> tuple[str, ...]:
    """Return the phase of a plan and the states of its moves."""
    status = plan["status"]
    return (status["phase"], *(move["state"] for move in status["moves"]))


def is_web(pod: Json) -> bool:
    """Return whether a pod is of the Deployment and not under deletion."""
    meta = pod["metadata"]
    return meta.get("labels", {}).get("app") == "web" and "deletionTimestamp" not in meta


def is_ready(pod: Json) -> bool:
    """Return whether a pod is Ready."""
    conditions = pod.get("status", {}).get("conditions", ())
    return any((one["type"], one["status"]) == ("Ready", "True") for one in conditions)


@asynccontextmanager
async def serving(
    request: pytest.FixtureRequest, server: str, folder: Path, nodes: int
) -> AsyncIterator[Live]:
    """Run a server, "sandbox" or "real", with nodes of 4 cpu."""
    is_real = server == "real"
    async with AsyncExitStack() as stack:
        kubeconfig = folder / "kubeconfig"
        if is_real:
            real = request.getfixturevalue("own_real_cluster")
            kubeconfig = real.kubeconfig
            stack.enter_context(start_kube_controller_manager(real))
        else:
            shape = ClusterShape(nodes=[NodeGroup(count=nodes, cpu=str(CPUS))])
            await stack.enter_async_context(Sandbox(SandboxOptions(shape, kubeconfig=kubeconfig)))
        cluster = await stack.enter_async_context(entered(kubeconfig))
        found = Live(cluster, is_real=is_real)
        if is_real:
            await found.send("POST", DEFINITIONS, yaml.safe_load(CRD.read_text()))
            for number in range(nodes):
                await cluster.post("nodes", node(f"node-{number}", cpu=str(CPUS), memory="32Gi"))
        yield found


class Daemon:
    """The daemon's process, which is started again after a SIGKILL."""

    def __init__(self, cluster: LiveCluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self._process: asyncio.subprocess.Process | None = None
        self._drain: asyncio.Task[Any] | None = None

    async def start(self) -> None:
        """Start it; return once it is ready."""
        config = self.folder / "config.yaml"
        await asyncio.to_thread(config.write_text, CONFIG)
        (port,) = free_ports(1)
        words = ["run", "--config", str(config), "--bind-address", "127.0.0.1"]
        self._process = await self.cluster.start([*words, "--secure-port", str(port)])
        self._drain = asyncio.create_task(self._process.communicate())
        while not await answers(f"https://127.0.0.1:{port}/readyz"):
            await pause()

    async def kill(self) -> None:
        """End the process by SIGKILL."""
        assert self._process is not None
        await self._end(self._process.kill)

    async def restart(self) -> None:
        """End it by SIGKILL and start the next one."""
        await self.kill()
        await self.start()

    async def stop(self) -> None:
        """End it by SIGTERM, if it runs."""
        if self._process is not None:
            await self._end(self._process.terminate)

    async def _end(self, signal: Callable[[], None]) -> None:
        assert self._process is not None
        assert self._drain is not None
        if self._process.returncode is None:
            signal()
        await asyncio.wait_for(self._drain, PATIENCE_S)
        self._process = None


@asynccontextmanager
async def daemon(cluster: LiveCluster, folder: Path) -> AsyncIterator[Daemon]:
    """Run the daemon until the block ends."""
    process = Daemon(cluster, folder)
    try:
        await process.start()
        yield process
    finally:
        await process.stop()
