"""A way to the API server that counts a process's writes and can cut it off at any of them.

Plain HTTP towards the process, the server's own TLS behind it. When the appointed write comes, the process
is killed by a callback: before the write goes on, so that it never happens, or after it has arrived.
"""

import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import yaml
from aiohttp import web

from tests.apiserver.realcluster import RealCluster

WRITES = ("POST", "PUT", "PATCH", "DELETE")
NOT_OURS = ("/leases", "/subjectaccessreviews", "/tokenreviews")
HOP = ("host", "connection", "transfer-encoding", "content-length", "keep-alive")


class WriteProxy:
    """Forwards everything; `cut` is called at write number `cut_at`, counted from 1."""

    def __init__(self, cluster: RealCluster) -> None:
        self._cluster = cluster
        self.writes = 0
        self.cut_at = 0
        self.arrives = True
        self.cut: Callable[[], None] = lambda: None
        self.url = ""

    def kubeconfig(self, folder: Path) -> Path:
        """Write an admin's kubeconfig that leads here."""
        config = yaml.safe_load(self._cluster.kubeconfig.read_text())
        for one in config["clusters"]:
            one["cluster"] = {"server": self.url}
        file = folder / "proxied.kubeconfig"
        file.touch(mode=0o600)
        file.write_text(yaml.safe_dump(config))
        return file

    @asynccontextmanager
    async def running(self) -> AsyncIterator["WriteProxy"]:
        """Serve on a free port of the loopback."""
        trust = ssl.create_default_context(cafile=str(self._cluster.ca_file))
        connector = aiohttp.TCPConnector(ssl=trust, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=False
        ) as session:
            self._session = session
            app = web.Application(client_max_size=64 << 20)
            app.router.add_route("*", "/{path:.*}", self._forward)
            # Whoever is killed leaves its watches open here: they end with their client.
            runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            host, port = runner.addresses[0][:2]
            self.url = f"http://{host}:{port}"
            try:
                yield self
            finally:
                await runner.cleanup()

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        is_write = request.method in WRITES and not any(part in request.path for part in NOT_OURS)
        self.writes += is_write
        is_last = is_write and self.writes == self.cut_at
        if is_last and not self.arrives:
            self.cut()
            raise web.HTTPServiceUnavailable
        headers = {key: value for key, value in request.headers.items() if key.lower() not in HOP}
        body = await request.read()
        async with self._session.request(
            request.method, self._cluster.url + request.raw_path, headers=headers, data=body or None
        ) as answer:
            if is_last:
                await answer.read()
                self.cut()
                raise web.HTTPServiceUnavailable
            kept = {k: v for k, v in answer.headers.items() if k.lower() not in HOP}
            response = web.StreamResponse(status=answer.status, headers=kept)
            with contextlib.suppress(ConnectionError, aiohttp.ClientError):  # it may be dead by now
                await response.prepare(request)
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
                await response.write_eof()
            return response
