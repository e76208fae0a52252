"""Publishes the figures: a page for Prometheus to scrape, and optionally a Pushgateway.

The page is plain HTTP, like node-exporter's: access is restricted by a NetworkPolicy. A push
replaces the node's previous one, so that a pair that is no longer measured disappears, and the
agent deletes its figures when it stops.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import aiohttp
import structlog
from aiohttp import web
from yarl import URL

from scheduler.base.meters.exposition import ExpositionForm, Rows

JOB = "netperf"
TIMEOUT_S = 10.0

Read = Callable[[], Rows]
_log = structlog.get_logger("agent.netperf")


@asynccontextmanager
async def served(read: Read, host: str, port: int) -> AsyncIterator[int]:
    """Serve `/metrics` and `/healthz`; yield the port."""

    async def metrics(request: web.Request) -> web.Response:
        form = ExpositionForm(request.headers.get("Accept", ""))
        return web.Response(body=form.page(read()), headers={"Content-Type": form.content_type})

    async def healthz(_request: web.Request) -> web.Response:
        return web.Response(text="ok")

    app = web.Application()
    app.add_routes([web.get("/metrics", metrics), web.get("/healthz", healthz)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host or None, port).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def push(gateway: str, node: str, read: Read, every_s: float) -> None:
    """Push until cancelled, then delete the pushed series."""
    url = URL(gateway) / "metrics" / "job" / JOB / "instance" / node
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    failed = ""
    async with aiohttp.ClientSession(timeout=timeout) as session:
        try:
            while True:
                error = await _send(session, "PUT", url, read())
                if error != failed:
                    failed = error
                    _log.warning("push", gateway=gateway, because=error or "it works again")
                await asyncio.sleep(every_s)
        finally:
            await _send(session, "DELETE", url)


async def _send(session: aiohttp.ClientSession, method: str, url: URL, rows: Rows = ()) -> str:
    """Send one request; return the error, "" for none."""
    form = ExpositionForm()
    body = form.page(rows)
    headers = {"Content-Type": form.content_type} if body else {}
    try:
        async with session.request(method, url, data=body or None, headers=headers) as answer:
            return "" if answer.ok else f"{answer.status} {(await answer.text())[:200]}"
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        return str(error) or type(error).__name__
