"""The openb benchmark through the real engine: filters, score, devices and ties as in the daemon.

Devices are published in resource slices and can be shared; pods request them by claims. Traces
without shares use extended resources. A pod that fits nowhere is deleted, as the experiment rejects
it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from scheduler.base.meters import Meters
from scheduler.config import load
from scheduler.engine.attempt.cycle import Ties
from scheduler.engine.effects import Watched
from scheduler.engine.engine import Engine
from scheduler.engine.settings import engine_settings
from scheduler.intree import registry
from scheduler.objects.plain import read_node, read_object, read_pod
from scheduler.simulate.cluster.cluster import SimulatedCluster
from tests.perf.openb.data import WHOLE, Ints, Order, TraceNode, TracePod
from tests.perf.openb.replay import Run, empty_run

DRIVER, CLASS, RESOURCE = "gpu.example.com", "gpu", "nvidia.com/gpu"
MODEL = "nvidia.com/gpu.product"
NAMESPACE = "openb"
_API = "resource.k8s.io/v1"
_PODS = 1001


def run_engine(
    nodes: Sequence[TraceNode],
    pods: Sequence[TracePod],
    order: Order,
    *,
    learns: bool = False,
    ties: Ties = Ties.NAME,
) -> Run:
    """Run all arrivals of one seed; with `learns` the scheduler gets no information about the
    mix.
    """
    shares = any(0 < pod.milli < WHOLE for pod in pods)
    cluster = Cluster(nodes, order, _configuration(() if learns else pods), ties, shares=shares)
    run = empty_run(sum(node.devices for node in nodes) * WHOLE, len(order.pods))
    asked = used = 0
    for index, number in enumerate(order.pods.tolist()):
        pod = pods[number]
        asked += pod.asked
        is_counted = asked <= run.capacity
        run.arrived[pod.size] += is_counted
        if cluster.place(index, pod):
            used += pod.asked
            run.pods += 1
        else:
            run.refused[pod.size] += is_counted
            if run.first_refusal is None:
                run.first_refusal = asked * 100 / run.capacity
        run.asked[index], run.used[index] = asked, used
    return run


class Cluster:
    """An engine with the nodes of the trace, and its simulated surroundings."""

    def __init__(
        self,
        nodes: Sequence[TraceNode],
        order: Order,
        configuration: str,
        ties: Ties,
        *,
        shares: bool,
    ) -> None:
        plugins = registry()
        loaded = load(configuration, file="openb", registry=plugins)
        settings = msgspec.structs.replace(engine_settings(loaded, seed=0), ties=ties)
        self._engine = Engine(loaded.profiles, plugins, settings=settings, meters=Meters())
        self._cluster = SimulatedCluster(self._engine, ())
        self._shares = shares
        self._now = 1_700_000_000.0
        self._see_object({"apiVersion": _API, "kind": "DeviceClass", **_named(CLASS), "spec": {}})
        for node, rank in zip(nodes, order.ranks.tolist(), strict=True):
            self._add_node(node, f"node-{rank:05d}")

    def place(self, index: int, pod: TracePod) -> bool:
        """Create a pod; return whether it was bound. An unbound one is deleted."""
        self._now += 1
        name = f"pod-{index:05d}"
        claim = _claim(name, pod) if pod.devices and self._shares else None
        if claim is not None:
            self._see_object(claim)
        made = read_pod(_pod(name, pod, with_claim=claim is not None))
        self._cluster.put(made, self._now)
        self._turn()
        found = self._cluster.pod(made.metadata.uid)
        if found is not None and found.spec.node_name:
            return True
        self._cluster.drop(made.metadata.uid, self._now)
        if claim is not None:
            kind, obj = read_object(claim)
            self._engine.handle(Watched(kind.kind, "DELETED", obj), self._now)
        self._turn()
        return False

    def amounts(self, resource: str) -> tuple[Ints, Ints]:
        """Return the allocatable and the requested amount of a resource by node."""
        table = self._engine.cluster.table
        return table.allocatable(resource), table.requested(resource)

    def _turn(self) -> None:
        while True:
            effects = self._engine.run(self._now, 8)
            self._cluster.carry_out(effects, self._now)
            if not effects and not self._engine.has_work():
                return

    def _see_object(self, manifest: Mapping[str, Any]) -> None:
        kind, obj = read_object(dict(manifest))
        self._engine.handle(Watched(kind.kind, "ADDED", obj), self._now)

    def _add_node(self, node: TraceNode, name: str) -> None:
        offers = {"cpu": f"{node.cpu}m", "memory": f"{node.memory}Mi", "pods": str(_PODS)}
        if not self._shares:
            offers[RESOURCE] = str(node.devices)
        manifest = {
            "apiVersion": "v1",
            "kind": "Node",
            **_named(name, labels={MODEL: node.model, "kubernetes.io/hostname": name}),
            "status": {"allocatable": offers, "capacity": offers},
        }
        self._engine.handle(Watched("Node", "ADDED", read_node(manifest)), self._now)
        if self._shares and node.devices:
            self._see_object(_slice(name, node.devices))


def _configuration(pods: Sequence[TracePod]) -> str:
    """Return a configuration whose only score is FragmentationAware, with the trace's mix."""
    counts = Counter(msgspec.structs.replace(pod, memory=0) for pod in pods if pod.devices)
    frequent = counts.most_common(256)
    shapes = [
        {
            "weight": float(count),
            "cpu": f"{pod.cpu}m",
            "devices": pod.devices,
            "milli": pod.milli,
            "models": sorted(pod.models),
        }
        for pod, count in frequent
    ]
    args = {"shapes": shapes, "shapesWeight": 1_000_000}
    return configuration({"FragmentationAware": args})


def configuration(
    scores: Mapping[str, Mapping[str, Any]], weights: Mapping[str, int] = MappingProxyType({})
) -> str:
    """Return a configuration with these score plugins and arguments alone, without preemption.

    `weights` are by plugin; a plugin without one has its default.
    """
    alone = {"disabled": [{"name": "*"}], "enabled": [{"name": name} for name in scores]}
    weighed = [
        {"name": name, **({"weight": weights[name]} if name in weights else {})} for name in scores
    ]
    profile = {
        "schedulerName": "trellis",
        "plugins": {
            "multiPoint": {"disabled": [{"name": "DefaultPreemption"}]},
            "score": {**alone, "enabled": weighed},
            "preScore": alone,
        },
        "pluginConfig": [{"name": name, "args": args} for name, args in scores.items() if args],
    }
    whole = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    return msgspec.json.encode(whole).decode()


def _slice(node: str, devices: int) -> dict[str, Any]:
    listed = [
        {
            "name": f"gpu-{number}",
            "allowMultipleAllocations": True,
            "capacity": {"milli": {"value": str(WHOLE)}},
        }
        for number in range(devices)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": listed}
    return {"apiVersion": _API, "kind": "ResourceSlice", **_named(f"slice-{node}"), "spec": spec}


def _claim(name: str, pod: TracePod) -> dict[str, Any]:
    exactly = {
        "deviceClassName": CLASS,
        "count": pod.devices,
        "capacity": {"requests": {"milli": str(pod.milli)}},
    }
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    return {
        "apiVersion": _API,
        "kind": "ResourceClaim",
        **_named(name, namespace=NAMESPACE, uid=f"claim-{name}", resourceVersion="1"),
        "spec": spec,
    }


def _pod(name: str, pod: TracePod, *, with_claim: bool) -> dict[str, Any]:
    requests = {"cpu": f"{pod.cpu}m", "memory": f"{pod.memory}Mi"}
    if pod.devices and not with_claim:
        requests[RESOURCE] = str(pod.devices)
    spec: dict[str, Any] = {
        "schedulerName": "trellis",
        "containers": [{"name": "main", "image": "main", "resources": {"requests": requests}}],
    }
    if with_claim:
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
    if pod.models:
        expression = {"key": MODEL, "operator": "In", "values": sorted(pod.models)}
        terms = [{"matchExpressions": [expression]}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        spec["affinity"] = {"nodeAffinity": required}
    meta = _named(name, namespace=NAMESPACE, uid=f"uid-{name}", resourceVersion="1")
    return {"apiVersion": "v1", "kind": "Pod", **meta, "spec": spec}


def _named(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **more}}
