"""CompositePodGroups with a daemon beside a server of Kubernetes 1.37: placed, reported, and equal
after a restart.
"""

from pathlib import Path
from typing import Any

import pytest

from scheduler.sandbox.kinds.kinds import RELEASES
from tests.apiserver.patience import asked
from tests.e2e.operatorcluster import sandbox
from tests.e2e.test_groups_anywhere import PODS, Cluster, running
from tests.unit.plugins.compositeobjects import RACK, composite, leaf, pods

pytestmark = pytest.mark.allow_blocking("servers and clients are set up on the test's loop")
Json = dict[str, Any]
ROOT = "/apis/scheduling.k8s.io/v1alpha3/namespaces/default"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
PLACED = "Scheduled"


async def nodes(cluster: Cluster, rack: str, cpus: list[int]) -> None:
    """Make the nodes of a rack."""
    for at, cpu in enumerate(cpus):
        meta = {"name": f"{rack}-{at}", "labels": {RACK: rack}}
        amounts = {"cpu": str(cpu), "memory": "16Gi", "pods": "110"}
        status = {"capacity": amounts, "allocatable": amounts}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status}
        made = await cluster.send("POST", "/api/v1/nodes", body)
        await cluster.send("PUT", f"/api/v1/nodes/{rack}-{at}/status", {**made, "status": status})


async def make(cluster: Cluster, *objects: Json) -> None:
    """Make groups and pods."""
    paths = {"Pod": PODS, "PodGroup": f"{ROOT}/podgroups"}
    for one in objects:
        path = paths.get(one["kind"], f"{ROOT}/compositepodgroups")
        meta = {"name": one["metadata"]["name"]}
        await cluster.send("POST", path, {**one, "metadata": meta})


async def reported(cluster: Cluster, plural: str, name: str, reason: str, text: str = "") -> Json:
    """Return the condition of a group when it has that reason, with a text in its message."""
    path = f"{ROOT}/{plural}/{name}"

    def conditions(found: Json) -> list[Json]:
        of_it = found.get("status", {}).get("conditions", ())
        return [one for one in of_it if one["reason"] == reason and text in one["message"]]

    found = await asked(lambda: cluster.send("GET", path), lambda one: bool(conditions(one)), path)
    (condition,) = conditions(found)
    return condition


async def where(cluster: Cluster, group: str, count: int) -> set[str]:
    """Return the racks of the bound pods of a group, once so many are bound."""

    def bound(found: Json) -> list[str]:
        own = (one for one in found["items"] if one["metadata"]["name"].startswith(f"{group}-"))
        return [one["spec"]["nodeName"] for one in own if one["spec"].get("nodeName")]

    found = await asked(
        lambda: cluster.send("GET", PODS), lambda one: len(bound(one)) == count, group
    )
    return {name.partition("-")[0] for name in bound(found)}


async def test_the_status_of_a_composite_group_is_reported_through_a_restart(tmp_path: Path):
    """Two of three replicas are needed and one fits: all wait with a reason.

    A node is added while no daemon runs; the next daemon places two, and reports to the third that
    it waits until there is capacity for it.
    """
    async with sandbox(tmp_path, RELEASES[1]) as kubeconfig:
        async with running(kubeconfig) as cluster:
            await nodes(cluster, "a", [2, 2])
            replicas = [(leaf(f"r{at}", 4, "app", key=RACK), pods(f"r{at}", 4)) for at in range(3)]
            await make(cluster, composite("app", 2))
            for group, members in replicas:
                await make(cluster, group, *members)
            rule = "CompositePodGroup app minimum 2"
            root = await reported(cluster, "compositepodgroups", "app", "Unschedulable", rule)
            child = await reported(cluster, "podgroups", "r2", "Unschedulable", rule)
        assert ("CompositePodGroupInitiallyScheduled", "False") == (root["type"], root["status"])
        assert ("PodGroupInitiallyScheduled", "False") == (child["type"], child["status"])
        assert root["message"] == child["message"]

        async with running(kubeconfig) as cluster:
            await nodes(cluster, "b", [4])
            root = await reported(cluster, "compositepodgroups", "app", PLACED)
            assert "True" == root["status"]
            racks = [await where(cluster, f"r{at}", 4) for at in range(2)]
            assert [{"a"}, {"b"}] == sorted(racks, key=str)
            for at in range(2):
                assert "True" == (await reported(cluster, "podgroups", f"r{at}", PLACED))["status"]
            out = "the group default/app has its minimum without this one"
            await reported(cluster, "podgroups", "r2", "Unschedulable", out)

        async with running(kubeconfig) as cluster:
            await nodes(cluster, "c", [4])
            assert {"c"} == await where(cluster, "r2", 4)
            assert "True" == (await reported(cluster, "podgroups", "r2", PLACED))["status"]
            assert [{"a"}, {"b"}] == sorted(
                [await where(cluster, f"r{at}", 4) for at in range(2)], key=str
            )
            events = (await cluster.send("GET", EVENTS))["items"]
            about = {
                (one["reason"], one["regarding"]["name"])
                for one in events
                if one["regarding"]["kind"] == "CompositePodGroup"
            }
            assert {("FailedScheduling", "app"), ("Scheduled", "app")} <= about
