"""Record the comparison: the same objects and changes on a fresh control plane, with either
scheduler.

Four phases, and a snapshot of all pods and events after each relevant one: before any node exists;
then nodes and pods that fit; then pods that do not; then changes that free most of them, one by
one. A change is made when the previous one has had its effect, so that both schedulers see the same
states.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from tests.apiserver.patience import pause, until
from tests.apiserver.realcluster import RealCluster
from tests.perf.workload import encoded
from tests.real import population
from tests.real.api import STRATEGIC, Api
from tests.real.background import background
from tests.real.population import KIND, NAMESPACE, Kind
from tests.real.schedulers import Running, Scheduler

Json = dict[str, Any]

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
QUIET_S = 2.0
NO_NODES, WAITING, FREED = "no nodes", "waiting", "freed"
EARLY = Kind("early", population.in_pool("general"), count=1)


class Snapshot(msgspec.Struct):
    """All pods, events and metrics at one moment without activity."""

    pods: dict[str, Json]
    events: list[Json]
    metrics: str


class Recording(msgspec.Struct):
    """The results of one scheduler: snapshots by phase, and the pool of every node."""

    scheduler: str
    snapshots: dict[str, Snapshot] = {}
    pools: dict[str, str] = {}


class CaseCluster:
    """The cluster of a running case, with all its pods in memory."""

    def __init__(self, api: Api, running: Running) -> None:
        self.api = api
        self.running = running
        self.pods: dict[str, Json] = {}

    async def follow(self, resource_version: str) -> None:
        """Keep the pods up to date until cancelled."""
        async for event in self.api.watch("/api/v1/pods", resource_version):
            pod = event["object"]
            if event["type"] == "DELETED":
                self.pods.pop(pod["metadata"]["name"], None)
            else:
                self.pods[pod["metadata"]["name"]] = pod

    async def settled(self, kinds: list[Kind], **how: str) -> None:
        """Wait until the pods of these kinds are as they should be; `how` overrides by kind."""
        wanted = {kind.name: (kind.count, how.get(kind.name, kind.settles)) for kind in kinds}

        def missing() -> dict[str, int]:
            found = Counter(
                pod["metadata"]["labels"][KIND]
                for pod in self.pods.values()
                if state_of(pod) == wanted.get(pod["metadata"]["labels"][KIND], (0, ""))[1]
            )
            return {name: n - found[name] for name, (n, _) in wanted.items() if found[name] < n}

        try:
            await until(lambda: not missing(), "pods to settle")
        except AssertionError as error:
            error.add_note(f"still missing: {missing()}")
            raise

    async def reached(self, kind: str, state: str, count: int) -> None:
        """Wait until `count` pods of a kind are in a state."""

        def found() -> int:
            return sum(
                state_of(pod) == state
                for pod in self.pods.values()
                if pod["metadata"]["labels"][KIND] == kind
            )

        await until(lambda: found() >= count, f"{count} pods of kind {kind}: {state}")

    async def snapshot(self) -> Snapshot:
        """Wait until no more events arrive and return the present objects."""
        count, quiet_s = -1, 0.0
        while quiet_s < QUIET_S:
            now = await self.api.count(EVENTS)
            quiet_s = quiet_s + 0.2 if now == count else 0.0
            count = now
            await pause(0.2)
        pods, _ = await self.api.list(PODS)
        events, _ = await self.api.list(EVENTS)
        by_name = {pod["metadata"]["name"]: pod for pod in pods}
        return Snapshot(by_name, events, self.running.get("/metrics"))

    async def create(self, kinds: list[Kind], scheduler_name: str) -> None:
        """Create the pods of these kinds."""
        await self.api.create_all(PODS, encoded(population.pods(kinds, scheduler_name)))


async def record(
    cluster: RealCluster, scheduler: Scheduler, nodes: int, pods: int, profile: Json | None = None
) -> Recording:
    """Run all phases with one scheduler; `profile` are fields of its one profile."""
    recording = Recording(scheduler.name)
    config = {"profiles": [{"schedulerName": scheduler.scheduler_name, **(profile or {})}]}
    name = scheduler.scheduler_name
    waiting = population.waiting()
    fitting = population.fitting(pods - sum(kind.count for kind in waiting))
    async with Api(cluster) as api:
        await api.expect("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        await api.expect("POST", PRIORITY_CLASSES, population.PRIORITY_CLASS)
        _, version = await api.list("/api/v1/pods")
        with scheduler.start(cluster, config) as running:
            await running.wait_ready()
            stage = CaseCluster(api, running)
            async with background(stage.follow(version)):
                await stage.create([EARLY], name)
                await stage.settled([EARLY])
                recording.snapshots[NO_NODES] = await stage.snapshot()
                objects = list(population.nodes(nodes))
                recording.pools = {n["metadata"]["name"]: pool_of(n) for n in objects}
                await api.create_all("/api/v1/nodes", encoded(iter(objects)))
                await stage.settled([EARLY], early="bound")
                await stage.create(fitting, name)
                await stage.settled(fitting)
                await stage.create(waiting, name)
                await stage.settled(waiting)
                recording.snapshots[WAITING] = await stage.snapshot()
                for change in CHANGES:
                    await change(stage)
                recording.pools["big"] = "big"
                recording.snapshots[FREED] = await stage.snapshot()
    return recording


def state_of(pod: Json) -> str:
    """Return bound, unschedulable, error, gated or new."""
    if pod["spec"].get("nodeName"):
        return "bound"
    reasons = {
        condition.get("reason")
        for condition in pod["status"].get("conditions", [])
        if condition["type"] == "PodScheduled"
    }
    states = {"Unschedulable": "unschedulable", "SchedulerError": "error"}
    known = {**states, "SchedulingGated": "gated"}
    return next((state for reason, state in known.items() if reason in reasons), "new")


def pool_of(node: Json) -> str:
    """Return the pool a node is in."""
    return str(node["metadata"]["labels"][population.POOL])


async def remove_taint(stage: CaseCluster) -> None:
    """Remove the taint that keeps some pods pending."""
    await stage.api.patch("/api/v1/nodes/node-00000", {"spec": {"taints": None}})
    await stage.reached("tainted", "bound", 2)
    await stage.reached("name-of-tainted", "bound", 2)


async def uncordon(stage: CaseCluster) -> None:
    """Uncordon the node that some pods select."""
    await stage.api.patch("/api/v1/nodes/node-00001", {"spec": {"unschedulable": None}})
    await stage.reached("cordoned", "bound", 2)


async def label_node(stage: CaseCluster) -> None:
    """Set the label that some pods select."""
    labels = {"compare.example/nowhere": "true"}
    await stage.api.patch("/api/v1/nodes/node-00008", {"metadata": {"labels": labels}})
    await stage.reached("nowhere", "bound", 2)
    await stage.reached("never-preempts", "bound", 2)


async def free_port(stage: CaseCluster) -> None:
    """Delete the pod that holds the port."""
    await stage.api.delete_all([f"{PODS}/takes-port-00000"])
    await stage.reached("port-taken", "bound", 1)


async def free_slot(stage: CaseCluster) -> None:
    """Delete the pod on the one-pod node: one of two pending pods is placed there."""
    await stage.api.delete_all([f"{PODS}/fills-onepod-00000"])
    await stage.reached("onepod-is-full", "bound", 1)


async def open_gates(stage: CaseCluster) -> None:
    """Remove the gates, of some pods one after the other."""
    for kind, names in (("gated", []), ("gated-twice", ["compare.example/a"])):
        for number in range(2):
            path = f"{PODS}/{kind}-{number:05d}"
            await stage.api.patch(path, {"spec": {"schedulingGates": as_gates(names)}})
    await stage.reached("gated", "bound", 2)
    for number in range(2):
        path = f"{PODS}/gated-twice-{number:05d}"
        await stage.api.patch(path, {"spec": {"schedulingGates": None}})
    await stage.reached("gated-twice", "bound", 2)


async def add_node(stage: CaseCluster) -> None:
    """Add a node that is large enough for the largest pods."""
    await stage.api.create_all("/api/v1/nodes", encoded(iter([population.big_node()])))
    await stage.reached("too-much-cpu", "bound", 2)
    await stage.reached("many-reasons", "bound", 1)


async def touch_waiting_pod(stage: CaseCluster) -> None:
    """Add a toleration to a pending pod: its own update makes it schedulable."""
    for number in range(2):
        tolerations = population.tolerating("compare.example/out")["tolerations"]
        await stage.api.patch(
            f"{PODS}/evicting-{number:05d}", {"spec": {"tolerations": tolerations}}, STRATEGIC
        )
    await stage.reached("evicting", "bound", 2)


def as_gates(names: list[str]) -> list[Json] | None:
    """Return gates of these names as a patch has them."""
    return [{"name": name} for name in names] or None


CHANGES: tuple[Callable[[CaseCluster], Awaitable[None]], ...] = (
    remove_taint,
    uncordon,
    label_node,
    free_port,
    free_slot,
    open_gates,
    touch_waiting_pod,
    add_node,
)
