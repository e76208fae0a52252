"""Rules that apply to every request: metrics, errors, limits and access.

`app.py` wraps them around the handlers in this order, so that a handler's error has a response and
an unauthenticated client gets no information, not even which paths exist. This module does not
depend on the handlers.
"""

from __future__ import annotations

import socket
from typing import Any

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from scheduler.base.meters import Meters
from scheduler.serve.access import OPEN_PATHS, AccessRequest, RequestAuthorizer
from scheduler.serve.answers import status_page, text_page

# Health checks are not counted: a probe must get its answer while other requests wait for reviews.
IN_FLIGHT = 64
# A client that reads nothing for this long is disconnected: 64 of them would block all others.
SLOWEST_READER_S = 30.0

_log = structlog.get_logger()


def outcome(meters: Meters) -> Middleware:
    """Turn every exception of a handler into a response; count the request by route and status."""

    @web.middleware
    async def rule(request: web.Request, handler: Handler) -> web.StreamResponse:
        code = "aborted"
        try:
            response = await _answered(request, handler)
            code = str(response.status)
            return response
        finally:
            meters.endpoint_requests.labels(_route(request), code).inc()

    return rule


def limit(in_flight: int = IN_FLIGHT) -> Middleware:
    """Refuse requests beyond `in_flight` at a time."""
    now = 0

    @web.middleware
    async def rule(request: web.Request, handler: Handler) -> web.StreamResponse:
        nonlocal now
        if request.path in OPEN_PATHS:
            return await handler(request)
        if now >= in_flight:
            message = "too many requests at a time, please try again"
            return status_page(429, "TooManyRequests", message, {"Retry-After": "1"})
        now += 1
        try:
            return await handler(request)
        finally:
            now -= 1

    return rule


def patience() -> Middleware:
    """Return a middleware that limits how long a reader may stop reading (TCP_USER_TIMEOUT)."""

    @web.middleware
    async def rule(request: web.Request, handler: Handler) -> web.StreamResponse:
        taken = None if request.transport is None else request.transport.get_extra_info("socket")
        option = getattr(socket, "TCP_USER_TIMEOUT", None)  # Linux has it
        if taken is not None and option is not None:
            taken.setsockopt(socket.IPPROTO_TCP, option, int(SLOWEST_READER_S * 1000))
        return await handler(request)

    return rule


def authorization(access: RequestAuthorizer) -> Middleware:
    """Reject requests that are not authorised."""

    @web.middleware
    async def rule(request: web.Request, handler: Handler) -> web.StreamResponse:
        refusal = await access.check(access_request(request))
        if refusal is not None:
            return status_page(*refusal)
        return await handler(request)

    return rule


def access_request(request: web.Request) -> AccessRequest:
    """Return the attributes of the access review."""
    return AccessRequest(
        verb=request.method.lower(),
        path=request.path,
        authorization=request.headers.get("Authorization", ""),
        certificate=_certificate(request),
    )


async def tidy_headers(_request: web.Request, response: web.StreamResponse) -> None:
    """Remove headers that describe the server, and forbid caches to store answers."""
    response.headers.popall("Server", None)
    response.headers.setdefault("Cache-Control", "no-cache, private")


async def _answered(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPNotFound:
        return text_page("404 page not found\n", 404)
    except web.HTTPException as error:
        allow = error.headers.get("Allow")
        headers = {"Allow": allow} if allow else None
        return status_page(error.status, error.reason.replace(" ", ""), error.reason, headers)
    except ConnectionError:
        raise  # the client has disconnected
    except Exception:  # a fault of one page must not end the server
        _log.exception("endpoint failed", path=_route(request))
        if request.writer.output_size:
            # half of the page is sent: only closing the connection shows the error to the reader
            raise
        return status_page(500, "InternalError", "Internal error occurred; the log says more")


def _route(request: web.Request) -> str:
    resource = request.match_info.route.resource
    return "other" if resource is None else resource.canonical


def _certificate(request: web.Request) -> dict[str, Any] | None:
    transport = request.transport
    return None if transport is None else transport.get_extra_info("peercert")
