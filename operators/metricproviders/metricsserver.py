"""metrics.k8s.io: the figures of the cluster's metrics server for nodes and pods.

It returns an average over some seconds up to a time, for nodes and for each container of a pod.
"""

import msgspec

from operators.metricproviders.provider import Fetch, ProviderError
from operators.metricproviders.snapshot import (
    CPU,
    MEMORY,
    Figure,
    FigureName,
    Figures,
    FigureSnapshot,
)
from scheduler.base.clock import Clock, parse_rfc3339
from scheduler.base.errors import ObjectError
from scheduler.base.text import go_seconds
from scheduler.objects.meta import Object, ObjectMeta
from scheduler.objects.pod import ResourceList
from scheduler.objects.quantity import milli_quantity, quantity

ROOT = "/apis/metrics.k8s.io/v1beta1"
NAME = "metrics.k8s.io"


class _Container(Object, frozen=True):
    usage: ResourceList = msgspec.field(default_factory=dict)


class _Item(Object, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    timestamp: str | None = None
    window: str = ""
    usage: ResourceList = msgspec.field(default_factory=dict)
    containers: tuple[_Container, ...] = ()


class _Items(Object, frozen=True):
    items: tuple[_Item, ...] = ()


class MetricsServer:
    """The provider that reads the metrics server through the API server."""

    name = NAME

    def __init__(self, fetch: Fetch, clock: Clock) -> None:
        self._fetch = fetch
        self._clock = clock

    async def fetch(self) -> FigureSnapshot:
        """Query all nodes and all pods; ProviderError if one of the two fails."""
        nodes = _items(await self._fetch(f"{ROOT}/nodes", {}))
        pods = _items(await self._fetch(f"{ROOT}/pods", {}))
        return FigureSnapshot(
            source=NAME,
            taken_at=self._clock.now(),
            nodes={
                one.metadata.name: figures
                for one in nodes
                if (figures := _figures(one, (one.usage,)))
            },
            pods={
                f"{one.metadata.namespace}/{one.metadata.name}": figures
                for one in pods
                if (figures := _figures(one, tuple(each.usage for each in one.containers)))
            },
        )


def _items(body: bytes) -> tuple[_Item, ...]:
    try:
        return msgspec.json.decode(body, type=_Items).items
    except msgspec.MsgspecError as error:
        raise ProviderError(f"{NAME} does not answer with a list: {error}") from error


def _figures(item: _Item, usages: tuple[ResourceList, ...]) -> Figures:
    """Return the sum of usages; nothing if one of them or its time is invalid."""
    measured = parse_rfc3339(item.timestamp)
    if measured is None or not usages:
        return {}
    try:
        cores = sum(milli_quantity(usage.get("cpu", 0)) for usage in usages) / 1000
        used_bytes = sum(quantity(usage.get("memory", 0)) for usage in usages)
    except ObjectError:
        return {}
    window_s = go_seconds(item.window) or 0.0
    return {
        FigureName(CPU): Figure(cores, measured, window_s),
        FigureName(MEMORY): Figure(float(used_bytes), measured, window_s),
    }
