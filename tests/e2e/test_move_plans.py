"""A MovePlan on a running server: planned, approved, executed through the budget, and continued by
the next processes after SIGKILLs.

On the real server kube-controller-manager makes the pods; the test plays kubelets and the budget's
controller.
"""

import asyncio
import json
from collections.abc import AsyncIterator
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
from tests.e2e.liveworld import World, answers, entered

pytestmark = [pytest.mark.timeout(100), pytest.mark.allow_blocking("servers start on the loop")]
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
PHASES = ("Proposed", "Executing", "Completed", "Aborted")
TEMPLATE: Json = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {
        "schedulerName": "trellis",
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "web:1", "resources": {"requests": {"cpu": "1"}}}],
    },
}


class Live:
    """Requests to the server, and what kubelets and the budget's controller do on a real one."""

    def __init__(self, world: World, *, is_real: bool) -> None:
        self.world, self.is_real = world, is_real
        self.core = f"/api/v1/namespaces/{world.ns}"
        self.apps = f"/apis/apps/v1/namespaces/{world.ns}"
        self.budgets = f"/apis/policy/v1/namespaces/{world.ns}/poddisruptionbudgets"
        self.fewest = 99

    async def send(self, method: str, path: str, body: Any = None) -> Json:
        """Send a request; assert that it succeeds."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        async with self.world.session.request(
            method, self.world.url + path, data=json.dumps(body), headers={"Content-Type": kind}
        ) as answer:
            found: Json = await answer.json()
            assert answer.status < 300 or answer.status in (404, 409), found
            return found

    async def pods(self) -> list[Json]:
        """Return the pods of the namespace; play the kubelets of a real server."""
        found: list[Json] = (await self.send("GET", f"{self.core}/pods"))["items"]
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
            await self.allow(sum(is_web(one) and is_ready(one) for one in found) - 1)
        return found

    async def allow(self, disruptions: int) -> None:
        """Write the status of the budget."""
        status = {
            "observedGeneration": 1,
            "disruptionsAllowed": max(0, disruptions),
            "currentHealthy": disruptions + 1,
            "desiredHealthy": 1,
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

    async def event(self, reason: str) -> None:
        """Return once the plan has an event with this reason."""
        path = "/apis/events.k8s.io/v1/namespaces/default/events"
        while True:
            for one in (await self.send("GET", path))["items"]:
                if (one["regarding"]["kind"], one["reason"]) == ("MovePlan", reason):
                    return
            await pause()

    async def node_of(self, name: str) -> str:
        """Return the node of a pod once it is bound."""
        while True:
            for one in await self.pods():
                if one["metadata"]["name"] == name and one["spec"].get("nodeName"):
                    return str(one["spec"]["nodeName"])
            await pause()


def state_of(plan: Json) -> tuple[str, ...]:
    """Return the phase of a plan and the states of its moves."""
    status = plan["status"]
    return (status["phase"], *(move["state"] for move in status["moves"]))


def is_web(pod: Json) -> bool:
    """Whether a pod is of the Deployment and stays."""
    meta = pod["metadata"]
    return meta.get("labels", {}).get("app") == "web" and "deletionTimestamp" not in meta


def is_ready(pod: Json) -> bool:
    """Whether a pod is Ready."""
    conditions = pod.get("status", {}).get("conditions", ())
    return any((one["type"], one["status"]) == ("Ready", "True") for one in conditions)


@pytest.fixture(
    params=[
        pytest.param("sandbox", marks=pytest.mark.long),
        pytest.param("real", marks=pytest.mark.real),
    ]
)
async def live(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Live]:
    """Give a server with two nodes of 4 cpu."""
    is_real = request.param == "real"
    async with AsyncExitStack() as stack:
        kubeconfig = tmp_path / "kubeconfig"
        if is_real:
            cluster = request.getfixturevalue("own_real_cluster")
            kubeconfig = cluster.kubeconfig
            stack.enter_context(start_kube_controller_manager(cluster))
        else:
            shape = ClusterShape(nodes=[NodeGroup(count=2, cpu="4")])
            await stack.enter_async_context(Sandbox(SandboxOptions(shape, kubeconfig=kubeconfig)))
        world = await stack.enter_async_context(entered(kubeconfig))
        found = Live(world, is_real=is_real)
        if is_real:
            await found.send("POST", DEFINITIONS, yaml.safe_load(CRD.read_text()))
            for name in ("node-0", "node-1"):
                await world.post("nodes", node(name, cpu="4", memory="32Gi"))
        yield found


@asynccontextmanager
async def daemon(world: World, folder: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the daemon until the block ends."""
    config = folder / "config.yaml"
    config.write_text(CONFIG)
    (port,) = free_ports(1)
    words = ["run", "--config", str(config), "--bind-address", "127.0.0.1"]
    process = await world.start([*words, "--secure-port", str(port)])
    drain = asyncio.create_task(process.communicate())
    try:
        while not await answers(f"https://127.0.0.1:{port}/readyz"):
            await pause()
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await asyncio.wait_for(drain, PATIENCE_S)


async def test_an_approved_plan_makes_a_waiting_pod_fit(live: Live, tmp_path: Path) -> None:
    """Nothing moves before the approval; the budget is kept; a SIGKILL after each change of the
    plan's state changes nothing.
    """
    world = live.world
    budget = {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}}
    await live.send("POST", live.budgets, {"metadata": {"name": "web"}, **budget})
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE}
    await live.send("POST", f"{live.apps}/deployments", {"metadata": {"name": "web"}, "spec": spec})
    async with daemon(world, tmp_path) as process:
        before = await live.web(2)
        assert sorted(before.values()) == ["node-0", "node-1"]
        await world.pod("train", spec={"nodeSelector": {}}, requests={"cpu": "4"})
        goal = {"goal": {"waiting": f"{world.ns}/train"}, "limits": {"minAgeSeconds": 0}}
        await live.send("POST", PLANS, {**PLAN, "spec": goal})
        plan = await live.plan("Proposed", "Impossible", "Invalid")
        assert plan["status"]["phase"] == "Proposed", plan["status"]
        assert plan["status"]["statement"] == "1 move; no plan with fewer moves exists"
        assert await live.web(2) == before
        # Later events may be lost with the process, which is killed as soon as a status shows.
        await live.event("MovePlanCalculated")

        approval = {"spec": {"approved": plan["status"]["planHash"]}}
        await live.send("PATCH", f"{PLANS}/defragment", approval)
        states = [await live.changed(state_of(plan))]
        process.kill()
        await process.wait()
    while states[-1][0] == "Executing":
        async with daemon(world, tmp_path) as process:
            states.append(await live.changed(states[-1]))
            process.kill()
            await process.wait()
    async with daemon(world, tmp_path):
        plan = await live.plan("Completed", "Aborted")
        assert plan["status"]["phase"] == "Completed", plan["status"]
        assert len(states) > 2, states
        (move,) = plan["status"]["moves"]
        assert await live.node_of("train") == move["from"]
        after = await live.web(2)

    assert set(after.values()) == {move["to"]}
    assert after[move["replacement"]] == move["to"]
    assert live.fewest >= 1


async def test_a_gang_of_a_job_is_moved_whole(live: Live, tmp_path: Path) -> None:
    """Both pods are evicted and placed together; a SIGKILL in between changes nothing."""
    world = live.world
    data = {"name": "gang", "size": "2", "constraints": "{}"}
    group = {"metadata": {"name": "gang", "labels": {"sakkara.group": ""}}, "data": data}
    await live.send("POST", f"{live.core}/configmaps", group)
    filler = {"nodeSelector": {}, "nodeName": "node-1", "terminationGracePeriodSeconds": 0}
    await live.filler("big", filler, "2")
    await live.filler("small", filler, "1")
    async with daemon(world, tmp_path) as process:
        await live.send("POST", f"/apis/batch/v1/namespaces/{world.ns}/jobs", JOB)
        before = await live.gang(2)
        assert set(before.values()) == {"node-0"}
        await live.send("DELETE", f"{live.core}/pods/big", {})
        await world.pod("train", spec={"nodeSelector": {}}, requests={"cpu": "4"})
        goal = {"goal": {"waiting": f"{world.ns}/train"}, "limits": {"minAgeSeconds": 0}}
        await live.send("POST", PLANS, {**PLAN, "spec": goal})
        plan = await live.plan("Proposed", "Impossible", "Invalid")
        assert plan["status"]["phase"] == "Proposed", plan["status"]
        assert {move["unit"] for move in plan["status"]["moves"]} == {f"{world.ns}/gang"}

        approval = {"spec": {"approved": plan["status"]["planHash"]}}
        await live.send("PATCH", f"{PLANS}/defragment", approval)
        while before.keys() <= (await live.gang()).keys():
            await pause()
        process.kill()
        await process.wait()
    async with daemon(world, tmp_path):
        plan = await live.plan("Completed", "Aborted")
        assert plan["status"]["phase"] == "Completed", plan["status"]
        assert await live.node_of("train") == "node-0"
        after = await live.gang(2)

    assert set(after.values()) == {"node-1"}
    assert before.keys().isdisjoint(after)


JOB: Json = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "gang"},
    "spec": {
        "completions": 2,
        "parallelism": 2,
        "podFailurePolicy": {
            "rules": [
                {
                    "action": "Ignore",
                    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                }
            ]
        },
        "template": {
            "metadata": {
                "labels": {"app": "gang", "sakkara.group.name": "gang"},
                "annotations": {"trellis.dev/simulate-run-for": "forever"},
            },
            "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"},
        },
    },
}
PLAN = {
    "apiVersion": "trellis.dev/v1alpha1",
    "kind": "MovePlan",
    "metadata": {"name": "defragment"},
}
