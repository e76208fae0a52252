"""The result of the daemon for a cluster equals that of `simulate` for its snapshot."""

import asyncio
import json
from pathlib import Path
from random import Random
from typing import Any

from tests.e2e.livecluster import LiveCluster, daemon

ZONE = "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def spec_of(random: Random) -> dict[str, Any]:
    """Return the random requirements of one pod."""
    selector = {"labelSelector": {"matchLabels": {"app": random.choice("xy")}}}
    apart = {"topologyKey": "kubernetes.io/hostname"} | selector
    spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"} | selector
    preferred = {"weight": 10, "preference": {"matchExpressions": [_zone_is("b")]}}
    return random.choice(
        [
            {},
            {},
            {"affinity": {"podAntiAffinity": {REQUIRED: [apart]}}},
            {"topologySpreadConstraints": [spread]},
            {
                "affinity": {
                    "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}
                }
            },
        ]
    )


def _zone_is(zone: str) -> dict[str, Any]:
    return {"key": ZONE, "operator": "In", "values": [zone]}


async def fill(cluster: LiveCluster) -> None:
    """Create nodes of two zones and pods that request more than their capacity."""
    random = Random(7)
    for index in range(6):
        name = f"n{index}-{cluster.ns}"
        labels = {ZONE: "ab"[index % 2], "kubernetes.io/hostname": name, "case": cluster.ns}
        await cluster.node(name, cpu=str(2 + index % 3), labels=labels)
    for index in range(30):
        await cluster.pod(
            f"p{index:02}",
            labels={"app": random.choice("xy")},
            requests={"cpu": random.choice(["250m", "500m", "2"]), "memory": "100Mi"},
            spec=spec_of(random),
        )


async def outcomes(cluster: LiveCluster) -> dict[str, tuple[str, list[str]]]:
    """Return each pod's node, and all its messages before it had one.

    A bound pod wakes pods that it may help, and their next decision may have another message.
    Events have the first one; when the next follows before the pod's new version is known, its
    event counts as a repeat, as with kube-scheduler, and the condition alone has the newer text.
    """
    pods, events = f"{cluster.url}/api/v1", f"{cluster.url}/apis/events.k8s.io/v1"
    async with cluster.session.get(f"{pods}/namespaces/{cluster.ns}/pods") as answer:
        items = (await answer.json())["items"]
    async with cluster.session.get(f"{events}/namespaces/{cluster.ns}/events") as answer:
        reported = (await answer.json())["items"]
    stated: dict[str, list[str]] = {
        one["metadata"]["name"]: [
            condition["message"]
            for condition in one["status"].get("conditions", ())
            if condition["type"] == "PodScheduled" and condition["status"] == "False"
        ]
        for one in items
    }
    for event in reported:
        if event["reason"] == "FailedScheduling":
            stated[event["regarding"]["name"]].append(event["note"])
    nodes = {one["metadata"]["name"]: one["spec"].get("nodeName", "") for one in items}
    return {name: (node, stated[name]) for name, node in nodes.items()}


def unreported(
    predicted: dict[str, tuple[str, str]], found: dict[str, tuple[str, list[str]]]
) -> dict[str, tuple[str, list[str]]]:
    """Return the pods without the predicted message, with their messages."""
    return {
        name: (text, found[name][1])
        for name, (_, text) in predicted.items()
        if text and text not in found[name][1]
    }


async def test_the_daemon_does_what_simulate_says(cluster: LiveCluster, tmp_path: Path):
    """Nodes and messages are equal, for a snapshot taken before the daemon starts."""
    await fill(cluster)
    file = tmp_path / "before.json"
    code, out, err = await cluster.run("snapshot")
    assert (0, "") == (code, err)
    await asyncio.to_thread(file.write_text, out)
    words = ["simulate", "--snapshot", str(file), "--ties", "uid", "-o", "json"]
    _, out, _ = await cluster.run(*words)
    predicted = {
        one["name"]: (one["node"] or "", one["message"])
        for one in json.loads(out)["pods"]
        if one["namespace"] == cluster.ns
    }
    assert 30 == len(predicted)
    assert 5 < sum(not node for node, _ in predicted.values()) < 25

    async with daemon(cluster, tmp_path):

        async def all_reported() -> bool:
            now = await outcomes(cluster)
            return all(node or stated for node, stated in now.values()) and not unreported(
                predicted, now
            )

        await cluster.until(all_reported)
        found = await outcomes(cluster)
    assert {} == unreported(predicted, found)

    assert {name: node for name, (node, _) in predicted.items()} == {
        name: node for name, (node, _) in found.items()
    }
