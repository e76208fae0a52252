"""Every event is written, in kube-scheduler's fields, and repeats do not flood the server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.base.meters import Meters
from scheduler.engine.effects import Record
from scheduler.kube.api import Response
from scheduler.kube.writing import recorder
from scheduler.kube.writing.fence import Fence
from scheduler.kube.writing.recorder import FINISH_S, REFRESH_S, Recorder
from scheduler.kube.writing.sender import Sender
from tests.unit.kube.memoryapi import LOST, START, Accident, MemoryApi

pytestmark = pytest.mark.looptime

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
FAILED = Record(
    namespace="default",
    name="a",
    uid="uid-a",
    resource_version="7",
    scheduler_name="trellis",
    type="Warning",
    reason="FailedScheduling",
    action="Scheduling",
    note="0/1 nodes are available: 1 no.",
    now=START + 0.25,
)
SCHEDULED = replace(
    FAILED, type="Normal", reason="Scheduled", action="Binding", note="Successfully assigned"
)


class Run:
    """A recorder at work on a sandbox in memory."""

    def __init__(self, **options: Any) -> None:
        self.api = MemoryApi()
        self.meters = Meters()
        sender = Sender(self.api, Fence(self.api.clock), Random(1), self.meters)
        self.recorder = Recorder(sender, "host", meters=self.meters, **options)

    def events(self) -> list[Any]:
        return list(self.api.get(EVENTS)["items"])

    def written(self, result: str) -> float:
        return self.meters.event_writes.labels(result).value

    async def put(self, *records: Record, time_s: float = 1.0) -> None:
        for record in records:
            self.recorder.put(record)
        await asyncio.sleep(time_s)


@asynccontextmanager
async def running(**options: Any) -> AsyncIterator[Run]:
    run = Run(**options)
    try:
        yield run
    finally:
        run.recorder.stop()
        await run.recorder.write_queue.wait_stopped()


def at(record: Record, after_s: float) -> Record:
    return replace(record, now=START + after_s)


async def test_an_event_has_the_fields_of_kube_schedulers():
    """An event has name, times, reporter and regarded object as kube-scheduler's events do."""
    async with running() as run:
        await run.put(FAILED)
        (body,) = [seen.body for seen in run.api.seen]

    assert {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "a.17979cfe4510b200", "namespace": "default"},
        "eventTime": "2023-11-14T22:13:20.250000Z",
        "reportingController": "trellis",
        "reportingInstance": "trellis-host",
        "action": "Scheduling",
        "reason": "FailedScheduling",
        "regarding": {
            "kind": "Pod",
            "namespace": "default",
            "name": "a",
            "uid": "uid-a",
            "apiVersion": "v1",
            "resourceVersion": "7",
        },
        "note": "0/1 nodes are available: 1 no.",
        "type": "Warning",
    } == body
    assert ["a.17979cfe4510b200"] == [event["metadata"]["name"] for event in run.events()]


async def test_a_victims_event_names_its_preemptor():
    """`related` names the preemptor."""
    async with running() as run:
        await run.put(replace(FAILED, reason="Preempted", related=("default", "b", "uid-b")))
        (event,) = run.events()

    assert {
        "kind": "Pod",
        "namespace": "default",
        "name": "b",
        "uid": "uid-b",
        "apiVersion": "v1",
    } == event["related"]


async def test_a_long_note_is_cut():
    """The server accepts 1024 bytes; the end marks the cut."""
    async with running() as run:
        await run.put(replace(FAILED, note="ä" * 2000))
        (event,) = run.events()

    assert len(event["note"].encode()) <= 1024
    assert event["note"].endswith("ä ...")


async def test_a_long_name_is_cut_before_the_time():
    """A pod's name may be as long as an event's; both still make one valid name."""
    async with running() as run:
        await run.put(replace(FAILED, name="a" * 235 + "-" + "b" * 17))
        (event,) = run.events()

    assert "a" * 235 + ".17979cfe4510b200" == event["metadata"]["name"]


async def test_events_of_one_moment_have_names_of_their_own():
    """Two events about a pod in one turn of the engine do not collide."""
    async with running() as run:
        await run.put(FAILED, replace(FAILED, reason="Other"), SCHEDULED)

    assert 3 == len(run.events()) == run.written("created")


async def test_repeats_become_a_series():
    """The first repeat is written, later ones only counted, until the series ends."""
    async with running() as run:
        for repeat in range(5):
            await run.put(replace(at(FAILED, repeat), note=f"note {repeat}"))
        (event,) = run.events()
        requests_before = len(run.api.seen)
        run.recorder.tick(START + 4 + FINISH_S)
        await asyncio.sleep(1)
        (ended,) = run.events()

    assert {"count": 2, "lastObservedTime": "2023-11-14T22:13:21.000000Z"} == event["series"]
    assert "note 0" == event["note"]
    assert 2 == requests_before
    assert {"count": 5, "lastObservedTime": "2023-11-14T22:13:24.000000Z"} == ended["series"]
    assert (1, 2, 0) == tuple(map(run.written, ("created", "series", "error")))
    assert not run.recorder._entries


async def test_a_changed_pod_begins_a_new_event():
    """Events with different resource versions of the pod are different."""
    async with running() as run:
        await run.put(FAILED, at(replace(FAILED, resource_version="8"), 1))

    assert 2 == len(run.events())


async def test_a_long_series_is_refreshed():
    """Every half hour the count is written, so that the series does not look finished."""
    async with running() as run:
        for minute in range(40):
            run.recorder.put(at(FAILED, minute * 60))
            run.recorder.tick(START + minute * 60)
            await asyncio.sleep(1)
        (event,) = run.events()

    assert 31 == event["series"]["count"]
    assert REFRESH_S == 30 * 60
    assert 3 == len(run.api.seen)


async def test_a_series_outlives_its_event():
    """If the server has expired the event meanwhile, it is written again."""
    async with running() as run:
        await run.put(FAILED)
        run.api.remove(f"{EVENTS}/a.17979cfe4510b200")
        await run.put(at(FAILED, 1))
        (event,) = run.events()

    assert 2 == event["series"]["count"]


async def test_a_lost_answer_does_not_write_twice():
    """The repeated request finds the event of the first one, which is no error."""
    async with running() as run:
        accidents = [Accident(LOST, is_applied=True)]
        run.api.accident = lambda _, __: accidents.pop() if accidents else None
        await run.put(FAILED)

    assert 1 == len(run.events())
    assert (1, 0) == (run.written("created"), run.written("error"))


async def test_a_server_that_is_away_is_waited_for():
    """Minutes without an API server cost no event."""
    async with running() as run:
        run.api.accident = lambda _, __: Accident(LOST)
        await run.put(*[replace(SCHEDULED, uid=f"u{n}") for n in range(100)], time_s=120)
        run.api.accident = lambda _, __: None
        await asyncio.sleep(60)

    assert 100 == len(run.events())


@pytest.mark.parametrize("code", [403, 404, 422, 500])
async def test_what_the_server_refuses_is_counted_and_left(code: int):
    """Events are rejected for a terminating namespace or by a broken webhook: other events do not
    wait for these.
    """
    async with running() as run:
        run.api.accident = lambda _, __: Accident(Response(code, reason="Whatever"))
        await run.put(FAILED, time_s=60)

    assert (0, 1) == (run.written("created"), run.written("error"))
    assert 1 == run.meters.event_writes.labels("error").value


@pytest.mark.parametrize(
    ("code", "message", "is_logged"),
    [
        (403, "forbidden: namespace default is being terminated", False),
        (404, "namespaces default not found", False),
        (403, "forbidden: no right to create events", True),
        (500, "the webhook was terminated", True),
    ],
)
async def test_a_rejected_event_is_logged_unless_its_namespace_ends(
    code: int, message: str, is_logged: bool, monkeypatch: pytest.MonkeyPatch
):
    """Every pod of a terminating namespace would log a line otherwise."""
    logged: list[Any] = []
    monkeypatch.setattr(recorder, "_log", SimpleNamespace(warning=lambda *a, **k: logged.append(k)))
    async with running() as run:
        run.api.accident = lambda _, __: Accident(Response(code, reason="No", message=message))
        await run.put(FAILED, time_s=60)

    assert 1 == run.written("error")
    assert is_logged == bool(logged)


@pytest.mark.parametrize("code", [403, 404, 500])
async def test_a_rejected_eviction_event_is_awaited_for_seconds_and_written_later(code: int):
    """The pod is evicted after its event was refused for some seconds.

    The event is written once the server accepts it.
    """
    loop = asyncio.get_running_loop()
    async with running() as run:
        run.api.accident = lambda _, __: Accident(Response(code, reason="Whatever"))
        await run.put(replace(FAILED, reason="Preempted"), time_s=0)
        began = loop.time()
        await run.recorder.settle("uid-a")
        waited_s = loop.time() - began
        await asyncio.sleep(120)
        assert [] == run.events()
        run.api.accident = lambda _, __: None
        await asyncio.sleep(15)

    assert 5 < waited_s < 30
    assert ["Preempted"] == [event["reason"] for event in run.events()]


async def test_an_eviction_event_is_abandoned_after_ten_minutes():
    """If a role never permits events, the retries end."""
    async with running() as run:
        run.api.accident = lambda _, __: Accident(Response(403, reason="Forbidden"))
        await run.put(replace(FAILED, reason="Preempted"), time_s=900)

    assert (0, 1) == (run.written("created"), run.written("error"))
    assert run.recorder.write_queue.is_idle


async def test_a_namespace_that_ends_takes_its_last_events():
    """The sandbox, like the real server, accepts events while a namespace is terminating."""
    async with running() as run:
        await run.put(replace(FAILED, namespace="no-such"))

    assert 1 == run.written("error")


async def test_nothing_is_dropped_when_writing_is_slow():
    """The queue fills and makes the daemon wait; all events are written in the end."""
    async with running(limit=2, capacity=10) as run:
        run.api.accident = lambda _, __: Accident(Response(200), delay_s=0.1)
        for number in range(100):
            await run.recorder.write_queue.wait_capacity()
            run.recorder.put(replace(SCHEDULED, uid=f"u{number}"))
            assert run.recorder.write_queue.queued <= 10
        await asyncio.sleep(20)

    assert 100 == len(run.events())
    assert 2 == run.api.most_running
    assert 0 == run.meters.events_dropped.value


async def test_what_a_stop_leaves_is_counted():
    """Events that may no longer be written are reported as dropped."""
    async with running(limit=1) as run:
        run.api.accident = lambda _, __: Accident(Response(200), delay_s=5.0)
        await run.put(*[replace(SCHEDULED, uid=f"u{n}") for n in range(3)])
        left = run.recorder.stop()

    assert 3 == left == run.meters.events_dropped.value


async def test_the_end_of_the_process_writes_what_was_counted():
    """`finish` ends all series, so that no count is lost with the process."""
    async with running() as run:
        for repeat in range(4):
            await run.put(at(FAILED, repeat))
        run.recorder.finish()
        await asyncio.sleep(1)
        (event,) = run.events()

    assert 4 == event["series"]["count"]


async def test_an_event_that_is_not_repeated_is_written_once():
    """The refresh of all series passes over events that have not been repeated since."""
    async with running() as run:
        for name, after_s in (("a", 0), ("b", REFRESH_S - 60), ("c", REFRESH_S + 1)):
            await run.put(at(replace(FAILED, uid=name, name=name), after_s))
            run.recorder.tick(START + after_s)
            await asyncio.sleep(1)
        methods = [seen.method for seen in run.api.seen]

    assert ["POST"] * 3 == methods
