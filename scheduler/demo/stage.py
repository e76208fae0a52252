"""`ScenarioStage`: the embedded cluster and the daemon of a scenario, and the actions of its steps.

Steps use the API server with a kubeconfig, as a user would. `costs` compares the network costs of
the applications as they are placed with those of a simulation under other profiles.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec

from scheduler.about import VERSION
from scheduler.base.clock import RealClock
from scheduler.base.errors import ApiError, InputError
from scheduler.base.meters import Meters
from scheduler.config import Loaded, default_config, load
from scheduler.daemon import Daemon, DaemonOptions
from scheduler.daemon.records.decisions import DecisionHistory
from scheduler.demo.form import ScaleStep, TaintStep
from scheduler.demo.proof import proof
from scheduler.framework.groups import GroupReport
from scheduler.intree import registry
from scheduler.kube.api import MERGE
from scheduler.kube.connection.client import ApiClient
from scheduler.objects.groups.appgroup import GROUP_LABEL
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.sandbox.nodes.shape import read_shape
from scheduler.sandbox.sandbox import Sandbox, SandboxOptions
from scheduler.sandbox.store.store import ObjectStore
from scheduler.serve.app import Address
from scheduler.simulate.simulate import simulate
from scheduler.simulate.stage import AnswerOptions, Setup
from scheduler.snapshot.documents import items_of_objects
from scheduler.snapshot.snapshot import read_snapshot

Object = dict[str, Any]

_ROOTS = {
    "deployments": "/apis/apps/v1",
    "statefulsets": "/apis/apps/v1",
    "jobs": "/apis/batch/v1",
    "networktopologies": "/apis/networktopology.diktyo.x-k8s.io/v1alpha1",
}
_FOR_PROOFS = (
    "/api/v1/nodes",
    "/api/v1/namespaces",
    "/api/v1/pods",
    "/api/v1/configmaps",
    "/apis/scheduling.x-k8s.io/v1alpha1/podgroups",
)
_FOR_COSTS = (
    "/api/v1/nodes",
    "/api/v1/namespaces",
    "/api/v1/pods",
    "/apis/appgroup.diktyo.x-k8s.io/v1alpha1/appgroups",
    "/apis/networktopology.diktyo.x-k8s.io/v1alpha1/networktopologies",
)


class _List(msgspec.Struct, frozen=True):
    items: tuple[Any, ...] = ()


class _Pods(msgspec.Struct, frozen=True):
    items: tuple[Pod, ...] = ()


class _Nodes(msgspec.Struct, frozen=True):
    items: tuple[Node, ...] = ()


class ScenarioCosts(NamedTuple):
    """The total costs; `pods` is the number of placed pods of applications."""

    placed: int
    otherwise: int
    pods: int


def costs(objects: Sequence[Object], config: Loaded, other: Loaded) -> ScenarioCosts:
    """Compare on the same nodes with the same pods.

    InputError when the profiles of `other` would leave pods of applications pending.
    """
    placed = simulate(
        read_snapshot(items_of_objects(objects, "cluster")), Setup(config, registry())
    )
    members = [one for one in objects if _is_member(one)]
    rest = [one for one in objects if not _is_member(one)]
    snapshot = read_snapshot(
        items_of_objects(rest, "cluster"), items_of_objects(map(_unplaced, members), "members")
    )
    found = simulate(snapshot, Setup(other, registry()), AnswerOptions())
    if found.summary.scheduled != len(members):
        few = f"{found.summary.scheduled} of {len(members)} pods of applications would be placed"
        raise InputError(few, where="cost")
    return ScenarioCosts(placed.summary.network_cost, found.summary.network_cost, len(members))


def _is_member(one: Object) -> bool:
    labels = one["metadata"].get("labels") or {}
    return one["kind"] == "Pod" and GROUP_LABEL in labels and bool(one["spec"].get("nodeName"))


def _unplaced(pod: Object) -> Object:
    spec = {field: value for field, value in pod["spec"].items() if field != "nodeName"}
    return {**pod, "spec": spec, "status": {}}


class ScenarioStage:
    """The cluster of a scenario; made by `stage`."""

    def __init__(
        self,
        sandbox: Sandbox,
        client: ApiClient,
        folder: Path,
        config: Loaded,
        history_log: DecisionHistory,
    ) -> None:
        self.history_log = history_log
        self._sandbox = sandbox
        self._client = client
        self._folder = folder
        self._config = config

    @property
    def kubeconfig(self) -> Path:
        """Return the kubeconfig with which kubectl reaches this cluster."""
        return self._sandbox.kubeconfig_path

    @property
    def store(self) -> ObjectStore:
        """Return the objects of the API server."""
        return self._sandbox.store

    async def pods(self) -> tuple[Pod, ...]:
        """Return all pods."""
        return msgspec.json.decode(await self._send("GET", "/api/v1/pods"), type=_Pods).items

    async def nodes(self) -> tuple[Node, ...]:
        """Return all nodes."""
        return msgspec.json.decode(await self._send("GET", "/api/v1/nodes"), type=_Nodes).items

    async def apply(self, name: str) -> list[str]:
        """Apply a manifest file; return the actions, a line each."""
        return await self._sandbox.apply(str(self._folder / name))

    async def delete(self, what: str) -> None:
        """Delete `plural/namespace/name` (`pods/shop/giant`) of a core kind or one in `_ROOTS`."""
        plural, namespace, name = what.split("/")
        root = _ROOTS.get(plural, "/api/v1")
        await self._send("DELETE", f"{root}/namespaces/{namespace}/{plural}/{name}")

    async def drain(self, node: str) -> int:
        """Cordon a node and evict its pods; return their number."""
        await self._patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
        leaving = [pod for pod in await self.pods() if pod.spec.node_name == node]
        for pod in leaving:
            meta = pod.metadata
            body = {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": meta.name, "namespace": meta.namespace},
            }
            path = f"/api/v1/namespaces/{meta.namespace}/pods/{meta.name}/eviction"
            await self._send("POST", path, body)
        return len(leaving)

    async def uncordon(self, node: str) -> None:
        """Make a drained node schedulable again."""
        await self._patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": None}})

    async def taint(self, taint: TaintStep) -> int:
        """Add a taint to the nodes with certain labels; return their number."""
        chosen = [node for node in await self.nodes() if carries(node.metadata.labels, taint.nodes)]
        for node in chosen:
            kept = [
                {"key": one.key, "value": one.value, "effect": one.effect}
                for one in node.spec.taints
                if (one.key, one.effect) != (taint.key, taint.effect)
            ]
            taints = [*kept, {"key": taint.key, "value": taint.value, "effect": taint.effect}]
            await self._patch(f"/api/v1/nodes/{node.metadata.name}", {"spec": {"taints": taints}})
        return len(chosen)

    async def scale(self, scale: ScaleStep) -> None:
        """Set the replicas of a Deployment."""
        path = f"/apis/apps/v1/namespaces/{scale.namespace}/deployments/{scale.name}"
        await self._patch(path, {"spec": {"replicas": scale.replicas}})

    async def costs(self, against: str) -> ScenarioCosts:
        """Return the network cost of applications, now and under the configuration `against`."""
        objects = await self._objects(_FOR_COSTS)
        other = await asyncio.to_thread(_configured, self._folder / against)
        return await asyncio.to_thread(costs, objects, self._config, other)

    async def proof(self, group: str) -> GroupReport:
        """Return the solver's result for a bound group, planned again."""
        objects = await self._objects(_FOR_PROOFS)
        return await asyncio.to_thread(proof, objects, self._config, f"default/{group}")

    async def _objects(self, paths: Collection[str]) -> list[dict[str, Any]]:
        objects: list[dict[str, Any]] = []
        for path in paths:
            body = msgspec.json.decode(await self._send("GET", path))
            kind, api_version = body["kind"].removesuffix("List"), body["apiVersion"]
            objects += [{"kind": kind, "apiVersion": api_version, **one} for one in body["items"]]
        return objects

    async def notes(self, uids: Collection[str]) -> list[str]:
        """Return the messages of the events on some objects."""
        body = await self._send("GET", "/apis/events.k8s.io/v1/events")
        found = [one for one in _items(body) if one["regarding"].get("uid") in uids]
        return [one.get("note", "") for one in found]

    async def _patch(self, path: str, body: Mapping[str, Any]) -> None:
        await self._send("PATCH", path, body, MERGE)

    async def _send(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> bytes:
        raw = b"" if body is None else msgspec.json.encode(body)
        response = await self._client.request(method, path, raw, content_type=content_type)
        if not response.ok:
            raise ApiError(
                f"{method} {path}: {response.message}", code=response.code, reason=response.reason
            )
        return response.body


def carries(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Return whether `labels` include all `wanted` ones."""
    return all(labels.get(key) == value for key, value in wanted.items())


def _items(body: bytes) -> tuple[Any, ...]:
    return msgspec.json.decode(body, type=_List).items


def _configured(config: Path | None) -> Loaded:
    if config is None:
        return default_config(registry())
    return load(config.read_text(encoding="utf-8"), file=str(config), registry=registry())


@asynccontextmanager
async def stage(
    shape: Path, folder: Path, config: Path | None = None
) -> AsyncIterator[ScenarioStage]:
    """Start the cluster of `shape` with the daemon; files are relative to `folder`."""
    clock, meters = RealClock(), Meters()
    loaded = await asyncio.to_thread(_configured, config)
    async with Sandbox(SandboxOptions(shape=await asyncio.to_thread(read_shape, shape))) as sandbox:
        path = str(sandbox.kubeconfig_path)
        client = await ApiClient.connect(path, clock=clock, meters=meters)
        daemon = Daemon(
            loaded,
            registry(),
            await ApiClient.connect(path, clock=clock, meters=meters, user_agent="trellis"),
            clock=clock,
            random=Random(0),  # noqa: S311 - a demo is the same each time
            meters=meters,
            options=DaemonOptions(VERSION, address=Address(port=0)),
        )
        running = asyncio.create_task(daemon.run(), name="daemon")
        try:
            yield ScenarioStage(sandbox, client, folder, loaded, daemon.history_log)
        finally:
            daemon.stop()
            await running
            await client.close()
