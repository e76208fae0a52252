"""The objects on which `check_plugin` tests a plugin: small, and different in all fields that
plugins read.

A plugin that reads other fields (its own label, a custom resource) needs samples of its own.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from scheduler.testing.builders import node, pod

Manifest = Mapping[str, Any]

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
MAINTENANCE = "example.com/maintenance"
GPU = "example.com/gpu"


class Samples(msgspec.Struct, frozen=True):
    """Manifests to test a plugin on; `pods` are pending, `existing_pods` name a node."""

    nodes: Sequence[Manifest] = ()
    pods: Sequence[Manifest] = ()
    existing_pods: Sequence[Manifest] = ()
    namespaces: Sequence[Manifest] = ()
    objects: Sequence[Manifest] = ()

    def __add__(self, other: "Samples") -> "Samples":
        """Return both together."""
        return Samples(
            *((*getattr(self, field), *getattr(other, field)) for field in self.__struct_fields__)
        )


def usual_samples() -> Samples:
    """Return nodes and pods that differ in all fields that kube-scheduler's own plugins read."""
    return Samples(nodes=_nodes(), pods=_pods(), existing_pods=_existing_pods())


def _nodes() -> list[Manifest]:
    image = {"names": ["registry.example/app:1"], "sizeBytes": 700_000_000}
    return [
        node("plain", labels={ZONE: "a", HOSTNAME: "plain"}),
        node("roomy", cpu="64", memory="256Gi", labels={ZONE: "b", HOSTNAME: "roomy"}),
        node("busy", cpu="2", memory="4Gi", labels={ZONE: "a", HOSTNAME: "busy"}),
        node("tiny", cpu="100m", memory="64Mi", pods="1"),
        node("gpus", allocatable={GPU: 2, "ephemeral-storage": "10Gi"}, labels={ZONE: "b"}),
        node("tainted", taints=[_taint("NoSchedule")], labels={ZONE: "a"}),
        node("leaving", taints=[_taint("NoExecute")]),
        node("disliked", taints=[_taint("PreferNoSchedule")], images=[image], labels={ZONE: "b"}),
        node("cordoned", unschedulable=True, labels={ZONE: "a", HOSTNAME: "cordoned"}),
    ]


def _pods() -> list[Manifest]:
    by_name = {"key": "metadata.name", "operator": "In", "values": ["roomy"]}
    zone = {"key": ZONE, "operator": "In", "values": ["b"]}
    return [
        pod("nothing"),
        pod("small", requests={"cpu": "100m", "memory": "100Mi"}, labels={"app": "web"}),
        pod("large", requests={"cpu": "3", "memory": "8Gi"}),
        pod("huge", requests={"cpu": "500", "memory": "1Ti"}),
        pod("accelerated", requests={"cpu": "1", GPU: "1"}),
        pod("listening", host_ports=[8080]),
        pod("gated", spec={"schedulingGates": [{"name": "example.com/wait"}]}),
        pod("named", spec={"nodeName": "roomy"}),
        pod("early", spec={"nodeName": "new"}),
        pod("tolerant", spec={"tolerations": [{"operator": "Exists"}]}),
        pod("zonal", spec={"nodeSelector": {ZONE: "a"}}, labels={"app": "web"}),
        pod("pinned", spec=_affinity(required=[{"matchFields": [by_name]}])),
        pod("leaning", spec=_affinity(preferred=[{"weight": 7, "preference": _expressions(zone)}])),
    ]


def _existing_pods() -> list[Manifest]:
    return [
        pod("e0", node_name="busy", requests={"cpu": "1900m", "memory": "3Gi"}),
        pod("e1", node_name="busy", host_ports=[8080], labels={"app": "web"}),
        pod("e2", node_name="tiny", requests={"cpu": "50m"}, host_ports=[8080]),
        pod("e3", node_name="gpus", requests={"cpu": "1", GPU: "2"}),
        pod("e4", node_name="plain", labels={"app": "web"}),
    ]


def _taint(effect: str) -> dict[str, str]:
    return {"key": MAINTENANCE, "value": "soon", "effect": effect}


def _expressions(*requirements: Manifest) -> dict[str, Any]:
    return {"matchExpressions": list(requirements)}


def _affinity(
    required: Sequence[Manifest] = (), preferred: Sequence[Manifest] = ()
) -> dict[str, Any]:
    affinity: dict[str, Any] = {}
    if required:
        terms = {"nodeSelectorTerms": list(required)}
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = terms
    if preferred:
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = list(preferred)
    return {"affinity": {"nodeAffinity": affinity}}
