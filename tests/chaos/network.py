"""A bad network between daemons and the real API server: one gate, a port of its own, for each of
them.

Plain HTTP towards the processes, the server's own TLS behind it. The fields of a gate determine its
faults; the campaign sets and resets them. `injected` counts the faults that occurred.
"""

import asyncio
import contextlib
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import aiohttp
import yaml
from aiohttp import web

from tests.apiserver.patience import pause
from tests.apiserver.realcluster import Reachable

HOP = ("host", "connection", "transfer-encoding", "content-length", "keep-alive")
LARGEST = 64 << 20


@dataclass(frozen=True)
class Refusal:
    """An answer in the server's place; `is_carried_out` carries the request out before."""

    code: int
    reason: str
    retry_after_s: int = 0
    is_carried_out: bool = False

    def response(self) -> web.Response:
        """Return it as the API server would write it."""
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "a fault"}
        headers = {"Retry-After": str(self.retry_after_s)} if self.retry_after_s else {}
        body = status | {"reason": self.reason, "code": self.code}
        return web.json_response(body, status=self.code, headers=headers)


@dataclass
class Gate:
    """The faults of one process's connection: shares of requests between 0 and 1, times in
    seconds.
    """

    lost: float = 0.0
    unanswered: float = 0.0
    late_s: float = 0.0
    refusals: dict[str, Refusal] = field(default_factory=dict)
    flows: asyncio.Event = field(default_factory=asyncio.Event)
    open: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Start without faults."""
        self.flows.set()

    def heal(self) -> None:
        """Be a good network again."""
        self.lost = self.unanswered = self.late_s = 0.0
        self.refusals.clear()
        self.flows.set()

    def cut(self) -> None:
        """Break all that is open."""
        for task in list(self.open):
            task.cancel()


class Network:
    """Forwards everything from each gate to one API server."""

    def __init__(self, cluster: Reachable, gates: int, random: Random) -> None:
        self._cluster = cluster
        self._random = random
        self.gates = [Gate() for _ in range(gates)]
        self.injected: Counter[str] = Counter()
        self._ports: list[int] = []

    def kubeconfig(self, folder: Path, gate: int) -> Path:
        """Write an admin's kubeconfig for the address of a gate."""
        config = yaml.safe_load(self._cluster.kubeconfig.read_text())
        for one in config["clusters"]:
            one["cluster"] = {"server": f"http://127.0.0.1:{self._ports[gate]}"}
        file = folder / f"gate-{gate}.kubeconfig"
        file.touch(mode=0o600)
        file.write_text(yaml.safe_dump(config))
        return file

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Network"]:
        """Serve on free ports of the loopback."""
        trust = ssl.create_default_context(cafile=str(self._cluster.ca_file))
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=trust, limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=5),
            auto_decompress=False,
        ) as session:
            self._session = session
            app = web.Application(client_max_size=LARGEST)
            app.router.add_route("*", "/{path:.*}", self._pass)
            runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
            await runner.setup()
            for _ in self.gates:
                await web.TCPSite(runner, "127.0.0.1", 0).start()
            self._ports = [address[1] for address in runner.addresses]
            try:
                yield self
            finally:
                await runner.cleanup()

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        port = request.transport.get_extra_info("sockname")[1]
        gate = self.gates[self._ports.index(port)]
        for prefix, refusal in gate.refusals.items():
            if request.path.startswith(prefix):
                self.injected[f"answered {refusal.code}"] += 1
                if refusal.is_carried_out and request.method != "GET":
                    await self._ask(request)
                return refusal.response()
        if self._random.random() < gate.lost:
            self.injected["requests lost"] += 1
            return self._hang_up(request)
        if gate.late_s and request.method != "GET":
            self.injected["writes late"] += 1
            await pause(self._random.random() * gate.late_s)
        if request.method != "GET" and self._random.random() < gate.unanswered:
            self.injected["answers lost"] += 1
            await self._ask(request)
            return self._hang_up(request)
        return await self._forward(request, gate)

    def _hang_up(self, request: web.Request) -> web.StreamResponse:
        if request.transport is not None:  # else the other end was faster
            request.transport.abort()
        raise web.HTTPServiceUnavailable

    async def _ask(self, request: web.Request) -> None:
        """Forward a request and drop its answer."""
        with contextlib.suppress(aiohttp.ClientError, ConnectionError):
            async with self._send(request, await request.read()) as answer:
                await answer.read()

    def _send(self, request: web.Request, body: bytes) -> aiohttp.client._RequestContextManager:
        headers = {key: value for key, value in request.headers.items() if key.lower() not in HOP}
        url = self._cluster.url + request.raw_path
        return self._session.request(request.method, url, headers=headers, data=body or None)

    async def _forward(self, request: web.Request, gate: Gate) -> web.StreamResponse:
        try:
            async with self._send(request, await request.read()) as answer:
                kept = {k: v for k, v in answer.headers.items() if k.lower() not in HOP}
                response = web.StreamResponse(status=answer.status, headers=kept)
                copying = asyncio.ensure_future(self._copy(request, answer, response, gate))
                gate.open.add(copying)
                try:
                    await copying
                except asyncio.CancelledError:
                    copying.cancel()
                    return self._hang_up(request)
                finally:
                    gate.open.discard(copying)
                return response
        except (aiohttp.ClientError, ConnectionError, TimeoutError):
            return self._hang_up(request)

    async def _copy(
        self,
        request: web.Request,
        answer: aiohttp.ClientResponse,
        response: web.StreamResponse,
        gate: Gate,
    ) -> None:
        await response.prepare(request)
        async for chunk in answer.content.iter_any():
            await gate.flows.wait()
            await response.write(chunk)
        await response.write_eof()
