"""Workloads of other controllers live, by the files of the how-to: Job, JobSet, LeaderWorkerSet,
Kueue's gates.

The test acts as the controllers: a pod of each template, as often as their objects state. The
daemon is killed (SIGKILL) once between two workloads, and its placements stay.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.apiserver.patience import until
from tests.apiserver.realcluster import Reachable
from tests.real.api import Api
from tests.real.schedulers import Trellis
from tests.real.test_group_lifecycle import token_of

pytestmark = [pytest.mark.real, pytest.mark.timeout(600), pytest.mark.allow_blocking("files")]
Json = dict[str, Any]
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "workloads"
VOLCANO = "../volcano"
CORE = "/api/v1/namespaces/default"
ZONE = "topology.kubernetes.io/zone"
PATHS = {
    "ConfigMap": f"{CORE}/configmaps",
    "PodGroup": "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups",
    "HyperNode": "/apis/topology.volcano.sh/v1alpha1/hypernodes",
}
GROUP_KEY = "leaderworkerset.sigs.k8s.io/group-key"
GROUPS = {"preEnqueue": {"enabled": [{"name": "ClusterTopologyPlacementGroup"}]}}
PROFILES = [{"schedulerName": "trellis", "plugins": GROUPS}]


def documents(file: str) -> list[Json]:
    """Return the objects of one of the how-to's files."""
    return [one for one in yaml.safe_load_all((EXAMPLES / file).read_text()) if one]


def pods_of(owner: Json) -> Iterator[Json]:
    """Yield the pods that an object's controller makes; a pod is its own."""
    if owner["kind"] == "Pod":
        yield owner
        return
    spec = owner["spec"]
    number = spec["parallelism"] if owner["kind"] == "Job" else spec["replicas"]
    first = spec.get("ordinals", {}).get("start", 0)
    for at in range(first, first + number):
        meta = {**spec["template"]["metadata"], "name": f"{owner['metadata']['name']}-{at}"}
        yield {"metadata": meta, "spec": spec["template"]["spec"]}


class Cluster:
    """The two zones of the how-to, and the actions of the controllers."""

    def __init__(self, api: Api) -> None:
        self.api = api

    async def begin(self) -> None:
        """Make the nodes."""
        (shape,) = documents("cluster.yaml")
        for kind in shape["nodes"]:
            amounts = {"cpu": str(kind["cpu"]), "memory": kind["memory"], "pods": "110"}
            status = {"capacity": amounts, "allocatable": amounts}
            for at in range(kind["count"]):
                meta = {"name": kind["name"].format(index=at), "labels": kind["labels"]}
                body = {"metadata": meta, "status": status}
                await self.api.expect("POST", "/api/v1/nodes", body)

    async def apply(self, file: str) -> None:
        """Make the pods of a file, and its groups."""
        await self.apply_all(documents(file))

    async def apply_all(self, objects: list[Json]) -> None:
        """Make the pods of these objects, and the groups among them."""
        for one in objects:
            if one["kind"] in PATHS:
                await self.api.expect("POST", PATHS[one["kind"]], one)
                continue
            for pod in pods_of(one):
                # No kubelet keeps these nodes ready.
                spec = pod["spec"] | {"tolerations": [{"operator": "Exists"}]}
                await self.api.expect("POST", f"{CORE}/pods", pod | {"spec": spec})

    async def bound(self, number: int) -> dict[str, Json]:
        """Wait until `number` pods have a node; return all by name."""

        async def read() -> dict[str, Json]:
            found, _ = await self.api.list(f"{CORE}/pods")
            return {one["metadata"]["name"]: one for one in found}

        last: dict[str, Json] = {}

        async def are_there() -> bool:
            nonlocal last
            last = await read()
            return number == sum(bool(one["spec"].get("nodeName")) for one in last.values())

        await until(are_there, f"{number} bound pods")
        return last

    async def until_message(self, name: str, text: str) -> None:
        """Wait until a pod's condition contains the text."""

        async def is_reported() -> bool:
            found = await self.api.expect("GET", f"{CORE}/pods/{name}")
            reported = found["status"].get("conditions", ())
            return any(text in one.get("message", "") for one in reported)

        await until(is_reported, f"{name} says {text}")

    async def accepts(self, topology: Json) -> bool:
        """Try to make a Topology; the kind may not be served yet."""
        path = "/apis/kueue.x-k8s.io/v1beta1/topologies"
        code, _ = await self.api.request("POST", path, topology)
        return code in (201, 409)

    async def fill(self, node: str) -> None:
        """Create a foreign pod that uses most of a node."""
        container = {"name": "c", "image": "c", "resources": {"requests": {"cpu": "3"}}}
        spec = {"nodeName": node, "containers": [container]}
        body = {"metadata": {"name": f"full-{node}"}, "spec": spec}
        await self.api.expect("POST", f"{CORE}/pods", body)

    async def open_gate(self, name: str) -> None:
        """Remove the last scheduling gate."""
        await self.api.patch(f"{CORE}/pods/{name}", {"spec": {"schedulingGates": None}})

    async def admit(self, name: str) -> None:
        """Admit a pod as Kueue does: remove the gate and name its nodes."""
        spec = {"schedulingGates": None, "nodeSelector": {ZONE: "z2"}}
        await self.api.patch(f"{CORE}/pods/{name}", {"spec": spec})


def zone(pod: Json) -> str:
    """Return the zone of a bound pod, by its node's name."""
    return str(pod["spec"]["nodeName"]).partition("-")[0]


def place(pod: Json) -> str:
    """Return a bound pod's node, or an empty text."""
    return str(pod["spec"].get("nodeName", ""))


async def test_a_group_in_a_tree_that_kueue_describes(server: Reachable):
    """The kind is defined while the daemon runs, and the waiting group is placed.

    A restart changes nothing.
    """
    config = {"profiles": PROFILES, "clientConnection": {"kubeconfig": str(server.kubeconfig)}}
    (definition,) = documents("kueue-definition.yaml")
    topology, group, job = documents("kueue-topology.yaml")
    async with Api(server, token_of(server)) as api:
        cluster = Cluster(api)
        await cluster.begin()
        with Trellis().start(server, config) as running:
            await cluster.apply_all([group, job])
            names = [f"{job['metadata']['name']}-{at}" for at in range(3)]
            for name in names:
                await cluster.open_gate(name)
            await cluster.until_message(names[0], "no topology is called fabric")
            await running.kill()
        with Trellis().start(server, config):
            definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            await api.expect("POST", definitions, definition)
            await until(lambda: cluster.accepts(topology), "the kind Topology")
            placed = await cluster.bound(3)

    assert 1 == len({zone(pod) for pod in placed.values()})
    assert all(place(pod) for pod in placed.values())


async def test_a_gang_below_one_switch_of_volcano(server: Reachable):
    """The gang waits for HyperNodes, which are created while another daemon runs.

    Then it is in one rack, with a condition.
    """
    config = {"profiles": PROFILES, "clientConnection": {"kubeconfig": str(server.kubeconfig)}}
    *hyper_nodes, group, job = documents(f"{VOLCANO}/hypernodes.yaml")
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    async with Api(server, token_of(server)) as api:
        cluster = Cluster(api)
        await cluster.begin()
        for definition in documents(f"{VOLCANO}/definitions.yaml"):
            await api.request("POST", definitions, definition)  # another test may have made it

        async def is_served() -> bool:
            codes = [
                (await api.request("GET", PATHS[kind]))[0] for kind in ("PodGroup", "HyperNode")
            ]
            return [200, 200] == codes

        async def phase() -> str:
            found = await api.expect("GET", f"{PATHS['PodGroup']}/{group['metadata']['name']}")
            return str(found.get("status", {}).get("phase"))

        async def is_pending() -> bool:
            return await phase() == "Pending"

        async def is_running() -> bool:
            return await phase() == "Running"

        await until(is_served, "Volcano's kinds")
        with Trellis().start(server, config) as running:
            await cluster.apply_all([group, job])
            await cluster.until_message("near-0", "spec.networkTopology: there is no HyperNode")
            await until(is_pending, "the phase of a group that waits")
            await running.kill()
        with Trellis().start(server, config):
            await cluster.apply_all(hyper_nodes)
            placed = await cluster.bound(4)
            await until(is_running, "the phase of a group that is placed")

    assert 1 == len({zone(pod) for pod in placed.values()})


async def test_a_pod_group_of_kueue(server: Reachable):
    """Two gates open under one daemon, the third under the next: all are then in one rack.

    None before.
    """
    config = {"profiles": PROFILES, "clientConnection": {"kubeconfig": str(server.kubeconfig)}}
    (definition,) = documents("kueue-definition.yaml")
    topology, *pods = documents("kueue-group.yaml")
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    async with Api(server, token_of(server)) as api:
        cluster = Cluster(api)
        await cluster.begin()
        await api.request("POST", definitions, definition)  # another test may have made it
        await until(lambda: cluster.accepts(topology), "the kind Topology")
        await cluster.fill("node-0")
        with Trellis().start(server, config) as running:
            await cluster.apply_all(pods)
            await cluster.open_gate("ranks-0")
            await cluster.open_gate("ranks-1")
            await cluster.until_message("ranks-0", "the group default/ranks is not complete")
            await running.kill()
        with Trellis().start(server, config):
            await cluster.open_gate("ranks-2")
            placed = await cluster.bound(4)

    ranks = {name: pod for name, pod in placed.items() if name.startswith("ranks")}
    assert 3 == len(ranks)
    assert 1 == len({zone(pod) for pod in ranks.values()})


async def test_workloads_of_other_controllers(server: Reachable):
    """The example files are placed: a Job, a JobSet as one group, a LeaderWorkerSet with a zone for
    each of its groups, Kueue's gated pods; a pod of another scheduler is not touched.
    """
    # The API server's own role for schedulers does not include ConfigMaps.
    config = {"profiles": PROFILES, "clientConnection": {"kubeconfig": str(server.kubeconfig)}}
    async with Api(server, token_of(server)) as api:
        cluster = Cluster(api)
        await cluster.begin()
        with Trellis().start(server, config) as running:
            await cluster.apply("beside.yaml")
            await cluster.apply("job.yaml")
            await cluster.bound(4)
            await cluster.apply("jobset.yaml")
            before = await cluster.bound(9)
            await running.kill()
        with Trellis().start(server, config):
            await cluster.apply("leaderworkerset.yaml")
            placed = await cluster.bound(15)
            await cluster.apply("kueue.yaml")
            await cluster.admit("queued-0")
            placed = await cluster.bound(16)

    for name, pod in before.items():
        assert pod["spec"].get("nodeName") == placed[name]["spec"].get("nodeName"), name
    assert {"theirs", "queued-1"} == {
        name for name, pod in placed.items() if not pod["spec"].get("nodeName")
    }
    assert not placed["theirs"]["status"].get("conditions")
    assert "far" == zone(placed["queued-0"])
    inference = [pod for pod in placed.values() if GROUP_KEY in pod["metadata"].get("labels", {})]
    by_key: dict[str, set[str]] = {}
    for pod in inference:
        by_key.setdefault(pod["metadata"]["labels"][GROUP_KEY], set()).add(zone(pod))
    assert 6 == len(inference)
    assert [1, 1] == [len(zones) for zones in by_key.values()]
    assert {"node", "far"} == set.union(*by_key.values())
