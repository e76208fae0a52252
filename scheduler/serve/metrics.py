"""The three pages of metrics: `/metrics`, `/metrics/resources`, `/metrics/slis`.

Routes for `app.py`. The values are read from the table, the health checks and the daemon's provider
while the page is written, one metric (or the amounts of fifty pods) at a time, so that other tasks
of the loop run in between. No other code here waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import islice

from aiohttp import web
from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector

from scheduler.base.meters import MetricSample, Spec
from scheduler.base.meters.exposition import ExpositionForm
from scheduler.serve.health import HealthChecks
from scheduler.serve.sources import EndpointSources, PodResources

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
PODS_PER_PIECE = 50

_BYTES = ("memory", "storage", "ephemeral-storage")


def routes(sources: EndpointSources, health: HealthChecks) -> list[web.RouteDef]:
    """Return the routes of the metrics pages."""
    process = CollectorRegistry()
    ProcessCollector(registry=process)
    PlatformCollector(registry=process)

    async def metrics(request: web.Request) -> web.Response:
        form = _form(request)
        parts = []
        for spec, samples in sources.meters.collect():
            parts.append(form.family(spec, samples))
            await asyncio.sleep(0)
        # It reads files below /proc, hence the thread.
        parts.append(await asyncio.to_thread(form.write, process))
        return _page(b"".join(parts) + form.end, form)

    async def slis(request: web.Request) -> web.Response:
        form = _form(request)
        return _page(form.page(health.collect()), form)

    async def resources(request: web.Request) -> web.StreamResponse:
        form = _form(request)
        response = web.StreamResponse(headers={"Content-Type": form.content_type})
        await response.prepare(request)
        for spec in (POD_REQUEST, POD_LIMIT):
            for piece in _resource_pieces(sources, spec, form):
                await response.write(piece)
                await asyncio.sleep(0)  # a write to a fast reader does not give the loop away
        await response.write(form.end)
        await response.write_eof()
        return response

    return [
        web.get("/metrics", metrics),
        web.get("/metrics/slis", slis),
        web.get("/metrics/resources", resources),
    ]


def _form(request: web.Request) -> ExpositionForm:
    return ExpositionForm(request.headers.get("Accept", ""))


def _page(body: bytes, form: ExpositionForm) -> web.Response:
    return web.Response(body=body, headers={"Content-Type": form.content_type})


def _resource_pieces(sources: EndpointSources, spec: Spec, form: ExpositionForm) -> Iterator[bytes]:
    pods = sources.pod_resources()
    first = list(islice(pods, 1))
    if not first:
        return
    yield form.family(spec, _amounts(spec, first[0]))
    while chunk := list(islice(pods, PODS_PER_PIECE)):
        amounts = [sample for pod in chunk for sample in _amounts(spec, pod)]
        yield form.family(spec, amounts, is_rest=True)


def _amounts(spec: Spec, pod: PodResources) -> Iterator[MetricSample]:
    amounts = pod.requests if spec is POD_REQUEST else pod.limits
    for resource, amount in amounts.items():
        if amount:
            yield MetricSample((*pod[:5], resource, unit(resource)), amount)


def unit(resource: str) -> str:
    """Return the unit that kube-scheduler writes for a resource; "" for extended ones."""
    if resource == "cpu":
        return "cores"
    if resource in _BYTES or resource.startswith("hugepages-"):
        return "bytes"
    return "integer" if resource.startswith("attachable-volumes-") else ""
