"""`simulate` names the victims that `run` evicts, in clusters with groups, for pods and gangs.

Every eviction of the running engine is subject to the invariant of eviction events, which the rig
checks.
"""

from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine.attempt.cycle import Ties
from scheduler.engine.engine import Engine
from scheduler.engine.settings import EngineSettings
from scheduler.objects.pod import Pod
from tests.property import unitcluster
from tests.property.engines import PROFILES, REGISTRY
from tests.property.making import make_pod
from tests.property.rig import START, Rig
from tests.property.unitcluster import (
    ALL,
    CONFIG_MAP_LABEL,
    SINGLE,
    SimulatedCluster,
    describe,
    objects_of,
)
from tests.unit.simulate.asking import place

VERSIONS = {
    "GroupConfigMap": ("v1", "ConfigMap"),
    "PodGroup": ("scheduling.x-k8s.io/v1alpha1", ""),
    SINGLE: ("scheduling.k8s.io/v1alpha2", "PodGroup"),
    ALL: ("scheduling.k8s.io/v1beta1", "PodGroup"),
}

Victims = dict[str, set[str]]


def waiting(random: Random, cluster: SimulatedCluster) -> tuple[list[Pod], list[tuple[str, Any]]]:
    """Return the pods to place: an ordinary one, or a gang.

    Only one of both: while a running engine waits for the solver's answer it tries other pods, and
    their order depends on milliseconds.
    """
    if random.random() < 0.6:
        return [cluster.preemptor], []
    labels = {CONFIG_MAP_LABEL: "gang"}
    size = random.randint(1, 3)
    gang = [make_pod(f"gang-{n}", priority=15, labels=labels) for n in range(size)]
    described = "GroupConfigMap", describe("GroupConfigMap", "gang", size, 15)
    return gang, [described]


def run(
    cluster: SimulatedCluster,
    pods: list[Pod],
    more: list[tuple[str, Any]],
    events: list[Any] | None = None,
) -> Victims:
    """Return an engine's victims and their preemptors, by its eviction events, until nothing
    changes.

    All its effects are put into `events`.
    """
    settings = EngineSettings(ties=Ties.NAME)
    rig = Rig(lambda: Engine(PROFILES, REGISTRY, settings=settings))
    for kind, obj in (*objects_of(cluster), *more, *(("Pod", pod) for pod in pods)):
        rig.api.put(kind, obj)
    for kind in rig.position:
        rig.watch(kind)
    rig.settle()
    assert [] == rig.faults
    if events is not None:
        events += rig.api.records
    found: Victims = {}
    for record in rig.api.records:
        if record.reason == "Preempted" and record.kind == "Pod":
            assert record.related is not None
            found.setdefault(record.related[1], set()).add(record.name)
    return found


def simulated(cluster: SimulatedCluster, pods: list[Pod], more: list[tuple[str, Any]]) -> Victims:
    """Return the victims that `simulate` names."""
    objects = [plain(*one) for one in (*objects_of(cluster), *more, *(("Pod", p) for p in pods))]
    answer = place(*objects, now=START)
    found = {one.name: {victim.name for victim in one.victims} for one in answer.pods}
    return {name: victims for name, victims in found.items() if victims}


def plain(kind: str, obj: Any) -> dict[str, Any]:
    """Return an object as in a file."""
    version, name = VERSIONS.get(kind, ("v1", kind))
    fields: dict[str, Any] = msgspec.to_builtins(obj)
    return {"apiVersion": version, "kind": name or kind} | fields


def check(seed: int) -> int:
    """Compare both for one cluster; return the number of victims."""
    random = Random(seed)
    cluster = unitcluster.cluster_of(random, budgets=False, leaving=False)
    pods, more = waiting(random, cluster)
    taken = run(cluster, pods, more)
    assert taken == simulated(cluster, pods, more), seed
    return sum(map(len, taken.values()))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_what_is_simulated_is_what_is_done(seed: int):
    """The simulation evicts the same victims for the same preemptors, including the rest of their
    groups.
    """
    check(seed)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_what_is_simulated_is_what_is_done_ten_thousand_times():
    """The invariant holds in ten thousand clusters, which combine groups of every kind."""
    assert sum(check(seed) for seed in range(10_000)) > 5_000
