"""The pods of the tests in which another event happens while a MovePlan is executed."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.apiserver.patience import pause
from tests.e2e.movescluster import (
    CPUS,
    PLAN,
    PLANS,
    TEMPLATE,
    Json,
    Live,
    is_ready,
    is_web,
    serving,
    used_by_node,
)

OPEN = ("Proposed", "Executing")
CLOSED = ("Completed", "Aborted", "Impossible", "Invalid")
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
# Controllers of the pods that move: `jobs` ignore disruptions, `retries` are Jobs that count one as
# a failure, the Job of `gangs` has two pods that are moved together.
CONTROLLERS = ("deployments", "statefulsets", "jobs", "retries", "gangs")
JOBS = ("jobs", "retries", "gangs")
GATE = {"name": "example.com/hold"}
IGNORE = {
    "rules": [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    ]
}
# The time of a step, for plans whose replacement comes to another node.
STEP_S = 30


class Case(NamedTuple):
    """A server, the controller of the moved pods, and whether the daemon is killed beside the other
    event.
    """

    server: str
    controller: str
    kills: bool = False


def cases(
    *short: str, kills: Iterable[bool] = (False,), controllers: Iterable[str] = CONTROLLERS
) -> list[Any]:
    """Return the cases of a test; only those of the controllers `short` on the real server are not
    marked long, with a SIGKILL if `kills` has it.
    """
    found = []
    for server in ("sandbox", "real"):
        for controller in controllers:
            for is_killed in kills:
                is_short = controller in short and is_killed == max(kills)
                marks = [pytest.mark.real] if server == "real" else []
                marks += [] if is_short and marks else [pytest.mark.long]
                name = f"{server}-{controller}{'-kill' if is_killed else ''}"
                case = Case(server, controller, is_killed)
                found.append(pytest.param(case, marks=marks, id=name))
    return found


@asynccontextmanager
async def scene_of(request: pytest.FixtureRequest, folder: Path) -> AsyncIterator["Scene"]:
    """Run the server of a case with three nodes of 4 cpu."""
    case: Case = request.param
    async with serving(request, case.server, folder, 3) as live:
        yield Scene(live, case)


class Scene:
    """A pod that waits for a whole node, two pods that may move, and one that may not.

    The pod that may not move has the lowest priority, so its move would be the best one.
    """

    def __init__(self, live: Live, case: Case) -> None:
        self.live, self.cluster, self.case = live, live.cluster, case
        self.keeper: tuple[str, str] = ("", "")  # uid and node
        self.before: list[str] = []  # the nodes of the pods that may move
        # A gang is evicted whole.
        self.least = 0 if case.controller == "gangs" else 1

    async def prepare(self) -> None:
        """Create the pods."""
        live = self.live
        fields = {"value": 10, "preemptionPolicy": "Never"}
        await live.send("POST", CLASSES, {"metadata": {"name": "work"}, **fields})
        keeper = template("keeper", 0)
        body = workload("keeper", 1, keeper)
        await live.send("POST", f"{live.apps}/deployments", body)
        self.keeper = await self._kept()
        if self.case.controller == "gangs":
            await self._whole_gang()
        else:
            await self.create()
        self.before = sorted((await live.web(2)).values())
        taken = {*self.before, self.keeper[1]}
        assert len(taken) == (2 if self.case.controller == "gangs" else 3)
        for name in ("big-0", "big-1"):
            await live.send("DELETE", f"{live.core}/pods/{name}", {"gracePeriodSeconds": 0})
        await live.budget(self.least)
        await self.cluster.pod(
            "train",
            spec={"nodeSelector": {}, "priorityClassName": "work"},
            requests={"cpu": str(CPUS)},
        )

    async def _whole_gang(self) -> None:
        """Create a gang on one node; on each of the others 1 cpu is in use for good."""
        live = self.live
        data = {"name": "gang", "size": "2", "constraints": "{}"}
        group = {"metadata": {"name": "gang", "labels": {"sakkara.group": ""}}, "data": data}
        await live.send("POST", f"{live.core}/configmaps", group)
        others = sorted({"node-0", "node-1", "node-2"} - {self.keeper[1]})[:1]
        await live.filler("small", {"nodeName": others[0]}, "1")
        for number, node in enumerate((self.keeper[1], others[0])):
            own = {"nodeName": node, "terminationGracePeriodSeconds": 0}
            await live.filler(f"big-{number}", own, str(CPUS - 1))
        await self.create()

    async def create(self) -> None:
        """Create the controller of the pods that may move."""
        await self.live.send("POST", self.path.rpartition("/")[0], self.manifest())

    @property
    def path(self) -> str:
        """Return the path of the controller."""
        if self.case.controller in JOBS:
            return f"/apis/batch/v1/namespaces/{self.cluster.ns}/jobs/web"
        return f"{self.live.apps}/{self.case.controller}/web"

    def manifest(self) -> Json:
        """Return the controller of the pods that may move."""
        own, controller = template("web", 10), self.case.controller
        own["spec"]["schedulingGates"] = [GATE]
        if controller not in JOBS:
            body = workload("web", 2, own)
            if controller == "statefulsets":
                body["spec"] |= {"serviceName": "web", "podManagementPolicy": "Parallel"}
            return body
        own["spec"]["restartPolicy"] = "Never"
        own["metadata"]["annotations"] = {"trellis.dev/simulate-run-for": "forever"}
        if controller == "gangs":
            own["metadata"]["labels"]["sakkara.group.name"] = "gang"
        spec: Json = {"completions": 3, "parallelism": 2, "template": own}
        if controller != "retries":
            spec["podFailurePolicy"] = IGNORE
        return {"metadata": {"name": "web"}, "spec": spec}

    async def grow(self) -> None:
        """Raise the replicas of the controller to three."""
        if self.case.controller == "gangs":
            group = f"{self.live.core}/configmaps/gang"
            await self.live.send("PATCH", group, {"data": {"size": "3"}})
        field = "parallelism" if self.case.controller in JOBS else "replicas"
        await self.live.send("PATCH", self.path, {"spec": {field: 3}})

    async def roll_out(self) -> None:
        """Replace the pods: by another template, or by another Job of the same name."""
        live = self.live
        if self.case.controller not in JOBS:
            version = {"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}}
            await live.send("PATCH", self.path, version)
            return
        await live.send("DELETE", self.path, {"propagationPolicy": "Background"})
        # The real server runs no garbage collector here.
        for one in await live.pods() if live.is_real else ():
            if is_web(one):
                path = f"{live.core}/pods/{one['metadata']['name']}"
                await live.send("DELETE", path, {"gracePeriodSeconds": 0})
        while (await live.send("GET", self.path))["kind"] == "Job":
            await pause()
        await self.create()

    async def propose(self, **limits: int) -> Json:
        """Create the plan and return it once it is calculated."""
        spec = {
            "goal": {"waiting": f"{self.cluster.ns}/train"},
            "limits": {"minAgeSeconds": 0, **limits},
            "allow": ["job-retries"] if self.case.controller == "retries" else [],
        }
        await self.live.send("POST", PLANS, {**PLAN, "spec": spec})
        plan = await self.live.plan("Proposed", "Impossible", "Invalid")
        assert plan["status"]["phase"] == "Proposed", plan["status"]
        number = 2 if self.case.controller == "gangs" else 1
        assert len(plan["status"]["moves"]) == number, plan["status"]
        return plan

    async def approve(self, plan: Json) -> None:
        """Approve the plan that was calculated last."""
        approval = {"spec": {"approved": plan["status"]["planHash"]}}
        await self.live.send("PATCH", f"{PLANS}/defragment", approval)

    async def until(self, state: str) -> list[Json]:
        """Return the moves of the plan once they are in a state; approve each new calculation."""
        while True:
            plan = await self.live.plan(*OPEN, *CLOSED)
            assert plan["status"]["phase"] in OPEN, plan["status"]
            moves: list[Json] = plan["status"]["moves"]
            if all(move["state"] == state for move in moves):
                return moves
            if plan["status"]["phase"] == "Proposed":
                await self.approve(plan)
            await pause()

    async def end(self) -> Json:
        """Return the status of the plan once it has ended; approve each new calculation."""
        while True:
            plan = await self.live.plan(*OPEN, *CLOSED)
            status: Json = plan["status"]
            if status["phase"] in CLOSED:
                break
            if status["phase"] == "Proposed":
                await self.approve(plan)
            await pause()
        finished = [one for one in status["conditions"] if one["type"] == "Finished"]
        assert all(one["reason"] and one["message"] for one in finished)
        assert finished or status["phase"] == "Impossible", status
        return status

    async def fill_all_but(self, *nodes: str) -> None:
        """Bind pods of another scheduler that take all cpu of the other nodes.

        The replacements lose their gates later: the daemon reads both from one watch, in this
        order.
        """
        used = used_by_node(await self.live.pods())
        for node in sorted({"node-0", "node-1", "node-2"} - set(nodes)):
            own = {"nodeName": node, "terminationGracePeriodSeconds": 0}
            await self.live.filler(f"rude-{node}", own, str(CPUS - used[node]))

    async def check(self) -> None:
        """Assert that the pod that may not move has stayed, and that the budget was kept."""
        assert await self._kept() == self.keeper
        assert self.live.fewest >= self.least

    async def _kept(self) -> tuple[str, str]:
        while True:
            for one in await self.live.pods():
                if one["metadata"].get("labels", {}).get("app") == "keeper" and is_ready(one):
                    return one["metadata"]["uid"], one["spec"]["nodeName"]
            await pause()


def workload(name: str, replicas: int, template: Json) -> Json:
    """Return a Deployment, or most of a StatefulSet."""
    spec: Json = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": name}},
        "template": template,
    }
    return {"metadata": {"name": name}, "spec": spec}


def template(app: str, priority: int) -> Json:
    """Return a template of pods of 1 cpu; without a priority they may not move."""
    meta: Json = {"labels": {"app": app}}
    spec = dict(TEMPLATE["spec"])
    if priority:
        spec["priorityClassName"] = "work"
    else:
        meta["annotations"] = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    return {"metadata": meta, "spec": spec}
