"""`ServerRelease`: the API server's minor release, which selects the behaviour where versions
differ.

Read before a daemon is built and again while it runs: after an upgrade of the control plane the
next daemon follows the newer release. An older answer does not count: of several API servers that
are upgraded one after the other, any may answer.
"""

from __future__ import annotations

import asyncio

import structlog

from scheduler.base.release import DEFAULT, Release
from scheduler.kube.connection.client import ApiClient
from scheduler.kube.connection.version import server_release

LOOK_EVERY_S = 30.0
TRY_EVERY_S = 5.0
REQUEST_S = 5.0

_log = structlog.get_logger()


class ServerRelease:
    """The newest release that an API server has reported; `is_fixed` keeps the first one."""

    def __init__(self, *, is_fixed: bool = False) -> None:
        self.known: Release | None = None
        self.is_fixed = is_fixed

    async def look(self, client: ApiClient) -> bool:
        """Read the API server's version; return whether the effective release has changed."""
        if self.is_fixed and self.known is not None:
            return False
        found = await server_release(client, REQUEST_S)
        if found is None or (self.known is not None and found <= self.known):
            return False
        before, self.known = self.known, found
        _log.info("kubernetes", release=str(found))
        return found != (before or DEFAULT)

    async def changed(self, client: ApiClient) -> None:
        """Wait until the API server reports a release that behaviour does not follow yet."""
        while True:
            await asyncio.sleep(TRY_EVERY_S if self.known is None else LOOK_EVERY_S)
            if await self.look(client):
                return
