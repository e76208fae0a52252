"""Reads the cluster for the planner: raw lists of all kinds, in pages that stay unread here."""

from urllib.parse import quote

import msgspec

from operators.api import NOT_FOUND
from operators.client import Client
from scheduler.base.errors import ApiError
from scheduler.objects.kinds import DERIVABLE, MOVE_PLAN, WATCHED, Kind

PAGE = 500
FORBIDDEN = 403
NEEDED = ("Node", "Pod")
# Groups may be derived from these workloads; Jobs have failure policies as well.
# Other plans reserve capacity.
READ = (*WATCHED, *DERIVABLE, MOVE_PLAN)


class _Meta(msgspec.Struct, frozen=True):
    continue_: str | None = msgspec.field(name="continue", default=None)


class _Page(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()


_page = msgspec.json.Decoder(_Page)


async def cluster_pages(api: Client) -> list[bytes]:
    """Return the lists of all kinds; kinds that are not served or not readable are left out.

    ApiError if nodes or pods cannot be listed.
    """
    found: list[bytes] = []
    for kind in READ:
        try:
            found += await _pages(api, kind)
        except ApiError as error:
            if error.code not in (NOT_FOUND, FORBIDDEN) or kind.kind in NEEDED:
                raise
    return found


async def _pages(api: Client, kind: Kind) -> list[bytes]:
    base = f"{kind.path}?limit={PAGE}"
    if kind.label_selector:
        base += f"&labelSelector={quote(kind.label_selector, safe='')}"
    found, token = [], ""
    while True:
        page = await api.fetch(f"{base}&continue={quote(token, safe='')}" if token else base)
        found.append(page)
        token = _page.decode(page).metadata.continue_ or ""
        if not token:
            return found
