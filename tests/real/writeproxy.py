"""A proxy to the API server that counts the writes of some processes and can cut one off at any of
them.

Plain HTTP towards the processes, the server's own TLS behind it. Each process has a gate (a port)
of its own. At the chosen write, a callback kills the process that sends it: before the write is
forwarded, so that it never happens, or after it has arrived.
"""

import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import yaml
from aiohttp import web

from tests.apiserver.realcluster import Reachable

WRITES = ("POST", "PUT", "PATCH", "DELETE")
NOT_OURS = ("/leases", "/subjectaccessreviews", "/tokenreviews")
HOP = ("host", "connection", "transfer-encoding", "content-length", "keep-alive")


class WriteProxy:
    """Forwards all requests.

    `cut` is called with the gate at write number `cut_at`, counted from 1.
    """

    def __init__(self, cluster: Reachable, gates: int = 1) -> None:
        self._cluster = cluster
        self._gates = gates
        self.writes = 0
        self.cut_at = 0
        self.arrives = True
        self.cut: Callable[[int], None] = lambda _gate: None
        self.last_writer = 0
        self._ports: list[int] = []

    def kubeconfig(self, folder: Path, gate: int = 0) -> Path:
        """Write an admin's kubeconfig for the address of a gate."""
        config = yaml.safe_load(self._cluster.kubeconfig.read_text())
        for one in config["clusters"]:
            one["cluster"] = {"server": f"http://127.0.0.1:{self._ports[gate]}"}
        file = folder / f"proxied-{gate}.kubeconfig"
        file.touch(mode=0o600)
        file.write_text(yaml.safe_dump(config))
        return file

    @asynccontextmanager
    async def running(self) -> AsyncIterator["WriteProxy"]:
        """Serve on free ports of the loopback."""
        trust = ssl.create_default_context(cafile=str(self._cluster.ca_file))
        connector = aiohttp.TCPConnector(ssl=trust, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=False
        ) as session:
            self._session = session
            app = web.Application(client_max_size=64 << 20)
            app.router.add_route("*", "/{path:.*}", self._forward)
            # A killed process leaves its watches open here: they end with their client.
            runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
            await runner.setup()
            for _ in range(self._gates):
                await web.TCPSite(runner, "127.0.0.1", 0).start()
            self._ports = [address[1] for address in runner.addresses]
            try:
                yield self
            finally:
                await runner.cleanup()

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        is_write = request.method in WRITES and not any(part in request.path for part in NOT_OURS)
        assert request.transport is not None
        gate = self._ports.index(request.transport.get_extra_info("sockname")[1])
        if is_write:
            self.writes += 1
            self.last_writer = gate
        is_last = is_write and self.writes == self.cut_at
        if is_last and not self.arrives:
            self.cut(gate)
            raise web.HTTPServiceUnavailable
        headers = {key: value for key, value in request.headers.items() if key.lower() not in HOP}
        body = await request.read()
        async with self._session.request(
            request.method, self._cluster.url + request.raw_path, headers=headers, data=body or None
        ) as answer:
            if is_last:
                await answer.read()
                self.cut(gate)
                raise web.HTTPServiceUnavailable
            kept = {k: v for k, v in answer.headers.items() if k.lower() not in HOP}
            response = web.StreamResponse(status=answer.status, headers=kept)
            with contextlib.suppress(ConnectionError, aiohttp.ClientError):  # it may be dead by now
                await response.prepare(request)
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
                await response.write_eof()
            return response
