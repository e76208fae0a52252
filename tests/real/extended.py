"""The same pods through the same extenders, by one scheduler or the other: the requests and the
results.

Three extenders on one server: `check_rules` filters, scores, reviews preemption and binds, `vendor`
manages pods that request its resource, `flaky` always fails and may be ignored. Pods are created
one after the other; their names determine their treatment.
"""

from typing import Any

import msgspec
from aiohttp import web

from tests.apiserver.patience import asked, until
from tests.apiserver.realcluster import RealCluster
from tests.e2e.extenderserver import ExtenderServer, extender_server
from tests.perf.workload import NODE, laid_over
from tests.real.api import Api
from tests.real.schedulers import Scheduler

Json = dict[str, Any]

NAMESPACE = "extended"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
NODES = tuple(f"n{number}" for number in range(6))
GPU = "vendor.example/gpu"

# Name, requests, and whether the pod is to be bound in the end.
PLAYED: tuple[tuple[str, Json, bool], ...] = (
    ("plain", {"cpu": "100m"}, True),
    ("picky", {"cpu": "100m"}, True),
    ("none", {"cpu": "100m"}, False),
    ("silent", {"cpu": "100m"}, False),
    ("broken", {"cpu": "100m"}, False),
    ("teapot", {"cpu": "100m"}, False),
    ("unbindable", {"cpu": "100m"}, False),
    ("gpu", {"cpu": "100m", GPU: "1"}, True),
    ("nogpu", {"cpu": "100m", GPU: "9"}, False),
    ("limited", {"cpu": "300m", "memory": "1Gi"}, True),
    ("huge", {"cpu": "900"}, False),
    *((f"low-{name}", {"cpu": "3"}, True) for name in NODES),
    ("vip", {"cpu": "3"}, True),
)


class Outcome(msgspec.Struct):
    """The result of a pod, and the extenders' requests about it: the first of each kind."""

    node: str = ""
    condition: Json = {}
    events: list[list[str]] = []
    asked: dict[str, Json] = {}


class ExtenderAnswers:
    """The answers of the extenders; `bind` really binds."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def __call__(self, verb: str, body: Json) -> Any:
        """Answer one request."""
        if verb == "flaky":
            return web.Response(status=500)
        if verb == "bind":
            return await self._bind(body)
        name = body["Pod"]["metadata"]["name"]
        if verb == "spare":
            return _spared(body)
        nodes = _names(body)
        if verb == "rank":
            return [{"Host": node, "Score": int(node[1:]) * 2} for node in nodes]
        return self._sifted(verb, name, nodes, body)

    def _sifted(self, verb: str, name: str, nodes: list[str], body: Json) -> Any:
        failed: dict[str, str] = {}
        final: dict[str, str] = {}
        if name == "broken":
            return {"Error": "no idea"}
        if name == "teapot":
            return web.Response(status=418)
        if verb == "vendor":
            if name == "nogpu":
                failed = dict.fromkeys(nodes, "too many devices asked for")
            else:
                failed = {node: "no device" for node in nodes if node > "n2"}
        elif name == "picky":
            failed = {node: "not picked" for node in nodes if node != "n3"}
        elif name == "none":
            failed = {node: "busy" for node in nodes if node < "n2"}
            final = {node: f"{node} never does" for node in nodes if node >= "n2"}
        elif name.startswith("low-"):
            failed = {node: "another's" for node in nodes if node != name[4:]}
        elif name not in ("silent", "vip"):
            failed = {node: "too old" for node in nodes if node == "n1"}
        kept = [node for node in nodes if node not in failed and node not in final]
        found: Json = {"FailedNodes": failed, "FailedAndUnresolvableNodes": final}
        kept = [] if name == "silent" else kept
        if body["NodeNames"] is not None:
            return {**found, "NodeNames": kept}
        items = [n for n in body["Nodes"]["items"] if n["metadata"]["name"] in kept]
        return {**found, "Nodes": {"metadata": {}, "items": items}}

    async def _bind(self, body: Json) -> Json:
        name = body["PodName"]
        if name == "unbindable":
            return {"Error": "cannot bind this one"}
        binding = {
            "metadata": {"name": name, "namespace": body["PodNamespace"], "uid": body["PodUID"]},
            "target": {"kind": "Node", "name": body["Node"]},
        }
        code, answer = await self._api.request("POST", f"{PODS}/{name}/binding", binding)
        return {} if code < 300 else {"Error": answer["message"]}


async def place_all(
    cluster: RealCluster, scheduler: Scheduler, *, by_name: bool
) -> dict[str, Outcome]:
    """Place the pods with one scheduler; return the result of each."""
    async with Api(cluster) as api, extender_server(ExtenderAnswers(api)) as server:
        await _furnish(api)
        config = _config(scheduler, server, by_name=by_name)
        with scheduler.start(cluster, config) as running:
            await running.wait_ready()
            outcomes = {}
            for name, requests, is_bound in PLAYED:
                await api.expect("POST", PODS, _pod(name, requests, scheduler.scheduler_name))
                await _settled(api, name, is_bound=is_bound)
                # At once: the next pod wakes this one, and may change its message.
                outcomes[name] = await _outcome(api, name)
            for name, outcome in outcomes.items():
                outcome.events = await _events(api, name, outcome)
    for verb, body in server.asked:
        pod = body.get("Pod", {}).get("metadata", {}).get("name") or body["PodName"]
        outcomes[pod].asked.setdefault(verb, body)
    return outcomes


async def _furnish(api: Api) -> None:
    await api.expect("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    await api.expect("POST", CLASSES, {"metadata": {"name": "vip"}, "value": 1000})
    for name in NODES:
        labels = {"kubernetes.io/hostname": name}
        offers = {"cpu": "4", "memory": "32Gi", "pods": "110"}
        node = {
            "metadata": {"name": name, "labels": labels},
            "status": {"capacity": offers, "allocatable": offers},
        }
        await api.expect("POST", "/api/v1/nodes", laid_over(NODE, node))


def _config(scheduler: Scheduler, server: ExtenderServer, *, by_name: bool) -> Json:
    shared = {"urlPrefix": server.url, "nodeCacheCapable": by_name, "httpTimeout": "5s"}
    check_rules = {"filterVerb": "sift", "prioritizeVerb": "rank", "weight": 5, "bindVerb": "bind"}
    managed = [{"name": GPU, "ignoredByScheduler": True}]
    return {
        "profiles": [{"schedulerName": scheduler.scheduler_name}],
        "extenders": [
            {**shared, "filterVerb": "flaky", "ignorable": True},
            {**shared, **check_rules, "preemptVerb": "spare"},
            {**shared, "filterVerb": "vendor", "managedResources": managed},
        ],
    }


def _pod(name: str, requests: Json, scheduler_name: str) -> Json:
    resources: Json = {"requests": requests}
    if GPU in requests:
        resources["limits"] = {GPU: requests[GPU]}
    container = {"name": "main", "image": "registry.example/app:1", "resources": resources}
    spec: Json = {"schedulerName": scheduler_name, "containers": [container]}
    if name == "vip":
        spec["priorityClassName"] = "vip"
    return {"metadata": {"name": name}, "spec": {**spec, "terminationGracePeriodSeconds": 0}}


async def _settled(api: Api, name: str, *, is_bound: bool) -> None:
    """Wait until a pod is bound, or has a condition with the reason."""

    async def holds() -> bool:
        pod = await api.expect("GET", f"{PODS}/{name}")
        if is_bound:
            return bool(pod["spec"].get("nodeName"))
        return any(c["type"] == "PodScheduled" for c in pod["status"].get("conditions", ()))

    await until(holds, f"pod {name}")


async def _outcome(api: Api, name: str) -> Outcome:
    pod = await api.expect("GET", f"{PODS}/{name}")
    conditions = pod["status"].get("conditions", ())
    condition: Json = next((c for c in conditions if c["type"] == "PodScheduled"), {})
    kept = {key: condition.get(key, "") for key in ("status", "reason", "message")}
    return Outcome(pod["spec"].get("nodeName", ""), kept)


async def _events(api: Api, name: str, outcome: Outcome) -> list[list[str]]:
    """Return the events about a pod; of failed attempts only that of its first condition.

    They are written after the changes that they report, so this waits for them.
    """
    message = outcome.condition["message"]
    wanted = {"Scheduled" if outcome.node else "FailedScheduling"}
    wanted |= {"Preempted"} if name == "low-n4" else set()

    async def reported() -> list[list[str]]:
        events, _ = await api.list(EVENTS)
        about = [e for e in events if e["regarding"]["name"] == name]
        found = {(e["type"], e["reason"], e["action"], e["note"]) for e in about}
        return sorted(list(e) for e in found if e[1] != "FailedScheduling" or e[3] == message)

    return await asked(reported, lambda found: wanted <= {e[1] for e in found}, f"events of {name}")


def _names(body: Json) -> list[str]:
    if body["NodeNames"] is not None:
        return list(body["NodeNames"])
    return [node["metadata"]["name"] for node in body["Nodes"]["items"]]


def _spared(body: Json) -> Json:
    """Keep one of the offered nodes, with all its victims."""
    meta, whole = body["NodeNameToMetaVictims"], body["NodeNameToVictims"]
    victims = meta["n4"] if meta is not None else whole["n4"]
    pods = victims["Pods"]
    uids = [pod["UID"] if meta is not None else pod["metadata"]["uid"] for pod in pods]
    found = {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 0}
    return {"NodeNameToMetaVictims": {"n4": found}}
