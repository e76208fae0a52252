"""Whatever befalls lists and watches, the events lead to exactly the server's objects."""

import asyncio
from random import Random
from typing import Any

import looptime
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.base.meters import Meters
from scheduler.engine.effects import Behind, Event, Listed, Watched
from scheduler.kube.api import Response
from scheduler.kube.watching.watch import Reflector, WatchSettings
from scheduler.objects.kinds import NODE
from scheduler.sandbox.start import new_store
from tests.unit.kube.memoryapi import LOST, UNSENT, Accident, LoopClock, MemoryApi

pytestmark = pytest.mark.looptime

NODES = "/api/v1/nodes"
NAMES = "abcdef"
ACCIDENTS = {
    "lost": Accident(LOST, delay_s=3.0),
    "unsent": Accident(UNSENT),
    "expired": Accident(Response(410, reason="Expired", message="too old")),
    "busy": Accident(Response(429, reason="TooManyRequests", retry_after_s=2.0)),
    "broken": Accident(Response(500, reason="InternalError", message="oops")),
    "forbidden": Accident(Response(403, reason="Forbidden", message="not yet")),
}
STEPS = st.one_of(
    st.tuples(st.sampled_from(["write", "write", "delete"]), st.sampled_from(NAMES)),
    st.tuples(st.just("accident"), st.sampled_from(sorted(ACCIDENTS))),
    st.tuples(st.sampled_from(["cut", "die", "garbage", "compact", "pieces"]), st.just("")),
    st.tuples(st.just("wait"), st.sampled_from(["0", "0.3", "2", "40", "700"])),
)


class Follower:
    """Applies events as the engine does, and checks that each fits the known objects."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self.version = 0
        self.is_behind = False

    def apply(self, event: Event) -> None:
        if isinstance(event, Behind):
            self.is_behind = True
            return
        if isinstance(event, Listed):
            assert self.is_behind or not self.version, "a list came without a warning"
            self.is_behind = False
            self.version = self.version or 1
            self.known = {o.metadata.name: o.metadata.resource_version for o in event.objects}
            assert len(self.known) == len(event.objects)
            return
        assert isinstance(event, Watched)
        assert not self.is_behind, "a list is in flight, and a change came before it"
        meta = event.object.metadata
        version = int(meta.resource_version)
        assert version > self.version, "a change came twice, or out of order"
        self.version = version
        assert (event.verb == "ADDED") == (meta.name not in self.known), "a change is missing"
        if event.verb == "DELETED":
            del self.known[meta.name]
        else:
            self.known[meta.name] = meta.resource_version


class SimulatedCluster:
    """A reflector, an in-memory API server, and random changes and faults between them."""

    def __init__(self) -> None:
        # A short history, so that a long-interrupted watch finds its version expired.
        self.api = MemoryApi(new_store(LoopClock(), seed=1, with_crds=False, history=12))
        self.follower = Follower()
        self.accidents: list[Accident] = []
        self.api.accident = lambda _, __: self.accidents.pop(0) if self.accidents else None
        self.reflector = Reflector(
            NODE,
            self.api,
            self.follower.apply,
            random=Random(1),
            meters=Meters(),
            settings=WatchSettings(page_limit=2),
        )

    async def step(self, action: str, detail: str) -> None:
        match action:
            case "write":
                self._write(detail)
            case "delete":
                if self.api.get(f"{NODES}/{detail}") is not None:
                    self.api.remove(f"{NODES}/{detail}")
            case "accident":
                self.accidents.append(ACCIDENTS[detail])
            case "wait":
                await asyncio.sleep(float(detail))
            case "compact":
                self.api.store.forget_history()
            case "pieces":
                self.api.chunk_bytes = 11
            case _:
                self._disturb(action)

    def objects(self) -> dict[str, str]:
        items: list[Any] = self.api.get(NODES)["items"]
        return {o["metadata"]["name"]: o["metadata"]["resourceVersion"] for o in items}

    def _write(self, name: str) -> None:
        obj = self.api.get(f"{NODES}/{name}")
        if obj is None:
            self.api.put(NODES, {"metadata": {"name": name}})
            return
        edit = {"metadata": {"labels": {"edit": str(self.api.store.version)}}}
        self.api.change(f"{NODES}/{name}", edit)

    def _disturb(self, action: str) -> None:
        for flow in self.api.flows:
            if action == "garbage":
                flow.inject(b"\x00{{{\n")
            elif action == "cut":
                flow.cut()
            else:
                flow.die()


@given(st.lists(STEPS, min_size=5, max_size=40))
def test_the_events_lead_to_the_servers_objects(steps: list[tuple[str, str]]):
    """No object is lost, doubled, or left over, whatever happened in between."""

    async def scenario() -> None:
        cluster = SimulatedCluster()
        task = asyncio.create_task(cluster.reflector.run())
        for action, detail in steps:
            await cluster.step(action, detail)
            assert not task.done(), task.exception()
        cluster.accidents.clear()
        await asyncio.sleep(400)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert cluster.objects() == cluster.follower.known

    loop = looptime.new_event_loop()
    try:
        loop.run_until_complete(scenario())
    finally:
        loop.close()
