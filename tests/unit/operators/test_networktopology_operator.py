"""The operator of NetworkTopology on the sandbox's store, in time that jumps, with faults on the way."""

import asyncio
import copy
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from operators.api import Api
from operators.networktopology.operator import NETWORK_TOPOLOGY, NetworkTopologyOperator
from operators.operator import Surroundings
from operators.settings import OperatorsSettings
from scheduler.base.clock import ManualClock
from scheduler.objects.node import Node, NodeMeta
from scheduler.sandbox import writing
from scheduler.sandbox.kinds import CUSTOMRESOURCEDEFINITIONS, Resource
from scheduler.sandbox.request import parse
from scheduler.sandbox.start import new_store
from scheduler.sandbox.status import StatusError
from scheduler.sandbox.store import Store
from scheduler.sandbox.typetable import type_table
from scheduler.state.cluster import Cluster
from scheduler.state.view import LiveView

Json = dict[str, Any]
KEY = ("default", "nt")
CRDS = Path(__file__).parents[3] / "crds"
DEFINITION = yaml.safe_load((CRDS / "networktopologies.yaml").read_text())
type_table()  # read here, not on a test's loop
pytestmark = pytest.mark.looptime


class Answer(NamedTuple):
    code: int
    body: bytes = b""
    message: str = ""


class Shop:
    """A store with one NetworkTopology, the nodes in memory, and an operator between them."""

    def __init__(self, *, without: tuple[str, ...] = (), interval_s: float = 1.0) -> None:
        self.store = a_store(without)
        self.faults: deque[Answer] = deque()
        self.sent: list[float] = []
        self.reports: list[str] = []
        self.cluster = Cluster()
        self.view = LiveView(self.cluster)
        resource = self.store.kinds.find(
            NETWORK_TOPOLOGY.group, NETWORK_TOPOLOGY.version, NETWORK_TOPOLOGY.plural
        )
        assert resource is not None
        self.resource: Resource = resource
        self.operator = NetworkTopologyOperator(
            Surroundings(
                view=self.view,
                api=Api(self, 10),
                legacy=False,
                settings=OperatorsSettings(status_interval_s=interval_s, retry_limit_s=8.0),
                clock=ManualClock(1_700_000_000),
                report=self.reports.append,
            )
        )
        self.watch = self.store.watch(resource, wake=self.deliver)
        self.is_late = False
        self.store.create(resource, {"metadata": {"name": "nt"}, "spec": {}}, "default")

    def deliver(self) -> None:
        """Pass events on, as kopf would; while late, they pile up."""
        if not self.is_late:
            for change in self.watch.changes():
                self.operator.seen(change.type, change.stored.obj)

    async def request(
        self, method: str, path: str, body: bytes = b"", *, content_type: str = "", **_: Any
    ) -> Answer:
        await asyncio.sleep(0.01)
        self.sent.append(asyncio.get_running_loop().time())
        if self.faults:
            return self.faults.popleft()
        call = parse(self.store.kinds, method, path, "")
        call.body, call.content_type = body, content_type
        try:
            answer = writing.patch(self.store, call)
        except StatusError as fault:
            return Answer(fault.code, message=fault.status["message"])
        return Answer(answer.code, answer.body)

    @property
    def status(self) -> Json:
        obj = self.store.get(self.resource, *KEY).obj
        status: Json = obj.get("status", {})
        return status

    def nodes(self, count: int) -> None:
        """Have this many nodes."""
        for number in range(max(count, len(self.cluster.table))):
            name = f"n{number}"
            if number < count:
                change = self.cluster.put_node(Node(metadata=NodeMeta(name=name)))
            else:
                change = self.cluster.drop_node(name)
            self.view.note(change)
        self.view.flush()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.operator.work())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def a_store(without: tuple[str, ...]) -> Store:
    """Make a store with our definitions, less some fields of status."""
    store = new_store(ManualClock(1_700_000_000), with_crds=False)
    definition = copy.deepcopy(DEFINITION)
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for field in without:
        del schema["properties"]["status"]["properties"][field]
    store.create(CUSTOMRESOURCEDEFINITIONS, definition)
    return store


async def passed(seconds: float) -> None:
    """Let the loop's time jump."""
    await asyncio.sleep(seconds)


async def test_many_changes_are_one_write_per_interval():
    """Half a minute in which nodes come and go all the time: a write per second, and the end is right."""
    shop = Shop(interval_s=1.0)
    async with shop.open():
        for step in range(1500):
            shop.nodes(1 + step % 7)
            await passed(0.02)
        shop.nodes(4)
        await passed(3)

    assert 4 == shop.status["nodeCount"]
    assert 15 <= len(shop.sent) <= 33


async def test_heartbeats_write_nothing():
    """Updates of nodes that leave their number alone cost no request."""
    shop = Shop()
    async with shop.open():
        shop.nodes(3)
        await passed(5)
        before = len(shop.sent)
        for _ in range(100):
            shop.nodes(3)
            await passed(1)

    assert 3 == shop.status["nodeCount"]
    assert before == len(shop.sent) <= 2


async def test_a_lost_race_keeps_what_the_other_wrote():
    """The write that rests on an old version fails; with the event comes the right one."""
    shop = Shop()
    other = {
        "type": "Measured",
        "status": "True",
        "reason": "Done",
        "message": "",
        "lastTransitionTime": "2026-03-01T10:00:00Z",
    }
    async with shop.open():
        await passed(3)
        shop.is_late = True
        obj = shop.store.get(shop.resource, *KEY).obj
        theirs = {**obj, "status": {**obj["status"], "conditions": [other]}}
        shop.store.update(shop.resource, theirs, subresource="status")
        shop.nodes(2)
        await passed(3)
        assert 0 == shop.status["nodeCount"]
        assert [] == shop.reports
        shop.is_late = False
        shop.deliver()
        await passed(3)

    assert 2 == shop.status["nodeCount"]
    assert ["Measured", "Ready"] == [one["type"] for one in shop.status["conditions"]]


async def test_an_object_that_is_gone_is_forgotten():
    """One whose deletion was missed costs one request, not one at every change of the nodes."""
    shop = Shop()
    async with shop.open():
        await passed(3)
        shop.is_late = True
        shop.store.delete(shop.resource, *KEY)
        before = len(shop.sent)
        for count in range(1, 20):
            shop.nodes(count)
            await passed(2)

    assert 1 == len(shop.sent) - before
    assert [] == shop.reports


async def test_failures_are_tried_again_more_and_more_seldom():
    """From the interval up to the limit; told at each failure and once when it is over."""
    shop = Shop()
    async with shop.open():
        await passed(3)
        before = len(shop.sent)
        shop.faults.extend([Answer(503, message="shutting down"), Answer(0), *[Answer(403)] * 6])
        shop.nodes(5)
        await passed(60)

    tried = shop.sent[before:]
    pauses = [round(later - earlier) for earlier, later in pairwise(tried)]
    assert [2, 4, 8, 8, 8, 8, 8, 8] == pauses
    assert 5 == shop.status["nodeCount"]
    assert "503 shutting down" in shop.reports[0]
    assert "0 no answer" in shop.reports[1]
    assert [""] == shop.reports[8:]


async def test_fields_that_the_schema_drops_are_not_written_for_ever():
    """An older schema with a status subresource: one try per change, not one per round."""
    shop = Shop(without=("conditions", "observedGeneration"))
    async with shop.open():
        await passed(3)
        shop.nodes(2)
        await passed(600)

    assert {"nodeCount": 2} == shop.status
    assert len(shop.sent) <= 4


async def test_an_unreadable_object_hurts_no_other():
    """What an older cluster let through is reported and skipped until it can be read."""
    shop = Shop()
    meta = {"name": "bad", "namespace": "default", "resourceVersion": "1", "uid": "u"}
    shop.operator.seen("ADDED", {"metadata": meta, "spec": {"weights": "none"}})
    async with shop.open():
        shop.nodes(2)
        await passed(3)

    assert 2 == shop.status["nodeCount"]
    assert [] == shop.reports
