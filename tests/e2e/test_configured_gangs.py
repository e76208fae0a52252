"""Twelve configuration files, one daemon after the other: a gang that does not fit starts no
member.
"""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from scheduler.testing import pod
from tests.apiserver.patience import asked
from tests.e2e.livecluster import QUIET, LiveCluster, daemon
from tests.unit.config.profilefiles import GATING, HEAD, files

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
SIZE = 3
Json = dict[str, Any]
KUEUE = {
    "labels": {"kueue.x-k8s.io/pod-group-name": "k"},
    "annotations": {"kueue.x-k8s.io/pod-group-total-count": str(SIZE)},
}
SAKKARA = {"labels": {"sakkara.group.name": "c"}}


async def create(cluster: LiveCluster, name: str, cpu: str, named: Mapping[str, Any]) -> None:
    """Create a pod for this case's node; `named` is how it names its group."""
    spec = {
        "schedulerName": "trellis",
        "nodeSelector": {"case": cluster.ns},
        "terminationGracePeriodSeconds": 0,
    }
    body = pod(name, namespace=cluster.ns, requests={"cpu": cpu}, spec=spec)
    del body["spec"]["nodeName"], body["status"]
    body["metadata"] |= named
    await cluster.post("pods", body)


async def begin(cluster: LiveCluster) -> None:
    """Create two gangs, of whose three members two fit the only node, and a pod without a group."""
    data = {"name": "c", "size": str(SIZE), "constraints": json.dumps({})}
    meta = {"name": "c", "labels": {"sakkara.group": ""}}
    await cluster.post("configmaps", {"metadata": meta, "data": data})
    await cluster.nodes("8")
    for gang, named in (("k", KUEUE), ("c", SAKKARA)):
        for at in range(SIZE):
            await create(cluster, f"{gang}-{at}", "3", named)
    await create(cluster, "single", "500m", {})


async def pods(cluster: LiveCluster) -> dict[str, Json]:
    """Return the pods by name."""
    async with cluster.session.get(f"{cluster.url}/api/v1/namespaces/{cluster.ns}/pods") as answer:
        return {one["metadata"]["name"]: one for one in (await answer.json())["items"]}


def is_decided(found: Mapping[str, Json]) -> bool:
    """Return whether the single pod is bound, and all others are bound or have a reason."""
    return all(
        one["spec"].get("nodeName") or (name != "single" and message(one))
        for name, one in found.items()
    )


def message(one: Json) -> str:
    """Return why a pod is not scheduled."""
    reported = one["status"].get("conditions") or ()
    return next((str(c.get("message", "")) for c in reported if c["type"] == "PodScheduled"), "")


async def outcome(cluster: LiveCluster, folder: Path, text: str) -> dict[str, Json]:
    """Run a daemon with this file until all pods are decided; return them."""
    file = folder / "file.yaml"
    whole = text + "leaderElection: {leaderElect: false}\n---" + QUIET.partition("---")[2]
    await asyncio.to_thread(file.write_text, whole)
    async with daemon(cluster, folder, config=file):
        return await asked(lambda: pods(cluster), is_decided, "the pods")


async def test_a_gang_that_does_not_fit_starts_no_member(cluster: LiveCluster, tmp_path: Path):
    """Whatever the file changes; the pod of no group is bound."""
    await begin(cluster)
    for name, text in files().items():
        found = await outcome(cluster, tmp_path, text)
        assert ["single"] == [one for one, pod in found.items() if pod["spec"].get("nodeName")], (
            name
        )
        url = f"{cluster.url}/api/v1/namespaces/{cluster.ns}/pods/single"
        async with cluster.session.delete(url, json={"gracePeriodSeconds": 0}) as answer:
            assert 200 == answer.status
        await asked(lambda: pods(cluster), lambda there: "single" not in there, "the end of single")
        await create(cluster, "single", "500m", {})


async def test_a_profile_that_disables_the_plugin_gates_group_pods(
    cluster: LiveCluster, tmp_path: Path
):
    """The condition names the profile and the plugin."""
    await begin(cluster)
    found = await outcome(cluster, tmp_path, f"{HEAD}{GATING % 'multiPoint'}\n")
    reported = {name: message(one) for name, one in found.items() if name != "single"}
    text = "the profile trellis disables ClusterTopologyPlacementGroup"
    assert all(one.endswith(text) for one in reported.values()), reported
    assert found["single"]["spec"].get("nodeName")
