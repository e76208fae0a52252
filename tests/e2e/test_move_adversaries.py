"""A MovePlan on a running server beside other events: another scheduler, a lost node, a rollout, a
scale-up, each with and without a SIGKILL of the daemon.

In each case: no budget is violated, nothing is over capacity, a pod that may not move stays, each
evicted pod is bound again, and the plan ends with a reason.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.apiserver.patience import asked, pause
from tests.e2e.movescene import JOBS, STEP_S, Scene, cases, scene_of
from tests.e2e.movescluster import CPUS, Daemon, Json, Live, daemon, is_ready, is_web

pytestmark = [pytest.mark.timeout(300), pytest.mark.allow_blocking("servers start on the loop")]
BOTH = (False, True)


@pytest.fixture
async def scene(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Scene]:
    """Give the server of a case with its pods."""
    async with scene_of(request, tmp_path) as found:
        yield found


@asynccontextmanager
async def beside(scene: Scene, process: Daemon) -> AsyncIterator[None]:
    """Run the block while the daemon runs, or between its SIGKILL and the next one."""
    if scene.case.kills:
        await process.kill()
    yield
    if scene.case.kills:
        await process.start()


@pytest.mark.parametrize("scene", cases("statefulsets", "gangs", kills=BOTH), indirect=True)
async def test_a_destination_that_another_scheduler_takes(scene: Scene, tmp_path: Path) -> None:
    """The evicted pods return to the node that they left, and the plan ends."""
    live = scene.live
    async with daemon(live.cluster, tmp_path) as process:
        await scene.prepare()
        live.holds = True
        await scene.approve(await scene.propose(stepSeconds=STEP_S))
        moves = await scene.until("Evicted")
        async with beside(scene, process):
            await scene.fill_all_but(moves[0]["from"])
        live.holds = False
        assert sorted((await live.web(2)).values()) == scene.before
        status = await scene.end()

    assert status["phase"] == "Aborted"
    assert sorted((await live.web(2)).values()) == scene.before
    await scene.check()


@pytest.mark.parametrize("scene", cases("deployments", kills=BOTH), indirect=True)
async def test_a_destination_that_is_lost(scene: Scene, tmp_path: Path) -> None:
    """The evicted pods return to the node that they left, and the plan ends."""
    live = scene.live
    async with daemon(live.cluster, tmp_path) as process:
        await scene.prepare()
        live.holds = True
        await scene.approve(await scene.propose(stepSeconds=STEP_S))
        moves = await scene.until("Evicted")
        assert live.fewest >= scene.least
        source, lost = moves[0]["from"], moves[0]["to"]
        async with beside(scene, process):
            await scene.fill_all_but(source, lost)
            await live.send("DELETE", f"/api/v1/nodes/{lost}", {})
            for one in await live.pods():  # as the garbage collector of pods does after a minute
                if one["spec"].get("nodeName") == lost:
                    path = f"{live.core}/pods/{one['metadata']['name']}"
                    await live.send("DELETE", path, {"gracePeriodSeconds": 0})
        await nodes_seen(live, 2)
        live.holds = False
        after = list((await live.web(2)).values())
        assert after.count(source) >= len(moves)
        status = await scene.end()

    assert status["phase"] == "Aborted"
    assert lost not in (await live.web(2)).values()


async def nodes_seen(live: Live, count: int) -> None:
    """Return once the daemon reports that a pod fits on none of so many nodes."""
    number = 0
    while True:
        number += 1
        name = f"probe-{number}"
        await live.cluster.pod(name, spec={"nodeSelector": {}}, requests={"cpu": str(2 * CPUS)})
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


@pytest.mark.parametrize("scene", cases("deployments", "retries", kills=BOTH), indirect=True)
async def test_a_rollout_between_reservation_and_eviction(scene: Scene, tmp_path: Path) -> None:
    """The rollout ends as without the plan, and the plan with a reason; a Job, whose template
    cannot change, is replaced by another one of its name.
    """
    live = scene.live
    async with daemon(live.cluster, tmp_path) as process:
        await scene.prepare()
        plan = await scene.propose(stepSeconds=STEP_S)
        await live.budget(2)  # no disruption is allowed: the plan waits before the eviction
        await scene.approve(plan)
        await scene.until("Reserved")
        old = {one["metadata"]["uid"] for one in await live.pods() if is_web(one)}
        async with beside(scene, process):
            await scene.roll_out()
        await replaced(live, old)
        # A daemon that was killed may have evicted a pod that is gone.
        assert scene.case.kills or "MoveEvicted" not in await live.reasons()
        await live.budget(scene.least)
        await scene.end()
        await live.web(2)

    if scene.case.controller not in JOBS:
        await scene.check()


async def replaced(live: Live, old: set[str]) -> None:
    """Return once two other pods are Ready and none of the old is left."""

    async def left() -> list[Json]:
        return [one for one in await live.pods() if is_web(one)]

    def is_done(found: list[Json]) -> bool:
        uids = {one["metadata"]["uid"] for one in found if is_ready(one)}
        return len(found) == len(uids) == 2 and uids.isdisjoint(old)

    await asked(left, is_done, "the rollout")


@pytest.mark.parametrize("scene", cases("statefulsets", "jobs", kills=BOTH), indirect=True)
async def test_a_scale_up_between_reservation_and_eviction(scene: Scene, tmp_path: Path) -> None:
    """The new pod is bound beside the reservation, and the plan ends with a reason."""
    live = scene.live
    async with daemon(live.cluster, tmp_path) as process:
        await scene.prepare()
        plan = await scene.propose(stepSeconds=STEP_S)
        await live.budget(2)
        await scene.approve(plan)
        await scene.until("Reserved")
        async with beside(scene, process):
            await scene.grow()
        await live.web(3)
        await live.budget(scene.least)
        await scene.end()
        await live.web(3)

    await scene.check()
