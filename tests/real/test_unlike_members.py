"""Ray, MPI, LeaderWorkerSet and disaggregated inference live: the examples of the how-to on both servers.

Nobody is bound while a class lacks a member; then all are, under the group's rules. A node is lost with those
on it: the new ones are placed under the same rules, and nobody else moves. The daemon is killed (SIGKILL) in the
midst of its writes, and again when the group is whole. What the rules are is counted here by hand.
"""

from typing import Any

import pytest

from tests.apiserver.realcluster import Reachable
from tests.docs import unlike
from tests.real.test_group_life import CORE, SOURCES, Life, Source, is_bound, prepared

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800), pytest.mark.allow_blocking("files")]
Json = dict[str, Any]
KIND = "PodGroup.scheduling.x-k8s.io"
NODES = 15
RACKS = 3
# The write at which the daemon dies first, and whether it arrives: of words to members, and of binds.
SOME_WRITES = ((2, True), (7, False))


class Workload(Life):
    """The life of one example in a cluster of three racks."""

    name = ""
    gone: frozenset[str]
    before: dict[str, Json]

    async def live(self) -> None:
        """Begin without a member that is needed, become whole, lose a node."""
        self.source = Source(SOURCES[KIND].path, unlike.group(self.name), {}, {})
        for number in range(NODES):
            await self._node(number)
        await self.api.expect("POST", self.source.path, self.source.group)
        needed, *others = unlike.pods(self.name)
        for pod in others:
            await self._create(pod, pod["metadata"]["name"])
        await self.until(waits_for_a_member, "the word that a member is missing")
        assert not any(map(is_bound, (await self.pods()).values()))
        await self._create(needed, needed["metadata"]["name"])
        await self._whole("the group's start")
        await self.daemons.follow()
        await self._lose(others[-1]["metadata"]["name"])
        await self._whole("the replacement of those that are lost")

    async def judge(self, cut_at: int) -> None:
        """Check that all rules hold again, and that nobody moved who was not on the lost node."""
        pods = await self.pods()
        assert unlike.LAWS[self.name](places(pods)), (cut_at, places(pods))
        for name in self.before.keys() - self.gone:
            was, now = self.before[name], pods[name]
            assert was["metadata"]["uid"] == now["metadata"]["uid"], (name, cut_at)
            assert was["spec"]["nodeName"] == now["spec"]["nodeName"], (name, cut_at)
            assert "deletionTimestamp" not in now["metadata"], (name, cut_at)

    async def clean(self) -> None:
        """Leave nothing behind."""
        await super().clean()
        for number in range(NODES):
            await self.api.request("DELETE", f"/api/v1/nodes/n{number}")

    async def _whole(self, what: str) -> None:
        await self.until(lambda pods: all(map(is_bound, pods.values())), what)
        pods = await self.pods()
        assert unlike.LAWS[self.name](places(pods)), places(pods)

    async def _lose(self, name: str) -> None:
        """Take a node away with all that are on it; their controllers make new ones."""
        self.before = await self.pods()
        node = self.before[name]["spec"]["nodeName"]
        lost = {key: pod for key, pod in self.before.items() if pod["spec"].get("nodeName") == node}
        self.gone = frozenset(lost)
        await self.api.expect("DELETE", f"/api/v1/nodes/{node}")
        for key in lost:
            await self.api.expect("DELETE", f"{CORE}/pods/{key}", {"gracePeriodSeconds": 0})
        for pod in unlike.pods(self.name):
            if pod["metadata"]["name"] in lost:
                await self._create(pod, f"{pod['metadata']['name']}-anew")

    async def _node(self, number: int) -> None:
        amounts = {"cpu": "8", "memory": "32Gi", "pods": "110"}
        labels = {unlike.RACK: rack_of(f"n{number}")}
        meta = {"name": f"n{number}", "labels": labels}
        status = {"capacity": amounts, "allocatable": amounts}
        body = {"kind": "Node", "metadata": meta, "status": status}
        await self.api.expect("POST", "/api/v1/nodes", body)

    async def _create(self, pod: Json, name: str) -> None:
        spec = pod["spec"] | {
            "schedulerName": "default-scheduler",
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"operator": "Exists"}],  # nobody keeps these nodes ready
        }
        meta = pod["metadata"] | {"name": name}
        await self.api.expect("POST", f"{CORE}/pods", pod | {"metadata": meta, "spec": spec})


def rack_of(node: str) -> str:
    return f"r{int(node[1:]) % RACKS}"


def places(pods: dict[str, Json]) -> dict[str, tuple[str, str]]:
    """Return rack and node of each pod."""
    nodes = {name: pod["spec"]["nodeName"] for name, pod in pods.items()}
    return {name: (rack_of(node), node) for name, node in nodes.items()}


def waits_for_a_member(pods: dict[str, Json]) -> bool:
    """Whether all members say that they wait for their group: at its gate, or for a class when it was tried."""
    return all(
        any(
            one.get("reason") == "WaitingForGroup" or " waits: " in one.get("message", "")
            for one in pod["status"].get("conditions") or ()
        )
        for pod in pods.values()
    )


@pytest.mark.parametrize("name", unlike.LAWS)
async def test_a_workload_lives_through_restarts_and_the_loss_of_a_node(
    server: Reachable, name: str
):
    """Killed in the midst of words to members, and in the midst of binds."""
    kind = type("Named", (Workload,), {"name": name})
    async with prepared(server, KIND, 1, kind) as lives:
        for cut_at, arrives in SOME_WRITES:
            await lives.lived(cut_at, arrives=arrives)
