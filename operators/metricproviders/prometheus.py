"""Prometheus: instant queries whose results are figures of nodes or pods.

A query names the labels that identify the node or pod of a value. Prometheus stamps a result with
the time of the query. `times` is a second query for the times of the samples; without it a silent
exporter would look fresh for the whole range of its rate.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import msgspec

from operators.cooperative import in_turns
from operators.metricproviders.provider import Fetch, ProviderError
from operators.metricproviders.snapshot import CPU, MEMORY, Figure, FigureName, FigureSnapshot
from scheduler.base.clock import Clock

NAME = "Prometheus"
QUERY_PATH = "/api/v1/query"


class Query(msgspec.Struct, frozen=True):
    """One question; `labels` name the node, or namespace and pod.

    A label that ends in a port (`instance`) is cut to the host. `window_s` is the range inside
    `expr`; figures whose newest sample (by `times`) is older than `fresh_s` are left out.
    """

    measure: FigureName
    expr: str
    target: Literal["node", "pod"] = "node"
    labels: tuple[str, ...] = ("node",)
    times: str = ""
    window_s: float = 0.0
    fresh_s: float = math.inf


def usual_queries(window_s: int = 120) -> tuple[Query, ...]:
    """Return queries for node-exporter and cAdvisor, scraped with a label `node`.

    A rate over a range that samples do not fill is too low: half of it missing makes a busy node
    look half idle. Series without samples at the start of the range, or without recent ones, are
    dropped.
    """
    span, fresh_s = f"{window_s}s", window_s / 4
    busy, idle = (
        'node_cpu_seconds_total{mode!~"idle|iowait|steal"}',
        'node_cpu_seconds_total{mode="idle"}',
    )
    used, of_pod = 'container_cpu_usage_seconds_total{container!="",pod!=""}', "namespace, pod"
    return (
        Query(
            FigureName(CPU),
            f"sum by (node) (rate({busy}[{span}]))"
            f" and on (node) count by (node) ({idle} offset {span})",
            times=f"max by (node) (timestamp({idle}))",
            window_s=window_s,
            fresh_s=fresh_s,
        ),
        Query(
            FigureName(MEMORY),
            "sum by (node) (node_memory_MemTotal_bytes - node_memory_MemAvailable_bytes)",
            times="max by (node) (timestamp(node_memory_MemAvailable_bytes))",
            fresh_s=fresh_s,
        ),
        Query(
            FigureName(CPU),
            f"sum by ({of_pod}) (rate({used}[{span}]))"
            f" and on ({of_pod}) count by ({of_pod}) ({used} offset {span})",
            target="pod",
            labels=("namespace", "pod"),
            window_s=window_s,
        ),
        Query(
            FigureName(MEMORY),
            f'sum by ({of_pod}) (container_memory_working_set_bytes{{container!="",pod!=""}})',
            target="pod",
            labels=("namespace", "pod"),
        ),
    )


DEFAULT_QUERIES = usual_queries()


class _Sample(msgspec.Struct, frozen=True):
    metric: dict[str, str]
    value: tuple[float, str]


class _Data(msgspec.Struct, frozen=True, rename="camel"):
    result_type: str
    result: msgspec.Raw = msgspec.Raw(b"[]")


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    status: str
    data: _Data | None = None
    error: str = ""


class Prometheus:
    """The provider over a Prometheus server's HTTP API."""

    name = NAME

    def __init__(
        self, fetch: Fetch, clock: Clock, queries: tuple[Query, ...] = DEFAULT_QUERIES
    ) -> None:
        self._fetch = fetch
        self._clock = clock
        self._queries = queries

    async def fetch(self) -> FigureSnapshot:
        """Run all queries; ProviderError if one fails, because an incomplete result would look
        complete.
        """
        found: dict[str, dict[str, dict[FigureName, Figure]]] = {"node": {}, "pod": {}}
        for query in self._queries:
            values = await self.instant(query.expr, query.labels)
            times = await self.instant(query.times, query.labels) if query.times else {}
            for name, (moment, value) in values.items():
                if query.times and name not in times:
                    continue
                measured = times[name][1] if query.times else moment
                if moment - measured > query.fresh_s:
                    continue
                figures = found[query.target].setdefault(name, {})
                figures[query.measure] = Figure(value, measured, query.window_s)
        return FigureSnapshot(NAME, self._clock.now(), nodes=found["node"], pods=found["pod"])

    async def instant(self, expr: str, labels: tuple[str, ...]) -> dict[str, tuple[float, float]]:
        """Return name → (time, value) of an instant vector; values that are no numbers are left
        out.
        """
        answer = _decoded(await self._fetch(QUERY_PATH, {"query": expr}), expr)
        found = {}
        async for handful in in_turns(answer):
            for sample in handful:
                parts = [_host(label, sample.metric.get(label, "")) for label in labels]
                value = _number(sample.value[1])
                if all(parts) and value is not None:
                    found["/".join(parts)] = (float(sample.value[0]), value)
        return found


def _decoded(body: bytes, expr: str) -> list[_Sample]:
    try:
        answer = msgspec.json.decode(body, type=_Answer)
        if answer.status != "success" or answer.data is None:
            raise ProviderError(f"{NAME} refuses {expr}: {answer.error or answer.status}")
        if answer.data.result_type != "vector":
            raise ProviderError(f"{NAME} answers {expr} with a {answer.data.result_type}")
        return msgspec.json.decode(answer.data.result, type=list[_Sample])
    except msgspec.MsgspecError as error:
        raise ProviderError(f"{NAME} answers {expr} with something else: {error}") from error


def _number(text: Any) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _host(label: str, value: str) -> str:
    """Return a label's value, of an `instance` without its port."""
    if label != "instance":
        return value
    host, colon, port = value.rpartition(":")
    return host if colon and port.isdigit() else value
