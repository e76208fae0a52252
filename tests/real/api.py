"""`Api`: requests of tests and measurements to a real API server, over aiohttp.

One object is one user. It creates many objects fast, lists with pages, watches, and retries
nothing: an unexpected answer raises `ApiError`, which ends the test. The scheduler under test has
its own client; no code here is shared with it.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

import aiohttp
import msgspec

from tests.apiserver.api import abandon
from tests.apiserver.realcluster import ADMIN_TOKEN, Reachable

PAGE = 5000
PLAIN = "text/plain"
JSON = "application/json"
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"

Json = dict[str, Any]


class ApiError(AssertionError):
    """The API server gave another answer than the test needs."""


class Api:
    """Requests of one user; use as an async context manager."""

    def __init__(
        self, cluster: Reachable, token: str = ADMIN_TOKEN, *, connections: int = 16
    ) -> None:
        self._url = cluster.url
        self._tls = ssl.create_default_context(cafile=str(cluster.ca_file))
        self._headers = {"Authorization": f"Bearer {token}", "User-Agent": "trellis-tests"}
        self._connections = connections

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=self._tls),
            headers=self._headers,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=10),
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._session.close()

    async def request(
        self, method: str, path: str, body: Any = None, *, content_type: str = JSON
    ) -> tuple[int, Any]:
        """Send one request; return the status and the decoded answer, also a failure's."""
        code, _, answer = await self.ask(method, path, body, content_type=content_type)
        return code, answer

    async def ask(
        self, method: str, path: str, body: Any = None, *, content_type: str = JSON
    ) -> tuple[int, Mapping[str, str], Any]:
        """Send one request; return the status, the headers and the decoded answer."""
        data = body if isinstance(body, bytes | None) else msgspec.json.encode(body)
        async with self._session.request(
            method, self._url + path, data=data, headers={"Content-Type": content_type}
        ) as answer:
            found = await answer.read() or b"null"
            # A path without a handler is answered in plain text.
            is_plain = answer.content_type == PLAIN
            return answer.status, answer.headers, found.decode() if is_plain else json.loads(found)

    async def expect(
        self, method: str, path: str, body: Any = None, *, content_type: str = JSON
    ) -> Any:
        """Send one request and return its answer; raise ApiError unless it is a success."""
        code, answer = await self.request(method, path, body, content_type=content_type)
        if not 200 <= code < 300:
            raise ApiError(f"{method} {path}: {code} {answer}")
        return answer

    async def patch(self, path: str, body: Any, content_type: str = MERGE) -> Any:
        """Patch one object; strategic merge by `content_type`."""
        return await self.expect("PATCH", path, body, content_type=content_type)

    async def create_all(self, path: str, bodies: Iterable[bytes]) -> None:
        """POST every body to `path`, over `connections` connections, in order of the bodies."""

        async def create(body: bytes) -> None:
            async with self._session.post(
                self._url + path, data=body, headers={"Content-Type": JSON}
            ) as answer:
                content = await answer.read()
                if answer.status != 201:
                    raise ApiError(f"POST {path}: {answer.status} {content[:500]!r}")

        await self.each(create, bodies)

    async def delete_all(self, paths: Iterable[str]) -> None:
        """DELETE every path at once, without grace."""

        async def delete(path: str) -> None:
            await self.expect("DELETE", path, {"gracePeriodSeconds": 0})

        await self.each(delete, paths)

    async def list(self, path: str) -> tuple[list[Json], str]:
        """Return all objects under `path` and the list's resourceVersion."""
        items: list[Json] = []
        token, joint = "", "&" if "?" in path else "?"
        while True:
            page = await self.expect("GET", f"{path}{joint}limit={PAGE}&continue={token}")
            items += page["items"]
            token = page["metadata"].get("continue", "")
            if not token:
                return items, str(page["metadata"]["resourceVersion"])

    async def count(self, path: str) -> int:
        """Return how many objects are under `path`, without reading them all."""
        page = await self.expect("GET", f"{path}?limit=1")
        return len(page["items"]) + int(page["metadata"].get("remainingItemCount", 0))

    async def watch(self, path: str, resource_version: str) -> AsyncIterator[Json]:
        """Yield every watch event after `resource_version` until the caller stops.

        A watch that the API server closes is reopened at its last version, so that no event is
        missed; ApiError if that fails.
        """
        while True:
            async for event in self._watch_once(path, resource_version):
                resource_version = event["object"]["metadata"]["resourceVersion"]
                yield event

    async def _watch_once(self, path: str, resource_version: str) -> AsyncIterator[Json]:
        joint = "&" if "?" in path else "?"
        url = f"{self._url}{path}{joint}watch=1&resourceVersion={resource_version}"
        answer = await self._session.get(url, read_bufsize=1 << 20)
        try:
            if answer.status != 200:
                raise ApiError(f"watch {path}: {answer.status} {await answer.text()}")
            rest = b""
            async for piece in answer.content.iter_any():
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    event = msgspec.json.decode(line, type=Json)
                    if event["type"] == "ERROR":
                        raise ApiError(f"watch {path}: {event['object']}")
                    yield event
        finally:
            abandon(answer)

    async def first_event(self, path: str, within_s: float) -> tuple[int, Json | None]:
        """Open a watch.

        Return its status and its first event, also an error, None if none arrives in time.
        """
        answer = await self._session.get(self._url + path)
        try:
            async with asyncio.timeout(within_s):
                line = await answer.content.readline()
        except TimeoutError:
            return answer.status, None
        finally:
            abandon(answer)
        return answer.status, json.loads(line)

    async def each(self, act: Callable[[Any], Awaitable[None]], items: Iterable[Any]) -> None:
        """Call `act` for every item, over `connections` connections, in order of the items."""
        rest = iter(items)

        async def worker() -> None:
            for item in rest:
                await act(item)

        async with asyncio.TaskGroup() as group:
            for _ in range(self._connections):
                group.create_task(worker())
