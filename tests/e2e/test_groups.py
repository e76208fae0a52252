"""Groups through the whole daemon: a Job and a ConfigMap in, a placement and its description
out.
"""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scheduler.demo.stage import stage
from scheduler.sandbox.kinds.kinds import CONFIGMAPS, EVENTS, PODS
from scheduler.sandbox.store.store import ObjectStore
from tests.apiserver.patience import PATIENCE_S

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "groups"
Object = dict[str, Any]


async def until(store: ObjectStore, holds: Callable[[ObjectStore], bool]) -> None:
    """Wait until `holds` is true of the cluster, evaluated at each change of a pod, a ConfigMap or
    an event.
    """
    woken = asyncio.Event()
    watches = [store.watch(kind, wake=woken.set) for kind in (PODS, CONFIGMAPS, EVENTS)]
    try:
        while not holds(store):
            await woken.wait()
            woken.clear()
            for watch in watches:
                watch.changes()
    finally:
        for watch in watches:
            watch.close()


def data_of(store: ObjectStore, name: str) -> dict[str, str]:
    found = store.find(CONFIGMAPS, "default", name)
    return {} if found is None else found.obj["data"]


def members(store: ObjectStore) -> list[Object]:
    return [stored.obj for stored in store.list(PODS)]


def notes_about(store: ObjectStore, name: str) -> list[str]:
    """Return the messages of the events about a ConfigMap."""
    found = [stored.obj for stored in store.list(EVENTS)]
    return [one["message"] for one in found if one["involvedObject"].get("name") == name]


def condition(pod: Object) -> Object:
    found = pod["status"].get("conditions", ())
    return next((one for one in found if one["type"] == "PodScheduled"), {})


@pytest.mark.allow_blocking("reads manifests and starts the helper process")
async def test_the_designs_example_is_placed_and_described():
    """8 pods with rack pack and node spread are placed 3 + 3 + 2 in one rack. Status, placement,
    rank, times and labels are written.
    """
    async with stage(EXAMPLES / "cluster.yaml", EXAMPLES) as at, asyncio.timeout(PATIENCE_S):
        await at.apply("topology.yaml")
        await at.apply("job.yaml")
        await until(at.store, lambda store: data_of(store, "group-a").get("status") == "Bound")
        rank = "sakkara.member.rank"
        await until(at.store, lambda s: all(rank in p["metadata"]["labels"] for p in members(s)))
        await until(at.store, lambda store: bool(notes_about(store, "group-a")))
        data, pods = data_of(at.store, "group-a"), members(at.store)
        notes = notes_about(at.store, "group-a")

    assert ["bound 8 pods of the group to 3 nodes; no placement is better"] == notes
    proof = json.loads(data["proof"])
    assert proof["optimal"]
    assert proof["objective"] == proof["bound"] != []
    tree = json.loads(data["placement"])["root"]
    assert 1 == len(tree)
    nodes = next(iter(tree.values()))
    assert [2, 3, 3] == sorted(len(placed) for placed in nodes.values())
    by_name = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods}
    for node, placed in nodes.items():
        assert {node} == {by_name[name] for name in placed}
    labels = [pod["metadata"]["labels"] for pod in pods]
    assert list(range(8)) == sorted(int(one[rank]) for one in labels)
    assert {"Bound"} == {one["sakkara.member.status"] for one in labels}
    assert {"1"} == {one["sakkara.member.retries"] for one in labels}
    assert "message" not in data
    assert data["rank"].startswith("[(job-a-")
    assert int(data["schedTotalTimeMilli"]) >= 0
    assert int(data["schedSolverTimeMilli"]) >= 0
    assert data["schedBeginTime"] <= data["schedEndTime"]


@pytest.mark.allow_blocking("reads manifests and starts the helper process")
async def test_a_group_that_cannot_fit_says_why_on_every_member():
    """An autoscaler sees PodScheduled=False, Unschedulable on each.

    The ConfigMap holds the reason.
    """

    def all_are_reported(store: ObjectStore) -> bool:
        found = [condition(pod).get("reason") for pod in members(store)]
        return ["Unschedulable"] * 6 == found

    async with stage(EXAMPLES / "cluster.yaml", EXAMPLES) as at, asyncio.timeout(PATIENCE_S):
        await at.apply("topology.yaml")
        await at.apply("too-strict.yaml")
        await until(at.store, lambda store: data_of(store, "group-b").get("status") == "Failed")
        await until(at.store, all_are_reported)
        data, pods = data_of(at.store, "group-b"), members(at.store)

    assert "node factor 4" in data["message"]
    assert {"False"} == {condition(pod)["status"] for pod in pods}
