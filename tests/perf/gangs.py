"""Groups on 5,000 nodes in 50 racks: many small ones, and few large ones. Rows of tests.perf.table.

The engine runs in this process as in tests.perf.inprocess. Every question to the solver is encoded
as JSON both ways, as for the helper process, and its CPU time is counted too. All groups wait
before the first one is decided, so each is planned beside those already placed; all racks are
considered for each of them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from time import process_time
from typing import Any

import msgspec

from scheduler.engine.effects import Answer, Call, Effects, Listed, Solve, Watched
from scheduler.groups.problem.instance import DomainRule, Instance, Leaf, Level, LevelRule
from scheduler.groups.solver import questions
from scheduler.groups.solver.solve import solve
from scheduler.objects.configmap import ConfigMap
from tests.perf.inprocess import WorkloadRun

NODES, RACKS = 5000, 50
LABEL = "sakkara.topology.rack"


class GangRun(WorkloadRun):
    """A run with groups: the solver answers, and writes about groups are accepted."""

    def __init__(self, *, times_each: bool) -> None:
        super().__init__()
        for kind in ("GroupConfigMap", "TopologyConfigMap", "PodGroup"):
            self.engine.handle(Listed(kind, ()), self.now)
        self.times_each = times_each
        self.solve_s: list[float] = []
        self.solves = self.proven = 0

    def _carry_out(self, effects: Sequence[Effects]) -> None:
        others = []
        for effect in effects:
            if isinstance(effect, Solve):
                self.engine.handle(self._solved(effect), self.now)
            elif isinstance(effect, Call):
                self.engine.handle(Answer(effect.id, 200, body={}), self.now)
            else:
                others.append(effect)
        super()._carry_out(others)

    def _solved(self, effect: Solve) -> Answer:
        started = process_time() if self.times_each else 0.0  # the call itself takes 0.4 ms
        found = questions.answer(questions.read(msgspec.json.encode(effect.instance)))
        body = msgspec.json.decode(msgspec.json.encode(found))
        if self.times_each:
            self.solve_s.append(process_time() - started)
        self.solves += 1
        self.proven += found.placed.optimal
        return Answer(effect.id, 200, body=body)


def many_small(_folder: Path) -> dict[str, Any]:
    """750 gangs of 4, each in one rack if one has capacity."""
    workload_run, figures = measured(GangRun(times_each=False), 750, 4, cpu="2")
    return {**figures, "gangsPerCpuSecond": 750 / figures["cpuSeconds"]} | _solver(workload_run)


def few_large(_folder: Path) -> dict[str, Any]:
    """3 gangs of 1,000 with a preference for few racks and full nodes."""
    workload_run, figures = measured(GangRun(times_each=True), 3, 1000, cpu="1")
    return {**figures, "worstSolveSeconds": max(workload_run.solve_s)} | _solver(workload_run)


def partitions(_folder: Path) -> dict[str, Any]:
    """1,024 pods in four equal parts, over racks of 1,000 nodes with up to 64 slots each."""
    levels = (Level("zone"), Level("rack", LevelRule("spread", partitions=4)), Level("node"))
    return _asked(Instance(levels, _leaves(1000, 64), 1024))


def zones(_folder: Path) -> dict[str, Any]:
    """64 pods under a hard spread over five zones of 1,000 nodes with up to 8 slots each."""
    sets = tuple(tuple(at for at in range(1000) if at // 200 == zone) for zone in range(5))
    rule = DomainRule("spread by zone", sets, max_skew=1, existing=(0,) * 5, only=True)
    levels = (Level("zone"), Level("rack"), Level("node"))
    return _asked(Instance(levels, _leaves(1000, 8), 64, domains=(rule,)))


def _asked(instance: Instance) -> dict[str, Any]:
    """Solve once to load modules, then again; AssertionError unless proven."""
    solve(instance)
    started = process_time()
    answer = solve(instance)
    seconds = process_time() - started
    if not answer.optimal:
        raise AssertionError(f"not proven: {answer.stages}")
    return {"cpuSeconds": seconds, "stages": [stage.value for stage in answer.stages]}


def _leaves(nodes: int, slots: int) -> tuple[Leaf, ...]:
    rng = Random(nodes + slots)
    return tuple(
        Leaf((f"z{at * 5 // nodes}", f"r{at // 40:03}", f"n{at:05}"), rng.randint(0, slots))
        for at in range(nodes)
    )


def _solver(workload_run: GangRun) -> dict[str, Any]:
    if workload_run.proven < workload_run.solves:
        raise AssertionError(f"{workload_run.proven} of {workload_run.solves} answers are proven")
    return {"solves": workload_run.solves}


def measured(
    workload_run: GangRun, gangs: int, size: int, cpu: str, nodes: int = NODES
) -> tuple[GangRun, dict[str, Any]]:
    """Place gangs of pods with this many CPUs on nodes of 8; return the figures as well."""
    for at in range(nodes):
        workload_run.add(workload_run.decoded(_node(at)))
    for at in range(0, nodes, 3):  # a third of the nodes is in use, unevenly
        busy = _pod(f"busy-{at}", str(1 + at % 7), "")
        busy["spec"]["nodeName"] = f"node-{at:05}"
        workload_run.create([workload_run.decoded(busy)], awaited=False)
    for at in range(gangs):
        made = msgspec.convert(_group(f"g{at}", size), ConfigMap)
        workload_run.engine.handle(Watched("GroupConfigMap", "ADDED", made), workload_run.now)
    members = [
        workload_run.decoded(_pod(f"g{at}-{n}", cpu, f"g{at}"))
        for at in range(gangs)
        for n in range(size)
    ]
    figures = workload_run.measure(members)
    return workload_run, {**figures, "cpuSeconds": len(members) / figures["boundPerCpuSecond"]}


def _node(at: int) -> dict[str, Any]:
    name = f"node-{at:05}"
    labels = {"kubernetes.io/hostname": name, LABEL: f"rack-{at * RACKS // NODES:02}"}
    capacity = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": capacity, "capacity": capacity},
    }


def _group(name: str, size: int) -> dict[str, Any]:
    rules = {"rack": {"type": "pack"}, "node": {"type": "pack"}}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "labels": {"sakkara.group": ""}},
        "data": {"name": name, "size": str(size), "constraints": json.dumps(rules)},
    }


def _pod(name: str, cpu: str, group: str) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"sakkara.group.name": group} if group else {},
        },
        "spec": {"schedulerName": "trellis", "containers": [container]},
    }
