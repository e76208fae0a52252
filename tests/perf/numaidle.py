"""The cost of NodeResourceTopologyMatch for a cluster that does not need it: CPU time for one pod
of the engine.

Run as `python -m tests.perf.numaidle`; prints one JSON document. Two engines that differ in the
plugin alone run side by side and get the same pods, batch by batch, either first in turn, so that a
slow moment of the machine affects both. Both must place every pod on the same node.
"""

import sys
from collections.abc import Mapping
from statistics import median
from typing import Any

import msgspec

from scheduler.config import load
from scheduler.framework.profile import ProfileSpec
from scheduler.intree import registry
from tests.perf.inprocess import SCHEDULER, WorkloadRun
from tests.perf.machine import machine
from tests.perf.workload import POD, CreateNodes, CreatePods, Manifest

NAME = "NodeResourceTopologyMatch"
NODES, BATCH, PAIRS, ZONES = 5000, 500, 16, 2
GOALS = {"ratio": 1.03}

RESERVING = {"cacheResyncPeriodSeconds": 5}
REQUESTS = {"cpu": "100m", "memory": "500Mi"}
GUARANTEED = {"requests": REQUESTS, "limits": REQUESTS}
BURSTABLE = {"requests": REQUESTS}


class Case(msgspec.Struct, frozen=True):
    """A cluster with or without reports, and the requests of its pods."""

    resources: Mapping[str, Any]
    args: Mapping[str, Any] = {}
    has_reports: bool = True


CASES = {
    "noReports": Case(GUARANTEED, has_reports=False),
    "noReportsReserving": Case(GUARANTEED, RESERVING, has_reports=False),
    "bestEffort": Case({}),
    "bestEffortReserving": Case({}, RESERVING),
    "burstable": Case(BURSTABLE),
    "burstableReserving": Case(BURSTABLE, RESERVING),
}


def profiles(args: Mapping[str, Any] | None) -> tuple[ProfileSpec, ...]:
    """Return the default profile; with the plugin if there are arguments for it."""
    profile: dict[str, Any] = {"schedulerName": SCHEDULER}
    if args is not None:
        profile["plugins"] = {"multiPoint": {"enabled": [{"name": NAME}]}}
        profile["pluginConfig"] = [{"name": NAME, "args": args}]
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    return load(msgspec.json.encode(document).decode(), file=NAME, registry=registry()).profiles


def report(node: str) -> Manifest:
    """Return the report of a node with half of all amounts in either zone."""
    amounts = {"cpu": "2", "memory": "16Gi"}
    resources = [
        {"name": name, "capacity": most, "allocatable": most, "available": most}
        for name, most in amounts.items()
    ]
    settings = {"topologyManagerPolicy": "single-numa-node", "topologyManagerScope": "pod"}
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": node},
        "attributes": [{"name": name, "value": value} for name, value in settings.items()],
        "zones": [
            {"name": f"node-{zone}", "type": "Node", "resources": resources}
            for zone in range(ZONES)
        ],
    }


class Side(WorkloadRun):
    """One of the two engines, with its nodes and their reports."""

    def __init__(self, case: Case, *, has_plugin: bool, nodes: int) -> None:
        super().__init__(profiles(case.args if has_plugin else None))
        container = {**POD["spec"]["containers"][0], "resources": case.resources}
        self._patch = {"spec": {"containers": [container]}}
        self.costs_us: list[float] = []
        for manifest in CreateNodes(count=nodes).manifests():
            self.add(self.decoded(manifest))
            if case.has_reports:
                self.add(self.decoded(report(manifest["metadata"]["name"])))

    def batch(self, number: int, size: int) -> None:
        """Place a batch of pods, and record the cost of one."""
        pods = self.pods_of(CreatePods(count=size, patch=self._patch), f"b{number}")
        self.costs_us.append(self.measure(pods)["cpuMicrosecondsPerPod"])

    def placed(self) -> dict[str, str]:
        """Return the node of every pod."""
        return {pod.key: pod.spec.node_name for pod in self.pods.values()}


def compare(
    case: Case, *, nodes: int = NODES, size: int = BATCH, pairs: int = PAIRS
) -> dict[str, float]:
    """Return the cost of a pod without the plugin and with it.

    AssertionError if decisions differ.
    """
    without, having = (Side(case, has_plugin=one, nodes=nodes) for one in (False, True))
    for number in range(pairs + 1):  # the first pair meets cold caches
        for side in (without, having)[:: 1 if number % 2 else -1]:
            side.batch(number, size)
    if without.placed() != having.placed():
        raise AssertionError("the plugin changes where pods go")
    one, other = without.costs_us[1:], having.costs_us[1:]
    return {
        "withoutUs": median(one),
        "withUs": median(other),
        "withoutLeastUs": min(one),
        "withLeastUs": min(other),
        "ratio": median(b / a for a, b in zip(one, other, strict=True)),
        "ratioOfLeast": min(other) / min(one),
    }


def measure(names: tuple[str, ...] = tuple(CASES)) -> dict[str, Any]:
    """Return the figures of these cases."""
    found = {name: compare(CASES[name]) for name in names}
    return {
        "schema": "trellis-numaidle/1",
        "machine": machine(),
        "nodes": NODES,
        "podsPerSide": BATCH * PAIRS,
        "figures": {
            name: {key: round(value, 4) for key, value in each.items()}
            for name, each in found.items()
        },
        "goals": GOALS,
    }


if __name__ == "__main__":
    chosen = tuple(sys.argv[1:]) or tuple(CASES)
    print(msgspec.json.format(msgspec.json.encode(measure(chosen)), indent=2).decode())
