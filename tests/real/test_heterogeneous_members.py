"""Ray, MPI, LeaderWorkerSet and disaggregated inference: the how-to's examples on both servers.

No pod is bound while a class lacks a member; then all are, under the group's rules. A node is lost
with its pods: the replacements are placed under the same rules, and no other pod moves. The daemon
is killed (SIGKILL) among its writes, and again when the group is complete. The rules are checked
here by hand.
"""

from typing import Any, ClassVar

import pytest

from tests.apiserver.realcluster import Reachable
from tests.docs import heterogeneous
from tests.real.nodeloss import SOME_WRITES, NodeLoss, waits_for_a_member
from tests.real.test_group_lifecycle import CORE, SOURCES, Source, is_bound, prepared

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800), pytest.mark.allow_blocking("files")]
Json = dict[str, Any]
KIND = "PodGroup.scheduling.x-k8s.io"
RACKS = 3


class Workload(NodeLoss):
    """The lifecycle of one example in a cluster of three racks."""

    name = ""
    nodes = 15
    amounts: ClassVar[dict[str, str]] = {"cpu": "8", "memory": "32Gi", "pods": "110"}

    def labels(self, number: int) -> dict[str, str]:
        """Return a node's rack."""
        return {heterogeneous.RACK: rack_of(f"n{number}")}

    def holds(self, pods: dict[str, Json]) -> bool:
        """Return whether the example's rules hold."""
        return bool(heterogeneous.INVARIANTS[self.name](places(pods)))

    async def live(self) -> None:
        """Create the group without a needed member, add that member, and then delete a node."""
        self.source = Source(SOURCES[KIND].path, heterogeneous.group(self.name), {}, {})
        await self.furnish()
        await self.api.expect("POST", self.source.path, self.source.group)
        needed, *others = heterogeneous.pods(self.name)
        for pod in others:
            await self._create(pod, pod["metadata"]["name"])
        await self.until(waits_for_a_member, "the word that a member is missing")
        assert not any(map(is_bound, (await self.pods()).values()))
        await self._create(needed, needed["metadata"]["name"])
        await self.whole("the group's start")
        await self.daemons.follow()
        lost = await self.lose_node_of(others[-1]["metadata"]["name"])
        for pod in (needed, *others):
            if pod["metadata"]["name"] in lost:
                await self._create(pod, f"{pod['metadata']['name']}-anew")
        await self.whole("the replacement of those that are lost")

    async def _create(self, pod: Json, name: str) -> None:
        spec = pod["spec"] | {
            "schedulerName": "default-scheduler",
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"operator": "Exists"}],  # no kubelet keeps these nodes ready
        }
        meta = pod["metadata"] | {"name": name}
        await self.api.expect("POST", f"{CORE}/pods", pod | {"metadata": meta, "spec": spec})


def rack_of(node: str) -> str:
    return f"r{int(node[1:]) % RACKS}"


def places(pods: dict[str, Json]) -> dict[str, tuple[str, str]]:
    """Return rack and node of each pod."""
    nodes = {name: pod["spec"]["nodeName"] for name, pod in pods.items()}
    return {name: (rack_of(node), node) for name, node in nodes.items()}


@pytest.mark.parametrize("name", heterogeneous.INVARIANTS)
async def test_a_workload_survives_restarts_and_the_loss_of_a_node(server: Reachable, name: str):
    """The scheduler is killed during status writes to members, and during binds."""
    kind = type("Named", (Workload,), {"name": name})
    async with prepared(server, KIND, 1, kind) as lifecycles:
        for cut_at, arrives in SOME_WRITES:
            await lifecycles.lived(cut_at, arrives=arrives)
