"""Actions that use the rights outside of a profile's usual run: measurements, NodeMetrics,
agents.
"""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import yaml
from aiohttp import web

from operators.agents.load.agent import SOURCE
from operators.nodemetric.figures import SOURCE_ANNOTATION
from scheduler.base.clock import RealClock, rfc3339
from tests.apiserver.processes import free_ports
from tests.chart.test_chart import render
from tests.e2e.chartcluster import EXAMPLES, PODS, RELEASE, Json, Server
from tests.unit.plugins.compositeobjects import composite, leaf

NETWORK = "/apis/networktopology.diktyo.x-k8s.io/v1alpha1/namespaces/default/networktopologies"
SLICES = "/apis/trellis.dev/v1alpha1/namespaces/default/networktopologyslices"
MAPS = "/api/v1/namespaces/default/configmaps"
HISTORIES = "/apis/trellis.dev/v1alpha1/podmixhistories"
METRICS = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MEASURING = "metrics.k8s.io"
TOKEN_SECRET = "prometheus-token"


def with_a_provider() -> str:
    """Return the chart's configuration with a provider instead of load agents."""
    (text,) = (
        one["data"]["config.yaml"]
        for one in render("profile=all", f"fullnameOverride={RELEASE}")
        if one["kind"] == "ConfigMap" and "config.yaml" in one["data"]
    )
    kube, ours = yaml.safe_load_all(text)
    kube["leaderElection"].pop("resourceNamespace")  # the one of the pod
    (profile,) = kube["profiles"]
    for point in ("preScore", "score"):
        enabled = profile["plugins"].setdefault(point, {}).setdefault("enabled", [])
        enabled.append({"name": "FragmentationAware"})
    args = {"history": "gpu", "historyPeriodSeconds": 1}
    profile.setdefault("pluginConfig", []).append({"name": "FragmentationAware", "args": args})
    ours["metricProviders"] = [{"name": "server", "type": "KubernetesMetricsServer"}]
    wanted = {"enabled": True, "provider": "server", "reportIntervalSeconds": 1}
    ours["operators"]["nodeMetric"] = wanted
    return yaml.safe_dump_all([kube, ours])


async def measured(server: Server) -> None:
    """Measured costs between nodes are published, follow the measurement, and go with it."""
    await server.post(MAPS, _latencies(100))
    topology = {
        "apiVersion": "networktopology.diktyo.x-k8s.io/v1alpha1",
        "kind": "NetworkTopology",
        "metadata": {"name": "measured", "namespace": "default"},
        "spec": {"configmapName": "latencies"},
    }
    await server.post(NETWORK, topology)
    first = await server.until(SLICES, lambda found: found["items"])
    await server.patch(f"{MAPS}/latencies", _latencies(9000))
    # A changed object is measured at once.
    await server.patch(f"{NETWORK}/measured", {"spec": {"freqUpdate": 7}})
    await server.until(SLICES, lambda found: _origins(found) != _origins(first))
    await server.patch(f"{NETWORK}/measured", {"spec": {"configmapName": None}})
    await server.until(SLICES, lambda found: not found["items"])


async def measured_by_prometheus(server: Server) -> None:
    """The operator queries the Prometheus of a topology with the token of a Secret."""
    asked: list[str | None] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.headers.get("Authorization"))
        return web.json_response(
            {"status": "success", "data": {"resultType": "vector", "result": []}}
        )

    app = web.Application()
    app.router.add_route("*", "/api/v1/query", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        secret = {"token": base64.b64encode(b"of-the-secret").decode()}
        meta = {"name": TOKEN_SECRET, "namespace": "default"}
        await server.post("/api/v1/namespaces/default/secrets", {"metadata": meta, "data": secret})
        provider = {
            "type": "Prometheus",
            "address": f"http://127.0.0.1:{runner.addresses[0][1]}",
            "secretRef": {"name": TOKEN_SECRET},
        }
        await server.patch(f"{NETWORK}/measured", {"spec": {"metricProvider": provider}})
        await server.until("/version", lambda _: asked)
        await server.patch(f"{NETWORK}/measured", {"spec": {"metricProvider": None}})
    finally:
        await runner.cleanup()
    assert {"Bearer of-the-secret"} == set(asked)


def _origins(slices: Json) -> list[Any]:
    return [one["origins"] for one in slices["items"]]


async def packed(server: Server) -> None:
    """Pods of GPUs that have left count in the history, which is created once and then patched."""
    offered = {"nvidia.com/gpu": "8"}
    path = "/api/v1/nodes/node-0/status"
    await server.patch(path, {"status": {"capacity": offered, "allocatable": offered}})
    limits = {"cpu": "10m", "nvidia.com/gpu": "1"}
    resources = {"requests": limits, "limits": {"nvidia.com/gpu": "1"}}
    container = {"name": "c", "image": "pause:3", "resources": resources}
    spec = {"schedulerName": "trellis", "containers": [container]}

    def weight(found: Json) -> float:
        return sum(float(shape["weight"]) for one in found["items"] for shape in one["shapes"])

    # The change that binds a pod may write those that have left before, a second after the last.
    for number in range(200):
        name = f"of-one-gpu-{number}"
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        await server.post(PODS, pod)
        await server.until(f"{PODS}/{name}", lambda found: found["spec"].get("nodeName"))
        await server.delete(f"{PODS}/{name}?gracePeriodSeconds=0")
        found = await server.until(HISTORIES, lambda found: weight(found) > 0.5)
        if weight(found) > 1.5:
            return
    raise AssertionError("the history was created and never patched")


async def composite_groups(server: Server) -> None:
    """Place a composite group of two gangs of one pod, as Kubernetes 1.37 serves them.

    The status of all three reports the placement.
    """
    root = "/apis/scheduling.k8s.io/v1alpha3/namespaces/default"
    named = ("podgroups/one", "podgroups/two", "compositepodgroups/app")
    for one in (composite("app", 2), leaf("one", 1, "app"), leaf("two", 1, "app")):
        meta = {"name": one["metadata"]["name"]}
        await server.post(f"{root}/{one['kind'].lower()}s", {**one, "metadata": meta})
    container = {"name": "c", "image": "pause:3", "resources": {"requests": {"cpu": "10m"}}}
    for name in ("one", "two"):
        group = {"schedulingGroup": {"podGroupName": name}}
        spec = {"schedulerName": "trellis", "containers": [container], **group}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        await server.post(PODS, pod)

    def is_placed(found: Json) -> bool:
        reported = found.get("status", {}).get("conditions", ())
        return any(one["status"] == "True" for one in reported)

    for path in named:
        await server.until(f"{root}/{path}", is_placed)


async def kueue(server: Server) -> None:
    """Place a group in a tree that a Kueue Topology describes; Kueue is installed after the
    daemon.
    """
    folder = EXAMPLES / "workloads"
    (definition,) = yaml.safe_load_all((folder / "kueue-definition.yaml").read_text())
    topology, group, job = yaml.safe_load_all((folder / "kueue-topology.yaml").read_text())
    await server.post(DEFINITIONS, definition)
    # Every node is in the zone and the rack of its own name.
    nodes = await server.get("/api/v1/nodes")
    for node in nodes["items"]:
        name = node["metadata"]["name"]
        labels = {one["nodeLabel"]: name for one in topology["spec"]["levels"]}
        await server.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}})

    await server.until(f"{DEFINITIONS}/{definition['metadata']['name']}", _is_served)
    await server.until("/apis/kueue.x-k8s.io/v1beta1", lambda found: found["resources"])
    await server.post("/apis/kueue.x-k8s.io/v1beta1/topologies", topology)
    await server.post(MAPS, group)
    template = job["spec"]["template"]
    spec = template["spec"] | {"schedulingGates": []}
    for number in range(3):
        meta = {"name": f"together-{number}", "labels": template["metadata"]["labels"]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        await server.post(PODS, pod)
    await server.until(f"{PODS}/together-0", lambda found: found["spec"].get("nodeName"))


def _is_served(definition: Json) -> bool:
    reported = definition.get("status", {}).get("conditions") or ()
    return any(("Established", "True") == (one["type"], one["status"]) for one in reported)


async def volcano(server: Server) -> None:
    """Place a gang described by Volcano's objects; its kinds are installed after the daemon."""
    text = (EXAMPLES / "volcano" / "definitions.yaml").read_text()
    for definition in yaml.safe_load_all(text):
        await server.post(DEFINITIONS, definition)
        await server.until(f"{DEFINITIONS}/{definition['metadata']['name']}", _is_served)
    path = "/apis/scheduling.volcano.sh/v1beta1"
    await server.until(path, lambda found: found["resources"])
    meta = {"name": "of-volcano", "namespace": "default"}
    group = {"apiVersion": path.removeprefix("/apis/"), "kind": "PodGroup", "metadata": meta}
    path += "/namespaces/default/podgroups"
    above = {"type": "Node", "selector": {"regexMatch": {"pattern": "^node-"}}}
    switch = {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": "switch"},
        "spec": {"tier": 1, "members": [above]},
    }
    switches = "/apis/topology.volcano.sh/v1alpha1"
    await server.until(switches, lambda found: found["resources"])
    await server.post(f"{switches}/hypernodes", switch)
    near = {"mode": "hard", "highestTierAllowed": 1}
    await server.post(path, {**group, "spec": {"minMember": 1, "networkTopology": near}})
    container = {"name": "c", "image": "pause:3", "resources": {"requests": {"cpu": "10m"}}}
    named = {"name": "volcano-0", "annotations": {"scheduling.k8s.io/group-name": "of-volcano"}}
    spec = {"schedulerName": "trellis", "containers": [container]}
    await server.post(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": named, "spec": spec})
    await server.until(
        f"{path}/of-volcano", lambda found: found.get("status", {}).get("phase") == "Running"
    )


def _latencies(microseconds: int) -> Json:
    key = "netperf_p90_latency_microseconds.origin.node-0.destination.node-{}"
    data = {key.format(number): str(microseconds * number) for number in range(1, 6)}
    return {"metadata": {"name": "latencies", "namespace": "default"}, "data": data}


async def metrics_come_and_go(server: Server) -> None:
    """A NodeMetric is made for each node, corrected after a change, and deleted with the node."""
    path = f"{METRICS}/node-0"
    await server.until(METRICS, lambda found: "node-0" in names(found))
    wanted = (await server.get(path))["spec"]
    policy = {"metricCollectPolicy": {"reportIntervalSeconds": 7}}
    await server.patch(path, {"spec": policy})
    await server.until(path, lambda found: found["spec"] == wanted)
    kind = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric"}
    await server.post(METRICS, kind | {"metadata": {"name": "no-node"}, "spec": {}})
    await server.until(METRICS, lambda found: "no-node" not in names(found))


async def provided(server: Server) -> None:
    """Where no agent reports, a NodeMetric has the measurements of the metrics server."""
    for kind, plural, scope in (
        ("NodeMetrics", "nodes", "Cluster"),
        ("PodMetrics", "pods", "Namespaced"),
    ):
        await server.post(DEFINITIONS, _measuring(kind, plural, scope))
        path = f"{DEFINITIONS}/{plural}.{MEASURING}"
        await server.until(path, established)
    for number in range(6):
        measured_node = {
            "apiVersion": f"{MEASURING}/v1beta1",
            "kind": "NodeMetrics",
            "metadata": {"name": f"node-{number}"},
            "timestamp": rfc3339(RealClock().now()),
            "window": "20s",
            "usage": {"cpu": "500m", "memory": "1Gi"},
        }
        await server.post(f"/apis/{MEASURING}/v1beta1/nodes", measured_node)
    await server.until(
        METRICS, lambda found: [MEASURING] * 6 == [_source(one) for one in found["items"]]
    )


def _measuring(kind: str, plural: str, scope: str) -> Json:
    """Return a definition that replaces the metrics server's own API."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1beta1", "served": True, "storage": True}
    approval = {"api-approved.kubernetes.io": "unapproved, this stands in for a server"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{MEASURING}", "annotations": approval},
        "spec": {
            "group": MEASURING,
            "scope": scope,
            "names": {"kind": kind, "plural": plural},
            "versions": [version | {"schema": {"openAPIV3Schema": schema}}],
        },
    }


def established(definition: Json) -> bool:
    """Return whether a definition's objects are served."""
    conditions = definition.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


def _source(found: Json) -> str:
    return str(found["metadata"].get("annotations", {}).get(SOURCE_ANNOTATION, ""))


def names(found: Json) -> list[str]:
    """Return the names of a list's objects."""
    return [one["metadata"]["name"] for one in found["items"]]


async def load_agent(server: Server) -> None:
    """The agent of a node reports into its NodeMetric."""
    spec = await server.template("daemonsets", f"{RELEASE}-load-agent")
    group = server.folder / "cgroup"
    group.mkdir()
    (group / "cgroup.controllers").write_text("cpu memory\n")
    places = {"/host/proc": "/proc", "/host/cgroup": str(group)}
    async with server.program(spec, "--sample-seconds", "0.2", places=places, node="node-5"):
        await server.until(f"{METRICS}/node-5", lambda found: SOURCE == _source(found))


async def bandwidth_agent(server: Server) -> None:
    """The agent of a node advertises the speed of its link."""
    spec = await server.template("daemonsets", f"{RELEASE}-bandwidth-agent")
    card = server.folder / "sys" / "class" / "net" / "eth0"
    (card / "device").mkdir(parents=True)
    (card / "operstate").write_text("up\n")
    (card / "speed").write_text("1000\n")
    more = ("--sysfs", str(server.folder / "sys"), "--interface", "eth0")
    resource = "network.aware.com/bandwidth"
    async with server.program(spec, *more, places={}, node="node-5"):
        path = "/api/v1/nodes/node-5"
        await server.until(path, lambda found: resource in found["status"]["allocatable"])


@asynccontextmanager
async def netperf_agent(server: Server) -> AsyncIterator[None]:
    """Run the agent of a node, which lists its peers: there are none."""
    spec = await server.template("daemonsets", f"{RELEASE}-netperf-agent")
    (server.folder / "key").write_text("0123456789abcdef" * 2)
    port, metrics = free_ports(2)
    more = ("--port", str(port), "--metrics-port", str(metrics), "--bind-address", "127.0.0.1")
    places = {"/etc/trellis-netperf": str(server.folder)}
    async with server.program(spec, *more, places=places, node="node-5"):
        yield
