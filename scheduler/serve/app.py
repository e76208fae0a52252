"""The HTTPS server of the daemon: routes, access, limits, start and stop.

The daemon makes one `Server`, awaits `start`, and `stop` at the end. Every request except those to
the three open health endpoints passes `RequestAuthorizer` first, also one for a path that does not
exist. An error of a source becomes a 500 without details, which are in the log. The three health
endpoints are open; a single check (`/readyz/<check>`) returns its reason and therefore requires
access.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import NamedTuple

from aiohttp import web

from scheduler.base.errors import InputError
from scheduler.serve import debug, metrics, rules
from scheduler.serve.access import RequestAuthorizer
from scheduler.serve.answers import text_page
from scheduler.serve.certificates import ServingCertificate
from scheduler.serve.health import ENDPOINTS, Endpoint, HealthChecks
from scheduler.serve.pageroutes import PageRoutes
from scheduler.serve.pageserver import PageServer, entry, to_the_page
from scheduler.serve.sources import EndpointSources

DEFAULT_PORT = 10259
FREE_PORT = -1
LARGEST_BODY_BYTES = 4096
CERTIFICATE_INTERVAL_S = 10.0


class Address(NamedTuple):
    """The address to listen on; port 0 disables it, `FREE_PORT` selects any free port."""

    host: str = "0.0.0.0"  # noqa: S104 - kube-scheduler's default; every path requires access
    port: int = DEFAULT_PORT


NOWHERE = Address("127.0.0.1", 0)


class Server:
    """The endpoints of one process; `page_address` is the page's additional address."""

    def __init__(
        self,
        sources: EndpointSources,
        health: HealthChecks,
        access: RequestAuthorizer,
        certificate: ServingCertificate,
        address: Address,
        page_address: Address = NOWHERE,
    ) -> None:
        self._certificate = certificate
        self._address = address
        self._page = None if sources.page is None else PageRoutes(entry(sources.page, access))
        self._runner = web.AppRunner(
            application(sources, health, access, self._page),
            access_log=None,
            # A malformed request is not logged; `rules` logs the faults of handlers.
            logger=logging.Logger("serve", logging.CRITICAL),  # noqa: LOG001 - for this logger only
            handle_signals=False,
            keepalive_timeout=75.0,
            lingering_time=1.0,  # for a body that is not read
            shutdown_timeout=2.0,
        )
        self._apart = (
            None
            if sources.page is None
            else PageServer(sources.page, access, certificate, page_address, sources.meters)
        )
        self._reload: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """Return the port it listens on, 0 when it does not."""
        addresses = self._runner.addresses
        return int(addresses[0][1]) if addresses else 0

    async def start(self, listener: socket.socket | None = None) -> None:
        """Listen at the address, or on a socket that is bound already.

        Raises InputError when the address or the certificate cannot be used.
        """
        if self._apart is not None:
            await self._apart.start()
        if self._address.port == 0 and listener is None:
            return
        await self._certificate.load()
        await self._runner.setup()
        context = self._certificate.context
        site: web.BaseSite
        if listener is not None:
            site = web.SockSite(self._runner, listener, ssl_context=context)
        else:
            host, port = self._address
            port = 0 if port == FREE_PORT else port  # for port 0 the system chooses a free one
            site = web.TCPSite(self._runner, host, port, ssl_context=context)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            where = f"{self._address.host}:{self._address.port}"
            raise InputError(f"cannot listen: {error.strerror or error}", where=where) from error
        self._reload = asyncio.create_task(self._follow_certificate(), name="serve-certificate")

    async def stop(self) -> None:
        """Close the listener, and open connections after at most 2 s; may be called twice."""
        if self._reload is not None:
            self._reload.cancel()
            await asyncio.wait([self._reload])
            self._reload = None
        if self._page is not None:
            self._page.stop()
        if self._apart is not None:
            await self._apart.stop()
        await self._runner.cleanup()

    async def _follow_certificate(self) -> None:
        while True:
            await asyncio.sleep(CERTIFICATE_INTERVAL_S)
            await self._certificate.refresh()


def application(
    sources: EndpointSources,
    health: HealthChecks,
    access: RequestAuthorizer,
    page: PageRoutes | None = None,
) -> web.Application:
    """Put routes and rules together."""
    app = web.Application(
        middlewares=[
            rules.outcome(sources.meters),
            rules.limit(),
            rules.patience(),
            rules.authorization(access),
        ],
        client_max_size=LARGEST_BODY_BYTES,
    )
    app.on_response_prepare.append(rules.tidy_headers)
    for endpoint in ENDPOINTS:
        app.add_routes(_health_routes(endpoint, health))
    app.add_routes(metrics.routes(sources, health))
    app.add_routes(debug.routes(sources))
    if page is not None:
        app.add_routes([web.get("/ui", to_the_page), *page.routes("/ui")])
    return app


def _health_routes(endpoint: Endpoint, health: HealthChecks) -> list[web.RouteDef]:
    async def every(request: web.Request) -> web.Response:
        report = health.run(endpoint, request.query.getall("exclude", ()))
        if not report.healthy:
            return text_page(f"{report.lines}{endpoint} check failed\n", 500)
        if "verbose" in request.query:
            return text_page(f"{report.lines}{endpoint} check passed\n")
        return text_page("ok")

    async def one(request: web.Request) -> web.Response:
        name = request.match_info["check"]
        if name not in health.checks(endpoint):
            raise web.HTTPNotFound
        reason = health.run_check(endpoint, name)
        if reason is not None:
            return text_page(f"internal server error: {reason}\n", 500)
        return text_page("ok")

    return [web.get(f"/{endpoint}", every), web.get(f"/{endpoint}/{{check}}", one)]
