"""`PageSite`: the page for one user, on the loopback interface.

`trellis ui` and the demo create one. It answers only requests to its own address (a foreign page
that resolves a name to this server is refused), and sends data only to clients with the key in the
fragment of the printed address, which browsers never send. The content is decided by the writer of
the feed.
"""

from __future__ import annotations

import hmac
import logging
import secrets

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from scheduler.base.errors import InputError
from scheduler.serve.answers import status_page
from scheduler.serve.feed import PageFeed
from scheduler.serve.pageroutes import HEADERS, Answers, PageRoutes, PageView

_log = structlog.get_logger()


class PageSite:
    """The server of the page."""

    def __init__(self, feed: PageFeed, answers: Answers) -> None:
        shown = PageView(feed, answers)

        async def entry(_request: web.Request) -> PageView:
            return shown

        self._routes = PageRoutes(entry)
        self._key = secrets.token_urlsafe(24)
        self._hosts: frozenset[str] = frozenset()
        app = web.Application(middlewares=[self._authorize])
        app.on_response_prepare.append(_add_headers)
        app.add_routes(self._routes.routes())
        self._runner = web.AppRunner(
            app,
            access_log=None,
            logger=logging.Logger("page", logging.CRITICAL),  # noqa: LOG001 - as in app.py
            handle_signals=False,
            shutdown_timeout=1.0,
        )

    async def start(self, port: int = 0) -> str:
        """Listen on 127.0.0.1 (port 0: any free one) and return the address with its key."""
        await self._routes.load()
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            where = f"127.0.0.1:{port}"
            raise InputError(f"cannot listen: {error.strerror or error}", where=where) from error
        taken = self._runner.addresses[0][1]
        self._hosts = frozenset({f"127.0.0.1:{taken}", f"localhost:{taken}"})
        return f"http://127.0.0.1:{taken}/#key={self._key}"

    async def stop(self) -> None:
        """End all streams and close the listener."""
        self._routes.stop()
        await self._runner.cleanup()

    @web.middleware
    async def _authorize(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.headers.get("Host", "") not in self._hosts:
            return status_page(
                421, "MisdirectedRequest", "this page is served under its own address"
            )
        if request.path.startswith("/api/"):
            _, _, key = request.headers.get("Authorization", "").partition(" ")
            if not hmac.compare_digest(key.encode(errors="replace"), self._key.encode()):
                return status_page(401, "Unauthorized", "open the address that was printed")
        try:
            return await handler(request)
        except web.HTTPException as error:
            return status_page(error.status, error.reason, error.reason)
        except Exception as error:  # noqa: BLE001 - a fault of one answer does not end the page
            _log.error("an answer to the page failed", exc_info=error)
            return status_page(500, "InternalError", "the answer failed; see the log")


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)
