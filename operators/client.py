"""kubernetes-asyncio's client for the operators, over the daemon's own connections.

Operators call `client.custom.patch_namespaced_custom_object_status(...)` as with kopf elsewhere.
Requests go through the daemon's client, which has the fence (a process that does not lead must not
write) and the current credentials. A failure is an ApiError. docs/designs/002 has the figures. kopf
imports the library too, hence only `operators.run` and what it imports may import this module.
"""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import msgspec
from kubernetes_asyncio.client import (  # noqa: TID253 - see above
    ApiClient,
    Configuration,
    CoreV1Api,
    CustomObjectsApi,
)

from operators.api import JSON, MERGE, NOT_FOUND, Requests, failed
from scheduler.base.errors import ApiError
from scheduler.objects.kinds import Kind


class Client(ApiClient):
    """The library's client; `core` and `custom` are its classes of methods, and patches merge."""

    def __init__(self, requests: Requests, timeout_s: float) -> None:
        # Not the base's own: that reads certificates from files and opens connections.
        self.configuration = Configuration(host="")
        self.client_side_validation = False
        self.default_headers: dict[str, str] = {}
        self.cookie = ""
        self._requests = requests
        self._timeout_s = timeout_s
        self.core = CoreV1Api(self)
        self.custom = CustomObjectsApi(self)

    async def request(
        self,
        method: str,
        url: str,
        query_params: Any = None,
        headers: dict[str, str] | None = None,  # noqa: ARG002 - those of our connection apply
        post_params: Any = None,  # noqa: ARG002 - forms, which no API server takes
        body: Any = None,
        _preload_content: bool = True,
        _request_timeout: Any = None,
    ) -> "_Answer":
        """Send one request for the methods of `core` and `custom`; raise ApiError."""
        path = f"{url}?{urlencode(query_params)}" if query_params else url
        found = await self._send(method, path, body)
        try:
            # The library reads a text that is no JSON as an object without fields.
            msgspec.json.decode(found, type=dict)
        except msgspec.MsgspecError as error:
            raise ApiError(f"{method} {path}: the answer is no object: {error}") from error
        return _Answer(200, found)

    async def fetch(self, path: str) -> bytes:
        """Return the undecoded response body of a path."""
        return await self._send("GET", path)

    async def post(self, path: str, body: Any) -> bytes:
        """Send a document to a path for which the library has no suitable method."""
        return await self._send("POST", path, body)

    async def _send(self, method: str, path: str, body: Any = None) -> bytes:
        response = await self._requests.request(
            method,
            path,
            b"" if body is None else msgspec.json.encode(body),
            content_type=MERGE if method == "PATCH" else JSON,
            timeout_s=self._timeout_s,
        )
        if 200 <= response.code < 300:
            return response.body
        raise failed(response, method, path)

    def sanitize_for_serialization(self, obj: Any) -> Any:
        """Return the object unchanged: operators write plain JSON, which may be large."""
        return obj

    def deserialize(self, response: Any, response_type: str) -> Any:
        """Return the response as a model of the library, a custom object as plain JSON."""
        try:
            return super().deserialize(response, response_type)
        except (ValueError, TypeError, AttributeError) as error:
            raise ApiError(f"the answer is no {response_type}: {error}") from error

    async def subresources(self, kind: Kind) -> frozenset[str] | None:
        """Return the subresources of a kind, None when the API server does not offer the kind."""
        try:
            # Not the library's own method: its models reject objects without fields that are unused
            # here.
            found = await self.fetch(f"/apis/{kind.group}/{kind.version}")
        except ApiError as error:
            if error.code == NOT_FOUND:
                return None
            raise
        names = [one.name for one in msgspec.json.decode(found, type=_Resources).resources]
        if kind.plural not in names:
            return None
        start = f"{kind.plural}/"
        return frozenset(name.removeprefix(start) for name in names if name.startswith(start))


@dataclass
class _Answer:
    """The part of a response that the base class reads; it writes the decoded text into `data`."""

    status: int
    data: bytes

    def getheader(self, _name: str) -> None:
        """Return None: the text is always UTF-8."""

    def getheaders(self) -> dict[str, str]:
        """Return no headers."""
        return {}


class _Resource(msgspec.Struct, frozen=True):
    name: str


class _Resources(msgspec.Struct, frozen=True):
    resources: tuple[_Resource, ...] = ()
