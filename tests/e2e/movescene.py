"""The pods of the tests in which something else happens while a MovePlan is executed."""

from tests.apiserver.patience import pause
from tests.e2e.movesworld import CPUS, PLAN, PLANS, TEMPLATE, Json, Live, is_ready, used_by_node

OPEN = ("Proposed", "Executing")
CLOSED = ("Completed", "Aborted", "Impossible", "Invalid")
FINALIZER = "example.com/hold"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


class Scene:
    """A pod that waits for a whole node, two pods that may move, and one that may not.

    The pod that may not move has the lowest priority, so its move would be the best one.
    """

    def __init__(self, live: Live) -> None:
        self.live, self.world = live, live.world
        self.keeper: tuple[str, str] = ("", "")  # uid and node

    async def prepare(self, kind: str) -> None:
        """Create the pods; those that may move are of a Deployment or a StatefulSet."""
        live = self.live
        fields = {"value": 10, "preemptionPolicy": "Never"}
        await live.send("POST", CLASSES, {"metadata": {"name": "work"}, **fields})
        await self._workload("deployments", "keeper", 1, template("keeper", 0))
        self.keeper = await self._kept()
        own = template("web", 10)
        if kind == "statefulsets":
            # The controller creates the replacement when the object is gone: not before the test
            # removes the finalizer.
            own["metadata"]["finalizers"] = [FINALIZER]
        await self._workload(kind, "web", 2, own)
        nodes = await live.web(2)
        assert len({*nodes.values(), self.keeper[1]}) == 3
        await live.budget(1)
        await self.world.pod(
            "train",
            spec={"nodeSelector": {}, "priorityClassName": "work"},
            requests={"cpu": str(CPUS)},
        )

    async def propose(self) -> Json:
        """Create the plan and return it once it is calculated."""
        goal = {"goal": {"waiting": f"{self.world.ns}/train"}, "limits": {"minAgeSeconds": 0}}
        await self.live.send("POST", PLANS, {**PLAN, "spec": goal})
        plan = await self.live.plan("Proposed", "Impossible", "Invalid")
        assert plan["status"]["phase"] == "Proposed", plan["status"]
        return plan

    async def approve(self, plan: Json) -> None:
        """Approve the plan that was calculated last."""
        approval = {"spec": {"approved": plan["status"]["planHash"]}}
        await self.live.send("PATCH", f"{PLANS}/defragment", approval)

    async def until(self, state: str) -> Json:
        """Return the move of the plan once it is in a state; approve each new calculation."""
        while True:
            plan = await self.live.plan(*OPEN, *CLOSED)
            assert plan["status"]["phase"] in OPEN, plan["status"]
            (move,) = plan["status"]["moves"]
            if move["state"] == state:
                found: Json = move
                return found
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

        A replacement is created later: the daemon reads both from one watch, in this order.
        """
        used = used_by_node(await self.live.pods())
        for node in sorted({"node-0", "node-1", "node-2"} - set(nodes)):
            own = {"nodeName": node, "terminationGracePeriodSeconds": 0}
            await self.live.filler(f"rude-{node}", own, str(CPUS - used[node]))

    async def release(self) -> None:
        """Remove the finalizers of terminating pods."""
        for one in await self.live.pods():
            if "deletionTimestamp" in one["metadata"]:
                path = f"{self.live.core}/pods/{one['metadata']['name']}"
                await self.live.send("PATCH", path, {"metadata": {"finalizers": None}})

    async def check(self) -> None:
        """Assert that the pod that may not move has stayed, and that the budget was kept."""
        assert await self._kept() == self.keeper
        assert self.live.fewest >= 1

    async def _kept(self) -> tuple[str, str]:
        while True:
            for one in await self.live.pods():
                if one["metadata"].get("labels", {}).get("app") == "keeper" and is_ready(one):
                    return one["metadata"]["uid"], one["spec"]["nodeName"]
            await pause()

    async def _workload(self, kind: str, name: str, replicas: int, template: Json) -> None:
        spec: Json = {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template,
        }
        if kind == "statefulsets":
            spec |= {"serviceName": name, "podManagementPolicy": "Parallel"}
        body = {"metadata": {"name": name}, "spec": spec}
        await self.live.send("POST", f"{self.live.apps}/{kind}", body)


def template(app: str, priority: int) -> Json:
    """Return a template of pods of 1 cpu; without a priority they may not move."""
    meta: Json = {"labels": {"app": app}}
    spec = dict(TEMPLATE["spec"])
    if priority:
        spec["priorityClassName"] = "work"
    else:
        meta["annotations"] = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    return {"metadata": meta, "spec": spec}
