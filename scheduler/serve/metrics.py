"""The three pages of metrics: `/metrics`, `/metrics/resources`, `/metrics/slis`.

Routes for `app.py`. The values are read from the table, the health checks and the daemon's provider
at the moment of the request. The page with two lines per pod and resource is written in pieces,
so that the loop goes on in between; nothing else here waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import islice

from aiohttp import web
from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client import generate_latest as process_text
from prometheus_client.openmetrics.exposition import generate_latest as process_openmetrics

from scheduler.base.meters import Spec
from scheduler.base.meters.exposition import OPENMETRICS, TEXT, header, label_text, number, render
from scheduler.serve.health import HealthChecks
from scheduler.serve.sources import PodResources, Sources

_RESOURCE_LABELS = ("namespace", "pod", "node", "scheduler", "priority", "resource", "unit")
POD_REQUEST = Spec(
    "kube_pod_resource_request",
    "gauge",
    labels=_RESOURCE_LABELS,
    buckets=(),
    help="What a pod that is not finished asks for, as the scheduler counts it.",
)
POD_LIMIT = Spec(
    "kube_pod_resource_limit",
    "gauge",
    labels=_RESOURCE_LABELS,
    buckets=(),
    help="What a pod that is not finished may use at most, as the scheduler counts it.",
)
PODS_PER_PIECE = 100

_BYTES = ("memory", "storage", "ephemeral-storage")


def routes(sources: Sources, health: HealthChecks) -> list[web.RouteDef]:
    """Return the routes of the metrics pages."""
    process = CollectorRegistry()
    ProcessCollector(registry=process)
    PlatformCollector(registry=process)

    async def metrics(request: web.Request) -> web.Response:
        openmetrics = wants_openmetrics(request.headers.get("Accept", ""))
        text = render(sources.meters.collect(), openmetrics=openmetrics)
        write = process_openmetrics if openmetrics else process_text
        # It reads files below /proc, hence the thread; its OpenMetrics form ends with `# EOF`.
        rest = await asyncio.to_thread(write, process)
        return _page(text.encode(errors="replace") + rest, openmetrics=openmetrics)

    async def slis(request: web.Request) -> web.Response:
        openmetrics = wants_openmetrics(request.headers.get("Accept", ""))
        text = render(health.collect(), openmetrics=openmetrics)
        end = "# EOF\n" if openmetrics else ""
        return _page((text + end).encode(errors="replace"), openmetrics=openmetrics)

    async def resources(request: web.Request) -> web.StreamResponse:
        openmetrics = wants_openmetrics(request.headers.get("Accept", ""))
        response = web.StreamResponse()
        response.headers["Content-Type"] = OPENMETRICS if openmetrics else TEXT
        await response.prepare(request)
        for spec in (POD_REQUEST, POD_LIMIT):
            for piece in _resource_pieces(sources, spec, openmetrics=openmetrics):
                await response.write(piece.encode(errors="replace"))
                await asyncio.sleep(0)  # a write to a fast reader does not give the loop away
        if openmetrics:
            await response.write(b"# EOF\n")
        await response.write_eof()
        return response

    return [
        web.get("/metrics", metrics),
        web.get("/metrics/slis", slis),
        web.get("/metrics/resources", resources),
    ]


def wants_openmetrics(accept: str) -> bool:
    """Say whether the reader prefers OpenMetrics 1.0 to the text form."""
    wanted = {"openmetrics": 0.0, "text": 0.0}
    for part in accept.split(","):
        kind, *parameters = (piece.strip() for piece in part.split(";"))
        options = dict(pair.partition("=")[::2] for pair in parameters)
        if kind == "application/openmetrics-text":
            # Other versions differ in what we write; who accepts only those gets the text form.
            if options.get("version", "1.0.0").strip('"') != "1.0.0":
                continue
            wanted["openmetrics"] = max(wanted["openmetrics"], _quality(options))
        elif kind in ("text/plain", "text/*", "*/*"):
            wanted["text"] = max(wanted["text"], _quality(options))
    return wanted["openmetrics"] > 0 and wanted["openmetrics"] >= wanted["text"]


def _quality(options: dict[str, str]) -> float:
    try:
        return float(options.get("q", "1"))
    except ValueError:
        return 0.0


def _page(body: bytes, *, openmetrics: bool) -> web.Response:
    return web.Response(body=body, headers={"Content-Type": OPENMETRICS if openmetrics else TEXT})


def _resource_pieces(sources: Sources, spec: Spec, *, openmetrics: bool) -> Iterator[str]:
    pods = sources.pod_resources()
    first = list(islice(pods, 1))
    if not first:
        return
    yield header(spec, openmetrics=openmetrics) + "\n" + "".join(_pod_lines(spec, first[0]))
    while chunk := list(islice(pods, PODS_PER_PIECE)):
        yield "".join(line for pod in chunk for line in _pod_lines(spec, pod))


def _pod_lines(spec: Spec, pod: PodResources) -> Iterator[str]:
    amounts = pod.requests if spec is POD_REQUEST else pod.limits
    common = label_text(_RESOURCE_LABELS[:5], pod[:5])
    for resource, amount in amounts.items():
        if amount:
            tail = label_text(_RESOURCE_LABELS[5:], (resource, unit(resource)))
            yield f"{spec.name}{{{common},{tail}}} {number(amount)}\n"


def unit(resource: str) -> str:
    """Return the unit that kube-scheduler writes for a resource; "" for extended ones."""
    if resource == "cpu":
        return "cores"
    if resource in _BYTES or resource.startswith("hugepages-"):
        return "bytes"
    return "integer" if resource.startswith("attachable-volumes-") else ""
