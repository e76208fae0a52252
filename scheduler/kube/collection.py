"""The URL of a kind, and what can be asked there: a page of its list, a watch from a version.

A reflector decides when to ask and what to do about failures; this module knows how to ask.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from urllib.parse import quote

from scheduler.kube.api import Api, Response, Stream
from scheduler.kube.decode import Decoder, GarbageError, Page
from scheduler.objects.kinds import Kind

LIST_TIMEOUT_S = 60.0


def selectors(kind: Kind) -> str:
    """Return what a list or watch of a kind adds to its query: the parts of it that we read."""
    chosen = (("fieldSelector", kind.field_selector), ("labelSelector", kind.label_selector))
    return "".join(f"&{name}={quote(text, safe='')}" for name, text in chosen if text)


class Collection:
    """All objects of a kind on one API server, in pages of `page_limit`."""

    def __init__(self, kind: Kind, api: Api, decoder: Decoder, page_limit: int) -> None:
        self._path = kind.path
        self._api = api
        self._decoder = decoder
        self._selector = selectors(kind)
        self._list_path = f"{kind.path}?limit={page_limit}{self._selector}"

    async def page(self, token: str) -> Page | Response:
        """Return a page of the list, the first for an empty `token`, or the failure."""
        more = f"&continue={quote(token, safe='')}" if token else ""
        return await self._get(self._list_path + more)

    def watch(
        self, version: str, limit_s: int, silence_s: float
    ) -> AbstractAsyncContextManager[Stream]:
        """Open a watch of the changes after `version`; the server ends it after `limit_s`."""
        return self._api.stream(
            f"{self._path}?watch=true&allowWatchBookmarks=true&timeoutSeconds={limit_s}"
            f"&resourceVersion={quote(version, safe='')}{self._selector}",
            silence_s=silence_s,
        )

    async def is_behind(self, version: str) -> bool:
        """Whether the server knows less than `version`: restored from a backup, it stays silent."""
        page = await self._get(f"{self._path}?limit=1{self._selector}")
        if isinstance(page, Response):
            return False
        theirs = page.resource_version
        return version.isdecimal() and theirs.isdecimal() and int(theirs) < int(version)

    async def _get(self, path: str) -> Page | Response:
        response = await self._api.request("GET", path, timeout_s=LIST_TIMEOUT_S)
        if not response.ok:
            return response
        try:
            return self._decoder.page(response.body)
        except GarbageError as error:
            return Response(0, reason="Garbage", message=str(error))
