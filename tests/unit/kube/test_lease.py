"""At most one candidate leads at any moment, and another one takes over soon."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
import structlog

from scheduler.base.meters import Meters
from scheduler.kube.api import Response
from scheduler.kube.lease import Election
from scheduler.kube.leaserecord import CONFIGURATION, ENDPOINT, LeaseSettings
from scheduler.kube.writing.fence import Fence
from tests.unit.kube.memoryapi import LOST, Accident, LoopClock, MemoryApi

pytestmark = pytest.mark.looptime

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
LEASE = f"{LEASES}/kube-scheduler"


@dataclass
class Candidate:
    """One candidate process; `offset_s` is the error of its clock."""

    name: str
    api: MemoryApi
    offset_s: float = 0.0
    seed: int = 1
    terms: list[str] = field(default_factory=list)
    meters: Meters = field(default_factory=Meters)

    def __post_init__(self) -> None:
        self.has_predecessor: bool | None = None
        self.clock = LoopClock(self.offset_s)
        self.fence = Fence(self.clock)
        self.fence.close()
        self.link: Callable[[str, str], Accident | None] = lambda _method, _path: None
        self.election = Election(
            _Link(self),
            self.fence,
            LeaseSettings("kube-system", "kube-scheduler", self.name),
            clock=self.clock,
            random=Random(self.seed),
            meters=self.meters,
            on_lead=self._lead,
            on_lost=lambda: self.terms.append("lost"),
        )
        self.task: asyncio.Task[None] = asyncio.create_task(self.election.run())

    def _lead(self, has_predecessor: bool) -> None:
        self.terms.append("lead")
        self.has_predecessor = has_predecessor

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


class _Link(MemoryApi):
    """A candidate's own connection to the server, which may fail for it alone."""

    def __init__(self, candidate: Candidate) -> None:
        super().__init__(candidate.api.store)
        self.seen = candidate.api.seen

        def link_of(method: str, path: str) -> Accident | None:
            return candidate.link(method, path)  # the link as it is then, not as it is now

        self.accident = link_of


def spec(api: MemoryApi) -> Any:
    return api.get(LEASE)["spec"]


async def test_the_leader_publishes_its_endpoint_until_it_leaves():
    """The leader keeps foreign annotations of the Lease, replaces those of an earlier leader, and
    removes its own when it leaves.
    """
    api = MemoryApi()
    first = Candidate("first", api)
    first.election.publish(lambda: {ENDPOINT: "https://127.0.0.1:1", CONFIGURATION: "a"})
    await asyncio.sleep(1)
    assert api.get(LEASE)["metadata"]["annotations"] == {
        ENDPOINT: "https://127.0.0.1:1",
        CONFIGURATION: "a",
    }
    second = Candidate("second", api)
    second.election.publish(lambda: {CONFIGURATION: "b"})
    first.election.leave()
    await asyncio.sleep(10)
    assert "second" == spec(api)["holderIdentity"]
    assert api.get(LEASE)["metadata"]["annotations"] == {CONFIGURATION: "b"}
    second.election.leave()
    await asyncio.sleep(1)
    assert not api.get(LEASE)["metadata"].get("annotations")
    await first.stop()
    await second.stop()


async def test_the_first_takes_the_lease_and_keeps_it():
    """The lease has its holder, start and duration.

    It is renewed every two seconds.
    """
    api = MemoryApi()
    first = Candidate("first", api)
    await asyncio.sleep(1)
    taken = spec(api)
    await asyncio.sleep(60)
    renewed = spec(api)
    await first.stop()

    assert ("first", 15, 0) == tuple(
        taken[name] for name in ("holderIdentity", "leaseDurationSeconds", "leaseTransitions")
    )
    assert taken["acquireTime"] == renewed["acquireTime"] < renewed["renewTime"]
    assert 28 <= len(api.requests("PUT")) <= 32
    assert 1 == len(api.requests("GET"))


async def test_a_standby_waits_and_takes_over():
    """While the holder renews, no other leads; after its end another does within lease + 5 s."""
    api = MemoryApi()
    first = Candidate("first", api)
    await asyncio.sleep(1)
    second, third = Candidate("second", api, seed=2), Candidate("third", api, seed=3)
    await asyncio.sleep(100)
    waited = second.terms + third.terms
    await first.stop()
    await asyncio.sleep(20)
    leaders = [c.name for c in (second, third) if c.election.is_leader]
    transitions = spec(api)["leaseTransitions"]
    await second.stop()
    await third.stop()

    assert [] == waited
    assert 1 == len(leaders)
    assert 1 == transitions


async def test_a_standby_says_once_for_whom_it_waits():
    """The log of an idle standby states that this is normal."""
    api = MemoryApi()
    first = Candidate("first", api)
    await asyncio.sleep(1)
    with structlog.testing.capture_logs() as logged:
        second = Candidate("second", api, seed=2)
        await asyncio.sleep(100)
    await first.stop()
    await second.stop()

    stated = [line["leader"] for line in logged if line["event"] == "standing by"]
    assert ["first"] == stated


async def test_a_standby_takes_an_expired_lease_within_a_tenth_of_the_retry_period():
    """No regular retry delays the take-over, at whatever time the holder ends."""
    retry_s = LeaseSettings("n", "l", "i").retry_s
    for number in range(8):
        api = MemoryApi()
        first = Candidate("first", api)
        await asyncio.sleep(1)
        second = Candidate("second", api, seed=number)
        await asyncio.sleep(20 + number / 4)
        await first.stop()
        await asyncio.sleep(10)  # the standby has read the last renewal
        await asyncio.sleep(second.election._record.expires_in_s(second.clock.now()) - 0.01)
        assert [] == second.terms
        await asyncio.sleep(0.01 + retry_s / 10)
        assert ["lead"] == second.terms
        await second.stop()


@pytest.mark.parametrize("offset_s", [-3600.0, 3600.0])
async def test_wrong_clocks_do_not_matter(offset_s: float):
    """Only the time since a renewal was SEEN counts, never the times in the lease."""
    api = MemoryApi()
    first = Candidate("first", api)
    await asyncio.sleep(1)
    second = Candidate("second", api, offset_s)
    await asyncio.sleep(100)
    waited = list(second.terms)
    await first.stop()
    await asyncio.sleep(20)
    took_over = second.election.is_leader
    await second.stop()

    assert [] == waited
    assert took_over


async def test_a_leader_that_cannot_renew_stops_before_another_begins():
    """The leader's fence closes ten seconds after its last renewal; the lease is free five
    later.
    """
    api = MemoryApi()
    first = Candidate("first", api)
    await asyncio.sleep(1)
    second = Candidate("second", api)
    await asyncio.sleep(10)
    first.link = lambda _, __: Accident(LOST, delay_s=3.0)
    cut_at = api.clock.now()
    times: dict[str, float] = {}
    while len(times) < 3:
        await asyncio.sleep(0.05)
        now = api.clock.now() - cut_at
        assert not (first.fence.is_open and second.fence.is_open)
        if not first.fence.is_open:
            times.setdefault("fenced", now)
        if first.terms[-1] == "lost":
            times.setdefault("reported", now)
        if second.election.is_leader:
            times.setdefault("taken over", now)
    await first.stop()
    await second.stop()

    assert 7.9 <= times["fenced"] <= 10.1
    assert times["reported"] <= times["fenced"] + 0.1
    assert times["fenced"] + 3 < times["taken over"] <= 20


async def test_a_stopped_process_finds_its_fence_closed():
    """A process that did not run for a while may not write, before any of its timers has run."""
    api = MemoryApi()
    first = Candidate("first", api)
    await asyncio.sleep(1)
    open_before, renewals = first.fence.is_open, len(api.requests("PUT"))
    first.clock._start += 30  # the loop was blocked for this long
    open_after = first.fence.is_open
    await asyncio.sleep(3)
    await first.stop()

    assert open_before
    assert not open_after
    assert renewals == len(api.requests("PUT"))
    assert ["lead", "lost"] == first.terms
    assert first.task.done()


async def test_a_taken_lease_is_lost_at_once():
    """A leader that reads another holder ends its term, and does not take the lease back."""
    api = MemoryApi()
    first = Candidate("first", api)
    await asyncio.sleep(1)
    api.change(LEASE, {"spec": {"holderIdentity": "thief"}})
    await asyncio.sleep(3)
    # Before `stop`, which ends the term of every candidate.
    terms, is_open, is_done = list(first.terms), first.fence.is_open, first.task.done()
    await first.stop()

    assert ["lead", "lost"] == terms
    assert not is_open
    assert is_done
    assert "thief" == spec(api)["holderIdentity"]


async def test_short_failures_cost_nothing():
    """Conflicts, busy servers and lost answers within the deadline do not end a term."""
    api = MemoryApi()
    first = Candidate("first", api)
    await asyncio.sleep(1)
    for accident in (
        Accident(LOST, is_applied=True),
        Accident(Response(409, reason="Conflict")),
        Accident(Response(500)),
        Accident(LOST, delay_s=4.0),
    ):
        left = [accident]
        first.link = lambda _, __, left=left: left.pop() if left else None  # type: ignore[misc]
        await asyncio.sleep(15)
    api.change(LEASE, {"metadata": {"labels": {"touched": "by-another"}}})
    await asyncio.sleep(15)
    labels = api.get(LEASE)["metadata"]["labels"]
    still_leads = first.election.is_leader
    await first.stop()

    assert still_leads
    assert ["lead", "lost"] == first.terms
    assert {"touched": "by-another"} == labels


async def test_a_deleted_lease_is_made_again():
    """Deleting the lease does not end the term."""
    api = MemoryApi()
    first = Candidate("first", api)
    await asyncio.sleep(1)
    api.remove(LEASE)
    await asyncio.sleep(5)
    holder, leads = spec(api)["holderIdentity"], first.election.is_leader
    await first.stop()

    assert ("first", True) == (holder, leads)


async def test_leaving_gives_the_lease_back():
    """At the end of the process the holder is emptied, and a standby leads within seconds."""
    api = MemoryApi()
    first = Candidate("first", api)
    await asyncio.sleep(1)
    second = Candidate("second", api)
    await asyncio.sleep(10)
    first.election.leave()
    await asyncio.wait_for(first.task, 1)
    released = spec(api)
    await asyncio.sleep(3)
    leads = second.election.is_leader
    await second.stop()

    assert ("", 1) == (released["holderIdentity"], released["leaseDurationSeconds"])
    assert ["lead", "lost"] == first.terms
    assert not first.fence.is_open
    assert leads


@pytest.mark.parametrize("code", [200, 500])
async def test_a_failed_release_is_logged(code: int):
    """The log states why a standby has to wait for the lease to expire, and only then."""
    api = MemoryApi()
    first = Candidate("first", api)
    await asyncio.sleep(1)
    if code != 200:
        first.link = lambda method, _: Accident(Response(code)) if method == "PUT" else None
    first.election.leave()
    with structlog.testing.capture_logs() as logged:
        await asyncio.wait_for(first.task, 1)

    warned = [(line["event"], line["code"]) for line in logged if line["log_level"] == "warning"]
    assert warned == ([] if code == 200 else [("cannot release the lease", code)])
    assert ("first" if code != 200 else "") == spec(api)["holderIdentity"]


async def test_leaving_while_waiting_just_ends():
    """A standby that is stopped writes nothing."""
    api = MemoryApi()
    first = Candidate("first", api)
    await asyncio.sleep(1)
    second = Candidate("second", api)
    await asyncio.sleep(1)
    second.election.leave()
    await asyncio.wait_for(second.task, 1)
    await first.stop()

    assert [] == second.terms
    assert "first" == spec(api)["holderIdentity"]


async def test_terms_are_reported_and_counted():
    """An event on the lease for each change, and gauges that dashboards know."""
    api = MemoryApi()
    first = Candidate("first", api)
    await asyncio.sleep(1)
    leading = first.meters.leader_election_master_status.labels("kube-scheduler").value
    was_leader = first.election.is_leader
    first.election.leave()
    await first.task
    events = api.get("/api/v1/namespaces/kube-system/events")["items"]

    assert ["first became leader", "first stopped leading"] == [e["message"] for e in events]
    assert {"LeaderElection"} == {event["reason"] for event in events}
    about = events[0]["involvedObject"]
    assert ("Lease", "kube-system", "kube-scheduler", True) == (
        about["kind"],
        about["namespace"],
        about["name"],
        bool(about["uid"]),
    )
    assert 1 == leading
    assert 0 == first.meters.leader_election_master_status.labels("kube-scheduler").value
    assert 1 == first.meters.lease_transitions.labels("kube-scheduler").value
    assert was_leader


async def test_a_leader_is_healthy_while_it_renews():
    """Health fails lease + 20 s after the last renewal; a standby is healthy."""
    api = MemoryApi()
    first = Candidate("first", api)
    await asyncio.sleep(1)
    now = first.clock.now()
    verdicts = [first.election.is_healthy(now + later) for later in (0, 33, 36)]
    await first.stop()

    assert [True, True, False] == verdicts
    assert first.election.is_healthy(now + 100)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 20))]
)
async def test_never_two_at_a_time(seed: int):
    """Three candidates whose links fail at random: their fences never overlap."""
    api = MemoryApi()
    random = Random(seed)
    candidates = [Candidate(f"c{n}", api, offset_s=n * 100.0, seed=n) for n in range(3)]
    broken: dict[str, bool] = {}

    def link(candidate: Candidate) -> Callable[[str, str], Accident | None]:
        def accident(_method: str, _path: str) -> Accident | None:
            if not broken.get(candidate.name):
                return None
            return Accident(LOST, is_applied=random.random() < 0.5, delay_s=random.random() * 4)

        return accident

    for candidate in candidates:
        candidate.link = link(candidate)
    led = 0
    for turn in range(400):
        if turn % 17 == 0:
            broken = {c.name: random.random() < 0.4 for c in candidates}
        await asyncio.sleep(0.75)
        leaders = [c for c in candidates if c.fence.is_open]
        assert len(leaders) <= 1
        led += len(leaders)
        for candidate in candidates:
            if candidate.task.done():
                candidate.task = asyncio.create_task(candidate.election.run())
    for candidate in candidates:
        await candidate.stop()

    assert led > 130


async def test_a_leader_receives_whether_another_led_before_it():
    """Only the first of all leaders has no predecessor whose writes its watches may lack."""
    api = MemoryApi()
    first = Candidate("first", api)
    await asyncio.sleep(5)
    assert (["lead"], False) == (first.terms, first.has_predecessor)
    second = Candidate("second", api, seed=2)
    await first.stop()
    await asyncio.sleep(60)
    assert (["lead"], True) == (second.terms, second.has_predecessor)
    await second.stop()
