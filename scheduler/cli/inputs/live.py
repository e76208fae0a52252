"""A live cluster as `explain` and `snapshot` see it: lists in pages, with the rights of the user.

Kinds that the user may not read are left out, with a notice. Nothing is written to the cluster.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from urllib.parse import quote

import msgspec

from scheduler.about import VERSION
from scheduler.base.clock import RealClock
from scheduler.base.errors import ApiError
from scheduler.base.meters import Meters
from scheduler.cli.inputs.access import ClusterOptions, SeenCluster
from scheduler.kube.api import Response
from scheduler.kube.connection.client import ApiClient
from scheduler.kube.connection.version import server_version
from scheduler.kube.watching.collection import selectors
from scheduler.objects.kinds import DERIVABLE, NODE, POD, Kind
from scheduler.snapshot.documents import SourceFile

PAGE = 500


class _Meta(msgspec.Struct, frozen=True):
    continue_: str | None = msgspec.field(name="continue", default=None)


class _Page(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()


_page = msgspec.json.Decoder(_Page)


def look(
    access: ClusterOptions,
    kinds: Iterable[Kind],
    take: Callable[[SourceFile], None],
    if_served: Collection[Kind] = (),
) -> SeenCluster:
    """List all objects of `kinds` and pass each page to `take`; raise ApiError if a list fails.

    No notice states that one of `if_served` is not served.
    """
    seen = asyncio.run(_look(access, tuple(kinds), take))
    absent = {_absent(kind) for kind in if_served}
    return seen._replace(notices=tuple(one for one in seen.notices if one not in absent))


def _absent(kind: Kind) -> str:
    return f"without {kind.plural}: the API server does not serve {kind.resource}"


async def _look(
    access: ClusterOptions, kinds: tuple[Kind, ...], take: Callable[[SourceFile], None]
) -> SeenCluster:
    client = await connect(access)
    try:
        return await survey(client, access, kinds, take)
    finally:
        await client.close()


def get(access: ClusterOptions, path: str) -> Response:
    """Return the API server's response body for a path."""
    return asyncio.run(_get(access, path))


async def _get(access: ClusterOptions, path: str) -> Response:
    client = await connect(access)
    try:
        return await client.request("GET", path, timeout_s=access.timeout_s)
    finally:
        await client.close()


async def connect(access: ClusterOptions) -> ApiClient:
    """Return a client for the cluster; the caller closes it."""
    return await ApiClient.connect(
        access.kubeconfig,
        access.context,
        clock=RealClock(),
        meters=Meters(),
        user_agent=f"trellis/{VERSION}",
    )


async def survey(
    client: ApiClient,
    access: ClusterOptions,
    kinds: Iterable[Kind],
    take: Callable[[SourceFile], None],
    needed: Collection[Kind] = (NODE, POD),
) -> SeenCluster:
    """List all objects of `kinds` that may be listed; ApiError when one of the `needed` may not."""
    namespace = access.namespace or client.namespace or "default"
    notices = []
    for kind in kinds:
        notice = await _list(client, kind, namespace, access.timeout_s, take, needed)
        if notice:
            notices.append(notice)
    version = await server_version(client, access.timeout_s)
    return SeenCluster(namespace, RealClock().now(), tuple(notices), version)


async def _list(
    client: ApiClient,
    kind: Kind,
    namespace: str,
    timeout_s: float,
    take: Callable[[SourceFile], None],
    needed: Collection[Kind],
) -> str:
    """List one kind; return a notice if it could not be read completely, else ''."""
    failed = await _take_all(client, kind, kind.path, timeout_s, take)
    if failed is None:
        return ""
    if failed.code == 404:
        # Derivable kinds are listed only where a profile derives groups from them.
        return _absent(kind) if kind in DERIVABLE else ""
    if failed.code == 403 and kind.namespaced:
        root, _, plural = kind.path.rpartition("/")
        path = f"{root}/namespaces/{quote(namespace, safe='')}/{plural}"
        failed = await _take_all(client, kind, path, timeout_s, take)
        if failed is None:
            return f"{kind.plural} of namespace {namespace} only: you may not list the others"
    if failed.code == 403 and kind not in needed:
        return f"without {kind.plural}: you may not list them"
    text = failed.message or failed.reason or "no answer"
    raise ApiError(f"cannot list {kind.plural}: {text}", code=failed.code, reason=failed.reason)


async def _take_all(
    client: ApiClient, kind: Kind, path: str, timeout_s: float, take: Callable[[SourceFile], None]
) -> Response | None:
    """Pass on every page; return the answer that ended it early."""
    number = 0
    async for response in _pages(client, kind, path, timeout_s):
        if not response.ok:
            return response
        number += 1
        take(SourceFile(f"{kind.plural} (page {number})", response.body))
    return None


async def _pages(
    client: ApiClient, kind: Kind, path: str, timeout_s: float
) -> AsyncIterator[Response]:
    base = f"{path}?limit={PAGE}{selectors(kind)}"
    where = base
    while True:
        response = await client.request("GET", where, timeout_s=timeout_s)
        yield response
        if not response.ok:
            return
        token = _page.decode(response.body).metadata.continue_
        if not token:
            return
        where = f"{base}&continue={quote(token, safe='')}"
