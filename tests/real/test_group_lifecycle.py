"""The lifecycle of a group, with the daemon killed (SIGKILL) at every write of it.

A group becomes complete, loses a member with its node, and the replacement fits nowhere; then the
leader is killed once more. Whichever process died when, the running members still exist in the end:
for ConfigMaps and all kinds of PodGroups, on the sandbox and on the real API server, with one
daemon that restarts and with a hot standby that takes over.
"""

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from tests.apiserver.patience import until
from tests.apiserver.realcluster import Reachable
from tests.real.api import MERGE, Api
from tests.real.schedulers import Running, Trellis, leading
from tests.real.writeproxy import WriteProxy

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600), pytest.mark.allow_blocking("files")]
Json = dict[str, Any]
SIZE = 4
# With a configuration file groups are off unless it names their plugin.
PROFILES = [
    {
        "schedulerName": "default-scheduler",
        "plugins": {"preEnqueue": {"enabled": [{"name": "ClusterTopologyPlacementGroup"}]}},
    }
]
# The writes at which a daemon dies in the short run, and whether they arrive; by the number of
# daemons.
SOME_WRITES = {1: ((2, True), (9, True)), 2: ((6, False),)}
CORE = "/api/v1/namespaces/default"
ROOT = Path(__file__).parents[2]
# Of coscheduling and of Volcano.
CRDS = (ROOT / "crds/podgroups.yaml", ROOT / "docs/examples/volcano/definitions.yaml")
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Source:
    """One kind of object that describes a group: its path, and how a pod names it."""

    def __init__(
        self, path: str, group: Json, labels: Json, spec: Json, annotations: Json | None = None
    ) -> None:
        self.path, self.group, self.spec = path, group, spec
        self.meta = {"labels": labels, "annotations": annotations or {}}


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
        {
            "metadata": {"name": "g"},
            "spec": {
                "schedulingPolicy": {"gang": {"minCount": SIZE}},
                "disruptionMode": "PodGroup",
            },
        },
        {},
        {"schedulingGroup": {"podGroupName": "g"}},
    ),
    "PodGroup.scheduling.volcano.sh": Source(
        "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups",
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": "g"},
            "spec": {"minMember": SIZE, "minTaskMember": {"worker": SIZE}},
        },
        {"volcano.sh/task-spec": "worker"},
        {},
        {"scheduling.k8s.io/group-name": "g"},
    ),
}
# As Kubernetes serves them since 1.37.
LATER = {
    "PodGroup.scheduling.k8s.io": Source(
        "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups",
        {
            "metadata": {"name": "g"},
            "spec": {
                "schedulingPolicy": {"gang": {"minCount": SIZE}},
                "disruptionMode": {"all": {}},
            },
        },
        {},
        {"schedulingGroup": {"podGroupName": "g"}},
    ),
}


class Daemons:
    """One daemon per gate of the proxy.

    With more than one, they elect a leader.
    """

    def __init__(
        self, proxy: WriteProxy, cluster: Reachable, count: int, profiles: list[Json]
    ) -> None:
        self.proxy, self.cluster, self.count = proxy, cluster, count
        self.profiles = profiles
        self.running: dict[int, Running] = {}
        self._exit = contextlib.ExitStack()
        proxy.cut = lambda gate: self.running[gate].program.process.kill()

    def start(self) -> None:
        """Start the daemons that do not run."""
        for gate in range(self.count):
            if not self.is_alive(gate):
                kubeconfig = self.proxy.kubeconfig(self.cluster.folder, gate)
                config = {
                    "clientConnection": {"kubeconfig": str(kubeconfig)},
                    "profiles": self.profiles,
                }
                if self.count > 1:
                    config |= leading(6, 4, 1, kubeconfig)
                self.running[gate] = self._exit.enter_context(Trellis().start(self.cluster, config))

    def is_alive(self, gate: int) -> bool:
        """Return whether the daemon behind a gate runs."""
        found = self.running.get(gate)
        return found is not None and found.program.process.poll() is None

    async def follow(self) -> dict[Path, int]:
        """Kill the leader, start another daemon; return the log length of each that continues."""
        kept = {
            one.program.log: len(one.program.log.read_text())
            for gate, one in self.running.items()
            if gate != self.proxy.last_writer
        }
        await self.running[self.proxy.last_writer].kill()
        self.start()
        return kept

    def close(self) -> None:
        """Stop all running processes."""
        self._exit.close()


class Lifecycle:
    """One lifecycle: a cluster of two nodes, a group, and daemons of which one may be killed."""

    profiles: ClassVar[list[Json]] = PROFILES
    definitions: ClassVar[tuple[Path, ...]] = CRDS

    def __init__(self, api: Api, source: Source, daemons: Daemons) -> None:
        self.api, self.source, self.daemons = api, source, daemons

    async def pods(self) -> dict[str, Json]:
        """Return the members by name."""
        found, _ = await self.api.list(f"{CORE}/pods")
        return {one["metadata"]["name"]: one for one in found}

    async def until(self, holds: Callable[[dict[str, Json]], bool], what: str) -> None:
        """Wait for a condition on the pods, with daemons running meanwhile."""
        last: dict[str, Json] = {}  # for the failure's text

        async def is_so() -> bool:
            self.daemons.start()
            last.clear()
            last.update(await self.pods())
            return holds(last)

        try:
            await until(is_so, what)
        except AssertionError as error:
            logs = [one.program.tail() for one in self.daemons.running.values()]
            error.add_note("\n".join([str({k: v["status"] for k, v in last.items()}), *logs]))
            raise

    async def member(self, name: str) -> None:
        """Create a member."""
        await self._pod(name, self.source.meta, self.source.spec)

    async def _pod(self, name: str, about: Json, more: Json) -> None:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
        spec = {
            "containers": [container],
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"operator": "Exists"}],  # no kubelet keeps these nodes ready
            **more,
        }
        meta = {"name": name, **about}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        await self.api.expect("POST", f"{CORE}/pods", body)

    async def begin(self) -> None:
        """Create a group that becomes complete and uses all capacity."""
        for number in range(2):
            amounts = {"cpu": "2", "memory": "16Gi", "pods": "110"}
            status = {"capacity": amounts, "allocatable": amounts}
            body = {"kind": "Node", "metadata": {"name": f"n{number}"}, "status": status}
            await self.api.expect("POST", "/api/v1/nodes", body)
        await self.api.expect("POST", self.source.path, self.source.group)
        for number in range(SIZE):
            await self.member(f"g-{number}")
        await self.until(lambda pods: all(map(is_bound, pods.values())), "the group's start")

    async def live(self) -> None:
        """Run the lifecycle."""
        await self.begin()
        lost = (await self.pods())["g-3"]["spec"]["nodeName"]
        # A foreign pod takes the capacity of the deleted one: one watch reports both, in this
        # order.
        await self.api.expect("DELETE", f"{CORE}/pods/g-3", {"gracePeriodSeconds": 0})
        await self._pod("squatter", {}, {"nodeName": lost, "schedulerName": "another"})
        await self.member("g-7")
        await self.until(is_reported, "the refusal of the new member")
        kept = await self.daemons.follow()

        def has_looked() -> bool:
            self.daemons.start()
            logs = [one.program.log for one in self.daemons.running.values()]
            return any("unschedulable" in log.read_text()[kept.get(log, 0) :] for log in logs)

        # It has evaluated the group again when it reports again why the member waits.
        await until(has_looked, "the look of the new daemon")

    async def check_rules(self, cut_at: int) -> None:
        """Check that no pod was evicted."""
        pods = await self.pods()
        assert {"g-0", "g-1", "g-2", "g-7", "squatter"} == set(pods), cut_at
        for name in ("g-0", "g-1", "g-2"):
            assert is_bound(pods[name]), (name, cut_at)
            assert "deletionTimestamp" not in pods[name]["metadata"], (name, cut_at)

    async def clean(self) -> None:
        """Delete all objects."""
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


def is_reported(pods: dict[str, Json]) -> bool:
    """Return whether the new member was rejected with its group: messages about a single pod do not
    count.
    """
    found = pods["g-7"]["status"].get("conditions") or ()
    return any(
        one.get("reason") == "Unschedulable"
        and "the group default/g does not fit" in one["message"]
        for one in found
    )


class Lifecycles:
    """The lifecycles of one kind of group on one server, one after the other; the daemons
    continue.
    """

    def __init__(self, api: Api, source: Source, daemons: Daemons, kind: type[Lifecycle]) -> None:
        self.api, self.source, self.daemons, self.kind = api, source, daemons, kind

    async def lived(self, cut_at: int, *, arrives: bool) -> int:
        """Run one lifecycle, killed at a write, and check its result.

        Return its number of writes.
        """
        proxy = self.daemons.proxy
        proxy.writes, proxy.cut_at, proxy.arrives = 0, cut_at, arrives
        lifecycle = self.kind(self.api, self.source, self.daemons)
        try:
            await lifecycle.live()
            await lifecycle.check_rules(cut_at)
        finally:
            proxy.cut_at = 0
            await lifecycle.clean()
        return proxy.writes

    async def killed_at_every_write(self) -> None:
        """Kill the daemon at the first write, then at the second, and so on, up to the number of
        writes in a lifecycle; at each before and after the API server receives it.
        """
        cut_at, writes = 1, 1
        while cut_at <= writes:
            for arrives in (True, False):
                writes = await self.lived(cut_at, arrives=arrives)
            cut_at += 1
        assert cut_at > 10


async def is_served(api: Api, source: Source) -> bool:
    """Return whether a kind is served: shortly after its definition is created."""
    async with api._session.get(api._url + source.path) as answer:
        return answer.status == 200


def token_of(server: Reachable) -> str:
    """Return the admin's token."""
    return str(yaml.safe_load(server.kubeconfig.read_text())["users"][0]["user"]["token"])


@asynccontextmanager
async def prepared(
    server: Reachable, kind: str | Source, daemons: int, of: type[Lifecycle] = Lifecycle
) -> AsyncIterator[Lifecycles]:
    """Open a client and the counting proxy, and create the definitions that a lifecycle needs."""
    proxy = WriteProxy(server, daemons)
    async with Api(server, token_of(server)) as api, proxy.running():
        for file in of.definitions:
            for definition in yaml.safe_load_all(file.read_text()):
                await api.request("POST", DEFINITIONS, definition)
        source = SOURCES[kind] if isinstance(kind, str) else kind
        if isinstance(kind, str) and kind in LATER and not await is_served(api, source):
            source = LATER[kind]
        await until(lambda: is_served(api, source), f"the API server to offer {source.path}")
        running = Daemons(proxy, server, daemons, of.profiles)
        try:
            yield Lifecycles(api, source, running, of)
        finally:
            running.close()


@pytest.mark.parametrize("daemons", [1, 2])
@pytest.mark.parametrize("kind", SOURCES)
async def test_killed_at_some_writes(server: Reachable, kind: str, daemons: int):
    """The daemon is killed at the first bind, at a later one, and at the group's status: the
    running members stay.
    """
    async with prepared(server, kind, daemons) as lifecycles:
        for cut_at, arrives in SOME_WRITES[daemons]:
            await lifecycles.lived(cut_at, arrives=arrives)


@pytest.mark.long
@pytest.mark.parametrize("daemons", [1, 2])
@pytest.mark.parametrize("kind", SOURCES)
async def test_killed_at_every_write(server: Reachable, kind: str, daemons: int):
    """The running members stay when the daemon is killed at any write of a lifecycle, before or
    after the API server receives it.
    """
    async with prepared(server, kind, daemons) as lifecycles:
        await lifecycles.killed_at_every_write()
