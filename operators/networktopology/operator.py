"""Keep `status` of every NetworkTopology in step with its spec and with the nodes."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from operators.keeper import Key, StatusKeeper
from operators.networktopology.status import Observed, merge_patch, status_of
from operators.operator import Recipe
from scheduler.base.clock import rfc3339
from scheduler.objects.kinds import Kind
from scheduler.objects.network import NetworkTopology

NETWORK_TOPOLOGY = Kind(
    "NetworkTopology",
    "networktopology.diktyo.x-k8s.io",
    "v1alpha1",
    "networktopologies",
    NetworkTopology,
    required=False,
)


class NetworkTopologyOperator(StatusKeeper[NetworkTopology]):
    """Counts nodes and judges tables."""

    kind = NETWORK_TOPOLOGY
    wakes = ("Node",)

    def surroundings(self, _key: Key, _obj: NetworkTopology) -> Hashable:
        """Return the number of nodes."""
        return self.around.view.node_count()

    def patch(self, _key: Key, obj: NetworkTopology) -> dict[str, Any]:
        """Return the fields of status to be written."""
        observed = Observed(
            node_count=self.around.view.node_count(),
            generation=obj.metadata.generation,
            previous=obj.status,
            now=rfc3339(self.around.clock.now()),
        )
        wanted = status_of(obj.spec, observed)
        return merge_patch(obj.status, wanted, legacy=self.around.legacy)


RECIPE = Recipe("networktopology", NETWORK_TOPOLOGY, NetworkTopologyOperator)
