"""Two schedulers, one lease: the standby takes over in time, and the previous leader writes
nothing.
"""

import asyncio
import signal
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any, Self

import pytest

from scheduler.base.clock import RealClock
from tests.apiserver.patience import pause, until
from tests.apiserver.realcluster import RealCluster
from tests.real import load
from tests.real.api import Api
from tests.real.audit import (
    POWERLESS_USER,
    SCHEDULER_USER,
    Json,
    binds_per_pod,
    code_of,
    let_schedule,
    named,
    received_at,
)
from tests.real.background import background
from tests.real.history import History
from tests.real.schedulers import LEASE, Running, Scheduler, leading

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

TIMES = LEASE_S, RENEW_S, RETRY_S = 6, 4, 1
GRACE_S = 5
NODES = 20


class Pair:
    """A leader under the scheduler's own user, a standby under another, and some nodes."""

    def __init__(
        self,
        api: Api,
        cluster: RealCluster,
        scheduler: Scheduler,
        *,
        nodes: int = NODES,
        times: tuple[int, int, int] = TIMES,
    ) -> None:
        self.api = api
        self._nodes = nodes
        self._times = times
        self._cluster = cluster
        self._scheduler = scheduler
        self._created = 0
        self.clock = RealClock()

    async def __aenter__(self) -> Self:
        self._stack = await AsyncExitStack().__aenter__()
        await let_schedule(self.api, POWERLESS_USER)
        self.history = History(await load.create_nodes(self.api, self._nodes))
        _, version = await self.api.list("/api/v1/pods")
        await self._stack.enter_async_context(background(self.history.follow(self.api, version)))
        self.leader = await self._start(leading(*self._times))
        await until(self.has_holder, "a leader")
        other = leading(*self._times, self._cluster.powerless_kubeconfig)
        self.standby = await self._start(other)
        return self

    async def __aexit__(self, *error) -> None:
        await self._stack.__aexit__(*error)

    async def _start(self, config: dict[str, Any]) -> Running:
        running = self._stack.enter_context(self._scheduler.start(self._cluster, config))
        await running.wait_ready()
        return running

    async def holder(self) -> str:
        """Return the holder of the lease, empty without one."""
        code, lease = await self.api.request("GET", LEASE)
        return lease["spec"].get("holderIdentity") or "" if code == 200 else ""

    async def has_holder(self) -> bool:
        return bool(await self.holder())

    async def create(self, pods: int) -> None:
        """Create more pods."""
        numbers = range(self._created, self._created + pods)
        self._created += pods
        await load.create_pods(self.api, numbers, self._scheduler.scheduler_name)

    async def all_bound(self) -> float:
        """Wait until every pod so far is bound; return the seconds it took."""
        return await self.history.until_bound(self._created)


async def test_standby_takes_over_from_a_killed_leader(audited_cluster, audit, scheduler, report):
    """After kill -9 of the leader the standby binds within the lease duration plus 5 s."""
    async with Api(audited_cluster) as api, Pair(api, audited_cluster, scheduler) as pair:
        await pair.create(100)
        await pair.all_bound()
        first = await pair.holder()
        await pair.leader.kill()
        killed_at = pair.clock.now()
        await pair.create(1)
        await pair.all_bound()
        second = await pair.holder()
        problems = pair.history.problems
    taken_s = min(map(received_at, audit.bindings(POWERLESS_USER))) - killed_at
    report("takeover-killed", {"leaseSeconds": LEASE_S, "firstBindAfterSeconds": round(taken_s, 2)})

    assert "" != first != second != ""
    assert taken_s <= LEASE_S + GRACE_S
    assert [] == problems
    assert 100 == len(audit.bindings(SCHEDULER_USER))
    assert [201] == [code_of(entry) for entry in audit.bindings(POWERLESS_USER)]


async def test_standby_takes_over_in_the_middle_of_a_load(
    audited_cluster, audit, scheduler, report
):
    """Kill -9 of the leader while 3,000 pods are created that fill all nodes: none is lost or bound
    twice.

    The binds in flight at the kill are in no process's memory any more; the standby has to find
    them on the API server. Each node has exactly as many slots as pods need, so a bind that it
    overlooks leaves a pod without a place.
    """
    pods = 3000
    nodes = pods // load.PODS_PER_NODE
    async with (
        Api(audited_cluster) as api,
        Pair(api, audited_cluster, scheduler, nodes=nodes) as pair,
    ):
        async with asyncio.TaskGroup() as group:
            group.create_task(pair.create(pods))
            await pair.history.until_bound(pods // 10)
            await pair.leader.kill()
            killed_at = pair.clock.now()
        everything_s = await pair.all_bound()
        history = pair.history
        listed, _ = await api.list(load.PODS)
    before, after = audit.bindings(SCHEDULER_USER), audit.bindings(POWERLESS_USER)
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
    """A leader that gets SIGTERM releases the lease: the standby need not wait for its expiry."""
    lease_s = 60
    async with (
        Api(audited_cluster) as api,
        Pair(api, audited_cluster, scheduler, times=(lease_s, RENEW_S, RETRY_S)) as pair,
    ):
        pair.leader.send(signal.SIGTERM)
        await pair.create(1)
        taken_s = await pair.all_bound()
        code = await pair.leader.wait_end()
    report("takeover-ended", {"leaseSeconds": lease_s, "firstBindAfterSeconds": round(taken_s, 2)})

    assert 0 == code
    assert taken_s < lease_s - RENEW_S


async def test_a_stopped_leader_writes_nothing_when_it_goes_on(
    audited_cluster, audit, scheduler, report
):
    """Stopped in the middle of binds until the standby leads, then continued: it writes nothing
    more.

    When it continues, its sockets have events of pods that it never saw bound, answers to its last
    binds, and it has deferred work. Its clock shows that the lease has expired, so none of that may
    lead to a request that changes anything; reads are allowed. One exception cannot be excluded by
    a clock: the request whose check had just passed when the process was stopped.
    """
    pods = 1000
    nodes = 2 * pods // load.PODS_PER_NODE
    async with (
        Api(audited_cluster) as api,
        Pair(api, audited_cluster, scheduler, nodes=nodes) as pair,
    ):
        async with asyncio.TaskGroup() as group:
            group.create_task(pair.create(pods))
            await pair.history.until_bound(20)
            pair.leader.send(signal.SIGSTOP)
            bound_at_stop = pair.history.bound
        taken_s = await pair.all_bound()
        second = await pair.holder()
        continued_at = pair.clock.now()
        pair.leader.send(signal.SIGCONT)
        # Long enough for everything that is deferred for a retry or a renewal.
        await pair.create(20)
        await pair.all_bound()
        await pause(RENEW_S + 2 * RETRY_S)
        last = await pair.holder()
        problems = pair.history.problems
        ended_with = pair.leader.program.process.poll()
    late = [e for e in audit.writes(SCHEDULER_USER) if received_at(e) > continued_at]
    binds = binds_per_pod([e for e in audit.bindings(SCHEDULER_USER) if e not in late])
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

    assert len(late) <= 1, [named(entry) for entry in late]
    assert [] == [named(entry) for entry in late if not is_harmless(entry, binds)]
    assert second == last != ""
    assert [] == problems
    assert 0 < bound_at_stop < pods


def is_harmless(entry: Json, binds: Counter[str]) -> bool:
    """Return whether a write changed nothing, or only reports a bind that was done in time."""
    ref = entry["objectRef"]
    is_late = ref["resource"] == "events" and ref["name"].rpartition(".")[0] in binds
    return is_late or code_of(entry) == 409
