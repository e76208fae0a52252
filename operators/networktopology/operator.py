"""Keep `status` of every NetworkTopology in step with its spec and with the nodes."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from operators.keeper import Key, StatusKeeper
from operators.networktopology.measured import MeasuredNode, measured_weights
from operators.networktopology.measuring import Measurement, Measuring, source_of
from operators.networktopology.status import Observed, merge_patch, status_of
from operators.operator import Recipe, Surroundings
from scheduler.base.clock import rfc3339
from scheduler.objects.kinds import Kind
from scheduler.objects.network import NetworkTopology, Weights

NETWORK_TOPOLOGY = Kind(
    "NetworkTopology",
    "networktopology.diktyo.x-k8s.io",
    "v1alpha1",
    "networktopologies",
    NetworkTopology,
    required=False,
)


class NetworkTopologyOperator(StatusKeeper[NetworkTopology]):
    """Counts nodes, judges tables, turns measurements into costs."""

    kind = NETWORK_TOPOLOGY
    wakes = ("Node",)

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        self._measuring = Measuring(around.api, around.clock)
        self._nodes: tuple[MeasuredNode, ...] = ()
        self._tables: dict[Key, tuple[object, Weights]] = {}

    async def gather(self) -> None:
        """Ask the sources whose time has come."""
        self._measuring.forget(self.objects)
        for key, topology in list(self.objects.items()):
            await self._measuring.refresh(key, topology)
        nodes = tuple(
            MeasuredNode(node.metadata.name, node.metadata.labels)
            for node in self.around.view.nodes()
        )
        if nodes != self._nodes:
            self._nodes = nodes
            self._tables = {}

    def patience_s(self) -> float | None:
        """Return when the next source is to be asked."""
        due = self._measuring.next_due()
        return None if due is None else max(0.1, due - self.around.clock.now())

    def surroundings(self, key: Key, _obj: NetworkTopology) -> Hashable:
        """Return the number of nodes, the identity of the measured table, and the source's fault."""
        measurement, fault = self._measuring.of(key)
        table = self._table(key, measurement)
        return self.around.view.node_count(), id(table), fault

    def patch(self, key: Key, obj: NetworkTopology) -> dict[str, Any]:
        """Return the fields of status to be written."""
        measurement, fault = self._measuring.of(key)
        observed = Observed(
            node_count=self.around.view.node_count(),
            generation=obj.metadata.generation,
            previous=obj.status,
            now=rfc3339(self.around.clock.now()),
            measured=self._table(key, measurement),
            measured_at="" if measurement is None else rfc3339(measurement.taken_at),
            source=_source(obj, measurement),
            fault=fault,
            unmeasured=0 if measurement is None else len(measurement.refused),
        )
        wanted = status_of(obj.spec, observed)
        return merge_patch(obj.status, wanted, legacy=self.around.legacy)

    def _table(self, key: Key, measurement: Measurement | None) -> Weights | None:
        """Return the costs of a measurement, worked out once."""
        if measurement is None or not measurement.latencies:
            return None
        known = self._tables.get(key)
        if known is None or known[0] is not measurement:
            table = measured_weights(self._nodes, measurement.latencies)
            known = self._tables[key] = (measurement, table)
        return known[1]


def _source(topology: NetworkTopology, measurement: Measurement | None) -> str:
    if measurement is not None:
        return measurement.source
    return source_of(topology) or ""


RECIPE = Recipe("networktopology", NETWORK_TOPOLOGY, NetworkTopologyOperator)
