"""A MovePlan on a running server beside what else happens in a cluster: another scheduler, a lost
node, a rollout, a scale-up.

In each case: no budget is violated, nothing is over capacity, a pod that may not move stays, each
evicted pod is bound again, and the plan ends with a reason.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.apiserver.patience import asked, pause
from tests.e2e.movescene import Scene
from tests.e2e.movesworld import (
    CPUS,
    SERVERS,
    Live,
    daemon,
    is_ready,
    is_web,
    serving,
)

# A plan without replacement ends after 60 s.
pytestmark = [pytest.mark.timeout(300), pytest.mark.allow_blocking("servers start on the loop")]


@pytest.fixture(params=SERVERS)
async def scene(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Scene]:
    """Give a server with three nodes of 4 cpu."""
    async with serving(request, tmp_path, 3) as live:
        yield Scene(live)


async def test_a_destination_that_another_scheduler_takes(scene: Scene, tmp_path: Path) -> None:
    """The evicted pod returns to the node that it left, and the plan ends."""
    live = scene.live
    async with daemon(live.world, tmp_path):
        await scene.prepare("statefulsets")
        await scene.approve(await scene.propose())
        move = await scene.until("Evicted")
        await scene.fill_all_but(move["from"])
        await scene.release()
        after = await live.web(2)
        assert after[move["name"]] == move["from"]
        status = await scene.end()

    assert status["phase"] == "Aborted"
    assert await live.web(2) == after
    await scene.check()


async def test_a_destination_that_is_lost(scene: Scene, tmp_path: Path) -> None:
    """The evicted pod returns to the node that it left, and the plan ends."""
    live = scene.live
    async with daemon(live.world, tmp_path):
        await scene.prepare("statefulsets")
        await scene.approve(await scene.propose())
        move = await scene.until("Evicted")
        assert live.fewest >= 1
        await scene.fill_all_but(move["from"], move["to"])
        await live.send("DELETE", f"/api/v1/nodes/{move['to']}", {})
        await nodes_seen(live, 2)
        for one in await live.pods():  # as the garbage collector of pods does after a minute
            if one["spec"].get("nodeName") == move["to"]:
                path = f"{live.core}/pods/{one['metadata']['name']}"
                await live.send("DELETE", path, {"gracePeriodSeconds": 0})
        await scene.release()
        after = await live.web(2)
        assert after[move["name"]] == move["from"]
        status = await scene.end()

    assert status["phase"] == "Aborted"
    assert move["to"] not in (await live.web(2)).values()


async def nodes_seen(live: Live, count: int) -> None:
    """Return once the daemon reports that a pod fits on none of so many nodes."""
    number = 0
    while True:
        number += 1
        name = f"probe-{number}"
        await live.world.pod(name, spec={"nodeSelector": {}}, requests={"cpu": str(2 * CPUS)})
        message = ""
        while not message:
            for one in await live.pods():
                if one["metadata"]["name"] == name:
                    conditions = one["status"].get("conditions", ())
                    message = next((c["message"] for c in conditions if c.get("message")), "")
            await pause()
        await live.send("DELETE", f"{live.core}/pods/{name}", {"gracePeriodSeconds": 0})
        if message.startswith(f"0/{count} "):
            return


async def test_a_rollout_between_reservation_and_eviction(scene: Scene, tmp_path: Path) -> None:
    """The rollout ends as without the plan, and the plan with a reason."""
    live = scene.live
    async with daemon(live.world, tmp_path):
        await scene.prepare("deployments")
        plan = await scene.propose()
        await live.budget(2)  # no disruption is allowed: the plan waits before the eviction
        await scene.approve(plan)
        await scene.until("Reserved")
        version = {"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}}
        await live.send("PATCH", f"{live.apps}/deployments/web", version)
        await rolled_out(live)
        await live.budget(1)
        await scene.end()
        await live.web(2)

    await scene.check()


async def rolled_out(live: Live) -> None:
    """Return once two pods of the new template are Ready and none of the old is left."""

    async def versions() -> list[str]:
        found = [one for one in await live.pods() if is_web(one)]
        return [one["metadata"]["labels"].get("version", "1") for one in found if is_ready(one)]

    await asked(versions, lambda found: found == ["2", "2"], "the rollout")


async def test_a_scale_up_between_reservation_and_eviction(scene: Scene, tmp_path: Path) -> None:
    """The new pod is bound beside the reservation, and the plan ends with a reason."""
    live = scene.live
    async with daemon(live.world, tmp_path):
        await scene.prepare("deployments")
        plan = await scene.propose()
        await live.budget(2)
        await scene.approve(plan)
        await scene.until("Reserved")
        await live.send("PATCH", f"{live.apps}/deployments/web", {"spec": {"replicas": 3}})
        await live.web(3)
        await live.budget(1)
        await scene.end()
        await live.web(3)

    await scene.check()
