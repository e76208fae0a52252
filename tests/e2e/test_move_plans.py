"""A MovePlan on a running server: planned, approved, executed through the budget, and continued by
the next processes after SIGKILLs.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.apiserver.patience import pause
from tests.e2e.movescluster import (
    PLAN,
    PLANS,
    SERVERS,
    TEMPLATE,
    Json,
    Live,
    daemon,
    serving,
    state_of,
)

pytestmark = [pytest.mark.timeout(300), pytest.mark.allow_blocking("servers start on the loop")]


@pytest.fixture(params=SERVERS)
async def live(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Live]:
    """Give a server with two nodes of 4 cpu."""
    async with serving(request, request.param, tmp_path, 2) as found:
        yield found


async def test_an_approved_plan_makes_a_waiting_pod_fit(live: Live, tmp_path: Path) -> None:
    """No pod moves before the approval; the budget is kept; a SIGKILL after each change of the
    plan's state changes nothing.
    """
    cluster = live.cluster
    await live.budget(1)
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE}
    await live.send("POST", f"{live.apps}/deployments", {"metadata": {"name": "web"}, "spec": spec})
    async with daemon(cluster, tmp_path) as process:
        before = await live.web(2)
        assert sorted(before.values()) == ["node-0", "node-1"]
        await cluster.pod("train", spec={"nodeSelector": {}}, requests={"cpu": "4"})
        goal = {"goal": {"waiting": f"{cluster.ns}/train"}, "limits": {"minAgeSeconds": 0}}
        await live.send("POST", PLANS, {**PLAN, "spec": goal})
        plan = await live.plan("Proposed", "Impossible", "Invalid")
        assert plan["status"]["phase"] == "Proposed", plan["status"]
        assert plan["status"]["statement"] == "1 move; no plan with fewer moves exists"
        assert await live.web(2) == before
        # Later events may be lost with the process, which is killed as soon as a status shows.
        await live.event("MovePlanCalculated")

        approval = {"spec": {"approved": plan["status"]["planHash"]}}
        await live.send("PATCH", f"{PLANS}/defragment", approval)
        states = [await live.changed(state_of(plan))]
        await process.kill()
    while states[-1][0] == "Executing":
        async with daemon(cluster, tmp_path) as process:
            states.append(await live.changed(states[-1]))
            await process.kill()
    async with daemon(cluster, tmp_path):
        plan = await live.plan("Completed", "Aborted")
        assert plan["status"]["phase"] == "Completed", plan["status"]
        assert len(states) > 2, states
        (move,) = plan["status"]["moves"]
        assert await live.node_of("train") == move["from"]
        after = await live.web(2)

    assert set(after.values()) == {move["to"]}
    assert after[move["replacement"]] == move["to"]
    assert live.fewest >= 1


async def test_a_gang_of_a_job_is_moved_whole(live: Live, tmp_path: Path) -> None:
    """Both pods are evicted and placed together; a SIGKILL in between changes nothing."""
    cluster = live.cluster
    data = {"name": "gang", "size": "2", "constraints": "{}"}
    group = {"metadata": {"name": "gang", "labels": {"sakkara.group": ""}}, "data": data}
    await live.send("POST", f"{live.core}/configmaps", group)
    filler = {"nodeSelector": {}, "nodeName": "node-1", "terminationGracePeriodSeconds": 0}
    await live.filler("big", filler, "2")
    await live.filler("small", filler, "1")
    async with daemon(cluster, tmp_path) as process:
        await live.send("POST", f"/apis/batch/v1/namespaces/{cluster.ns}/jobs", JOB)
        before = await live.gang(2)
        assert set(before.values()) == {"node-0"}
        await live.send("DELETE", f"{live.core}/pods/big", {})
        await cluster.pod("train", spec={"nodeSelector": {}}, requests={"cpu": "4"})
        goal = {"goal": {"waiting": f"{cluster.ns}/train"}, "limits": {"minAgeSeconds": 0}}
        await live.send("POST", PLANS, {**PLAN, "spec": goal})
        plan = await live.plan("Proposed", "Impossible", "Invalid")
        assert plan["status"]["phase"] == "Proposed", plan["status"]
        assert {move["unit"] for move in plan["status"]["moves"]} == {f"{cluster.ns}/gang"}

        approval = {"spec": {"approved": plan["status"]["planHash"]}}
        await live.send("PATCH", f"{PLANS}/defragment", approval)
        while before.keys() <= (await live.gang()).keys():
            await pause()
        await process.kill()
    async with daemon(cluster, tmp_path):
        plan = await live.plan("Completed", "Aborted")
        assert plan["status"]["phase"] == "Completed", plan["status"]
        assert await live.node_of("train") == "node-0"
        after = await live.gang(2)

    assert set(after.values()) == {"node-1"}
    assert before.keys().isdisjoint(after)


JOB: Json = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "gang"},
    "spec": {
        "completions": 2,
        "parallelism": 2,
        "podFailurePolicy": {
            "rules": [
                {
                    "action": "Ignore",
                    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                }
            ]
        },
        "template": {
            "metadata": {
                "labels": {"app": "gang", "sakkara.group.name": "gang"},
                "annotations": {"trellis.dev/simulate-run-for": "forever"},
            },
            "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"},
        },
    },
}
