"""An extender on a real socket, in the loop of the test: it responds by a rule and records its
requests.

kube-scheduler and Trellis use the same one, so that their requests can be compared.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Json = dict[str, Any]
# The verb and the decoded body; returns the decoded answer, or a whole one.
Rule = Callable[[str, Json], Awaitable[Any]]


@dataclass
class ExtenderServer:
    """The recorded requests, in order; `connections` counts the opened connections."""

    url: str = ""
    asked: list[tuple[str, Json]] = field(default_factory=list)
    connections: set[Any] = field(default_factory=set)

    def bodies(self, verb: str) -> list[Json]:
        """Return the bodies of all questions of a verb."""
        return [body for asked, body in self.asked if asked == verb]


@asynccontextmanager
async def extender_server(
    rule: Rule, tls: ssl.SSLContext | None = None
) -> AsyncIterator[ExtenderServer]:
    """Serve until the block ends; every path is a verb."""
    server = ExtenderServer()

    async def answer(request: web.Request) -> web.StreamResponse:
        server.connections.add(request.transport)
        body = await request.json()
        verb = request.match_info["verb"]
        server.asked.append((verb, body))
        found = await rule(verb, body)
        return found if isinstance(found, web.StreamResponse) else web.json_response(found)

    app = web.Application(client_max_size=2**28)
    app.router.add_post("/base/{verb}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    server.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}/base"
    try:
        yield server
    finally:
        await runner.cleanup()


async def never(_verb: str, _body: Json) -> Any:
    """A rule that does not answer."""
    await asyncio.Event().wait()
