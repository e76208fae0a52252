"""A running server on loopback, a client that trusts it, and a small API server's reviews."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from aiohttp import ClientSession, TCPConnector
from structlog.testing import capture_logs

from scheduler.base.clock import ManualClock
from scheduler.base.meters import Meters
from scheduler.serve import (
    About,
    Address,
    EndpointSources,
    Files,
    HealthChecks,
    PodResources,
    RequestAuthorizer,
    Server,
    ServingCertificate,
)
from tests.unit.serve.authority import Authority

NOW = 1_700_000_000.0


@dataclass
class Reviewer:
    """Answers reviews as an API server does, from two tables."""

    users: dict[str, dict[str, Any]] = field(default_factory=dict)
    allowed: set[tuple[str, str, str]] = field(default_factory=set)
    asked: list[dict[str, Any]] = field(default_factory=list)
    fault: Exception | None = None
    gate: asyncio.Event | None = None

    async def __call__(self, body: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(body)
        if self.gate is not None:
            await self.gate.wait()
        if self.fault is not None:
            raise self.fault
        spec = body["spec"]
        if body["kind"] == "TokenReview":
            user = self.users.get(spec["token"])
            status = {"authenticated": user is not None, "user": user or {}}
            return {**body, "status": status}
        attributes = spec["nonResourceAttributes"]
        wanted = (spec["user"], attributes["verb"], attributes["path"])
        return {**body, "status": {"allowed": wanted in self.allowed}}

    def kinds(self) -> list[str]:
        return [body["kind"] for body in self.asked]


@dataclass
class ServerRig:
    """The settings that a test may change before or while the server runs."""

    clock: ManualClock
    meters: Meters
    health: HealthChecks
    reviewer: Reviewer
    sources: EndpointSources
    authority: Authority
    files: Files
    verbosity: list[int] = field(default_factory=list)

    def certificate(self) -> ServingCertificate:
        return ServingCertificate(self.files, ["localhost", "127.0.0.1"], self.clock, self.meters)

    @contextlib.asynccontextmanager
    async def serving(self, **changed: Any) -> AsyncIterator["Visitor"]:
        """Run the server, with sources changed as given, and yield a client."""
        sources = replace(self.sources, **changed)
        access = RequestAuthorizer(self.reviewer, self.clock, self.meters)
        certificate = self.certificate()
        server = Server(sources, self.health, access, certificate, Address())
        with socket.create_server(("127.0.0.1", 0)) as listener:
            await server.start(listener)
            try:
                url = f"https://127.0.0.1:{listener.getsockname()[1]}"
                async with ClientSession(
                    url, connector=TCPConnector(ssl=self.authority.trust())
                ) as session:
                    yield Visitor(session, url, certificate)
            finally:
                await server.stop()


@dataclass
class Visitor:
    """A client; `get` returns status, headers and text."""

    session: ClientSession
    url: str
    certificate: ServingCertificate
    token: str = ""

    async def get(
        self, path: str, *, method: str = "GET", **options: Any
    ) -> tuple[int, dict[str, str], str]:
        headers = dict(options.pop("headers", {}))
        if self.token:
            headers.setdefault("Authorization", f"Bearer {self.token}")
        async with self.session.request(method, path, headers=headers, **options) as answer:
            return answer.status, dict(answer.headers), await answer.text()

    async def page(self, path: str, **options: Any) -> str:
        status, _, text = await self.get(path, **options)
        assert 200 == status, text
        return text


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def rig(authority: Authority) -> ServerRig:
    clock, meters = ManualClock(NOW), Meters()
    verbosity: list[int] = []
    reviewer = Reviewer(
        users={"good": {"username": "eve", "groups": ["system:authenticated"], "uid": "7"}},
        allowed={("eve", "get", path) for path in PAGES} | {("eve", "put", "/debug/flags/v")},
    )
    sources = EndpointSources(
        about=About("trellis", "0.1.0", "3.11.7", NOW - 3725),
        clock=clock,
        meters=meters,
        configz=lambda: {"componentconfig": {"kind": "KubeSchedulerConfiguration"}},
        flags=lambda: {"config": "/etc/trellis.yaml", "token": "hush"},
        state=lambda limit: {"nodes": list(range(limit))},
        queues=lambda limit: {"active": ["default/a"], "limit": limit},
        decision=lambda namespace, name, _most: (
            {"pod": f"{namespace}/{name}"} if name == "a" else None
        ),
        pod_resources=lambda: iter(PODS),
        set_verbosity=verbosity.append,
        history=lambda namespace, name: {"pod": f"{namespace}/{name}", "attempts": []},
        attempts=lambda limit: {"limit": limit},
    )
    files = authority.serving("serving")
    return ServerRig(clock, meters, HealthChecks(), reviewer, sources, authority, files, verbosity)


@pytest.fixture(autouse=True)
def logged() -> Iterator[Any]:
    """Collect log records instead of writing them."""
    with capture_logs() as entries:
        yield entries


PAGES = (
    "/metrics", "/metrics/slis", "/metrics/resources", "/configz", "/statusz", "/flagz",
    "/debug/state", "/debug/queues", "/debug/stacks", "/debug/decisions/default/a",
    "/debug/decisions/default/b", "/readyz/leaderElection", "/readyz/none", "/nowhere",
)  # fmt: skip

PODS = [
    PodResources("default", "a", "n1", "trellis", "0", {"cpu": 0.25, "memory": 1024}, {"cpu": 1}),
    PodResources("default", "b", "", "trellis", "", {"example.com/gpu": 2, "cpu": 0}, {}),
]
