"""The URLs of a kind: one page of its list, and a watch from a version.

The reflector decides when to send requests and how to handle failures.
"""

from contextlib import AbstractAsyncContextManager
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from scheduler.kube.api import Api, Response, ResponseStream
from scheduler.kube.watching.decode import DecodedPage, Decoder, GarbageError
from scheduler.objects.kinds import Kind

LIST_TIMEOUT_S = 60.0


def selectors(kind: Kind) -> str:
    """Return the query parameters that restrict a list or watch of a kind to what Trellis reads."""
    chosen = (("fieldSelector", kind.field_selector), ("labelSelector", kind.label_selector))
    return "".join(f"&{name}={quote(text, safe='')}" for name, text in chosen if text)


class _Named(msgspec.Struct, rename="camel"):
    name: str = ""
    group_version: str = ""


class _Group(msgspec.Struct):
    versions: list[_Named] = []


class _Document(msgspec.Struct):
    """A discovery document: the resources of a version, or the groups of the server."""

    resources: list[_Named] = []
    groups: list[_Group] = []


class Discovered(NamedTuple):
    """The result of discovery: resources by their plural, or versions as `group/version`."""

    code: int
    names: frozenset[str] = frozenset()


_documents = msgspec.json.Decoder(_Document)


class Collection:
    """All objects of a kind on one API server, in pages of `page_limit`."""

    def __init__(self, kind: Kind, api: Api, decoder: Decoder, page_limit: int) -> None:
        self._path = kind.path
        self._root, _, self._plural = kind.path.rpartition("/")
        self._api = api
        self._decoder = decoder
        self._selector = selectors(kind)
        self._list_path = f"{kind.path}?limit={page_limit}{self._selector}"

    async def page(self, token: str) -> DecodedPage | Response:
        """Return a page of the list, the first for an empty `token`, or the failure."""
        more = f"&continue={quote(token, safe='')}" if token else ""
        return await self._get(self._list_path + more)

    def watch(
        self, version: str, limit_s: int, silence_s: float
    ) -> AbstractAsyncContextManager[ResponseStream]:
        """Open a watch of the changes after `version`; the server ends it after `limit_s`."""
        return self._api.stream(
            f"{self._path}?watch=true&allowWatchBookmarks=true&timeoutSeconds={limit_s}"
            f"&resourceVersion={quote(version, safe='')}{self._selector}",
            silence_s=silence_s,
        )

    async def newest_version(self) -> str | None:
        """Return the newest version that the server serves; None if unknown."""
        page = await self._get(f"{self._path}?limit=1{self._selector}")
        return None if isinstance(page, Response) else page.resource_version

    async def is_behind(self, version: str) -> bool:
        """Return whether the server's data is older than `version`, as after a restore: its watch
        would stay silent.
        """
        theirs = await self.newest_version() or ""
        return version.isdecimal() and theirs.isdecimal() and int(theirs) < int(version)

    async def is_offered(self) -> bool | None:
        """Return whether the server's discovery lists the kind; None if unknown."""
        resources = await discovered(self._api, self._root)
        if resources is None or resources.code != 404:
            return None if resources is None else self._plural in resources.names
        groups = await discovered(self._api, "/apis")
        if groups is None or groups.code == 404:
            return None
        # The API group is listed, but its resources are not found: one of the two answers is wrong.
        return None if self._root.removeprefix("/apis/") in groups.names else False

    async def _get(self, path: str) -> DecodedPage | Response:
        response = await self._api.request("GET", path, timeout_s=LIST_TIMEOUT_S)
        if not response.ok:
            return response
        try:
            return self._decoder.page(response.body)
        except GarbageError as error:
            return Response(0, reason="Garbage", message=str(error))


async def discovered(api: Api, path: str) -> Discovered | None:
    """Return a discovery document; None without a response."""
    response = await api.request("GET", path)
    if response.code == 404:
        return Discovered(404)
    try:
        return Discovered(200, _names(response.body)) if response.ok else None
    except msgspec.MsgspecError:
        return None


def _names(body: bytes) -> frozenset[str]:
    document = _documents.decode(body)
    versions = (one.group_version for group in document.groups for one in group.versions)
    return frozenset((*(one.name for one in document.resources), *versions))
