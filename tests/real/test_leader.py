"""Two schedulers, one lease: the standby takes over in time, and who lost the lease writes nothing."""

import asyncio
import signal
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any, Self

import pytest

from scheduler.base.clock import RealClock
from tests.apiserver.realcluster import RealCluster
from tests.real import load
from tests.real.api import Api
from tests.real.audit import (
    NOBODY,
    SCHEDULER_USER,
    binds_per_pod,
    code_of,
    let_schedule,
    named,
    received_at,
)
from tests.real.background import background
from tests.real.history import History
from tests.real.schedulers import LEASE, Running, Scheduler, leading, pause, until

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

LEASE_S, RENEW_S, RETRY_S = 6, 4, 1
GRACE_S = 5
NODES = 20


class Pair:
    """A leader under the scheduler's own user, a standby under another, and some nodes."""

    def __init__(
        self, api: Api, cluster: RealCluster, scheduler: Scheduler, nodes: int = NODES
    ) -> None:
        self.api = api
        self._nodes = nodes
        self._cluster = cluster
        self._scheduler = scheduler
        self._created = 0
        self.clock = RealClock()

    async def __aenter__(self) -> Self:
        self._stack = await AsyncExitStack().__aenter__()
        await let_schedule(self.api, NOBODY)
        self.history = History(await load.create_nodes(self.api, self._nodes))
        _, version = await self.api.list("/api/v1/pods")
        await self._stack.enter_async_context(background(self.history.follow(self.api, version)))
        self.leader = await self._start(leading(LEASE_S, RENEW_S, RETRY_S))
        await until(self.is_held, 60, "a leader")
        other = leading(LEASE_S, RENEW_S, RETRY_S, self._cluster.nobody_kubeconfig)
        self.standby = await self._start(other)
        return self

    async def __aexit__(self, *error) -> None:
        await self._stack.__aexit__(*error)

    async def _start(self, config: dict[str, Any]) -> Running:
        running = self._stack.enter_context(self._scheduler.start(self._cluster, config))
        await running.wait_ready()
        return running

    async def holder(self) -> str:
        """Return who holds the lease, empty for nobody."""
        code, lease = await self.api.request("GET", LEASE)
        return lease["spec"].get("holderIdentity") or "" if code == 200 else ""

    async def is_held(self) -> bool:
        return bool(await self.holder())

    async def create(self, pods: int) -> None:
        """Create more pods."""
        numbers = range(self._created, self._created + pods)
        self._created += pods
        await load.create_pods(self.api, numbers, self._scheduler.scheduler_name)

    async def all_bound(self, timeout_s: float) -> float:
        """Wait until every pod so far is bound; return the seconds it took."""
        return await until(lambda: self.history.bound >= self._created, timeout_s, "binds")


async def test_standby_takes_over_from_a_killed_leader(audited_cluster, audit, scheduler, report):
    """Kill -9 of the leader: the standby binds within lease duration plus 5 s."""
    async with Api(audited_cluster) as api, Pair(api, audited_cluster, scheduler) as pair:
        await pair.create(100)
        await pair.all_bound(60)
        first = await pair.holder()
        await pair.leader.kill()
        await pair.create(1)
        taken_s = await pair.all_bound(LEASE_S + GRACE_S)
        second = await pair.holder()
        problems = pair.history.problems
    report("takeover-killed", {"leaseSeconds": LEASE_S, "firstBindAfterSeconds": round(taken_s, 2)})

    assert "" != first != second != ""
    assert [] == problems
    assert 100 == len(audit.bindings(SCHEDULER_USER))
    assert [201] == [code_of(entry) for entry in audit.bindings(NOBODY)]


async def test_standby_takes_over_in_the_middle_of_a_load(
    audited_cluster, audit, scheduler, report
):
    """Kill -9 of the leader while 3,000 pods come in that fill all nodes: none is lost or bound twice.

    The binds under way at the kill are in nobody's memory any more; the standby has to find them on
    the API server. Each node has exactly as many slots as pods need, so a bind that it overlooks
    leaves a pod without a place.
    """
    pods = 3000
    nodes = pods // load.PODS_PER_NODE
    async with (
        Api(audited_cluster) as api,
        Pair(api, audited_cluster, scheduler, nodes) as pair,
    ):
        async with asyncio.TaskGroup() as group:
            group.create_task(pair.create(pods))
            await until(lambda: pair.history.bound >= pods // 10, 60, "a tenth to be bound")
            await pair.leader.kill()
            killed_at = pair.clock.now()
        everything_s = await pair.all_bound(120)
        history = pair.history
        listed, _ = await api.list(load.PODS)
    before, after = audit.bindings(SCHEDULER_USER), audit.bindings(NOBODY)
    binds = binds_per_pod([*before, *after])
    taken_s = min(map(received_at, after)) - killed_at
    report(
        "takeover-load",
        {
            "pods": pods,
            "leaseSeconds": LEASE_S,
            "bindsOfTheLeader": len(before),
            "bindsOfTheStandby": len(after),
            "answersToTheStandby": dict(Counter(map(code_of, after))),
            "boundTwice": sum(count > 1 for count in binds.values()),
            "firstBindAfterSeconds": round(taken_s, 2),
            "allBoundAfterSeconds": round(everything_s, 2),
        },
    )

    assert pods // 10 <= len(before) < pods // 2, "the kill did not strike in the middle"
    assert taken_s <= LEASE_S + GRACE_S
    assert [] == history.problems
    assert [] == history.gone
    assert {1} == set(binds.values())
    # A request whose connection died with the leader may have no entry of its end in the audit log.
    assert set(binds) <= set(history.nodes)
    assert {f"pod-{n:05d}" for n in range(pods)} == set(history.nodes)
    assert history.nodes == {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in listed}


async def test_standby_takes_over_from_a_leader_that_ends(audited_cluster, scheduler, report):
    """A leader that gets SIGTERM releases the lease: nobody waits for it to expire."""
    async with Api(audited_cluster) as api, Pair(api, audited_cluster, scheduler) as pair:
        pair.leader.send(signal.SIGTERM)
        await pair.create(1)
        taken_s = await pair.all_bound(LEASE_S)
        code = await pair.leader.wait_end(30)
    report("takeover-ended", {"leaseSeconds": LEASE_S, "firstBindAfterSeconds": round(taken_s, 2)})

    assert 0 == code


async def test_a_stopped_leader_writes_nothing_when_it_goes_on(
    audited_cluster, audit, scheduler, report
):
    """Stopped in the middle of binds until the standby leads, then continued: not one write more.

    When it goes on, its sockets hold pods that it never saw bound, answers to its last binds and
    whatever it had put off. Its clock tells that the lease is gone, so nothing of that may lead to a
    request that changes anything; reading is free.
    """
    async with Api(audited_cluster) as api, Pair(api, audited_cluster, scheduler) as pair:
        await pair.create(200)
        await until(lambda: pair.history.bound >= 20, 60, "some binds")
        pair.leader.send(signal.SIGSTOP)
        bound_at_stop = pair.history.bound
        await pair.create(200)
        taken_s = await pair.all_bound(LEASE_S + GRACE_S)
        second = await pair.holder()
        continued_at = pair.clock.now()
        pair.leader.send(signal.SIGCONT)
        # Long enough for everything that is put off for a retry or a renewal.
        await pair.create(20)
        await pair.all_bound(30)
        await pause(RENEW_S + 2 * RETRY_S)
        last = await pair.holder()
        problems = pair.history.problems
        ended_with = pair.leader.program.process.poll()
    late = [e for e in audit.writes(SCHEDULER_USER) if received_at(e) > continued_at]
    report(
        "stopped-leader",
        {
            "leaseSeconds": LEASE_S,
            "boundAtStop": bound_at_stop,
            "allBoundAfterSeconds": round(taken_s, 2),
            "writesAfterwards": [named(entry) for entry in late],
            "endedWith": ended_with,
        },
    )

    assert [] == [named(entry) for entry in late]
    assert second == last != ""
    assert [] == problems
    assert 0 < bound_at_stop < 200
