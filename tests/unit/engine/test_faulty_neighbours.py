"""An invalid object fails no attempt at pods and groups beside it.

Each fault exists beside a plain pod, a preemptor, a pod with rules between pods, gangs with and
without evictions, a claim and a volume, all of which are placed.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from scheduler.engine.effects import Answer, Evict, Leading, Solve, Watched
from scheduler.engine.engine import Engine
from scheduler.engine.settings import EngineSettings
from scheduler.groups.solver.questions import answer
from scheduler.objects.kinds import BY_KIND
from tests.property.engines import PROFILES, REGISTRY

Plain = dict[str, Any]
GANG, GROUP = "scheduling.x-k8s.io/pod-group", "sakkara.group"
HOST = "kubernetes.io/hostname"


def meta(name: str, **more: Any) -> Plain:
    """Return the metadata of an object in the namespace `default`."""
    return {"name": name, "uid": f"u-{name}", "namespace": "default", **more}


def node(name: str, cpu: str = "8", **labels: str) -> Plain:
    """Return a node."""
    own = {HOST: name, "topology.kubernetes.io/zone": "z", **labels}
    amounts = {"cpu": cpu, "memory": "16Gi", "pods": "20"}
    return {
        "metadata": {"name": name, "uid": name, "labels": own},
        "status": {"allocatable": amounts},
    }


def pod(name: str, cpu: str = "1", priority: int = 0, *, on: str = "", **spec: Any) -> Plain:
    """Return a pod; `labels` are those of its metadata."""
    labels = spec.pop("labels", {})
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    own = {"schedulerName": "trellis", "priority": priority, "nodeName": on}
    return {
        "metadata": meta(name, labels=labels),
        "spec": {**own, "containers": [container], **spec},
    }


def gang(name: str, least: int) -> Plain:
    """Return a PodGroup of the scheduler-plugins."""
    return {"metadata": meta(name), "spec": {"minMember": least}}


def config_map(name: str, **data: str) -> Plain:
    """Return a ConfigMap that describes the group `bad` or that of its own name."""
    return {"metadata": meta(name, labels={GROUP: ""}), "data": {"name": name, **data}}


def anti_affinity(**term: Any) -> Plain:
    """Return a required anti-affinity of one term."""
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def slice_of(name: str, device: Plain, pool: Plain | None = None, **where: Any) -> Plain:
    """Return a ResourceSlice of one device."""
    own = {"name": name, "generation": 1, "resourceSliceCount": 1} | (pool or {})
    spec = {"driver": "d", "pool": own, "devices": [{"name": "g", **device}], **where}
    return {"metadata": {"name": name}, "spec": spec}


CEL = [{"cel": {"expression": "(("}}]
ODD: Plain = {"matchExpressions": [{"key": "k", "operator": "Foo", "values": []}]}
ODD_NODES = {"nodeSelectorTerms": [ODD]}
CLASS = {"selectors": [{"cel": {"expression": "device.driver == 'd'"}}]}
VOLUME = {"storageClassName": "sc", "accessModes": ["ReadWriteOnce"]}
WIDE = {
    "maxSkew": 5,
    "topologyKey": HOST,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"a": "w"}},
}
Objects = list[tuple[str, Plain]]
BASE: Objects = [
    ("Node", node("n1")),
    ("Node", node("n2")),
    ("Pod", pod("low1", "7", -9, on="n1")),
    ("Pod", pod("low2", "6", -9, on="n2")),
    ("DeviceClass", {"metadata": {"name": "gpu"}, "spec": CLASS}),
    ("ResourceSlice", slice_of("s1", {}, nodeName="n1")),
    (
        "ResourceClaim",
        {
            "metadata": meta("c"),
            "spec": {
                "devices": {
                    "requests": [
                        {
                            "name": "r",
                            "exactly": {
                                "deviceClassName": "gpu",
                                "allocationMode": "ExactCount",
                                "count": 1,
                            },
                        }
                    ]
                }
            },
        },
    ),
    (
        "StorageClass",
        {
            "metadata": {"name": "sc"},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    ),
    (
        "PersistentVolume",
        {
            "metadata": {"name": "pv1"},
            "spec": {**VOLUME, "capacity": {"storage": "1Gi"}},
            "status": {"phase": "Available"},
        },
    ),
    (
        "PersistentVolumeClaim",
        {
            "metadata": meta("v"),
            "spec": {**VOLUME, "resources": {"requests": {"storage": "1Gi"}}},
            "status": {"phase": "Pending"},
        },
    ),
]
WORK: dict[str, Objects] = {
    "pod": [("Pod", pod("w"))],
    "preemptor": [("Pod", pod("w", "8", 9))],
    "rules": [("Pod", pod("w", labels={"a": "w"}, topologySpreadConstraints=[WIDE]))],
    "gang": [
        ("PodGroup", gang("w", 2)),
        *(("Pod", pod(f"w{n}", labels={GANG: "w"})) for n in "01"),
    ],
    "evicting gang": [("PodGroup", gang("w", 1)), ("Pod", pod("w", "8", 9, labels={GANG: "w"}))],
    "config map": [
        ("GroupConfigMap", config_map("w", size="2", constraints='{"node": {"type": "pack"}}')),
        *(("Pod", pod(f"w{number}", labels={"sakkara.group.name": "w"})) for number in "01"),
    ],
    "claim": [("Pod", pod("w", resourceClaims=[{"name": "d", "resourceClaimName": "c"}]))],
    "volume": [
        ("Pod", pod("w", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}]))
    ],
}
FAULTS: dict[str, Objects] = {
    "no quantity of a node": [("Node", node("bad", "abc"))],
    "negative node": [("Node", node("bad", "-5"))],
    "huge node": [("Node", node("bad", "9e99"))],
    "unknown taint": [("Node", node("bad") | {"spec": {"taints": [{"key": "", "effect": "Foo"}]}})],
    "empty labels": [("Node", node("bad", **{"": "", "topology.kubernetes.io/zone": ""}))],
    "operator of a pod": [
        ("Pod", pod("bad", "0", on="n1", affinity=anti_affinity(topologyKey="", labelSelector=ODD)))
    ],
    "namespace selector": [
        (
            "Pod",
            pod(
                "bad", "0", on="n1", affinity=anti_affinity(topologyKey=HOST, namespaceSelector=ODD)
            ),
        )
    ],
    "no quantity of a pod": [("Pod", pod("bad", "zzz", on="n1"))],
    "unknown node": [("Pod", pod("bad", "1e30", on="none"))],
    "missing volume": [
        ("Pod", pod("bad", "0", on="n1", volumes=[{"name": "x", "persistentVolumeClaim": {}}]))
    ],
    "budget": [("PodDisruptionBudget", {"metadata": meta("bad"), "spec": {"selector": ODD}})],
    "negative gang": [("PodGroup", gang("bad", -3)), ("Pod", pod("bad", labels={GANG: "bad"}))],
    "huge gang": [
        ("PodGroup", gang("bad", 10**6)),
        ("Pod", pod("bad", "0", on="n1", labels={GANG: "bad"})),
    ],
    "config map": [("GroupConfigMap", config_map("bad", size="x", constraints="{"))],
    "HyperNode": [
        (
            "HyperNode",
            {
                "metadata": {"name": "bad", "uid": "h"},
                "spec": {
                    "tier": 1,
                    "members": [
                        {"type": "Node", "selector": {"regexMatch": {"pattern": "("}}},
                    ],
                },
            },
        )
    ],
    "levels of Kueue": [
        (
            "KueueTopology.v1beta1",
            {"metadata": {"name": "bad", "uid": "k"}, "spec": {"levels": [{"nodeLabel": ""}] * 2}},
        )
    ],
    "circle": [
        (
            "CompositePodGroup",
            {
                "metadata": meta("bad"),
                "spec": {
                    "schedulingPolicy": {"gang": {"minGroupCount": 1}},
                    "parentCompositePodGroupName": "bad",
                },
            },
        )
    ],
    "incomplete pool": [
        (
            "ResourceSlice",
            slice_of("bad", {"attributes": {"a": {}}}, {"resourceSliceCount": 3}, nodeName="n2"),
        )
    ],
    "nodes of a slice": [("ResourceSlice", slice_of("bad", {}, nodeSelector=ODD_NODES))],
    "counters": [
        (
            "ResourceSlice",
            slice_of("bad", {"consumesCounters": [{"counterSet": "none"}]}, nodeName="n1"),
        )
    ],
    "class": [
        (
            "DeviceClass",
            {
                "metadata": {"name": "aaa"},
                "spec": {"selectors": CEL, "extendedResourceName": "x.io/y"},
            },
        )
    ],
    "taint rule": [
        (
            "DeviceTaintRule",
            {
                "metadata": {"name": "bad"},
                "spec": {
                    "deviceSelector": {"selectors": CEL},
                    "taint": {"key": "k", "effect": "NoSchedule"},
                },
            },
        )
    ],
    "volume": [
        (
            "PersistentVolume",
            {
                "metadata": {"name": "bad"},
                "spec": {
                    **VOLUME,
                    "capacity": {"storage": "zz"},
                    "nodeAffinity": {"required": ODD_NODES},
                },
            },
        )
    ],
    "storage capacity": [
        (
            "CSIStorageCapacity",
            {
                "metadata": meta("bad"),
                "storageClassName": "sc",
                "capacity": "zz",
                "nodeTopology": ODD,
            },
        )
    ],
    "NUMA report": [
        (
            "NodeResourceTopology",
            {
                "metadata": {"name": "n2"},
                "topologyPolicies": ["Foo"],
                "zones": [
                    {"name": "node-x", "type": "Node", "costs": [{"name": "q", "value": -1}]},
                ],
            },
        )
    ],
    "load report": [
        ("NodeMetric", {"metadata": {"name": "n2"}, "status": {"updateTime": "junk"}}),
    ],
    "application": [("AppGroup", {"metadata": meta("bad"), "spec": {"numMembers": -1}})],
    "network": [
        (
            "NetworkTopology",
            {
                "metadata": meta("bad"),
                "spec": {"weights": [{"name": "x", "topologyList": [{"topologyKey": ""}]}]},
            },
        )
    ],
    "replicas": [("ReplicaSet", {"metadata": meta("bad"), "spec": {"selector": ODD}})],
}


def find_no_place(faults: Objects, work: Objects) -> set[str]:
    """Return the pods of `work` that are neither placed nor nominated, without evictions."""
    engine = Engine(PROFILES, REGISTRY, settings=EngineSettings(solves_inline=True))
    engine.observation.on_fault = lambda _plugin, _point, _error: None
    engine.handle(Leading(active=True), 0.0)
    for kind, raw in [*BASE, *faults, *work]:
        obj = msgspec.json.decode(msgspec.json.encode(raw), type=BY_KIND[kind].struct)
        engine.handle(Watched(kind, "ADDED", obj), 1.0)
    has_evicted = False
    for _ in range(60):
        effects = engine.run(1.0, 8)
        has_evicted |= any(isinstance(effect, Evict) for effect in effects)
        for effect in effects:
            if isinstance(effect, Solve):
                engine.handle(Answer(effect.id, 200, body=answer(effect.instance)), 1.0)
        if not effects and not engine.has_work():
            break
    placed = {one.pod.metadata.name for one in engine.cluster.pods}
    wanted = {raw["metadata"]["name"] for kind, raw in work if kind == "Pod"}
    return set() if has_evicted else wanted - placed


def fails_nothing(fault: str, names: Iterable[str]) -> None:
    """Check that each kind of work is placed beside a fault, or evicts pods for it."""
    lost = {name: find_no_place(FAULTS[fault], WORK[name]) for name in names}
    assert {} == {name: pods for name, pods in lost.items() if pods}


@pytest.mark.parametrize("number", range(len(FAULTS)))
def test_a_faulty_object_fails_nothing_beside_it(number: int):
    """With each faulty object, three kinds of work succeed; the kinds take turns."""
    names = list(WORK)
    fails_nothing(list(FAULTS)[number], [names[(number + n) % len(names)] for n in (0, 3, 6)])


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_object_fails_nothing_at_all(fault: str):
    """With each faulty object, all kinds of work succeed."""
    fails_nothing(fault, WORK)


def test_the_work_needs_what_it_finds():
    """Without nodes no pod is placed: the test above could fail."""
    nodes = [("Node", node(name, "0")) for name in ("n1", "n2")]
    lost = {name: find_no_place(nodes, work) for name, work in WORK.items()}

    assert set(lost) == {name for name, pods in lost.items() if pods}
