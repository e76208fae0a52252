"""The protocols of an API server for operators and agents, and the plain requests of agents.

`ApiClient` of `scheduler.kube.connection.client` and its `Credentials` fit the protocols, so that
the operators share the daemon's connections, limits and rotation of tokens. The operators' own
client is `operators.client`.
"""

import ssl
from typing import Any, NamedTuple, Protocol

import msgspec

from scheduler.base.errors import ApiError

JSON = "application/json"
MERGE = "application/merge-patch+json"
NOT_FOUND, CONFLICT = 404, 409

Json = dict[str, Any]


class Access(Protocol):
    """The address of the API server and the current credentials for it."""

    @property
    def server(self) -> str:
        """Return the URL."""

    @property
    def tls(self) -> ssl.SSLContext | None:
        """Return the TLS context with the server's authority and the client certificate."""

    @property
    def authorization(self) -> str:
        """Return the value of the Authorization header, "" for none."""

    @property
    def proxy(self) -> str | None:
        """Return the URL of the HTTP proxy, or None."""


class Credentials(Protocol):
    """The current access, and a method to reload it."""

    @property
    def access(self) -> Access:
        """Return the access of this moment."""

    async def refresh(self, *, force: bool = False) -> bool:
        """Reload the source; return whether the access has changed."""


class Response(Protocol):
    """The outcome of a request; `code` 0 means that no response arrived."""

    @property
    def code(self) -> int:
        """Return the HTTP status."""

    @property
    def body(self) -> bytes:
        """Return the decoded body."""

    @property
    def message(self) -> str:
        """Return the message of a failure."""


class Requests(Protocol):
    """Sends requests; failures are values."""

    async def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        content_type: str = ...,
        timeout_s: float = ...,
    ) -> Response:
        """Send one request and return its outcome."""


class Connection(NamedTuple):
    """The daemon's connection: credentials for kopf, the client for the operators' own requests."""

    client: Requests
    credentials: Credentials


class Api:
    """Requests for components that do not import kubernetes-asyncio, because of its cost; see
    designs/002.
    """

    def __init__(self, client: Requests, timeout_s: float) -> None:
        self._client = client
        self._timeout_s = timeout_s

    async def send(
        self, method: str, path: str, body: Json | None = None, *, content_type: str = MERGE
    ) -> bytes:
        """Send a request; return the response's body, or raise ApiError."""
        data = b"" if body is None else msgspec.json.encode(body)
        response = await self._client.request(
            method, path, data, content_type=content_type, timeout_s=self._timeout_s
        )
        if 200 <= response.code < 300:
            return response.body
        raise failed(response, method, path)


def failed(response: Response, method: str, path: str) -> ApiError:
    """Return the ApiError for a failed response."""
    reason = response.message or "no answer"
    return ApiError(f"{method} {path}: {response.code} {reason}", code=response.code)
