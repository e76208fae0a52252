"""The life of a group on the real API server, with the daemon killed (SIGKILL) at every write of it.

A group becomes whole, loses a member with its node, and the new one fits nowhere; then the daemon starts
anew once more. Whatever died when, the members that run are still there in the end, for ConfigMaps and
both kinds of PodGroups.
"""

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.apiserver.patience import pause
from tests.apiserver.realcluster import RealCluster
from tests.real.api import MERGE, Api
from tests.real.schedulers import Running, Trellis
from tests.real.writeproxy import WriteProxy

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]
Json = dict[str, Any]
SIZE = 4
CORE = "/api/v1/namespaces/default"
CRD = Path(__file__).parents[2] / "crds" / "podgroups.yaml"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Source:
    """One kind of object that describes a group: where it is made, and how a pod names it."""

    def __init__(self, path: str, group: Json, labels: Json, spec: Json) -> None:
        self.path, self.group, self.labels, self.spec = path, group, labels, spec


SOURCES = {
    "ConfigMap": Source(
        f"{CORE}/configmaps",
        {
            "metadata": {"name": "g", "labels": {"sakkara.group": ""}},
            "data": {"name": "g", "size": str(SIZE), "constraints": "{}"},
        },
        {"sakkara.group.name": "g"},
        {},
    ),
    "PodGroup.scheduling.x-k8s.io": Source(
        "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups",
        {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": "g"},
            "spec": {"minMember": SIZE},
        },
        {"scheduling.x-k8s.io/pod-group": "g"},
        {},
    ),
    "PodGroup.scheduling.k8s.io": Source(
        "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups",
        {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"gang": {"minCount": SIZE}}}},
        {},
        {"schedulingGroup": {"podGroupName": "g"}},
    ),
}


class Life:
    """One life: a cluster of two nodes, a group, and a daemon that may be killed once."""

    def __init__(self, api: Api, proxy: WriteProxy, source: Source, cluster: RealCluster) -> None:
        self.api, self.proxy, self.source, self.cluster = api, proxy, source, cluster
        self.running: Running | None = None
        self._exit = contextlib.ExitStack()

    def start(self) -> None:
        """Start a daemon on the counted way, if none runs."""
        if self.running is None or self.running.program.process.poll() is not None:
            config = {
                "clientConnection": {"kubeconfig": str(self.proxy.kubeconfig(self.cluster.folder))}
            }
            self.running = self._exit.enter_context(Trellis().start(self.cluster, config))
            self.proxy.cut = self.running.program.process.kill

    def close(self) -> None:
        """End whatever runs."""
        self._exit.close()

    async def pods(self) -> dict[str, Json]:
        """Return the members by name."""
        found, _ = await self.api.list(f"{CORE}/pods")
        return {one["metadata"]["name"]: one for one in found}

    async def until(self, holds: Callable[[dict[str, Json]], bool], what: str) -> None:
        """Wait for something to hold of the pods, with a daemon running all the while."""
        for _ in range(1200):
            self.start()
            if holds(await self.pods()):
                return
            await pause()
        raise AssertionError(f"{what} did not come about")

    async def member(self, name: str) -> None:
        """Create a member."""
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
        spec = {"containers": [container], **self.source.spec}
        meta = {"name": name, "labels": self.source.labels}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        await self.api.expect("POST", f"{CORE}/pods", body)

    async def live(self) -> None:
        """Live through it."""
        for number in range(2):
            amounts = {"cpu": "2", "memory": "16Gi", "pods": "110"}
            status = {"capacity": amounts, "allocatable": amounts}
            body = {"kind": "Node", "metadata": {"name": f"n{number}"}, "status": status}
            await self.api.expect("POST", "/api/v1/nodes", body)
        await self.api.expect("POST", self.source.path, self.source.group)
        for number in range(SIZE):
            await self.member(f"g-{number}")
        await self.until(lambda pods: all(map(is_bound, pods.values())), "the group's start")
        lost = (await self.pods())["g-3"]["spec"]["nodeName"]
        await self.api.patch(f"/api/v1/nodes/{lost}", {"spec": {"unschedulable": True}})
        await self.api.expect("DELETE", f"{CORE}/pods/g-3", {"gracePeriodSeconds": 0})
        await self.member("g-7")
        await self.until(is_told, "the refusal of the new member")
        assert self.running is not None
        await self.running.kill()
        self.start()
        for _ in range(1200):
            # It has judged the group anew when it tells the member again why it waits.
            if "unschedulable" in self.running.program.tail():
                return
            await pause()
        raise AssertionError("the new daemon did not look at the group")

    async def clean(self) -> None:
        """Leave nothing behind."""
        for name in await self.pods():
            await self.api.request("DELETE", f"{CORE}/pods/{name}", {"gracePeriodSeconds": 0})
        name = self.source.group["metadata"]["name"]
        free = {"metadata": {"finalizers": None}}
        path = f"{self.source.path}/{name}"
        await self.api.request("PATCH", path, free, content_type=MERGE)
        await self.api.request("DELETE", path)
        for number in range(2):
            await self.api.request("DELETE", f"/api/v1/nodes/n{number}")


def is_bound(pod: Json) -> bool:
    return bool(pod["spec"].get("nodeName"))


def is_told(pods: dict[str, Json]) -> bool:
    found = pods["g-7"]["status"].get("conditions") or ()
    return any(one.get("reason") == "Unschedulable" for one in found)


@asynccontextmanager
async def prepared(cluster: RealCluster) -> AsyncIterator[tuple[Api, WriteProxy]]:
    """Open a client and the counted way; the definition of the older PodGroup is there."""
    async with Api(cluster) as api, WriteProxy(cluster).running() as proxy:
        await api.request("POST", DEFINITIONS, yaml.safe_load(CRD.read_text()))
        yield api, proxy


async def lived(
    api: Api, proxy: WriteProxy, source: Source, cluster: RealCluster, cut_at: int, *, arrives: bool
) -> int:
    """Live once, killed at a write; check that nobody was taken away; return how many writes it had."""
    proxy.writes, proxy.cut_at, proxy.arrives = 0, cut_at, arrives
    life = Life(api, proxy, source, cluster)
    try:
        await life.live()
        pods = await life.pods()
        assert {"g-0", "g-1", "g-2", "g-7"} == set(pods), (cut_at, arrives)
        for name in ("g-0", "g-1", "g-2"):
            assert is_bound(pods[name]), (name, cut_at, arrives)
            assert "deletionTimestamp" not in pods[name]["metadata"], (name, cut_at, arrives)
    finally:
        life.close()
        await life.clean()
    return proxy.writes


@pytest.mark.parametrize("kind", SOURCES)
async def test_killed_at_some_writes(own_real_cluster: RealCluster, kind: str):
    """At the first bind, in their midst, and when the group is told: the members that run stay."""
    async with prepared(own_real_cluster) as (api, proxy):
        for cut_at, arrives in ((1, True), (6, False), (9, True)):
            await lived(api, proxy, SOURCES[kind], own_real_cluster, cut_at, arrives=arrives)


@pytest.mark.long
@pytest.mark.parametrize("arrives", [True, False])
@pytest.mark.parametrize("kind", SOURCES)
async def test_killed_at_every_write(own_real_cluster: RealCluster, kind: str, arrives: bool):
    """Each write of a life in its turn, until a life has fewer."""
    async with prepared(own_real_cluster) as (api, proxy):
        cut_at, writes = 1, 1
        while cut_at <= writes:
            writes = await lived(
                api, proxy, SOURCES[kind], own_real_cluster, cut_at, arrives=arrives
            )
            cut_at += 1
        assert cut_at > 10
