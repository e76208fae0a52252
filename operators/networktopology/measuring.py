"""Fetching latencies for one NetworkTopology: from Prometheus, or from a ConfigMap.

Queries a source at most every `freqUpdate` minutes, if the object names one, and keeps the last
good answer until it expires: while a source is silent only the condition changes. `measured` turns
the figures into costs.
"""

import base64
from collections.abc import Callable, Mapping

import msgspec

from operators.client import Client
from operators.metricproviders.http import HttpSettings, HttpSource
from operators.metricproviders.prometheus import Prometheus
from operators.metricproviders.provider import ProviderError
from operators.networktopology.readings import Reading, read_config_map, read_samples
from scheduler.base.clock import Clock
from scheduler.base.errors import ApiError
from scheduler.objects.network import NetworkTopology, NetworkTopologySpec, SecretRef

DEFAULT_EVERY_MIN, DEFAULT_RANGE_MIN, DEFAULT_PERCENTILE = 5, 30, 90
RETRY_S = 30.0
PROMETHEUS, CONFIG_MAP = "Prometheus", "ConfigMap"
ENDS = ("origin", "destination")
Key = tuple[str, str]

# A source's name, the time of its newest answer, and the present error.
Reported = Callable[[str, float | None, str], None]


class Measurement(msgspec.Struct, frozen=True, eq=False):
    """A source's response, the time of the request, and the nodes in it."""

    reading: Reading
    taken_at: float
    source: str
    nodes: frozenset[str]


class _SourceState(msgspec.Struct):
    """The state of a source: time of the next query, last good response, error since then."""

    generation: int
    due: float
    expires_s: float
    last: Measurement | None = None
    error: str = ""


class Measuring:
    """The sources of all objects that have one."""

    def __init__(self, api: Client, clock: Clock, reported: Reported = lambda *_: None) -> None:
        self._api = api
        self._clock = clock
        self._reported = reported
        self._states: dict[Key, _SourceState] = {}

    def forget(self, known: Mapping[Key, NetworkTopology]) -> None:
        """Drop the state of deleted objects."""
        for key in [key for key in self._states if key not in known]:
            self._drop(key)

    def of(self, key: Key) -> tuple[Measurement | None, str]:
        """Return an object's last good response, None if it has expired, and the error since
        then.
        """
        state = self._states.get(key)
        if state is None:
            return None, ""
        last = state.last
        if last is not None and self._clock.now() - last.taken_at >= state.expires_s:
            last = None
        return last, state.error

    def next_due(self) -> float | None:
        """Return the time of the next query in seconds since the epoch; None for never."""
        return min((state.due for state in self._states.values()), default=None)

    async def refresh(self, key: Key, topology: NetworkTopology) -> None:
        """Query the object's source if it is due."""
        if source_of(topology) is None:
            self._drop(key)
            return
        now, generation = self._clock.now(), topology.metadata.generation
        state = self._states.get(key)
        if state is None or state.generation != generation:
            last = state.last if state is not None else None
            state = _SourceState(generation, now, expires_s(topology.spec), last)
            self._states[key] = state
        if state.due > now:
            return
        try:
            source, reading = await self._query(key, topology)
        except (ApiError, ProviderError) as error:
            state.error, state.due = str(error), now + RETRY_S
        else:
            state.error = ""
            state.due = now + 60.0 * _minutes(topology.spec.freq_update, DEFAULT_EVERY_MIN)
            if reading.latencies or state.last is None:
                nodes = frozenset(node for pair in reading.latencies for node in pair)
                state.last = Measurement(reading, now, source, nodes)
            else:
                state.error = f"{source} knows no latency any more"
        newest = None if state.last is None else state.last.taken_at
        self._reported(_name(key), newest, state.error)

    def _drop(self, key: Key) -> None:
        if self._states.pop(key, None) is not None:
            self._reported(_name(key), None, "")

    async def _query(self, key: Key, topology: NetworkTopology) -> tuple[str, Reading]:
        """Query the source; return its name and its response."""
        spec = topology.spec
        if source_of(topology) == PROMETHEUS:
            return PROMETHEUS, await self._from_prometheus(key, spec)
        name = f"ConfigMap {key[0]}/{spec.measurements}"
        found = await self._api.core.read_namespaced_config_map(spec.measurements, key[0])
        return name, read_config_map(found.data or {}, percentile_of(spec))

    async def _from_prometheus(self, key: Key, spec: NetworkTopologySpec) -> Reading:
        provider = spec.metric_provider
        assert provider is not None  # noqa: S101 - source_of has looked
        settings = HttpSettings(
            provider.address,
            token=await self._secret(key[0], provider.secret_ref, "token"),
            ca_data=await self._secret(key[0], provider.ca_secret_ref, "ca.crt"),
            insecure_skip_verify=provider.insecure_skip_verify,
        )
        span = f"{_minutes(spec.time_range_in_minutes, DEFAULT_RANGE_MIN)}m"
        metric = f"netperf_p{percentile_of(spec)}_latency_microseconds"
        each = f"by ({', '.join(ENDS)})"
        async with HttpSource(settings) as fetch:
            queries = Prometheus(fetch, self._clock, ())
            values = await queries.instant(f"avg {each} (avg_over_time({metric}[{span}]))", ENDS)
            # An average is as old as the newest sample in it.
            last = f"max {each} (max_over_time(timestamp({metric})[{span}:1m]))"
            times = await queries.instant(last, ENDS) if values else {}
        return await read_samples(values, times)

    async def _secret(self, namespace: str, ref: SecretRef | None, usual: str) -> str:
        """Return the token in a Secret of the object's own namespace; '' without one."""
        if ref is None:
            return ""
        found = await self._api.core.read_namespaced_secret(ref.name, namespace)
        text = (found.data or {}).get(ref.key or usual)
        if not isinstance(text, str):
            raise ProviderError(f'Secret {namespace}/{ref.name} has no key "{ref.key or usual}"')
        try:
            return base64.b64decode(text, validate=True).decode("ascii").strip()
        except ValueError as error:
            raise ProviderError(f"Secret {namespace}/{ref.name} holds no text") from error


def source_of(topology: NetworkTopology) -> str | None:
    """Return the source of an object's measurements; None if it has none."""
    provider = topology.spec.metric_provider
    if provider is not None and provider.type == PROMETHEUS and provider.address:
        return PROMETHEUS
    return CONFIG_MAP if topology.spec.measurements else None


def percentile_of(spec: NetworkTopologySpec) -> int:
    """Return which percentile of the latencies counts."""
    provider = spec.metric_provider
    return DEFAULT_PERCENTILE if provider is None else provider.percentile or DEFAULT_PERCENTILE


def expires_s(spec: NetworkTopologySpec) -> float:
    """Return the seconds for which a response is valid: its range, and at least three query
    intervals.
    """
    every = _minutes(spec.freq_update, DEFAULT_EVERY_MIN)
    return 60.0 * max(_minutes(spec.time_range_in_minutes, DEFAULT_RANGE_MIN), 3 * every)


def _name(key: Key) -> str:
    return f"NetworkTopology {key[0]}/{key[1]}"


def _minutes(value: int | None, default: int) -> int:
    return default if value is None or not 1 <= value <= 7 * 24 * 60 else value
