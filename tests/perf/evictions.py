"""Large evictions on 500 full nodes with 8 GPUs each. Rows of tests.perf.table.

A group of 250 members with 8 GPUs each evicts 2,000 pods with one GPU; a group of 500 evicts 500
pods of whole groups, once with 25 groups of 20 and once with 125 of 4. CPU time covers the engine
and the solver from the creation of the group to the last binding.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import msgspec

from scheduler.engine.effects import Answer, Solve, Watched
from scheduler.groups.problem.answer import SolvedVictims
from scheduler.groups.solver import questions
from scheduler.objects.configmap import ConfigMap
from tests.perf.gangs import LABEL, GangRun, _group

NODES, RACKS, GPUS = 500, 20, 8
GPU = "nvidia.com/gpu"


class EvictionRun(GangRun):
    """A run that keeps the answers of victim searches, with their CPU seconds."""

    def __init__(self) -> None:
        super().__init__(times_each=True)
        self.searches: list[tuple[float, SolvedVictims]] = []

    def _solved(self, effect: Solve) -> Answer:
        started = process_time()
        found = questions.answer(questions.read(msgspec.json.encode(effect.instance)))
        seconds = process_time() - started
        if found.victims is not None:
            self.searches.append((seconds, found.victims))
        return Answer(effect.id, 200, body=msgspec.json.decode(msgspec.json.encode(found)))


def single_pods(_folder: Path) -> dict[str, Any]:
    """A group of 250 with 8 GPUs each; every node runs 8 pods with one GPU."""

    def fill(workload_run: EvictionRun) -> None:
        for at in range(NODES):
            pods = [_pod(f"low-{at}-{n}", 1, "", 0, at) for n in range(GPUS)]
            workload_run.create([workload_run.decoded(pod) for pod in pods], awaited=False)

    return _evicting(250, 2000, fill)


def groups_of_twenty(_folder: Path) -> dict[str, Any]:
    """A group of 500 with 8 GPUs each; the nodes run 25 groups of 20."""
    return _evicting(500, 500, _gangs(20))


def groups_of_four(_folder: Path) -> dict[str, Any]:
    """A group of 500 with 8 GPUs each; the nodes run 125 groups of 4."""
    return _evicting(500, 500, _gangs(4))


def _gangs(size: int) -> Callable[[EvictionRun], None]:
    """Return the filling of all nodes by groups of this size, their members distributed in turn."""

    def fill(workload_run: EvictionRun) -> None:
        many = NODES // size
        for number in range(many):
            made = msgspec.convert(_group(f"low-{number}", size), ConfigMap)
            workload_run.engine.handle(Watched("GroupConfigMap", "ADDED", made), workload_run.now)
        for at in range(NODES):
            name = f"low-{at % many}"
            pod = _pod(f"{name}-{at // many}", GPUS, name, 0, at)
            workload_run.create([workload_run.decoded(pod)], awaited=False)

    return fill


def _evicting(size: int, evicted: int, fill: Callable[[EvictionRun], None]) -> dict[str, Any]:
    """Create a group on full nodes and run until it is bound; AssertionError unless proven best."""
    workload_run = EvictionRun()
    for at in range(NODES):
        workload_run.add(workload_run.decoded(_node(at)))
    fill(workload_run)
    high = _group("high", size)
    high["data"]["priority"] = "100"
    made = msgspec.convert(high, ConfigMap)
    workload_run.engine.handle(Watched("GroupConfigMap", "ADDED", made), workload_run.now)
    members = [
        workload_run.decoded(_pod(f"high-{n}", GPUS, "high", 100, None)) for n in range(size)
    ]
    figures = workload_run.measure(members)
    seconds = [each for each, _ in workload_run.searches]
    proven = all(found.optimal for _, found in workload_run.searches)
    if workload_run.evictions != evicted or not proven:
        stages = [found.stages for _, found in workload_run.searches]
        raise AssertionError(f"{workload_run.evictions} evicted, {evicted} are enough: {stages}")
    return {
        **figures,
        "cpuSeconds": size / figures["boundPerCpuSecond"],
        "searchSeconds": sum(seconds),
        "searches": len(seconds),
    }


def _node(at: int) -> dict[str, Any]:
    name = f"node-{at:05}"
    capacity = {"cpu": "96", "memory": "1Ti", "pods": "110", GPU: str(GPUS)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                **({LABEL: f"rack-{at * RACKS // NODES:02}"} if RACKS else {}),
            },
        },
        "status": {"allocatable": capacity, "capacity": capacity},
    }


def _pod(name: str, gpus: int, group: str, priority: int, node: int | None) -> dict[str, Any]:
    resources = {"requests": {"cpu": str(gpus), GPU: str(gpus)}, "limits": {GPU: str(gpus)}}
    place = {} if node is None else {"nodeName": f"node-{node:05}"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"sakkara.group.name": group} if group else {},
        },
        "spec": {
            "schedulerName": "trellis",
            "priority": priority,
            "containers": [{"name": "c", "image": "i", "resources": resources}],
            **place,
        },
        "status": {"phase": "Running"} if node is not None else {},
    }
