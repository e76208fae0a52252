"""A reflector reports every object of its kind to the engine, once, whatever faults occur."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from scheduler.base.meters import Meters
from scheduler.engine.effects import Behind, CaughtUp, Event, Listed, Watched
from scheduler.kube.api import Response
from scheduler.kube.watching.watch import Reflector, WatchSettings
from scheduler.kube.watching.watches import Watches
from scheduler.objects.kinds import NODE, POD, Kind
from scheduler.objects.workloads import Namespace
from tests.unit.kube.memoryapi import LOST, Accident, MemoryApi

pytestmark = pytest.mark.looptime

NODES = "/api/v1/nodes"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SETTINGS = WatchSettings(page_limit=2)
WIDGET = Kind("Widget", "example.com", "v1", "widgets", Namespace, namespaced=False, required=False)


class Run:
    """A reflector on a sandbox in memory, and its events."""

    def __init__(self, kind: Kind = NODE, settings: WatchSettings = SETTINGS) -> None:
        self.api = MemoryApi()
        self.events: list[Event] = []
        self.meters = Meters()
        self.reflector = Reflector(
            kind,
            self.api,
            self.events.append,
            random=Random(1),
            meters=self.meters,
            settings=settings,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Run"]:
        task = asyncio.create_task(self.reflector.run())
        try:
            await asyncio.sleep(1)
            assert not task.done(), task.exception()
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def node(self, name: str, **labels: str) -> None:
        self.api.put(NODES, {"metadata": {"name": name, "labels": labels}})

    def received(self) -> list[str]:
        """Return the events about objects, reduced to the relevant parts."""
        return [received(event) for event in self.events if isinstance(event, Watched | Listed)]

    def restarts(self, reason: str) -> float:
        return self.meters.watch_restarts.labels(self.reflector.kind.kind, reason).value


def received(event: Event) -> str:
    if isinstance(event, Watched):
        return f"{event.verb} {event.object.metadata.name}"
    if isinstance(event, Listed):
        return f"listed {' '.join(obj.metadata.name for obj in event.objects)}".strip()
    return {Behind: "behind", CaughtUp: "caught up"}[type(event)]


async def test_it_lists_once_and_then_follows():
    """The list is reported as a whole, although it was read in pages; each change follows it,
    once.
    """
    run = Run()
    for name in "abcde":
        run.node(name)

    async with run.running():
        run.node("f")
        await asyncio.sleep(1)
        await run.api.request("DELETE", f"{NODES}/a")
        await asyncio.sleep(1)

    assert ["listed a b c d e", "ADDED f", "DELETED a"] == run.received()
    assert 3 == sum("continue=" in path or "limit=" in path for path in run.api.requests("GET"))


async def test_a_list_that_expires_between_pages_begins_anew():
    """A partial list that the server expired is not reported."""
    run = Run()
    for name in "abcde":
        run.node(name)
    expired = [Accident(Response(410, reason="Expired", message="too old"))]
    run.api.accident = lambda _, path: expired.pop() if "continue" in path and expired else None

    async with run.running():
        pass

    assert ["listed a b c d e"] == run.received()


async def test_a_watch_goes_on_where_it_ended():
    """After a cut connection no event is lost or repeated, without a new list."""
    run = Run()
    run.node("a")

    async with run.running():
        run.node("b")
        await asyncio.sleep(1)
        run.api.flows[0].cut()
        run.node("c")
        await asyncio.sleep(5)
        run.node("d")
        await asyncio.sleep(1)

    assert ["listed a", "ADDED b", "ADDED c", "ADDED d"] == run.received()
    assert 1 == run.restarts("error")


async def test_the_time_limit_of_a_watch_is_no_failure():
    """The server ends a quiet watch after minutes; the reflector starts another one at once, from
    the last version.
    """
    run = Run(settings=WatchSettings(silence_s=3600))

    async with run.running():
        await asyncio.sleep(3600)
        run.node("a")
        await asyncio.sleep(1)

    assert ["listed", "ADDED a"] == run.received()
    assert 6 <= run.restarts("closed") <= 12
    assert 0 == run.restarts("error")


async def test_a_silent_connection_is_taken_for_dead():
    """A vanished peer is detected, and the missing events are fetched."""
    run = Run()

    async with run.running():
        run.api.flows[0].die()
        run.node("a")
        await asyncio.sleep(SETTINGS.silence_s + 5)

    assert ["listed", "ADDED a"] == run.received()


async def test_a_server_restored_from_a_backup_is_listed_anew():
    """A server restored to older versions never sends an event. The reflector detects that after a
    silence and lists again.
    """
    run = Run()
    run.node("a")

    async with run.running():
        run.reflector._version = "999999"
        run.api.flows[0].die()
        run.api.accident = lambda method, _: None
        await asyncio.sleep(SETTINGS.silence_s + 5)
        run.node("b")
        await asyncio.sleep(1)

    assert ["listed a", "listed a", "ADDED b"] == run.received()
    assert 1 == run.restarts("silent")


async def test_a_forgotten_version_makes_a_new_list():
    """If the server has expired our version (410 in the stream), the list shows the deletions."""
    run = Run()
    run.node("a")
    run.node("b")

    async with run.running():
        run.api.accident = lambda method, _: Accident(LOST) if method == "WATCH" else None
        run.api.flows[0].cut()
        await asyncio.sleep(1)
        await run.api.request("DELETE", f"{NODES}/a")
        run.node("c")
        run.api.store.forget_history()
        run.api.accident = lambda _, __: None
        await asyncio.sleep(60)
        run.node("d")
        await asyncio.sleep(1)

    assert ["listed a b", "listed b c", "ADDED d"] == run.received()
    assert 1 == run.restarts("expired")


@pytest.mark.parametrize("code", [410, 500])
async def test_a_refused_watch_does_not_hammer(code: int):
    """If a server lists but rejects watches, the reflector lists at growing intervals."""
    run = Run()
    refused = Accident(Response(code, reason="Whatever", message="no"))
    run.api.accident = lambda method, _: refused if method == "WATCH" else None

    async with run.running():
        await asyncio.sleep(600)

    assert run.restarts("expired") + run.restarts("error") < 60


async def test_a_busy_server_is_given_the_time_it_asks_for():
    """After 429 with Retry-After the next request is not sent earlier."""
    run = Run()
    busy = [Accident(Response(429, reason="TooManyRequests", retry_after_s=20.0))]
    run.api.accident = lambda _, __: busy.pop() if busy else None
    started = run.api.clock.now()

    async with run.running():
        await asyncio.sleep(30)

    assert 20 <= run.api.seen[0].at - started <= 21.5
    assert ["listed"] == run.received()


async def test_an_unreachable_server_is_asked_ever_more_seldom():
    """Without a response, the delay between requests doubles up to the limit, with jitter."""
    run = Run()
    asked: list[float] = []

    def down(_method: str, _path: str) -> Accident | None:
        asked.append(run.api.clock.now())
        return Accident(LOST) if len(asked) < 20 else None

    run.api.accident = down
    async with run.running():
        await asyncio.sleep(900)

    delays = [later - earlier for earlier, later in pairwise(asked[:20])]
    assert 0.25 <= delays[0] <= 0.5
    assert all(15 <= delay <= 30 for delay in delays[7:])
    assert len({round(delay, 3) for delay in delays}) > 10
    assert ["listed"] == run.received()


async def test_a_kind_that_is_not_offered_is_empty_until_it_appears():
    """A kind that the server does not offer counts as listed and empty; discovery is polled until
    it appears.
    """
    run = Run(WIDGET)

    async with run.running():
        assert run.reflector.is_synced
        assert ["listed"] == run.received()
        await asyncio.sleep(100)
        assert 3 <= len(run.api.seen) <= 6
        await define_widgets(run.api)
        run.api.put("/apis/example.com/v1/widgets", {"metadata": {"name": "w"}})
        await asyncio.sleep(40)

    assert ["listed", "listed w"] == run.received()


async def test_looking_again_can_be_asked_for():
    """A caller with a new definition can trigger the next check."""
    run = Run(WIDGET)

    async with run.running():
        await define_widgets(run.api)
        run.api.put("/apis/example.com/v1/widgets", {"metadata": {"name": "w"}})
        run.reflector.look_again()
        await asyncio.sleep(1)

    assert ["listed", "listed w"] == run.received()


async def test_a_kind_that_goes_away_is_empty_again():
    """When the definition of a kind is deleted, its objects count as deleted."""
    run = Run(WIDGET)
    await define_widgets(run.api)
    run.api.put("/apis/example.com/v1/widgets", {"metadata": {"name": "w"}})

    async with run.running():
        run.api.accident = lambda _, path: NOT_FOUND if path.startswith(WIDGET.path) else None
        known, run.api.discovery = run.api.discovery, MemoryApi().discovery
        run.api.flows[0].cut()
        await asyncio.sleep(10)
        assert run.reflector.is_missing
        run.api.accident, run.api.discovery = lambda _, __: None, known
        await asyncio.sleep(40)

    assert ["listed w", "listed", "listed w"] == run.received()


NOT_FOUND = Accident(Response(404, reason="NotFound", message="404 page not found"))
FORBIDDEN = Accident(Response(403, reason="Forbidden", message="no"))


@pytest.mark.parametrize("refusal", [NOT_FOUND, FORBIDDEN])
@pytest.mark.parametrize("kind", [NODE, WIDGET])
async def test_what_was_listed_is_not_forgotten_for_a_refusal(kind: Kind, refusal: Accident):
    """A 404 of a proxy or a lost right does not remove the objects that were listed."""
    run = Run(kind)
    await define_widgets(run.api)
    run.api.put(kind.path, {"metadata": {"name": "a"}})

    async with run.running():
        run.api.accident = lambda _, path: refusal if path.startswith(kind.path) else None
        run.api.flows[0].cut()
        await asyncio.sleep(100)
        assert ["listed a"] == run.received()
        assert 0 == run.meters.watch_synced.labels(kind.kind).value
        run.api.accident = lambda _, __: None
        run.api.put(kind.path, {"metadata": {"name": "b"}})
        await asyncio.sleep(60)

    assert ["listed a", "listed a b"] == run.received()


async def test_a_404_while_discovery_is_away_is_not_believed():
    """Only discovery can report that a kind is not offered. Until discovery answers, the list is
    retried.
    """
    run = Run(WIDGET)
    await define_widgets(run.api)
    down = Accident(Response(503, reason="ServiceUnavailable"))
    run.api.accident = lambda _, path: NOT_FOUND if "widgets" in path else down

    async with run.running():
        await asyncio.sleep(60)
        assert not run.reflector.is_synced
        run.api.accident = lambda _, __: None
        await asyncio.sleep(60)

    assert ["listed"] == run.received()


async def test_a_403_is_believed_when_what_is_required_was_let_through():
    """A 403 counts as a denied kind only after the required kinds were listed; a server may reject
    everything for a while.
    """
    api = MemoryApi()
    events: list[Event] = []
    await define_widgets(api)
    api.put(WIDGET.path, {"metadata": {"name": "w"}})
    api.accident = lambda _, __: FORBIDDEN
    watches = Watches((WIDGET, NODE), api, events.append, random=Random(1), meters=Meters())
    task = asyncio.create_task(watches.run())
    await asyncio.sleep(60)
    assert ["Widget", "Node"] == watches.unsynced()
    api.accident = lambda _, __: None
    await asyncio.sleep(40)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert {"listed", "listed w"} == {received(event) for event in events}
    widgets = [event for event in events if isinstance(event, Listed) and event.kind == "Widget"]
    assert ["listed w"] == [received(event) for event in widgets]


@pytest.mark.parametrize("is_offered", [True, False])
async def test_a_kind_forbidden_from_the_start_delays_no_other(is_offered: bool):
    """Without the right to list a kind, the kind counts as missing once the others are listed, and
    the engine learns that it is denied. A kind that is not offered is not denied.
    """
    api = MemoryApi()
    events: list[Event] = []
    if is_offered:
        await define_widgets(api)
    api.accident = lambda _, path: FORBIDDEN if path.startswith(WIDGET.path) else None
    watches = Watches((WIDGET, NODE), api, events.append, random=Random(1), meters=Meters())
    task = asyncio.create_task(watches.run())
    await asyncio.sleep(0.1)
    assert [] == watches.unsynced()
    assert (["widgets.example.com"] if is_offered else []) == watches.denied()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert Listed("Widget", is_denied=is_offered) in events


@pytest.mark.parametrize("refusal", [NOT_FOUND, FORBIDDEN])
async def test_what_is_required_is_waited_for(refusal: Accident):
    """No response to the list of nodes counts as an empty list: the daemon is not ready until nodes
    are listed.
    """
    run = Run(NODE)
    run.api.accident = lambda _, __: refusal

    async with run.running():
        await asyncio.sleep(600)
        assert not run.reflector.is_synced

    assert [] == run.received()


async def test_before_a_new_list_the_engine_receives_behind():
    """`Behind` is emitted before the first page is requested, and the list ends it."""
    run = Run()
    run.node("a")

    async with run.running():
        run.api.store.forget_history()
        run.node("b")
        run.api.flows[0].inject(
            b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n'
        )
        await asyncio.sleep(5)

    assert ["listed a", "behind", "listed a b"] == list(map(received, run.events))


async def renewed(api: MemoryApi, events: list[Event], page_limit: int = 0) -> list[str]:
    """Run the watch of nodes, make it catch up after a second, and return the events after that.

    With `page_limit` 0 no kind is listed by one page.
    """
    settings = WatchSettings(page_limit=page_limit)
    watches = Watches(
        (NODE,), api, events.append, random=Random(1), meters=Meters(), settings=settings
    )
    task = asyncio.create_task(watches.run())
    await asyncio.sleep(1)
    events.clear()
    api.put("/api/v1/namespaces", {"metadata": {"name": "newer-than-any-node"}})
    watches.catch_up()
    await asyncio.sleep(0.1)
    api.put(NODES, {"metadata": {"name": "late"}})
    await asyncio.sleep(5)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return [received(event) for event in events]


async def test_a_busy_watch_catches_up_by_itself():
    """An event at the server's current version proves that the watch is current, so no new list is
    needed.
    """
    api = MemoryApi()
    api.put(NODES, {"metadata": {"name": "a"}})
    assert ["behind", "ADDED late", "caught up"] == await renewed(api, [])


@pytest.mark.parametrize(
    ("limit", "seen"),
    [
        (2, ["behind", "behind", "listed a b", "ADDED late"]),
        (1, ["behind", "ADDED late", "caught up"]),
    ],
)
async def test_a_kind_of_one_page_is_listed_anew_at_once(limit: int, seen: list[str]):
    """A quiet watch cannot prove that it is current: waiting for it would delay decisions."""
    api, events = MemoryApi(), list[Event]()
    for name in ("a", "b"):
        api.put(NODES, {"metadata": {"name": name}})
    assert seen == await renewed(api, events, page_limit=limit)


async def test_a_silent_watch_is_listed_anew_to_catch_up():
    """A silent watch may be dead: the list shows its missing events."""
    api, events = MemoryApi(), list[Event]()
    api.put(NODES, {"metadata": {"name": "a"}})
    deaf = api.stream

    @asynccontextmanager
    async def stream(path: str, *, silence_s: float) -> AsyncIterator[Any]:
        async with deaf(path, silence_s=silence_s) as opened:
            if len(api.flows) == 1 and not events[1:]:
                api.flows[0].die()
            yield opened

    api.stream = stream  # type: ignore[method-assign]
    assert ["behind", "behind", "listed a late"] == await renewed(api, events)


async def test_an_unreadable_object_is_left_out_and_the_rest_goes_on():
    """The object is reported with its key and fault, counted, and affects no other."""
    run = Run()
    bad = b'{"type":"ADDED","object":{"metadata":{"name":"bad","resourceVersion":"%s"},"spec":3}}\n'

    async with run.running():
        run.api.flows[0].inject(bad % str(run.api.store.version).encode())
        run.node("a")
        await asyncio.sleep(1)
        unreadable = list(run.reflector._unreadable.values())

    assert ["listed", "ADDED a"] == run.received()
    assert 1 == run.meters.watch_decode_errors.labels("Node").value
    assert ["bad"] == [fault.key for fault in unreadable]
    assert "$.spec" in unreadable[0].message


async def test_garbage_in_a_watch_is_survived():
    """Bytes that are not JSON end the connection; the watch continues on another one."""
    run = Run()

    async with run.running():
        run.node("a")
        await asyncio.sleep(1)
        run.api.flows[0].inject(b'{"type":"ADDED","obj\xff\n')
        run.node("b")
        await asyncio.sleep(5)

    assert ["listed", "ADDED a", "ADDED b"] == run.received()
    assert 1 == run.restarts("decode")


async def test_garbage_at_the_same_place_twice_makes_a_new_list():
    """If a continued watch reads the same invalid bytes again, the reflector lists again to get
    past them.
    """
    run = Run()

    async with run.running():
        for _ in range(2):
            run.api.flows[0].inject(b"<html>\n")
            await asyncio.sleep(5)
        run.node("a")
        await asyncio.sleep(5)

    assert ["listed", "listed", "ADDED a"] == run.received()


async def test_lines_may_be_cut_anywhere():
    """Events are equal however the bytes are divided into packets."""
    run = Run()
    run.api.chunk_bytes = 7

    async with run.running():
        for name in "abc":
            run.node(name, zone="z" * 50)
        await asyncio.sleep(1)

    assert ["listed", "ADDED a", "ADDED b", "ADDED c"] == run.received()


async def test_events_that_arrive_together_are_delivered_together():
    """All changes of one packet are emitted before other tasks run."""
    run = Run()
    turns: list[int] = []

    async with run.running():
        for number in range(50):
            run.node(f"n{number}")

        async def watch_turns() -> None:
            while len(run.events) < 51:
                turns.append(len(run.events))
                await asyncio.sleep(0)

        await watch_turns()

    assert {1} == set(turns)


async def test_a_leader_knows_what_is_missing():
    """`unsynced` names the kinds that are not listed yet."""
    api, meters = MemoryApi(), Meters()
    events: list[Event] = []
    late = Accident(Response(200), delay_s=50.0)
    api.accident = lambda _, path: late if "pods" in path else None
    watches = Watches((NODE, POD), api, events.append, random=Random(1), meters=meters)
    assert ["Node", "Pod"] == watches.unsynced()

    task = asyncio.create_task(watches.run())
    await asyncio.sleep(10)
    after_some: Any = watches.unsynced(), meters.watch_synced.labels("Node").value
    await asyncio.sleep(50)
    after_all = watches.unsynced(), [one.is_synced for one in watches._reflectors]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert (["Pod"], 1) == after_some
    assert ([], [True, True]) == after_all
    assert 0 == meters.watch_synced.labels("Node").value


async def define_widgets(api: MemoryApi) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    api.put(
        DEFINITIONS,
        {
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Cluster",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
                "versions": [version],
            },
        },
    )
