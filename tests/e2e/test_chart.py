"""The chart by helm on a server, and the daemon as its Deployment says: its configuration, its rights.

One release goes through all profiles. Each time the daemon gets the arguments, the file and the
ServiceAccount's token that a kubelet would give it, and nothing else; a right that is missing shows as
an answer 403, which the server's side of the test does not forgive.
"""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.base.clock import RealClock, rfc3339
from scheduler.base.meters import Meters
from scheduler.kube.client import ApiClient
from scheduler.testing import node, pod
from tests.apiserver.processes import free_ports
from tests.e2e.liveworld import answers
from tests.e2e.operatorworld import real, sandbox

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
HELM = shutil.which(
    "helm", path=os.environ.get("KUBEBUILDER_ASSETS", "") + os.pathsep + os.environ["PATH"]
)
RELEASE, NAMESPACE = "trellis", "trellis-system"
LIMIT_S = 120.0
# Both need helm, which is built with the tools of the real cluster.
pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(600),
    pytest.mark.skipif(HELM is None, reason="helm is not installed (make tools)"),
    pytest.mark.allow_blocking("servers and clients are set up on the test's loop"),
]
Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"


class Server:
    """A client of the administrator's, and helm and daemons beside it."""

    def __init__(self, kubeconfig: Path, client: ApiClient, folder: Path) -> None:
        self._kubeconfig = kubeconfig
        self._client = client
        self._folder = folder

    async def get(self, path: str) -> Json:
        """Return an object or a list."""
        response = await self._client.request("GET", path)
        assert response.ok, f"GET {path}: {response.code} {response.message}"
        found: Json = json.loads(response.body)
        return found

    async def post(self, path: str, body: Json) -> Json:
        """Create an object."""
        response = await self._client.request("POST", path, json.dumps(body).encode())
        assert response.ok, f"POST {path}: {response.code} {response.message}"
        made: Json = json.loads(response.body)
        return made

    async def put(self, path: str, body: Json) -> None:
        """Replace an object, or its status."""
        response = await self._client.request("PUT", path, json.dumps(body).encode())
        assert response.ok, f"PUT {path}: {response.code} {response.message}"

    async def helm(self, *words: str) -> str:
        """Run helm as the administrator; return what it prints."""
        process = await asyncio.create_subprocess_exec(
            str(HELM),
            *words,
            "--namespace",
            NAMESPACE,
            env=os.environ | {"KUBECONFIG": str(self._kubeconfig), "HOME": str(self._folder)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        assert 0 == process.returncode, err.decode()
        return out.decode()

    async def chart(self, verb: str, *values: str, dry: bool = False) -> str:
        """Install or upgrade the release."""
        sets = [word for value in values for word in ("--set", value)]
        more = ["--create-namespace"] if verb == "install" else []
        more += ["--dry-run=server"] if dry else []
        return await self.helm(verb, RELEASE, str(ROOT / "charts" / "trellis"), *more, *sets)

    async def until(self, path: str, holds: Any) -> Json:
        """Ask for an object or a list until it is as wanted."""
        async with asyncio.timeout(LIMIT_S):
            while True:
                found = await self.get(path)
                if holds(found):
                    return found

    async def bound(self, *names: str) -> None:
        """Wait until pods have a node."""
        for name in names:
            await self.until(f"{PODS}/{name}", lambda found: found["spec"].get("nodeName"))

    @asynccontextmanager
    async def daemon(self) -> AsyncIterator[None]:
        """Run the daemon as the Deployment says; nothing that it asks may be forbidden."""
        root = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{RELEASE}"
        spec = (await self.get(root))["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        (volume,) = (one for one in spec["volumes"] if one["name"] == "config")
        maps = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{volume['configMap']['name']}"
        mounted = self._folder / "config.yaml"
        mounted.write_text((await self.get(maps))["data"]["config.yaml"])
        accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
        token = await self.post(f"{accounts}/{spec['serviceAccountName']}/token", {"spec": {}})
        config = yaml.safe_load(self._kubeconfig.read_text())
        config["users"][0]["user"] = {"token": token["status"]["token"]}
        kubeconfig = self._folder / "of-the-account"
        kubeconfig.write_text(yaml.safe_dump(config))
        words = [word.replace("/etc/trellis", str(self._folder)) for word in container["args"]]
        (port,) = free_ports(1)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "scheduler.cli.main",
            *words,
            *("--bind-address", "127.0.0.1", "--secure-port", str(port)),
            env=os.environ
            | {"KUBECONFIG": str(kubeconfig), "POD_NAMESPACE": NAMESPACE, "POD_NAME": "trellis-0"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        told = asyncio.create_task(process.communicate())
        try:
            async with asyncio.timeout(LIMIT_S):
                while not await answers(f"https://127.0.0.1:{port}/readyz"):
                    assert process.returncode is None, (await told)[0].decode()
            yield
        finally:
            if process.returncode is None:
                process.terminate()
            out, _ = await asyncio.wait_for(told, LIMIT_S)
        refused = [line for line in out.decode().splitlines() if "orbidden" in line]
        assert [] == refused


@pytest.fixture(params=["sandbox", "real"])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Server]:
    """Give a server of six nodes."""
    opened = real if request.param == "real" else sandbox
    async with opened(tmp_path) as kubeconfig:
        client = await ApiClient.connect(str(kubeconfig), clock=RealClock(), meters=Meters())
        found = Server(kubeconfig, client, tmp_path)
        for number in range(6):
            zone = f"z{number % 2 + 1}"
            labels = {
                "topology.kubernetes.io/zone": zone,
                "topology.kubernetes.io/region": "us-west-1",
            }
            raw = node(f"node-{number}", cpu="8", memory="32Gi", labels=labels)
            raw["status"]["capacity"] = raw["status"]["allocatable"]
            await found.post("/api/v1/nodes", raw)
        yield found
        await client.close()


def waiting(name: str, **fields: Any) -> Json:
    """Return a pod of ours."""
    raw = pod(name, requests={"cpu": "500m", "memory": "64Mi"}, **fields)
    raw["spec"]["schedulerName"] = "trellis"
    del raw["spec"]["nodeName"], raw["status"]
    return raw


async def plain(server: Server) -> None:
    """Pods that want nothing special."""
    for number in range(3):
        await server.post(PODS, waiting(f"plain-{number}"))
    await server.bound("plain-0", "plain-1", "plain-2")


async def network(server: Server) -> None:
    """The documentation's shop: its pods are placed, and both operators write what they see."""
    objects = [
        one
        for file in ("topology.yaml", "shop.yaml")
        for one in yaml.safe_load_all((EXAMPLES / "network" / file).read_text())
    ]
    paths = {
        "Namespace": "/api/v1/namespaces",
        "NetworkTopology": "/apis/networktopology.diktyo.x-k8s.io/v1alpha1/namespaces/default/networktopologies",
        "AppGroup": "/apis/appgroup.diktyo.x-k8s.io/v1alpha1/namespaces/shop/appgroups",
    }
    for one in objects:
        if one["kind"] in paths:
            await server.post(paths[one["kind"]], one)
    names = []
    for one in objects:
        if one["kind"] == "Deployment":
            name, template = one["metadata"]["name"], one["spec"]["template"]
            meta = {"name": name, "labels": template["metadata"]["labels"]}
            await server.post(
                "/api/v1/namespaces/shop/pods",
                {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]},
            )
            names.append(name)
    for name in names:
        path = f"/api/v1/namespaces/shop/pods/{name}"
        await server.until(path, lambda found: found["spec"].get("nodeName"))
    await server.until(f"{paths['NetworkTopology']}/nt-default", lambda found: found.get("status"))
    await server.until(f"{paths['AppGroup']}/shop", lambda found: found.get("status"))


async def sakkara(server: Server) -> None:
    """The design's group of eight, written back into its ConfigMap."""
    maps = "/api/v1/namespaces/default/configmaps"
    (tree,) = yaml.safe_load_all((EXAMPLES / "groups" / "topology.yaml").read_text())
    group, job = yaml.safe_load_all((EXAMPLES / "groups" / "job.yaml").read_text())
    await server.post(maps, tree)
    await server.post(maps, group)
    template = job["spec"]["template"]
    for number in range(8):
        meta = {"name": f"member-{number}", "labels": template["metadata"]["labels"]}
        await server.post(
            PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}
        )
    await server.until(f"{maps}/group-a", lambda found: found["data"].get("status") == "Bound")


async def numa(server: Server) -> None:
    """Only one node reports a zone that holds the pod."""
    path = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
    for number in range(6):
        amount = "6" if number == 4 else "1"
        amounts = [
            {"name": "cpu", "capacity": "8", "allocatable": amount, "available": amount},
            {"name": "memory", "capacity": "32Gi", "allocatable": "8Gi", "available": "8Gi"},
        ]
        body = {
            "apiVersion": "topology.node.k8s.io/v1alpha2",
            "kind": "NodeResourceTopology",
            "metadata": {"name": f"node-{number}"},
            "topologyPolicies": ["SingleNUMANodePodLevel"],
            "zones": [{"name": "node-0", "type": "Node", "resources": amounts}],
        }
        await server.post(path, body)
    guaranteed = waiting("aligned")
    amounts_wanted = {"cpu": "2", "memory": "1Gi"}
    guaranteed["spec"]["containers"][0]["resources"] = {
        "requests": amounts_wanted,
        "limits": amounts_wanted,
    }
    await server.post(PODS, guaranteed)
    await server.until(f"{PODS}/aligned", lambda found: found["spec"].get("nodeName") == "node-4")


async def load(server: Server) -> None:
    """The operator makes an object per node; the only node that is not hot takes the pod."""
    path = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
    await server.until(path, lambda found: 6 == len(found["items"]))
    for number in range(6):
        used = {"cpu": "1" if number == 3 else "7", "memory": "1Gi"}
        found = await server.get(f"{path}/node-{number}")
        found["status"] = {
            "updateTime": rfc3339(RealClock().now()),
            "nodeMetric": {"nodeUsage": {"resources": used}},
        }
        await server.put(f"{path}/node-{number}/status", found)
    await server.post(PODS, waiting("cool"))
    await server.until(f"{PODS}/cool", lambda found: found["spec"].get("nodeName") == "node-3")


async def left_behind(server: Server) -> list[str]:
    """Return what the release's label is on, whatever its kind, as `resource name`."""
    found = []
    groups = [one["preferredVersion"] for one in (await server.get("/apis"))["groups"]]
    roots = ["/api/v1", *(f"/apis/{one['groupVersion']}" for one in groups)]
    for root in roots:
        for resource in (await server.get(root))["resources"]:
            if "list" in resource["verbs"] and "/" not in resource["name"]:
                selector = f"?labelSelector=app.kubernetes.io%2Finstance%3D{RELEASE}"
                items = (await server.get(f"{root}/{resource['name']}{selector}"))["items"]
                found += [f"{resource['name']} {one['metadata']['name']}" for one in items]
    return found


async def test_a_release_through_all_profiles(server: Server):
    """Install, upgrade from profile to profile, roll back, uninstall: only definitions stay."""
    await server.chart("install", "profile=plain")
    async with server.daemon():
        await plain(server)
    for profile in (network, sakkara, numa):
        await server.chart("upgrade", f"profile={profile.__name__}")
        async with server.daemon():
            await profile(server)
    await server.chart("upgrade", "profile=load", "agents.load.enabled=true")
    async with server.daemon():
        await load(server)
    await server.chart("upgrade", "profile=all")
    async with server.daemon():
        await server.post(PODS, waiting("last"))
        await server.bound("last")

    await server.helm("rollback", RELEASE, "1")
    async with server.daemon():
        await server.post(PODS, waiting("again"))
        await server.bound("again")

    await server.helm("uninstall", RELEASE)
    assert [] == await left_behind(server)
    definitions = await server.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
    assert 6 == len(definitions["items"])


async def test_every_combination_is_taken_by_the_server(server: Server):
    """What the chart renders passes the server's own validation."""
    for values in (
        ["serviceMonitor.enabled=false"],
        ["profile=all", "agents.load.enabled=true", "networkPolicy.enabled=true"],
        ["agents.netperf.enabled=true", "agents.netperf.keySecret.name=key"],
        ["agents.bandwidth.enabled=true", "grafanaDashboard.enabled=true", "replicaCount=1"],
    ):
        out = await server.chart("install", *values, dry=True)
        assert "STATUS: pending-install" in out
