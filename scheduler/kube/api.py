"""The requests that this package sends to an API server, and their responses; opens no connection.

`Api` is the only interface: reflectors, executor, recorder and election use it and do not depend on
HTTP. `ApiClient` implements it over the network, tests implement it in memory.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

JSON = "application/json"
MERGE = "application/merge-patch+json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
STRATEGIC = "application/strategic-merge-patch+json"
REQUEST_TIMEOUT_S = 30.0


class Response(msgspec.Struct, frozen=True, gc=False):
    """The outcome of a request.

    `code` 0 means that no response arrived, `was_sent` False that the request was never sent.
    `reason` and `message` are those of the Kubernetes Status of a failure.
    """

    code: int
    body: bytes = b""
    reason: str = ""
    message: str = ""
    retry_after_s: float | None = None
    was_sent: bool = True

    @property
    def ok(self) -> bool:
        """Return whether the request was carried out."""
        return 200 <= self.code < 300

    @property
    def is_transient(self) -> bool:
        """Return whether the same request may succeed later."""
        return self.code in (0, 401, 408, 429) or self.code >= 500


class ResponseStream(Protocol):
    """A streamed response, read while it arrives."""

    @property
    def head(self) -> Response:
        """Return the status; its body is filled only for a failure."""

    async def read(self) -> bytes:
        """Return the next bytes, empty at the end; raise ConnectionError or TimeoutError."""


class Api(Protocol):
    """Requests to one API server; failures are values, only cancelling raises."""

    async def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        content_type: str = JSON,
        timeout_s: float = REQUEST_TIMEOUT_S,
        guard: Callable[[], None] | None = None,
    ) -> Response:
        """Send one request and return its outcome; `path` begins with `/` and is percent-encoded.

        The response is JSON, except for a GET whose `content_type` is PROTOBUF. `guard` is called
        directly before the request is sent, after any wait for a connection. If it raises, nothing
        is sent and the exception propagates.
        """

    def stream(self, path: str, *, silence_s: float) -> AbstractAsyncContextManager[ResponseStream]:
        """Open a streamed response; reading it raises TimeoutError after `silence_s` without a
        byte.
        """


class _Details(msgspec.Struct, frozen=True, rename="camel"):
    retry_after_seconds: int | None = None


class _Status(msgspec.Struct, frozen=True):
    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: _Details | None = None


_statuses = msgspec.json.Decoder(_Status)


def failure(code: int, body: bytes, retry_after_s: float | None = None) -> Response:
    """Return the Response of a failure; its body is a Kubernetes Status or any other text.

    For a Status from a watch pass `code` 0: the code in the Status is used.
    """
    try:
        status = _statuses.decode(body)
    except msgspec.MsgspecError:
        # Proxies answer in HTML or plain text; the beginning is enough for a message.
        return Response(code, body, "", body[:200].decode(errors="replace"), retry_after_s)
    if retry_after_s is None and status.details is not None:
        seconds = status.details.retry_after_seconds
        retry_after_s = float(seconds) if seconds else None
    return Response(
        code or status.code or 0, body, status.reason or "", status.message or "", retry_after_s
    )
