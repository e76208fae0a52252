"""`Traces`: a span for each decision about a pod, if the extra `otel` is installed and configured.

A span lasts from the pod's attempt until it is bound or rejected. Nothing of OpenTelemetry is
imported unless `tracing.endpoint` is set. A thread of the library sends spans; an unsampled one
costs a look-up. Called by `decisions`; never by the engine.
"""

import asyncio
from collections import OrderedDict
from importlib import import_module
from typing import Any, Self

import numpy as np

from scheduler.base.clock import Clock
from scheduler.base.errors import ConfigError
from scheduler.base.meters import Trace
from scheduler.config.trellis import Tracing
from scheduler.engine.decision import Decision
from scheduler.engine.queue.pod import QueuedPod

MOST_OPEN = 4096
NS = 1e9


class Traces:
    """The spans of the decisions in progress, by the pod's uid; `provider` is the library's."""

    def __init__(self, provider: Any, version: str, clock: Clock) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("trellis", version)
        self._clock = clock
        self._open: OrderedDict[str, Any] = OrderedDict()

    @classmethod
    def wanted(cls, settings: Tracing, version: str, clock: Clock) -> Self | None:
        """Return the tracing settings; ConfigError if the extra is not installed."""
        if not settings.endpoint:
            return None
        try:
            sdk = import_module("opentelemetry.sdk.trace")
            sending = import_module("opentelemetry.sdk.trace.export")
            sampling = import_module("opentelemetry.sdk.trace.sampling")
            wire = import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
            resources = import_module("opentelemetry.sdk.resources")
        except ImportError as error:
            text = "tracing needs an extra: pip install 'trellis-scheduler[otel]'"
            raise ConfigError(text, where="tracing.endpoint") from error
        about = {"service.name": "trellis", "service.version": version}
        provider = sdk.TracerProvider(
            resource=resources.Resource.create(about),
            sampler=sampling.TraceIdRatioBased(settings.sampling_rate_per_million / 1e6),
            shutdown_on_exit=False,
        )
        exporter = wire.OTLPSpanExporter(endpoint=settings.endpoint)
        provider.add_span_processor(sending.BatchSpanProcessor(exporter))
        return cls(provider, version, clock)

    def decided(self, queued: QueuedPod, decision: Decision) -> None:
        """Open the span of an attempt, with its decision."""
        span = self._tracer.start_span("schedule pod", start_time=int(queued.last_attempt * NS))
        if not span.is_recording():
            return
        meta = queued.pod.metadata
        feasible = 0 if decision.feasible is None else int(np.count_nonzero(decision.feasible))
        span.set_attributes(
            {
                "k8s.namespace.name": meta.namespace,
                "k8s.pod.name": meta.name,
                "k8s.pod.uid": meta.uid,
                "trellis.profile": queued.profile,
                "trellis.attempt": queued.attempts,
                "trellis.priority": queued.priority,
                "trellis.nodes.all": decision.node_count,
                "trellis.nodes.feasible": feasible,
                "trellis.rejected_by": () if decision.fits else decision.rejected_by,
                "trellis.victims": len(decision.victims),
            }
        )
        span.add_event("decided", timestamp=self._now_ns())
        self._open[meta.uid] = span
        if len(self._open) > MOST_OPEN:
            self._open.popitem(last=False)  # its pod was deleted; a span without an end is not sent

    def ended(self, queued: QueuedPod, result: str, text: str) -> Trace | None:
        """Close the span of an attempt and name its trace; `text` is the node, or why there is
        none.
        """
        span = self._open.pop(queued.uid, None)
        if span is None:
            return None
        span.set_attribute("trellis.result", result)
        span.set_attribute("k8s.node.name" if result == "scheduled" else "trellis.message", text)
        if result == "error":
            codes = import_module("opentelemetry.trace")
            span.set_status(codes.Status(codes.StatusCode.ERROR, text))
        span.end(end_time=self._now_ns())
        return Trace(f"{span.get_span_context().trace_id:032x}", self._clock.now())

    async def close(self) -> None:
        """Send the remaining spans and stop the library's thread."""
        await asyncio.to_thread(self._provider.shutdown)

    def _now_ns(self) -> int:
        return int(self._clock.now() * NS)
