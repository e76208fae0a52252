"""An application that is a gang by its AppGroup, live on both servers: complete, killed, a node
lost, complete again.

Web servers, an interface and a database in a cluster of two zones, between which the path costs
more than their limit. No pod is bound while one is missing; then all are, in one zone. The daemon
is killed (SIGKILL) among its writes, and again when the application is complete. Then a node is
lost, and the replacements are placed in the same zone, while no other pod moves.
"""

from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.apiserver.patience import until
from tests.apiserver.realcluster import Reachable
from tests.real.nodeloss import SOME_WRITES, NodeLoss, waits_for_a_member
from tests.real.test_group_lifecycle import ROOT, Source, is_bound, prepared

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800), pytest.mark.allow_blocking("files")]
Json = dict[str, Any]
GROUP, WORKLOAD = "appgroup.diktyo.x-k8s.io", "appgroup.diktyo.x-k8s.io.workload"
REGION, ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
TOPOLOGIES = "/apis/networktopology.diktyo.x-k8s.io/v1alpha1/namespaces/default/networktopologies"
ZONES = 2
LARGEST, APART = 10, 40
PODS = {"web": 3, "interface": 2, "database": 1}
TIES = {"web": ["interface"], "interface": ["database"], "database": []}


def application() -> Json:
    """Return the AppGroup."""

    def ref(name: str) -> Json:
        return {"kind": "Deployment", "apiVersion": "apps/v1", "name": name, "selector": name}

    workloads = [
        {
            "workload": ref(name),
            "minMembers": number,
            "dependencies": [
                {"workload": ref(other), "maxNetworkCost": LARGEST} for other in TIES[name]
            ],
        }
        for name, number in PODS.items()
    ]
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "AppGroup",
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {
            "gang": True,
            "numMembers": len(PODS),
            "topologySortingAlgorithm": "KahnSort",
            "workloads": workloads,
        },
    }


def topology() -> Json:
    """Return the costs of paths between the zones."""
    origins = [
        {
            "origin": f"z{here}",
            "costList": [{"destination": f"z{there}", "networkCost": APART}],
        }
        for here, there in ((0, 1), (1, 0))
    ]
    level = {"topologyKey": ZONE, "originList": origins}
    return {
        "apiVersion": "networktopology.diktyo.x-k8s.io/v1alpha1",
        "kind": "NetworkTopology",
        "metadata": {"name": "nt-default", "namespace": "default"},
        "spec": {
            "weights": [{"name": "UserDefined", "topologyList": [level]}],
            "configmapName": "none",
        },
    }


SOURCE = Source(f"/apis/{GROUP}/v1alpha1/namespaces/default/appgroups", application(), {}, {})


class Application(NodeLoss):
    """The lifecycle of one application."""

    profiles: ClassVar[list[Json]] = [
        {
            "schedulerName": "default-scheduler",
            "plugins": {
                "multiPoint": {"enabled": [{"name": "NetworkOverhead", "weight": 5}]},
                "preEnqueue": {"enabled": [{"name": "ClusterTopologyPlacementGroup"}]},
            },
        }
    ]
    definitions: ClassVar[tuple[Path, ...]] = (
        ROOT / "crds/appgroups.yaml",
        ROOT / "crds/networktopologies.yaml",
    )
    nodes = 6
    amounts: ClassVar[dict[str, str]] = {"cpu": "4", "memory": "16Gi", "pods": "110"}

    def labels(self, number: int) -> dict[str, str]:
        """Return a node's region and zone."""
        return {REGION: "r0", ZONE: f"z{number % ZONES}"}

    def holds(self, pods: dict[str, Json]) -> bool:
        """Return whether all pods exist, in one zone."""
        return 1 == len(zones(pods)) and sum(PODS.values()) == len(pods)

    async def live(self) -> None:
        """Begin without the database, become whole, lose a node."""
        await self.furnish()
        await until(self._is_described, "the API server to serve the costs of paths")
        await self.api.expect("POST", self.source.path, self.source.group)
        names = [f"{one}-{at}" for one, number in PODS.items() for at in range(number)]
        for name in names[:-1]:
            await self._create(name)
        await self.until(waits_for_a_member, "the word that a member is missing")
        assert not any(map(is_bound, (await self.pods()).values()))
        await self._create(names[-1])
        await self.whole("the start of the application")
        await until(self._is_reported, "the time at which it was placed, in its status")
        await self.daemons.follow()
        for name in await self.lose_node_of("web-0"):
            await self._create(f"{name}-anew")
        await self.whole("the replacement of those that are lost")

    async def clean(self) -> None:
        """Delete all objects."""
        await super().clean()
        await self.api.request("DELETE", f"{TOPOLOGIES}/nt-default")

    async def _is_described(self) -> bool:
        code, _ = await self.api.request("POST", TOPOLOGIES, topology())
        return code in (201, 409)

    async def _is_reported(self) -> bool:
        self.daemons.start()
        found = await self.api.expect("GET", f"{self.source.path}/shop")
        return bool(found.get("status", {}).get("gang", {}).get("scheduleTime"))

    async def _create(self, name: str) -> None:
        labels = {GROUP: "shop", WORKLOAD: name.partition("-")[0]}
        await self._pod(name, {"labels": labels}, {})


def zones(pods: dict[str, Json]) -> set[int]:
    """Return in which zones pods are."""
    return {int(pod["spec"]["nodeName"][1:]) % ZONES for pod in pods.values()}


async def test_an_application_survives_restarts_and_the_loss_of_a_node(server: Reachable):
    """The scheduler is killed during status writes to members, and during binds."""
    async with prepared(server, SOURCE, 1, Application) as lifecycles:
        for cut_at, arrives in SOME_WRITES:
            await lifecycles.lived(cut_at, arrives=arrives)
