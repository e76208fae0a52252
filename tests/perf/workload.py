"""Workloads: YAML files like those of kube-scheduler's own performance suite.

A workload is a list of operations that the contest carries out in order. Manifests are built here
as the bytes to send, so that no work is done while a scheduler is measured. Unknown fields are
errors. The struct of each operation documents it.
"""

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

FOLDER = Path(__file__).parent / "workloads"

Manifest = dict[str, Any]

_TEMPLATE = re.compile(
    r"\{\{(?:add (?P<added>\d+) \()?(?:mod )?\.Index(?: (?P<divisor>\d+))?\)?\}\}"
)

DRIVER = "gpu.example.com"
NODE: Manifest = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"labels": {}},
    "spec": {},
    "status": {
        "capacity": {"cpu": "4", "memory": "32Gi", "pods": "110"},
        "allocatable": {"cpu": "4", "memory": "32Gi", "pods": "110"},
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
POD: Manifest = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"labels": {}},
    "spec": {
        "containers": [
            {
                "name": "pause",
                "image": "registry.k8s.io/pause:3.10",
                "ports": [{"containerPort": 80}],
                "resources": {
                    "requests": {"cpu": "100m", "memory": "500Mi"},
                    "limits": {"cpu": "100m", "memory": "500Mi"},
                },
            }
        ]
    },
}


class Operation(
    msgspec.Struct, frozen=True, rename="camel", tag_field="opcode", forbid_unknown_fields=True
):
    """Base of all operations."""


class CreateNodes(Operation, frozen=True, tag="createNodes"):
    """Create nodes; `labels` hands values out in turn; `patch` is laid over the standard node."""

    count: int
    labels: dict[str, list[str]] = {}
    patch: dict[str, Any] = {}

    def manifests(self) -> Iterator[Manifest]:
        """Yield the nodes, named node-00000 and on."""
        for number in range(self.count):
            name = f"node-{number:05d}"
            node = laid_over(NODE, self.patch)
            node["metadata"]["name"] = name
            labels = node["metadata"]["labels"]
            labels["kubernetes.io/hostname"] = name
            labels |= {key: values[number % len(values)] for key, values in self.labels.items()}
            yield node


class CreatePods(Operation, frozen=True, tag="createPods"):
    """Create pods; only those with `collectMetrics` are measured.

    `namespace` empty means one of their own. Texts of `namespace` and `patch` may contain
    templates: `{{.Index}}` is the pod's number, `{{mod .Index 3}}` and `{{add 5 (mod .Index 3)}}`
    follow from it. `skipWaitToCompletion` keeps barriers from waiting for them: they are not meant
    to fit. With `gangOf` that many in a row are a gang, by Kubernetes' own PodGroup; with
    `gangTopologyKey` all of a gang must be on nodes with one value of that label. `claimTemplates`
    are specs of claims by name; the claims that pods request from them in their `resourceClaims`
    are created, as by the claim controller, before the operation ends.
    """

    count: int
    claim_templates: dict[str, dict[str, Any]] = {}
    patch: dict[str, Any] = {}
    namespace: str = ""
    collect_metrics: bool = False
    skip_wait_to_completion: bool = False
    gang_of: int = 0
    gang_topology_key: str = ""

    def groups(self) -> Iterator[Manifest]:
        """Yield the PodGroups, named gang-00000 and on."""
        for number in range(self.count // self.gang_of if self.gang_of else 0):
            gang = {"minCount": self.gang_of}
            spec: Manifest = {"schedulingPolicy": {"gang": gang}, "disruptionMode": "PodGroup"}
            if self.gang_topology_key:
                spec["schedulingConstraints"] = {"topology": [{"key": self.gang_topology_key}]}
            yield {"metadata": {"name": f"gang-{number:05d}"}, "spec": spec}

    def manifests(self, scheduler_name: str) -> Iterator[Manifest]:
        """Yield the pods, named pod-00000 and on."""
        has_template = "{{" in json.dumps(self.patch)
        whole = laid_over(POD, self.patch)
        for number in range(self.count):
            pod = filled(whole, number) if has_template else copy.deepcopy(whole)
            pod["metadata"]["name"] = f"pod-{number:05d}"
            pod["spec"]["schedulerName"] = scheduler_name
            if self.gang_of:
                group = f"gang-{number // self.gang_of:05d}"
                pod["spec"]["schedulingGroup"] = {"podGroupName": group}
            if self.namespace:
                pod["metadata"]["namespace"] = filled(self.namespace, number)
            yield pod


class CreateNamespaces(Operation, frozen=True, tag="createNamespaces"):
    """Create namespaces `<prefix>-0` and on, with these labels."""

    prefix: str
    count: int = 1
    labels: dict[str, str] = {}

    def manifests(self) -> Iterator[Manifest]:
        """Yield the namespaces."""
        for number in range(self.count):
            name = f"{self.prefix}-{number}"
            labels = {"kubernetes.io/metadata.name": name, **self.labels}
            yield {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": name, "labels": labels},
            }


class CreateDevices(Operation, frozen=True, tag="createDevices"):
    """Publish the devices of the first `count` nodes, and a class `gpu` of all of them.

    Each node has `perNode` devices of one of `models`, which nodes have in turn.
    """

    count: int
    models: list[str]
    per_node: int = 8

    def manifests(self) -> Iterator[Manifest]:
        """Yield the class, then a pool for each node."""
        selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
        meta = {"name": "gpu"}
        yield {"kind": "DeviceClass", "metadata": meta, "spec": {"selectors": [selector]}}
        for number in range(self.count):
            name = f"node-{number:05d}"
            model = {"string": self.models[number % len(self.models)]}
            devices = [
                {"name": f"gpu-{at}", "attributes": {"model": model, "index": {"int": at}}}
                for at in range(self.per_node)
            ]
            pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
            spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
            yield {"kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


class Churn(Operation, frozen=True, tag="churn"):
    """From now to the end, create a node, a pod and a service every interval, in the background.

    Mode recreate deletes them in the next interval, mode create leaves up to `number` of each. The
    pod requests more than any node has. `kinds` states which of the three are created.
    """

    mode: Literal["create", "recreate"] = "recreate"
    number: int = 1
    interval_milliseconds: int = 1000
    patch: dict[str, Any] = {}
    kinds: tuple[str, ...] = ("Node", "Pod", "Service")

    def manifests(self, scheduler_name: str) -> Iterator[Manifest]:
        """Yield the objects of one interval, without names; churn must not change the rest.

        The node has no capacity, and the pod fits nowhere.
        """
        full = {"status": {"allocatable": {"cpu": "0"}, "capacity": {"cpu": "0"}}}
        huge = laid_over(POD, {"spec": {"schedulerName": scheduler_name}})
        huge["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "9"}}
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {},
            "spec": {"selector": {"app": "churn"}, "ports": [{"port": 8080}]},
        }
        for manifest in (laid_over(NODE, full), laid_over(huge, self.patch), service):
            if manifest["kind"] in self.kinds:
                yield manifest


class StartScheduler(Operation, frozen=True, tag="startScheduler"):
    """Start the scheduler. Before the measured pods: they stream in. After: it finds a backlog."""


class Barrier(Operation, frozen=True, tag="barrier"):
    """Wait until every pod so far is bound."""


class Workload(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One file of the folder; `about` states its purpose."""

    about: str
    ops: list[
        CreateNodes
        | CreateDevices
        | CreateNamespaces
        | CreatePods
        | Churn
        | StartScheduler
        | Barrier
    ]
    name: str = ""

    @property
    def nodes(self) -> int:
        """Return its number of nodes."""
        return sum(op.count for op in self.ops if isinstance(op, CreateNodes))

    @property
    def measured_pods(self) -> int:
        """Return the number of measured pods."""
        return sum(op.count for op in self.ops if isinstance(op, CreatePods) and op.collect_metrics)

    @property
    def has_gangs(self) -> bool:
        """Return whether some of its pods are gangs."""
        return any(op.gang_of for op in self.ops if isinstance(op, CreatePods))

    @property
    def is_backlog(self) -> bool:
        """Return whether the measured pods all exist before the scheduler starts."""
        for op in self.ops:
            if isinstance(op, StartScheduler):
                return False
            if isinstance(op, CreatePods) and op.collect_metrics:
                return True
        return False


def load(name: str) -> Workload:
    """Return a workload by its file's name without `.yaml`.

    Raise FileNotFoundError or a problem.
    """
    file = FOLDER / f"{name}.yaml"
    workload = msgspec.convert(yaml.safe_load(file.read_text()), Workload)
    return msgspec.structs.replace(workload, name=name)


def names() -> list[str]:
    """Return the names of all workloads that run on a real API server."""
    return sorted(file.stem for file in FOLDER.glob("*.yaml"))


def encoded(manifests: Iterator[Manifest]) -> list[bytes]:
    """Return manifests as the bytes that are sent."""
    return [json.dumps(manifest).encode() for manifest in manifests]


def laid_over(base: Manifest, patch: Manifest) -> Manifest:
    """Return `base` with `patch` merged in: objects key by key, everything else replaced."""
    merged = copy.deepcopy(base)
    _merge(merged, patch)
    return merged


def filled(template: Any, number: int) -> Any:
    """Return a template filled for the pod `number`."""
    if isinstance(template, str):
        return _TEMPLATE.sub(lambda found: str(_value(found, number)), template)
    if isinstance(template, dict):
        return {filled(key, number): filled(value, number) for key, value in template.items()}
    if isinstance(template, list):
        return [filled(value, number) for value in template]
    return template


def _value(found: re.Match[str], number: int) -> int:
    added, divisor = found["added"], found["divisor"]
    return int(added or 0) + (number % int(divisor) if divisor else number)


def _merge(target: Manifest, patch: Manifest) -> None:
    for key, value in patch.items():
        if isinstance(value, dict) and isinstance(target.get(key), dict):
            _merge(target[key], value)
        else:
            target[key] = copy.deepcopy(value)
