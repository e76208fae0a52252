"""kopf's way in: the daemon's credentials, in kopf's words.

kopf asks for them at its start, and again each time the API server has refused what it was given. It
keeps them in a vault of its own, made anew at each start.
"""

import asyncio
import dataclasses
import ssl
from typing import Any

import kopf

from operators.api import Access, Credentials


@dataclasses.dataclass(frozen=True, kw_only=True)
class SharedAccess(kopf.ConnectionInfo):
    """A connection with a TLS context that somebody else has made."""

    tls: ssl.SSLContext | None = None

    def as_ssl_context(self) -> ssl.SSLContext:
        """Return that context."""
        return self.tls or ssl.create_default_context()


class Login:
    """Answers kopf; `broken` gets the error when there are no credentials to be had."""

    def __init__(self, credentials: Credentials, broken: asyncio.Future[None]) -> None:
        self._credentials = credentials
        self._broken = broken
        self._given = False

    async def again(self, **_: Any) -> kopf.ConnectionInfo | None:
        """Return the access of this moment; from the second time on, look for a newer one first."""
        try:
            if self._given:
                await self._credentials.refresh(force=True)
            self._given = True
            return shared_access(self._credentials.access)
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends this life of kopf
            # kopf would wait for credentials for ever, in silence.
            if not self._broken.done():
                self._broken.set_exception(error)
            return None


def shared_access(access: Access) -> kopf.ConnectionInfo:
    """Write an access in kopf's words."""
    scheme, _, token = access.authorization.partition(" ")
    return SharedAccess(
        server=access.server,
        tls=access.tls,
        scheme=scheme or None,
        token=token or None,
        proxy_url=access.proxy,
    )
