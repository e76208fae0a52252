"""Fetching latencies for one NetworkTopology: from Prometheus, or from a ConfigMap.

Asks when an object says so, at most every `freqUpdate` minutes, and keeps the last good answer: a
source that is silent for a while changes nothing but the condition that tells of it. What becomes of
the figures is decided in `measured`.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import msgspec

from operators.api import Api
from operators.metricproviders.http import HttpSettings, HttpSource
from operators.metricproviders.prometheus import Prometheus
from operators.metricproviders.provider import ProviderError
from operators.networktopology.measured import Pair, Reading, read_config_map
from scheduler.base.clock import Clock
from scheduler.base.errors import ApiError
from scheduler.objects.network import NetworkTopology, SecretRef

DEFAULT_EVERY_MIN, DEFAULT_RANGE_MIN, PERCENTILE = 5, 30, 90
RETRY_S = 30.0
PROMETHEUS, CONFIG_MAP = "Prometheus", "ConfigMap"
Key = tuple[str, str]


class Measurement(msgspec.Struct, frozen=True):
    """What a source said: latencies in microseconds (or a map's own unit), and when it was asked."""

    latencies: Mapping[Pair, int]
    taken_at: float
    source: str
    refused: tuple[str, ...] = ()


class _Asked(msgspec.Struct):
    """An object's source: when it is asked again, the last good answer, what went wrong since."""

    generation: int
    due: float
    last: Measurement | None = None
    error: str = ""


class Measuring:
    """The sources of all objects that have one."""

    def __init__(self, api: Api, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._asked: dict[Key, _Asked] = {}

    def forget(self, known: Mapping[Key, NetworkTopology]) -> None:
        """Drop what belongs to objects that are gone."""
        for key in [key for key in self._asked if key not in known]:
            del self._asked[key]

    def of(self, key: Key) -> tuple[Measurement | None, str]:
        """Return the last good answer for an object, and what went wrong since."""
        asked = self._asked.get(key)
        return (None, "") if asked is None else (asked.last, asked.error)

    def next_due(self) -> float | None:
        """Return when the next source is to be asked, in seconds since the epoch; None for never."""
        return min((asked.due for asked in self._asked.values()), default=None)

    async def refresh(self, key: Key, topology: NetworkTopology) -> None:
        """Ask the object's source if it is time."""
        if source_of(topology) is None:
            self._asked.pop(key, None)
            return
        now, generation = self._clock.now(), topology.metadata.generation
        asked = self._asked.get(key)
        if asked is None or asked.generation != generation:
            last = asked.last if asked is not None else None
            asked = self._asked[key] = _Asked(generation, now, last)
        if asked.due > now:
            return
        try:
            asked.last, asked.error = await self._ask(key, topology), ""
            asked.due = now + 60.0 * _minutes(topology.spec.freq_update, DEFAULT_EVERY_MIN)
        except (ApiError, ProviderError) as error:
            asked.error = str(error)
            asked.due = now + RETRY_S

    async def _ask(self, key: Key, topology: NetworkTopology) -> Measurement:
        spec, now = topology.spec, self._clock.now()
        if source_of(topology) == CONFIG_MAP:
            path = f"/api/v1/namespaces/{key[0]}/configmaps/{spec.measurements}"
            found = msgspec.json.decode(await self._api.send("GET", path))
            reading = read_config_map(found.get("data") or {}, PERCENTILE)
            source = f"ConfigMap {key[0]}/{spec.measurements}"
            return Measurement(reading.latencies, now, source, reading.refused)
        reading = await self._from_prometheus(key, topology)
        return Measurement(reading.latencies, now, PROMETHEUS, reading.refused)

    async def _from_prometheus(self, key: Key, topology: NetworkTopology) -> Reading:
        provider = topology.spec.metric_provider
        assert provider is not None  # noqa: S101 - source_of has looked
        token = await self._token(key[0], provider.secret_ref)
        settings = HttpSettings(
            provider.address, token=token, insecure_skip_verify=provider.insecure_skip_verify
        )
        window = _minutes(topology.spec.time_range_in_minutes, DEFAULT_RANGE_MIN)
        metric = f"netperf_p{PERCENTILE}_latency_microseconds"
        expr = f"avg by (origin, destination) (avg_over_time({metric}[{window}m]))"
        async with HttpSource(settings) as fetch:
            asking = Prometheus(fetch, self._clock, ())
            answer = await asking.instant(expr, ("origin", "destination"))
        latencies = {}
        for name, (_, value) in answer.items():
            origin, _, destination = name.partition("/")
            latencies[origin, destination] = round(value)
        return Reading(latencies)

    async def _token(self, namespace: str, ref: SecretRef | None) -> str:
        """Return the token that a Secret of the object's own namespace holds, "" without one."""
        if ref is None:
            return ""
        body = await self._api.send("GET", f"/api/v1/namespaces/{namespace}/secrets/{ref.name}")
        data: dict[str, Any] = msgspec.json.decode(body).get("data") or {}
        text = data.get(ref.key or "token")
        if not isinstance(text, str):
            raise ProviderError(f'Secret {namespace}/{ref.name} has no key "{ref.key or "token"}"')
        try:
            return base64.b64decode(text, validate=True).decode("ascii").strip()
        except ValueError as error:
            raise ProviderError(f"Secret {namespace}/{ref.name} holds no token") from error


def source_of(topology: NetworkTopology) -> str | None:
    """Return where an object's measurements come from, None when it asks for none."""
    provider = topology.spec.metric_provider
    if provider is not None and provider.type == PROMETHEUS and provider.address:
        return PROMETHEUS
    return CONFIG_MAP if topology.spec.measurements else None


def _minutes(value: int | None, default: int) -> int:
    return default if value is None or not 1 <= value <= 24 * 60 else value
