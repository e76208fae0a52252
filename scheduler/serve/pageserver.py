"""The daemon's page at an address of its own: by default loopback, for `kubectl port-forward`.

On loopback it is plain HTTP: a tunnel ends there, and no browser trusts a self-signed certificate.
Every local user may open the page, and a token determines what they may see. Any other address is
HTTPS, and asks for the same access as the endpoints. The daemon makes one `PageServer`, awaits
`start`, and `stop` at the end.
"""

from __future__ import annotations

import ipaddress
import logging
import re
from collections.abc import Awaitable, Callable

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from scheduler.base.meters import Meters
from scheduler.serve import rules
from scheduler.serve.access import ANONYMOUS, RequestAuthorizer, ReviewedUser
from scheduler.serve.answers import status_page
from scheduler.serve.certificates import ServingCertificate
from scheduler.serve.pageroutes import Entry, PageRoutes, PageView

# Accepted Host headers: a tunnel may use any port; a name that a foreign page resolves to this
# address is not accepted.
_LOOPBACK_HOST = re.compile(r"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?", re.IGNORECASE)
Show = Callable[[ReviewedUser, str], Awaitable[PageView]]

_log = structlog.get_logger()


class PageServer:
    """Serves the page that `show` gives to each user."""

    def __init__(
        self,
        show: Show,
        access: RequestAuthorizer,
        certificate: ServingCertificate,
        address: tuple[str, int],
        meters: Meters,
    ) -> None:
        self._address = address
        self._certificate = certificate
        self._is_loopback = ipaddress.ip_address(address[0]).is_loopback
        self._routes = PageRoutes(entry(show, access, is_named=self._is_loopback))
        authorize = _own_address if self._is_loopback else rules.authorization(access)
        app = web.Application(
            middlewares=[rules.outcome(meters), rules.limit(), rules.patience(), authorize]
        )
        app.on_response_prepare.append(rules.tidy_headers)
        app.add_routes([web.get("/", to_the_page), web.get("/ui", to_the_page)])
        app.add_routes(self._routes.routes("/ui"))
        self._runner = web.AppRunner(
            app,
            access_log=None,
            logger=logging.Logger("page", logging.CRITICAL),  # noqa: LOG001 - as in app.py
            handle_signals=False,
            shutdown_timeout=2.0,
        )

    async def start(self) -> None:
        """Listen; an address that is in use is reported and does not stop scheduling.

        Raises InputError when a certificate is needed and unusable.
        """
        host, port = self._address
        if not port:
            return
        context = None
        if not self._is_loopback:
            await self._certificate.load()
            context = self._certificate.context
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host, port, ssl_context=context).start()
        except OSError as error:
            await self._runner.cleanup()
            text = error.strerror or str(error)
            _log.warning("no page at its own address", address=f"{host}:{port}", error=text)

    @property
    def port(self) -> int:
        """Return the port in use, 0 for none."""
        return int(self._runner.addresses[0][1]) if self._runner.addresses else 0

    async def stop(self) -> None:
        """End all streams and close the listener; may be called twice."""
        self._routes.stop()
        await self._runner.cleanup()


def entry(show: Show, access: RequestAuthorizer, *, is_named: bool = False) -> Entry:
    """Return the view of the caller's rights; with `is_named` reject anonymous callers."""

    async def found(request: web.Request) -> PageView:
        # A browser sends a client certificate also for requests of foreign pages: deny those.
        if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            raise web.HTTPForbidden
        user = await access.user(rules.access_request(request))
        if user is None or (is_named and user == ANONYMOUS):
            raise web.HTTPUnauthorized
        return await show(user, request.query.get("namespace", ""))

    return found


async def to_the_page(_request: web.Request) -> web.Response:
    """Lead to the page."""
    # Relative, so that a proxy can serve the page below a path.
    return web.Response(status=308, headers={"Location": "ui/"})


@web.middleware
async def _own_address(request: web.Request, handler: Handler) -> web.StreamResponse:
    if not _LOOPBACK_HOST.fullmatch(request.headers.get("Host", "")):
        return status_page(421, "MisdirectedRequest", "this page is served under its own address")
    return await handler(request)
