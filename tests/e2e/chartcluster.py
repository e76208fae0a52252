"""The chart by helm on a server, and its programs as their pods define: configuration, arguments,
rights.

A program gets the arguments, the file and the ServiceAccount's token that a kubelet would give it,
and nothing else. Each profile has a check that passes only when all of that is right.
"""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest
import yaml

from scheduler.base.clock import RealClock, rfc3339
from scheduler.base.meters import Meters
from scheduler.kube.api import MERGE
from scheduler.kube.connection.client import ApiClient
from scheduler.testing import node, pod
from tests.apiserver.patience import PATIENCE_S, asked, until
from tests.apiserver.processes import free_ports
from tests.e2e.livecluster import answers
from tests.e2e.podgroups import GROUP, served

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
HELM = shutil.which(
    "helm", path=os.environ.get("KUBEBUILDER_ASSETS", "") + os.pathsep + os.environ["PATH"]
)
RELEASE, NAMESPACE = "trellis", "trellis-system"
# For tests that take helm, which is built with the tools of the real cluster.
MARKS = [
    pytest.mark.real,
    pytest.mark.timeout(600),
    pytest.mark.skipif(HELM is None, reason="helm is not installed (make tools)"),
    pytest.mark.allow_blocking("servers and clients are set up on the test's loop"),
]
Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"


class Version(NamedTuple):
    """The parts of a release: its chart, its program and the environment of the program."""

    chart: Path = ROOT / "charts" / "trellis"
    program: tuple[str, ...] = (sys.executable, "-m", "scheduler.cli.main")
    environment: Mapping[str, str] = {}


HERE = Version()


class Server:
    """A client of the administrator's, and helm and daemons beside it."""

    def __init__(self, kubeconfig: Path, client: ApiClient, folder: Path) -> None:
        self._kubeconfig = kubeconfig
        self._client = client
        self._token = client.credentials.access.authorization
        self._url = ""
        self.folder = folder

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

    async def patch(self, path: str, body: Json) -> None:
        """Change an object by a merge patch."""
        response = await self._client.request(
            "PATCH", path, json.dumps(body).encode(), content_type=MERGE
        )
        assert response.ok, f"PATCH {path}: {response.code} {response.message}"

    async def delete(self, path: str) -> None:
        """Delete an object."""
        response = await self._client.request("DELETE", path)
        assert response.ok, f"DELETE {path}: {response.code} {response.message}"

    async def dry_run(self, path: str, body: Json) -> str:
        """Validate an object by a strict dry run; return the server's reason to refuse it."""
        path += "?dryRun=All&fieldManager=dry&force=true&fieldValidation=Strict"
        response = await self._client.request(
            "PATCH", path, json.dumps(body).encode(), content_type="application/apply-patch+yaml"
        )
        return "" if response.ok else response.message

    async def helm(self, *words: str) -> str:
        """Run helm as the administrator; return its output."""
        process = await asyncio.create_subprocess_exec(
            str(HELM),
            *words,
            "--namespace",
            NAMESPACE,
            env=os.environ | {"KUBECONFIG": str(self._kubeconfig), "HOME": str(self.folder)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        assert 0 == process.returncode, err.decode()
        return out.decode()

    async def chart(
        self, verb: str, *values: str, config: str = "", version: Version = HERE
    ) -> str:
        """Install or upgrade the release; `config` replaces the configuration of a profile."""
        given = ("image.registry=registry.example", *values)
        sets = [word for value in given for word in ("--set", value)]
        if config:
            (self.folder / "own.yaml").write_text(config)
            sets += ["--set-file", f"config={self.folder / 'own.yaml'}"]
        more = ["--create-namespace"] if verb == "install" else []
        return await self.helm(verb, RELEASE, str(version.chart), *more, *sets)

    async def until(self, path: str, holds: Any) -> Json:
        """Read an object or a list until it has the wanted state."""
        return await asked(lambda: self.get(path), holds, path)

    async def until_metric(self, *lines: str) -> None:
        """Wait until these lines are among the daemon's metrics: they show its state, not the
        server's.
        """

        async def metrics() -> list[str]:
            async with (
                aiohttp.ClientSession(headers={"Authorization": self._token}) as session,
                session.get(f"{self._url}/metrics", ssl=False) as answer,
            ):
                return (await answer.text()).splitlines()

        await asked(metrics, set(lines).issubset, " and ".join(lines))

    async def metrics_for(self, token: str) -> int:
        """Return the code of the daemon's response to a user who requests its metrics."""
        async with (
            aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as session,
            session.get(f"{self._url}/metrics", ssl=False) as answer,
        ):
            return answer.status

    async def bound(self, *names: str) -> None:
        """Wait until pods have a node."""
        for name in names:
            await self.until(f"{PODS}/{name}", lambda found: found["spec"].get("nodeName"))

    async def template(self, plural: str, name: str) -> Json:
        """Return the pod template of a workload of the release."""
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/{plural}/{name}"
        found: Json = (await self.get(path))["spec"]["template"]["spec"]
        return found

    async def kubeconfig_of(self, account: str) -> Path:
        """Write a kubeconfig with the token of an account of the release."""
        accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
        token = await self.post(f"{accounts}/{account}/token", {"spec": {}})
        config = yaml.safe_load(self._kubeconfig.read_text())
        config["users"][0]["user"] = {"token": token["status"]["token"]}
        kubeconfig = self.folder / account
        kubeconfig.write_text(yaml.safe_dump(config))
        return kubeconfig

    @asynccontextmanager
    async def daemon(self, version: Version = HERE) -> AsyncIterator[None]:
        """Run the daemon as the Deployment defines; none of its requests may be forbidden."""
        spec = await self.template("deployments", RELEASE)
        (volume,) = (one for one in spec["volumes"] if one["name"] == "config")
        maps = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{volume['configMap']['name']}"
        (port,) = free_ports(1)
        self._url = f"https://127.0.0.1:{port}"
        folder = self.folder / f"mounted-{port}"
        folder.mkdir()
        (folder / "config.yaml").write_text((await self.get(maps))["data"]["config.yaml"])
        more = ("--bind-address", "127.0.0.1", "--secure-port", str(port))
        places = {"/etc/trellis": str(folder)}
        async with self.program(spec, *more, places=places, version=version) as process:

            async def is_ready() -> bool:
                assert process.returncode is None
                return await answers(f"{self._url}/readyz")

            await until(is_ready, "the daemon")
            yield

    @asynccontextmanager
    async def program(
        self,
        spec: Json,
        *more: str,
        places: dict[str, str],
        node: str = "",
        version: Version = HERE,
    ) -> AsyncIterator[asyncio.subprocess.Process]:
        """Run the only container of a pod; `places` maps its mounts to local paths."""
        (container,) = spec["containers"]
        kubeconfig = await self.kubeconfig_of(spec["serviceAccountName"])
        words = list(container["args"])
        for mounted, here in places.items():
            words = [word.replace(mounted, here) for word in words]
        reported = {"POD_NAMESPACE": NAMESPACE, "POD_NAME": "trellis-0", "NODE_NAME": node}
        process = await asyncio.create_subprocess_exec(
            *(*version.program, *words, *more),
            env={**os.environ, "KUBECONFIG": str(kubeconfig), **reported, **version.environment},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        finished = asyncio.create_task(process.communicate())
        try:
            yield process
        finally:
            if process.returncode is None:
                process.terminate()
            out, _ = await asyncio.wait_for(finished, PATIENCE_S)
        assert [] == [line for line in out.decode().splitlines() if "orbidden" in line]


@asynccontextmanager
async def six_nodes(kubeconfig: Path, folder: Path) -> AsyncIterator[Server]:
    """Make nodes on a new server."""
    client = await ApiClient.connect(str(kubeconfig), clock=RealClock(), meters=Meters())
    found = Server(kubeconfig, client, folder)
    for number in range(6):
        zone = f"z{number % 2 + 1}"
        labels = {
            "topology.kubernetes.io/zone": zone,
            "topology.kubernetes.io/region": "us-west-1",
        }
        raw = node(f"node-{number}", cpu="8", memory="32Gi", labels=labels)
        raw["status"]["capacity"] = raw["status"]["allocatable"]
        await found.post("/api/v1/nodes", raw)
    try:
        yield found
    finally:
        await client.close()


def waiting(name: str, **fields: Any) -> Json:
    """Return a pod of Trellis without a node."""
    raw = pod(name, requests={"cpu": "500m", "memory": "64Mi"}, **fields)
    raw["spec"]["schedulerName"] = "trellis"
    del raw["spec"]["nodeName"], raw["status"]
    return raw


async def plain(server: Server) -> None:
    """Place pods without special requirements."""
    for number in range(3):
        await server.post(PODS, waiting(f"plain-{number}"))
    await server.bound("plain-0", "plain-1", "plain-2")


async def network(server: Server) -> None:
    """Place the pods of the documentation's shop; both operators write their statuses."""
    objects = [
        one
        for file in ("topology.yaml", "shop.yaml")
        for one in yaml.safe_load_all((EXAMPLES / "network" / file).read_text())
    ]
    paths = {
        "Namespace": "/api/v1/namespaces",
        "NetworkTopology": "/apis/networktopology.diktyo.x-k8s.io/v1alpha1"
        "/namespaces/default/networktopologies",
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
    rank = "sakkara.member.rank"
    await server.until(f"{PODS}/member-0", lambda found: rank in found["metadata"]["labels"])


async def pod_groups(server: Server) -> None:
    """A gang of one in each of the two kinds of PodGroup.

    What became of it is written into both.
    """
    api = await served(server.get)
    for group, version, spec, label, named in (
        (
            "scheduling.x-k8s.io",
            "v1alpha1",
            {"minMember": 1},
            {"scheduling.x-k8s.io/pod-group": "gang"},
            {},
        ),
        (
            GROUP,
            api.version,
            {"schedulingPolicy": {"gang": {"minCount": 1}}},
            {},
            {"schedulingGroup": {"podGroupName": "gang"}},
        ),
    ):
        path = f"/apis/{group}/{version}/namespaces/default/podgroups"
        head = {
            "apiVersion": f"{group}/{version}",
            "kind": "PodGroup",
            "metadata": {"name": "gang"},
        }
        await server.post(path, {**head, "spec": spec})
        container = {"name": "c", "image": "pause:3", "resources": {"requests": {"cpu": "10m"}}}
        meta = {"name": f"gang-{version}", "labels": label}
        pod = {"schedulerName": "trellis", "containers": [container], **named}
        await server.post(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod})
        await server.until(f"{path}/gang", lambda found: bool(found.get("status")))


async def application(server: Server) -> None:
    """An application that is placed whole; its state is written into its AppGroup."""
    path = "/apis/appgroup.diktyo.x-k8s.io/v1alpha1/namespaces/default/appgroups"
    label = "appgroup.diktyo.x-k8s.io"
    web = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "selector": "web"}
    await server.post(
        path,
        {
            "apiVersion": f"{label}/v1alpha1",
            "kind": "AppGroup",
            "metadata": {"name": "whole"},
            "spec": {"numMembers": 1, "gang": True, "workloads": [{"workload": web}]},
        },
    )
    container = {"name": "c", "image": "pause:3", "resources": {"requests": {"cpu": "10m"}}}
    meta = {"name": "whole-web", "labels": {label: "whole", f"{label}.workload": "web"}}
    pod = {"schedulerName": "trellis", "containers": [container]}
    await server.post(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod})
    await server.until(f"{path}/whole", lambda found: bool(found.get("status")))


async def numa(server: Server) -> None:
    """Only one node reports a zone that can hold the pod."""
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
    await server.until_metric('trellis_numa_nodes{state="used"} 6.0')
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
        status = {
            "updateTime": rfc3339(RealClock().now()),
            "nodeMetric": {"nodeUsage": {"resources": used}},
        }
        await server.patch(f"{path}/node-{number}/status", {"status": status})
    await server.until_metric('trellis_node_metrics{state="fresh"} 6.0')
    await server.post(PODS, waiting("cool"))
    await server.until(f"{PODS}/cool", lambda found: found["spec"].get("nodeName") == "node-3")


# What only works with a profile, in the order in which a release goes through them.
PROFILES = {step.__name__: step for step in (plain, network, sakkara, numa, load)}
