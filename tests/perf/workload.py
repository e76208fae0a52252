"""Workloads: YAML files in the manner of kube-scheduler's own performance suite.

A workload is a list of operations that the contest carries out in order. Manifests are built here
as the bytes that are sent, so that nothing is computed while a scheduler is measured. Unknown fields
are errors. What each operation means stands in its struct.
"""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

FOLDER = Path(__file__).parent / "workloads"

Manifest = dict[str, Any]

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
    """Create pods in a namespace of their own; only those with `collectMetrics` are measured.

    `skipWaitToCompletion` keeps barriers from waiting for them: they are not meant to fit.
    """

    count: int
    patch: dict[str, Any] = {}
    collect_metrics: bool = False
    skip_wait_to_completion: bool = False

    def manifests(self, scheduler_name: str) -> Iterator[Manifest]:
        """Yield the pods, named pod-00000 and on."""
        for number in range(self.count):
            pod = laid_over(POD, self.patch)
            pod["metadata"]["name"] = f"pod-{number:05d}"
            pod["spec"]["schedulerName"] = scheduler_name
            yield pod


class Churn(Operation, frozen=True, tag="churn"):
    """From now to the end make a node, a pod and a service every interval, in the background.

    Mode recreate deletes them in the next interval, mode create leaves up to `number` of each. The
    pod asks for more than any node has.
    """

    mode: Literal["create", "recreate"] = "recreate"
    number: int = 1
    interval_milliseconds: int = 1000
    patch: dict[str, Any] = {}


class StartScheduler(Operation, frozen=True, tag="startScheduler"):
    """Start the scheduler. Before the measured pods: they stream in. After: it finds a backlog."""


class Barrier(Operation, frozen=True, tag="barrier"):
    """Wait until every pod so far is bound."""


class Workload(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One file of the folder; `about` says what it is for."""

    about: str
    ops: list[CreateNodes | CreatePods | Churn | StartScheduler | Barrier]
    name: str = ""

    @property
    def nodes(self) -> int:
        """How many nodes it has."""
        return sum(op.count for op in self.ops if isinstance(op, CreateNodes))

    @property
    def measured_pods(self) -> int:
        """How many pods are measured."""
        return sum(op.count for op in self.ops if isinstance(op, CreatePods) and op.collect_metrics)

    @property
    def is_backlog(self) -> bool:
        """Whether the measured pods are all there before the scheduler starts."""
        for op in self.ops:
            if isinstance(op, StartScheduler):
                return False
            if isinstance(op, CreatePods) and op.collect_metrics:
                return True
        return False


def load(name: str) -> Workload:
    """Return a workload by its file's name without `.yaml`; raise FileNotFoundError or a problem."""
    file = FOLDER / f"{name}.yaml"
    workload = msgspec.convert(yaml.safe_load(file.read_text()), Workload)
    return msgspec.structs.replace(workload, name=name)


def names() -> list[str]:
    """Return the names of all workloads."""
    return sorted(file.stem for file in FOLDER.glob("*.yaml"))


def encoded(manifests: Iterator[Manifest]) -> list[bytes]:
    """Return manifests as the bytes that are sent."""
    return [json.dumps(manifest).encode() for manifest in manifests]


def laid_over(base: Manifest, patch: Manifest) -> Manifest:
    """Return `base` with `patch` merged in: objects key by key, everything else replaced."""
    merged = copy.deepcopy(base)
    _merge(merged, patch)
    return merged


def _merge(target: Manifest, patch: Manifest) -> None:
    for key, value in patch.items():
        if isinstance(value, dict) and isinstance(target.get(key), dict):
            _merge(target[key], value)
        else:
            target[key] = copy.deepcopy(value)
