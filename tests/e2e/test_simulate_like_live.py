"""What the daemon does with a cluster is what `simulate` says of its snapshot."""

import asyncio
import json
from pathlib import Path
from random import Random
from typing import Any

from tests.e2e.liveworld import QUIET, World, daemon

# So long that no pod is decided twice, however slowly the machine tells what was decided first.
NO_RETRY = "podInitialBackoffSeconds: 600\npodMaxBackoffSeconds: 600\n"

ZONE = "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def spec_of(random: Random) -> dict[str, Any]:
    """Return what one pod wishes for."""
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


async def fill(world: World) -> None:
    """Create nodes of two zones and pods that want more than there is."""
    random = Random(7)
    for index in range(6):
        name = f"n{index}-{world.ns}"
        labels = {ZONE: "ab"[index % 2], "kubernetes.io/hostname": name, "case": world.ns}
        await world.node(name, cpu=str(2 + index % 3), labels=labels)
    for index in range(30):
        await world.pod(
            f"p{index:02}",
            labels={"app": random.choice("xy")},
            requests={"cpu": random.choice(["250m", "500m", "2"]), "memory": "100Mi"},
            spec=spec_of(random),
        )


async def outcomes(world: World) -> dict[str, tuple[str, str]]:
    """Return each pod's node, and the message of its condition while it has none."""
    async with world.session.get(f"{world.url}/api/v1/namespaces/{world.ns}/pods") as answer:
        items = (await answer.json())["items"]
    found = {}
    for one in items:
        node, status = one["spec"].get("nodeName", ""), one.get("status", {})
        conditions = {c["type"]: c.get("message", "") for c in status.get("conditions", [])}
        found[one["metadata"]["name"]] = (node, "" if node else conditions.get("PodScheduled", ""))
    return found


async def test_the_daemon_does_what_simulate_says(world: World, tmp_path: Path):
    """Node by node and word by word, for a snapshot taken before the daemon begins."""
    await fill(world)
    file = tmp_path / "before.json"
    code, out, err = await world.run("snapshot")
    assert (0, "") == (code, err)
    await asyncio.to_thread(file.write_text, out)
    words = ["simulate", "--snapshot", str(file), "--ties", "uid", "-o", "json"]
    _, out, _ = await world.run(*words)
    foretold = {
        one["name"]: (one["node"] or "", one["message"])
        for one in json.loads(out)["pods"]
        if one["namespace"] == world.ns
    }
    assert 30 == len(foretold)
    assert 5 < sum(not node for node, _ in foretold.values()) < 25

    config = tmp_path / "config.yaml"
    await asyncio.to_thread(config.write_text, QUIET.replace("---", f"{NO_RETRY}---", 1))
    async with daemon(world, tmp_path, config=config):

        async def all_told() -> bool:
            return all(node or text for node, text in (await outcomes(world)).values())

        await world.until(all_told)
        assert foretold == await outcomes(world)
