"""Gangs that need a rack for themselves, as JobSet and LeaderWorkerSet write it: placed exactly if
one is available.

Every pod of a Job must be near those of its Job and away from those of all others, by the labels of
their owner. Random small clusters go through `simulate` and are compared with a check of every
rack.
"""

from random import Random
from typing import Any

import pytest

from scheduler.testing import node
from tests.property.batches import batches
from tests.unit.simulate.asking import place, pod

BATCH = 20
RACK, JOB = "example.com/rack", "jobset.sigs.k8s.io/job-key"
COSCHEDULING, WORKLOAD = "scheduling.x-k8s.io/v1alpha1", "scheduling.k8s.io/v1alpha2"


def rules(job: str) -> dict[str, Any]:
    """Return the affinity of a pod of this Job."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    same = {"key": JOB, "operator": "In", "values": [job]}
    others = [{"key": JOB, "operator": "Exists"}, same | {"operator": "NotIn"}]
    return {
        kind: {
            required: [
                {
                    "topologyKey": RACK,
                    "labelSelector": {"matchExpressions": expressions},
                    "namespaceSelector": {},
                }
            ]
        }
        for kind, expressions in (("podAffinity", [same]), ("podAntiAffinity", others))
    }


def member(name: str, job: str, source: str, on: str = "", cpu: int = 1) -> dict[str, Any]:
    """Return a pod of a Job, of a group of the same name, on a node or pending."""
    spec: dict[str, Any] = {"affinity": rules(job)} | ({"nodeName": on} if on else {})
    labels = {JOB: job}
    if source == COSCHEDULING:
        labels["scheduling.x-k8s.io/pod-group"] = job
    elif source == WORKLOAD:
        spec["schedulingGroup"] = {"podGroupName": job}
    made: dict[str, Any] = pod(name, labels=labels, requests={"cpu": str(cpu)}, spec=spec)
    return made


def holds(free: list[int], large: int, small: int) -> bool:
    """Return whether this many pods of two CPUs, and of one, fit nodes with these free CPUs
    each.
    """
    return sum(cpus // 2 for cpus in free) >= large and sum(free) >= 2 * large + small


def check(seed: int, *, differing: bool = False) -> int:
    """Check one cluster; return how many gangs were placed.

    If members are `differing`, the first requests more.
    """
    rng = Random(f"exclusive {seed}")
    racks = [f"r{at}" for at in range(rng.randint(1, 3))]
    free = {(rack, at): rng.randint(1, 3) for rack in racks for at in range(rng.randint(1, 2))}
    objects = [
        node(f"{rack}-{at}", cpu=str(cpus), labels={RACK: rack})
        for (rack, at), cpus in free.items()
    ]
    taken: set[str] = set()
    for number in range(rng.randint(0, 2)):
        (rack, at), cpus = rng.choice(sorted(free.items()))
        if cpus:
            free[rack, at] -= 1
            if rng.random() < 0.6 and rack not in taken:
                taken.add(rack)
                objects.append(member(f"old-{number}", f"old-{number}", "", f"{rack}-{at}"))
            else:
                spec = {"nodeName": f"{rack}-{at}"}
                objects.append(pod(f"any-{number}", requests={"cpu": "1"}, spec=spec))
    gangs = {f"job-{at}": rng.randint(1, 4) for at in range(rng.randint(1, 2))}
    source = rng.choice((COSCHEDULING, WORKLOAD))
    pending = []
    for job, size in gangs.items():
        policy = {"schedulingPolicy": {"gang": {"minCount": size}}}
        reported: dict[str, Any] = {"minMember": size} if source == COSCHEDULING else policy
        meta = {"name": job, "namespace": "default"}
        objects.append(
            {"apiVersion": source, "kind": "PodGroup", "metadata": meta, "spec": reported}
        )
        pending += [
            member(f"{job}-{at}", job, source, cpu=1 + (differing and not at)) for at in range(size)
        ]
    where: dict[str, list[str]] = {job: [] for job in gangs}
    for one in place(*objects, given=pending).pods:
        if one.node:
            where[one.name.rpartition("-")[0]].append(one.node.partition("-")[0])
    used: set[str] = set()
    for job, nodes in where.items():
        assert len(nodes) in (0, gangs[job]), (seed, where)
        assert len({*nodes}) <= 1, (seed, where)
        assert not {*nodes} & (taken | used), (seed, where)
        used |= {*nodes}
    for rack in racks:
        if rack not in taken | used:
            here = [cpus for (there, _), cpus in free.items() if there == rack]
            for job, size in gangs.items():
                fits = holds(here, differing, size - differing)
                assert where[job] or not fits, (seed, job, where, free)
    return len(used)


@pytest.mark.parametrize("differing", [False, True])
@pytest.mark.parametrize("batch", batches(20, 1000, BATCH))
def test_each_gang_has_a_rack_of_its_own_or_waits(batch, differing):
    """The whole gang is in one rack without pods of others; it waits only if no such rack has
    capacity.
    """
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        check(seed, differing=differing)


def test_the_clusters_are_worth_judging():
    """In some of them a gang waits, in others two are placed."""
    placed = [check(seed) for seed in range(20)]
    assert {0, 1, 2} <= {*placed}
