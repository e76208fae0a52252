"""What the operators need of an API server, and their own requests to it.

kopf watches; what is written goes through here, because a change of the nodes is no event of the
object whose status it changes. `scheduler.kube.client.ApiClient` and its `Credentials` fit the
protocols, so that the operators share the daemon's connections, limits and rotation of tokens.
"""

from __future__ import annotations

import ssl
from typing import Any, NamedTuple, Protocol

import msgspec

from scheduler.base.errors import ApiError
from scheduler.objects.kinds import Kind

JSON = "application/json"
MERGE = "application/merge-patch+json"
NOT_FOUND = 404

Json = dict[str, Any]


class Access(Protocol):
    """Where the API server is and what opens its door at this moment."""

    @property
    def server(self) -> str:
        """Return the URL."""
        ...

    @property
    def tls(self) -> ssl.SSLContext | None:
        """Return how to check the server, and our certificate."""
        ...

    @property
    def authorization(self) -> str:
        """Return the value of the Authorization header, "" for none."""
        ...

    @property
    def proxy(self) -> str | None:
        """Return the URL of the proxy on the way."""
        ...


class Credentials(Protocol):
    """The access of this moment, and a way to ask for a newer one."""

    @property
    def access(self) -> Access:
        """Return the access of this moment."""
        ...

    async def refresh(self, *, force: bool = False) -> bool:
        """Look at the source again; return whether the access has changed."""
        ...


class Response(Protocol):
    """The outcome of a request; `code` 0 says that no answer arrived."""

    @property
    def code(self) -> int:
        """Return the HTTP status."""
        ...

    @property
    def body(self) -> bytes:
        """Return the answer."""
        ...

    @property
    def message(self) -> str:
        """Return what a failure says."""
        ...


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
        ...


class Connection(NamedTuple):
    """The daemon's connection: kopf gets the credentials, our own requests the client."""

    client: Requests
    credentials: Credentials


class Api:
    """The two requests of the operators; failures come as ApiError."""

    def __init__(self, client: Requests, timeout_s: float) -> None:
        self._client = client
        self._timeout_s = timeout_s

    async def subresources(self, kind: Kind) -> frozenset[str] | None:
        """Return the subresources of a kind, None when the API server does not offer the kind."""
        try:
            body = await self._send("GET", f"/apis/{kind.group}/{kind.version}")
        except ApiError as error:
            if error.code == NOT_FOUND:
                return None
            raise
        names = [one.name for one in msgspec.json.decode(body, type=_Resources).resources]
        if kind.plural not in names:
            return None
        start = f"{kind.plural}/"
        return frozenset(name.removeprefix(start) for name in names if name.startswith(start))

    async def patch(
        self, kind: Kind, key: tuple[str, str], body: Json, subresource: str = ""
    ) -> bytes:
        """Send a merge patch to the object `(namespace, name)`; return it as it is then."""
        tail = f"/{subresource}" if subresource else ""
        return await self._send("PATCH", path_of(kind, *key) + tail, msgspec.json.encode(body))

    async def send(
        self, method: str, path: str, body: Json | None = None, *, content_type: str = MERGE
    ) -> bytes:
        """Send any request; return the body of the answer."""
        data = b"" if body is None else msgspec.json.encode(body)
        return await self._send(method, path, data, content_type)

    async def _send(
        self, method: str, path: str, body: bytes = b"", content_type: str = MERGE
    ) -> bytes:
        response = await self._client.request(
            method, path, body, content_type=content_type, timeout_s=self._timeout_s
        )
        if 200 <= response.code < 300:
            return response.body
        said = response.message or "no answer"
        raise ApiError(f"{method} {path}: {response.code} {said}", code=response.code)


def path_of(kind: Kind, namespace: str, name: str = "") -> str:
    """Return the path of an object, or without a name of its collection in the namespace."""
    root = f"/apis/{kind.group}/{kind.version}/namespaces/{namespace}/{kind.plural}"
    return f"{root}/{name}" if name else root


class _Resource(msgspec.Struct, frozen=True):
    name: str


class _Resources(msgspec.Struct, frozen=True):
    resources: tuple[_Resource, ...] = ()
