"""HTTP requests to extenders: the engine's `AskExtender` is sent, an `Answer` returns.

Connections are kept open and reused. Each request has its extender's time limit and is sent once.
An invalid response becomes code 0 with a message, in kube-scheduler's text where there is one; the
engine decides what follows for the pod. Binding writes, so it checks the fence first.
"""

import asyncio
import base64
import binascii
import ssl
from collections.abc import Sequence
from pathlib import Path

import aiohttp
import msgspec

from scheduler.base.clock import perf_s
from scheduler.base.errors import ConfigError
from scheduler.base.meters import Meters
from scheduler.config.model import Extender, ExtenderTLSConfig
from scheduler.engine.effects import Answer, AskExtender, ExtenderAnswer
from scheduler.engine.extender.extenders import in_order
from scheduler.framework.duration import seconds
from scheduler.kube import extenderwire
from scheduler.kube.api import JSON, Response
from scheduler.kube.connection.tls import client_context
from scheduler.kube.watching.rawobjects import RawObjects
from scheduler.kube.writing.fence import Fence

# An extender that is shown whole nodes sends them back: 15,000 of the largest fit.
MOST_BYTES = 256 * 1024 * 1024
# Longer responses are parsed in a thread, so that the loop is not blocked.
LONG_BYTES = 512 * 1024
CONNECTIONS = 64
KEEP_IDLE_S = 90.0


class _Endpoint:
    """One extender; `verbs` are its paths by purpose."""

    def __init__(self, extender: Extender) -> None:
        self.url = extender.url_prefix.rstrip("/")
        self.by_name = extender.node_cache_capable
        self.verbs = {
            "filter": extender.filter_verb,
            "prioritize": extender.prioritize_verb,
            "preempt": extender.preempt_verb,
            "bind": extender.bind_verb,
        }
        self.timeout = aiohttp.ClientTimeout(total=seconds(extender.http_timeout))
        self.tls = tls_context(extender)
        self.server_name = extender.tls_config.server_name if extender.tls_config else ""


class Extenders:
    """All extenders of a configuration, by their number in call order.

    `raw_objects` has the objects to send; the watches fill it.
    """

    def __init__(self, configured: Sequence[Extender], fence: Fence, meters: Meters) -> None:
        """Prepare connections; ConfigError when certificates cannot be used."""
        self._endpoints = [_Endpoint(extender) for extender in in_order(configured)]
        self.raw_objects = _raw_objects(configured)
        self._fence = fence
        self._duration = meters.extender_duration
        self._session: aiohttp.ClientSession | None = None
        self._prioritizing = 0
        meters.goroutines.labels("prioritizing_extender").read_from(lambda: self._prioritizing)

    async def carry(self, effect: AskExtender, submitted_at: float) -> tuple[Answer, Response]:
        """Send one request; return failures as answers too."""
        del submitted_at
        endpoint = self._endpoints[effect.extender]
        self._prioritizing += effect.verb == "prioritize"
        started = perf_s()
        try:
            pending = self._send(endpoint, effect)
            if effect.verb == "bind":
                # A failed answer does not tell whether the extender has sent a binding.
                pending = self._fence.watched(pending, lambda found: not found.ok)
            reply = await pending
        finally:
            self._prioritizing -= effect.verb == "prioritize"
        result = "ok" if reply.ok else "error"
        self._duration.labels(endpoint.url, effect.verb, result).observe(perf_s() - started)
        return reply, Response(reply.code, reason=reply.reason, message=reply.message)

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def _send(self, endpoint: _Endpoint, effect: AskExtender) -> Answer:
        url = f"{endpoint.url}/{endpoint.verbs[effect.verb]}"
        try:
            body = extenderwire.question(effect, self.raw_objects, by_name=endpoint.by_name)
            if effect.verb == "bind":
                self._fence.check()
            code, data = await self._post(endpoint, url, body)
            if code != 200:
                verb = endpoint.verbs[effect.verb]
                text = f"failed {verb} with extender at URL {url}, code {code}"
                return Answer(effect.id, 0, "ExtenderFailed", text)
            found = await _read(effect.verb, data, by_name=endpoint.by_name)
        except extenderwire.GoneError as error:
            return Answer(effect.id, 0, "NotFound", str(error))
        except TimeoutError:
            detail = "Client.Timeout exceeded while awaiting headers"
            text = f'Post "{url}": context deadline exceeded ({detail})'
            return Answer(effect.id, 0, "Timeout", text)
        except (aiohttp.ClientError, OSError) as error:
            return Answer(effect.id, 0, "Disconnected", f'Post "{url}": {_problem(error)}')
        except msgspec.MsgspecError as error:
            text = f"the extender at URL {url} did not answer as it should: {error}"
            return Answer(effect.id, 0, "BadAnswer", text)
        if effect.verb == "bind" and found.error:
            # The extender may have bound the pod nevertheless: the engine looks it up.
            return Answer(effect.id, 0, "ExtenderFailed", found.error)
        return Answer(effect.id, 200, body=found)

    async def _post(self, endpoint: _Endpoint, url: str, body: bytes) -> tuple[int, bytes]:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=CONNECTIONS, keepalive_timeout=KEEP_IDLE_S),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=True,
            )
        async with self._session.post(
            url,
            data=body,
            headers={"Content-Type": JSON},
            ssl=endpoint.tls,
            server_hostname=endpoint.server_name or None,
            timeout=endpoint.timeout,
        ) as response:
            parts: list[bytes] = []
            size = 0
            async for part in response.content.iter_any():
                size += len(part)
                if size > MOST_BYTES:
                    raise aiohttp.ClientPayloadError(
                        f"the answer is longer than {MOST_BYTES} bytes"
                    )
                parts.append(part)
            return response.status, b"".join(parts)


async def _read(verb: str, data: bytes, *, by_name: bool) -> ExtenderAnswer:
    if len(data) < LONG_BYTES:
        return extenderwire.answer(verb, data, by_name=by_name)
    return await asyncio.to_thread(extenderwire.answer, verb, data, by_name=by_name)


def _problem(error: Exception) -> str:
    """Return the message of a connection failure, never an empty text."""
    if isinstance(error, ConnectionRefusedError) or (
        isinstance(error, aiohttp.ClientConnectorError)
        and isinstance(error.os_error, ConnectionRefusedError)
    ):
        return "connect: connection refused"
    return str(error) or type(error).__name__


def _raw_objects(configured: Sequence[Extender]) -> RawObjects:
    """Return the store of raw objects that these extenders receive."""
    whole = [extender for extender in configured if not extender.node_cache_capable]
    return RawObjects(
        nodes=any(extender.filter_verb or extender.prioritize_verb for extender in whole),
        all_pods=any(extender.preempt_verb for extender in whole),
    )


def tls_context(extender: Extender) -> ssl.SSLContext:
    """Return the context for an extender's connections; ConfigError names the unusable part.

    The rules are kube-scheduler's, also the odd one: `enableHTTPS` without a CA certificate does
    not check the extender's certificate.
    """
    wanted = extender.tls_config or ExtenderTLSConfig()
    try:
        return _context(extender, wanted)
    except (OSError, ssl.SSLError, ValueError, binascii.Error) as error:
        where = f"the extender {extender.url_prefix}"
        raise ConfigError(f"tlsConfig cannot be used: {error}", where=where) from error


def _context(extender: Extender, wanted: ExtenderTLSConfig) -> ssl.SSLContext:
    has_ca = bool(wanted.ca_file or wanted.ca_data)
    is_blind = wanted.insecure or (extender.enable_https and not has_ca)
    if is_blind and has_ca:
        raise ValueError(
            "specifying a root certificates file with the insecure flag is not allowed"
        )
    # Read here, because the library's error does not name the file.
    return client_context(
        _content(wanted.ca_data, wanted.ca_file),
        _content(wanted.cert_data, wanted.cert_file),
        _content(wanted.key_data, wanted.key_file),
        is_blind=is_blind,
    )


def _content(data: str, file: str) -> bytes:
    """Return `data` if given, else the content of `file`; b'' without either."""
    if data:
        return base64.b64decode(data, validate=True)
    return Path(file).read_bytes() if file else b""
