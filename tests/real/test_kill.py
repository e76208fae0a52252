"""A scheduler may be killed at any time: no pod is lost, none bound twice, no node
overcommitted.
"""

import signal
from collections import Counter
from random import Random

import pytest

from scheduler.daemon.process import DRAIN_S
from tests.apiserver.patience import pause, until
from tests.real import load
from tests.real.api import Api
from tests.real.audit import binds_per_pod, code_of
from tests.real.background import background
from tests.real.history import History
from tests.real.schedulers import LEASE, leading

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

KILLS = 20
PODS = 2000
# So many wait beside the new ones at each start that a kill happens before the last is bound.
AHEAD = 1000
BATCH = (PODS - AHEAD) // KILLS
EVENTS = f"/apis/events.k8s.io/v1/namespaces/{load.NAMESPACE}/events"


async def test_kill_at_any_moment(audited_cluster, audit, scheduler, report):
    """Killed 20 times while 2,000 pods are created that fill all nodes to the last slot.

    Every fourth kill is a given time after the start, wherever that is: before the first list, in
    the middle of the backlog; the others are when some number of binds was seen.
    """
    random = Random(20)
    kills = []
    async with Api(audited_cluster) as api:
        history = History(await load.create_nodes(api, PODS // load.PODS_PER_NODE))
        _, version = await api.list("/api/v1/pods")
        async with background(history.follow(api, version)):
            await load.create_pods(api, range(AHEAD), scheduler.scheduler_name)
            for restart in range(KILLS):
                created = AHEAD + (restart + 1) * BATCH
                batch = range(created - BATCH, created)
                await load.create_pods(api, batch, scheduler.scheduler_name)
                before = history.bound
                with scheduler.start(audited_cluster) as running:
                    if restart % 4 == 3:
                        await pause(random.uniform(0.05, 4.0))
                    else:
                        wanted = before + random.randint(1, BATCH - 1)
                        await history.until_bound(wanted)
                        await pause(random.uniform(0.0, 0.02))
                    await running.kill()
                kills.append({"bound": history.bound - before, "of": created - before})
            with scheduler.start(audited_cluster):
                await history.until_bound(PODS)
                await pause(1.0)
        pods, _ = await api.list(load.PODS)
    answers = Counter(code_of(entry) for entry in audit.bindings())
    in_the_middle = sum(0 < kill["bound"] < kill["of"] for kill in kills)
    report("kill", {"kills": kills, "inTheMiddle": in_the_middle, "bindAnswers": dict(answers)})

    assert [] == history.problems
    assert [] == history.gone
    assert {f"pod-{n:05d}" for n in range(PODS)} == {pod["metadata"]["name"] for pod in pods}
    assert history.nodes == {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods}
    assert {1} == set(binds_per_pod(audit.bindings()).values())
    assert in_the_middle >= KILLS // 2, "too few kills struck while pods were being bound"


async def test_sigterm_finishes_binds_in_flight(audited_cluster, audit, scheduler, report):
    """On SIGTERM binds in progress are finished, the lease is released, the exit code is 0."""
    pods = 2000
    async with Api(audited_cluster) as api:
        history = History(await load.create_nodes(api, pods // load.PODS_PER_NODE))
        _, version = await api.list("/api/v1/pods")
        await load.create_pods(api, range(pods), scheduler.scheduler_name)
        async with background(history.follow(api, version)):
            with scheduler.start(audited_cluster, leading()) as running:
                # As early as can be seen: a slow observer must not find all of them bound.
                await history.until_bound(1)
                running.send(signal.SIGTERM)
                ended_s = await until(running.has_ended, "its end")
                code = await running.wait_end()
                log = running.program.tail(5)
            # No request is in flight any more: the state of the API server is final.
            listed, _ = await api.list(load.PODS)
            bound = [pod for pod in listed if pod["spec"].get("nodeName")]
            events, _ = await api.list(EVENTS)
            lease = await api.expect("GET", LEASE)
            with scheduler.start(audited_cluster, leading()):
                taken_s = await history.until_bound(pods)
    report(
        "sigterm",
        {
            "exitCode": code,
            "endedAfterSeconds": round(ended_s, 2),
            "bound": len(bound),
            "eventsAtEnd": len(events),
            "nextOneDoneAfterSeconds": round(taken_s, 2),
        },
    )

    assert 0 == code, log
    assert len(bound) < pods, "it ended after the last bind: nothing was in progress"
    assert [] == history.problems
    assert {1} == set(binds_per_pod(audit.bindings()).values())
    if "effects dropped" in log or "the lease runs out" in log:
        assert ended_s >= DRAIN_S, "what the server is slow to answer is waited for"
        return
    assert not lease["spec"].get("holderIdentity")
    if scheduler.name == "trellis":
        # kube-scheduler leaves some events unwritten when it ends.
        reported = sorted((event["regarding"]["name"], event["reason"]) for event in events)
        assert sorted((pod["metadata"]["name"], "Scheduled") for pod in bound) == reported
        assert {201} == {code_of(entry) for entry in audit.bindings()}
