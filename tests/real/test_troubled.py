"""A bad answer, lost binds and fail-over on the real API server, checked against its own
history.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from scheduler.kube.api import Response
from tests.apiserver.patience import pause, until
from tests.real.api import Api
from tests.real.background import background
from tests.real.troubled import Replica, replica
from tests.simulated.groupcapacity import POD_GROUP
from tests.simulated.history import History

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

PODS = "/api/v1/namespaces/default/pods"
GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEFINITION = yaml.safe_load((Path(__file__).parents[2] / "crds" / "podgroups.yaml").read_text())
NOT_FOUND = Response(404, reason="NotFound", message="404 page not found")
# Binds that show that gangs were placed at all: ten of eight.
MANY = 80


def node(name: str, cpu: str) -> bytes:
    """Return a node with this much CPU."""
    capacity = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
    meta = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return json.dumps(
        {"metadata": meta, "status": {"capacity": capacity, "allocatable": capacity}}
    ).encode()


def pod(name: str, cpu: str = "1", group: str = "", **spec: Any) -> bytes:
    """Return a pod of Trellis."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    meta = {"name": name, "labels": {POD_GROUP: group} if group else {}}
    return json.dumps(
        {
            "metadata": meta,
            "spec": {
                "schedulerName": "trellis",
                "terminationGracePeriodSeconds": 0,
                "containers": [container],
                **spec,
            },
        }
    ).encode()


@asynccontextmanager
async def judged(api: Api) -> AsyncIterator[History]:
    """Follow nodes and pods and judge them until the block ends."""
    history, clock = History(), asyncio.get_running_loop().time
    nodes, _ = await api.list("/api/v1/nodes")
    pods, version = await api.list("/api/v1/pods")
    for kind, objects in (("Node", nodes), ("Pod", pods)):
        for obj in objects:
            history.take(kind, "ADDED", obj, clock())

    async def follow() -> None:
        async for event in api.watch("/api/v1/pods", version):
            history.take("Pod", event["type"], event["object"], clock())

    async with background(follow()):
        yield history


async def test_a_404_for_pods_fills_no_node_twice(own_real_cluster):
    """20 nodes full with 800 pods, 60 that do not fit; pods answers 404 and the watches break."""
    async with Api(own_real_cluster) as api:
        await api.create_all("/api/v1/nodes", (node(f"n{n:02}", "40") for n in range(20)))
        full = (pod(f"p{n}", nodeName=f"n{n % 20:02}") for n in range(800))
        await api.create_all(PODS, full)
        async with judged(api) as history:
            one = await replica(own_real_cluster, 1)
            try:
                await until(lambda: one.daemon.engine.is_leading, "the lease")
                await api.create_all(PODS, (pod(f"late-{n}") for n in range(60)))
                queues = one.daemon.engine.queues
                await until(lambda: len(queues) == 60, "the pods")
                one.client.refusals["/api/v1/pods"] = NOT_FOUND
                one.client.cut()
                await until(lambda: one.daemon.engine.intake.behind, "the pause")
                for _ in range(100):
                    await pause()
                reported = one.daemon._synced.check()
                one.client.refusals.clear()
                await until(lambda: not one.daemon.engine.intake.behind, "the list")
                for _ in range(100):
                    await pause()
            finally:
                await one.kill()
        bound, _ = await api.list("/api/v1/pods?fieldSelector=spec.nodeName!%3D")

    assert "Pod" in str(reported)
    assert [] == history.broken
    assert 800 == len(bound)


async def test_gangs_in_bursts_overcommit_nothing(own_real_cluster, report):
    """Gangs of eight in bursts, binds that arrive late, node updates, two leaders killed."""
    random = Random(8)
    async with Api(own_real_cluster) as api:
        await api.expect("POST", DEFINITIONS, DEFINITION)
        await api.create_all("/api/v1/nodes", (node(f"n{n:02}", "8") for n in range(12)))
        async with judged(api) as history:
            replicas = [await replica(own_real_cluster, seed) for seed in (1, 2)]
            assert all(one.daemon.engine.group_planners() for one in replicas)
            made, gone = 0, set[int]()
            try:
                for burst in range(12):
                    for one in replicas:
                        one.client.lost = 0.15
                    for _ in range(3):
                        await gang(api, made, random.choice(("1", "1500m", "350m")))
                        made += 1
                    await api.patch(f"/api/v1/nodes/n{random.randrange(12):02}", touched(burst))
                    if burst in (4, 8):
                        await until(lambda: leading(replicas), "a leader")
                        leader = leading(replicas)[0]
                        await leader.kill()
                        replicas.remove(leader)
                        replicas.append(await replica(own_real_cluster, 10 + burst))
                    for _ in range(random.randrange(100)):
                        await pause()
                    whole = [n for n in range(made) if n not in gone and is_whole(history, n)]
                    for number in random.sample(whole, min(2, len(whole))):
                        gone.add(number)
                        await api.delete_all(f"{PODS}/g{number}-{m}" for m in range(8))
                for one in replicas:
                    one.client.lost = 0.0
                await until(lambda: leading(replicas), "a leader")
                # More gangs than fit, some of which may have arrived before a replica led.
                await until(lambda: history.binds > MANY and are_whole(history), "whole gangs")
            finally:
                for one in replicas:
                    await one.kill()
    report("gangs", {"gangs": made, "binds": history.binds, "broken": history.broken})

    assert [] == history.broken


def leading(replicas: Sequence[Replica]) -> list[Replica]:
    """Return the present leader, if there is one."""
    return [one for one in replicas if one.daemon.engine.is_leading]


async def gang(api: Api, number: int, cpu: str) -> None:
    """Add a group of eight."""
    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": f"g{number}"},
        "spec": {"minMember": 8},
    }
    await api.expect("POST", GROUPS, group)
    await api.create_all(PODS, (pod(f"g{number}-{m}", cpu, f"g{number}") for m in range(8)))


def touched(number: int) -> dict[str, Any]:
    """Return a patch as a node's agents make it all the time."""
    return {"metadata": {"labels": {"touched": str(number)}}}


def members(history: History) -> dict[str, int]:
    """Return how many members of each group are bound now."""
    found: dict[str, int] = {}
    for bound in history.bound_pods.values():
        name = bound.key.partition("/")[2].rpartition("-")[0]
        found[name] = found.get(name, 0) + 1
    return found


def is_whole(history: History, number: int) -> bool:
    """Return whether all members of a group are bound."""
    return members(history).get(f"g{number}", 0) == 8


def are_whole(history: History) -> bool:
    """Return whether no group is bound in part."""
    return set(members(history).values()) <= {8}
