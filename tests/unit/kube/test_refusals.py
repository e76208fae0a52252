"""Reports about infeasible pods: at a bounded rate, in turns, without delaying other work."""

import asyncio
from collections import Counter

import pytest
from msgspec.structs import replace

from scheduler.engine.effects import Bind
from scheduler.kube.api import Response
from scheduler.kube.writing import podstatus, recorder
from scheduler.kube.writing.effects import EffectLimits
from tests.unit.kube.memoryapi import Accident
from tests.unit.kube.test_effects import running, status
from tests.unit.kube.test_recorder import FAILED
from tests.unit.kube.test_recorder import running as recording

pytestmark = pytest.mark.looptime

SLOW = EffectLimits(refusals_per_s=10, refusals_at_once=5)


def flood(number: int, namespace: str = "flood"):
    """Return the reports about this many pods of a namespace."""
    one = replace(status("", "", "no capacity"), namespace=namespace)
    return [replace(one, name=f"p{n}", uid=f"{namespace}-{n}") for n in range(number)]


async def test_conditions_of_a_flood_are_written_at_the_stated_rate():
    """Five at once, then ten a second, however many there are; all of them in the end."""
    async with running(SLOW) as run:
        await run.carry_out(*flood(100), time_s=1.0)
        after_a_second = len(run.api.seen)
        await asyncio.sleep(20)

    assert 5 + 9 <= after_a_second <= 5 + 11
    assert 100 == len(run.api.seen)


async def test_no_binding_waits_for_the_conditions_of_a_flood():
    """The next pod is decided and bound while thousands of reports are queued.

    So is a nomination.
    """
    async with running(SLOW) as run:
        uid = run.pod("a")
        run.executor.submit(flood(5000))
        await asyncio.wait_for(run.executor.wait_capacity(), 0.1)
        nominating = status("uid-b", "b", "evicts", nominated="n1")
        await run.carry_out(Bind(1, "default", "a", uid, "n1"), nominating, time_s=0.2)

    assert {1: 201} == run.codes()
    assert any(seen.path.endswith("/b/status") for seen in run.api.seen)


async def test_a_namespace_with_few_pods_is_served_during_a_flood():
    """Namespaces take turns: a report behind thousands of another namespace is written within a
    round.
    """
    async with running(SLOW) as run:
        run.executor.submit(flood(1000))
        await run.carry_out(*flood(3, "other"), time_s=1.0)

    reported = Counter(seen.path.split("/")[4] for seen in run.api.seen)
    assert 3 == reported["other"]
    assert 20 > reported["flood"]


async def test_a_nomination_overtakes_the_waiting_condition_of_the_same_pod():
    """A pod's queued report is sent with its nomination at once, and only then."""
    async with running(SLOW) as run:
        run.executor.submit(flood(100))
        last = flood(100)[-1]
        await run.carry_out(replace(last, nominated_node="n1"), time_s=0.5)
        (nominating,) = [seen for seen in run.api.seen if seen.path.endswith("/p99/status")]
        await asyncio.sleep(20)
        assert 1 == sum(seen.path.endswith("/p99/status") for seen in run.api.seen)

    assert "n1" in str(nominating.body)


async def test_the_memory_of_waiting_conditions_is_bounded(monkeypatch):
    """A limited number per namespace waits, and omitted ones are counted; others are reported."""
    monkeypatch.setattr(podstatus, "MOST_REFUSALS", 50)
    async with running(SLOW) as run:
        await run.carry_out(*flood(200), *flood(2, "other"), time_s=60)

    assert 50 < len(run.api.seen) < 100
    assert 2 == sum("/other/" in seen.path for seen in run.api.seen)
    assert 202 - len(run.api.seen) == run.meters.refusals_untold.labels("SetStatus").value


async def test_events_of_a_flood_are_bounded_and_delay_no_other(monkeypatch):
    """Events of a flood wait in queues of their own; an eviction event, or any other, is sent at
    once.
    """
    monkeypatch.setattr(recorder, "MOST_REFUSALS", 50)
    clock_free = SLOW
    async with recording() as run:
        run.recorder.refusals._pace = clock_free.pace(run.api.clock)
        for number in range(200):
            run.recorder.put(replace(FAILED, name=f"p{number}", uid=f"u{number}"))
        await asyncio.wait_for(run.recorder.settle("u199"), 0.1)
        await run.put(replace(FAILED, uid="v", reason="Preempted"), time_s=0.1)
        first = len(run.events())
        assert any(event["reason"] == "Preempted" for event in run.events())
        await asyncio.sleep(60)

    assert first < 10
    assert 50 < len(run.events()) < 100
    assert 201 - len(run.events()) == run.meters.refusals_untold.labels("Record").value


async def test_a_client_with_a_limit_keeps_half_of_it_for_binds():
    """Patches and events take a quarter each."""
    assert 12.5 == EffectLimits().within(50).refusals_per_s
    assert EffectLimits().refusals_per_s == EffectLimits().within(None).refusals_per_s
    assert EffectLimits().refusals_per_s == EffectLimits().within(5000).refusals_per_s


async def test_waiting_conditions_are_dropped_with_the_right_to_write():
    """A process that may not write any more drops the reports, and makes them again when it may."""
    async with running(SLOW) as run:
        run.api.accident = lambda _, __: Accident(Response(200), delay_s=0.01)
        run.executor.submit(flood(100))
        await asyncio.sleep(0.5)
        assert run.executor.fence() > 50
        before = len(run.api.seen)
        await asyncio.sleep(20)
        assert before == len(run.api.seen)
        run.fence.open_until(run.api.clock.now() + 60)
        run.executor.resume()
        await run.carry_out(*flood(3), time_s=2)
        assert before + 3 == len(run.api.seen)
