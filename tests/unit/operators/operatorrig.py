"""A store with one object of a kind, the cluster in memory, and an operator between them."""

import asyncio
import copy
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from operators.client import Client
from operators.operator import OperatorSurroundings, Recipe
from operators.settings import OperatorsSettings
from scheduler.base.clock import ManualClock
from scheduler.objects.node import Node, NodeMeta
from scheduler.sandbox.api import reading, writing
from scheduler.sandbox.api.request import PathNotFoundError, parse
from scheduler.sandbox.api.status import StatusError
from scheduler.sandbox.kinds.kinds import CUSTOMRESOURCEDEFINITIONS, Resource
from scheduler.sandbox.kinds.typetable import type_table
from scheduler.sandbox.start import new_store
from scheduler.sandbox.store.store import ObjectStore
from scheduler.state.cluster import Cluster
from scheduler.state.view import LiveView

Json = dict[str, Any]
START = 1_700_000_000
CRDS = Path(__file__).parents[3] / "crds"
type_table()  # read here, not on a test's loop
pytestmark = pytest.mark.looptime  # time jumps wherever this is used


class Answer(NamedTuple):
    code: int
    body: bytes = b""
    message: str = ""


class LoopClock:
    """A clock that follows the loop's time."""

    def now(self) -> float:
        return START + asyncio.get_running_loop().time()


class OperatorRig:
    """One object of the recipe's kind named `name` in `default`."""

    def __init__(
        self,
        recipe: Recipe,
        definition: Json,
        name: str,
        *,
        spec: Json | None = None,
        without: tuple[str, ...] = (),
        interval_s: float = 1.0,
        beside: tuple[Json, ...] = (),
    ) -> None:
        self.name = name
        self.store = a_store(definition, without)
        for other in beside:
            self.store.create(CUSTOMRESOURCEDEFINITIONS, copy.deepcopy(other))
        self.faults: deque[Answer] = deque()
        self.sent: list[float] = []
        self.asked: list[tuple[str, str]] = []
        self.reports: list[str] = []
        self.cluster = Cluster()
        self.view = LiveView(self.cluster)
        kind = recipe.kind
        resource = self.store.kinds.find(kind.group, kind.version, kind.plural)
        assert resource is not None
        self.resource: Resource = resource
        self.operator = recipe.make(
            OperatorSurroundings(
                view=self.view,
                api=Client(self, 10),
                legacy=False,
                settings=OperatorsSettings(status_interval_s=interval_s, retry_limit_s=8.0),
                clock=LoopClock(),
                report=self.reports.append,
            )
        )
        self.watch = self.store.watch(resource, wake=self.deliver)
        self.is_late = False
        self.store.create(resource, {"metadata": {"name": name}, "spec": spec or {}}, "default")

    def deliver(self) -> None:
        """Pass events on, as kopf would; while late, they are collected."""
        if not self.is_late:
            for change in self.watch.changes():
                self.operator.seen(change.type, change.stored.obj)

    async def request(
        self, method: str, path: str, body: bytes = b"", *, content_type: str = "", **_: Any
    ) -> Answer:
        await asyncio.sleep(0.01)
        self.sent.append(asyncio.get_running_loop().time())
        self.asked.append((method, path))
        if self.faults:
            return self.faults.popleft()
        try:
            call = parse(self.store.kinds, method, path, "")
            call.body, call.content_type = body, content_type
            if method == "GET":
                return Answer(200, reading.get(self.store, call))
            write = {"PATCH": writing.patch, "POST": writing.create, "DELETE": writing.delete}
            answer = write[method](self.store, call)
        except PathNotFoundError:
            return Answer(404, message="404 page not found")
        except StatusError as fault:
            return Answer(fault.code, message=fault.status["message"])
        return Answer(answer.code, answer.body)

    @property
    def status(self) -> Json:
        obj = self.store.get(self.resource, "default", self.name).obj
        status: Json = obj.get("status", {})
        return status

    def nodes(self, count: int) -> None:
        """Create this many nodes."""
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


def a_store(source: Json, without: tuple[str, ...]) -> ObjectStore:
    """Make a store with our definitions, less some fields of status."""
    store = new_store(ManualClock(1_700_000_000), with_crds=False)
    definition = copy.deepcopy(source)
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for field in without:
        del schema["properties"]["status"]["properties"][field]
    store.create(CUSTOMRESOURCEDEFINITIONS, definition)
    return store


async def passed(seconds: float) -> None:
    """Advance the loop's time."""
    await asyncio.sleep(seconds)
