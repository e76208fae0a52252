"""GET requests to a source outside the API server: token file, authorities, limits."""

import asyncio
import ssl
from pathlib import Path
from typing import Self

import aiohttp
import msgspec

from operators.metricproviders.provider import ProviderError

MOST_BYTES = 64 * 1024 * 1024


class HttpSettings(msgspec.Struct, frozen=True):
    """The address of a source and its credentials.

    A token file is read for every request. `token` and `ca_data` (authorities, PEM) are contents
    that the caller has read.
    """

    address: str
    token_file: str = ""
    ca_file: str = ""
    insecure_skip_verify: bool = False
    timeout_s: float = 10.0
    token: str = ""
    ca_data: str = ""

    def __repr__(self) -> str:
        """Return a text without the token, because logs may contain it."""
        return f"HttpSettings({self.address!r})"


class HttpSource:
    """A source with an address; use as `async with`. Calling it sends a GET request."""

    def __init__(self, settings: HttpSettings) -> None:
        self._settings = settings
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        settings = self._settings
        tls: ssl.SSLContext | bool = True
        if settings.insecure_skip_verify:
            tls = False
        elif settings.ca_file or settings.ca_data:
            tls = await asyncio.to_thread(_context, settings)
        connector = aiohttp.TCPConnector(ssl=tls, limit=4)
        timeout = aiohttp.ClientTimeout(total=settings.timeout_s)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def __call__(self, path: str, query: dict[str, str]) -> bytes:
        """Return the body of a successful response; ProviderError otherwise."""
        if self._session is None:
            raise ProviderError("the source is not open")
        url = self._settings.address.rstrip("/") + path
        try:
            async with self._session.get(url, params=query, headers=await self._headers()) as got:
                body = await got.content.read(MOST_BYTES)
                if got.status != 200:
                    text = body[:200].decode(errors="replace")
                    raise ProviderError(f"GET {url}: {got.status} {text}")
                return body
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise ProviderError(f"GET {url}: {str(error) or type(error).__name__}") from error

    async def _headers(self) -> dict[str, str]:
        if self._settings.token:
            return {"Authorization": f"Bearer {self._settings.token}"}
        if not self._settings.token_file:
            return {}
        token = await asyncio.to_thread(Path(self._settings.token_file).read_text)
        return {"Authorization": f"Bearer {token.strip()}"}


def _context(settings: HttpSettings) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(
            cafile=settings.ca_file or None, cadata=settings.ca_data or None
        )
    except (OSError, ValueError) as error:
        raise ProviderError(f"{settings.address}: its authority cannot be read: {error}") from error
    # Python 3.13 requires extensions that many clusters' own authorities lack.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
