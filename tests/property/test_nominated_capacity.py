"""Nominated capacity, and an elastic group of higher priority whose surplus would fit there as
well.

Random small clusters: pods have evicted others, which terminate just when a more important group
arrives, with homogeneous or heterogeneous members, with classes, or as a group of groups. Its
members beyond the minimum could not have freed that capacity: if the minimum fits without it, every
nominated pod gets its capacity.
"""

import itertools
from random import Random
from typing import Any, NamedTuple

import msgspec
import pytest

from scheduler.objects.groups.podgroup import CompositePodGroup, SchedulingGroup, WorkloadGroup
from tests.property.batches import batches
from tests.property.engines import build
from tests.property.making import make_node, make_pod, with_spec
from tests.property.model_api import KINDS
from tests.property.rig import Rig
from tests.unit.plugins.compositeobjects import composite, leaf

BATCH = 25
LEAF, ROOT = "PodGroup.v1alpha3", "CompositePodGroup"
HOST = "kubernetes.io/hostname"
MADE = ("like", "unlike", "classes", "tree")
CLASSES = '{"head": {"min": 1}, "work": {"min": 1}}'


class Nominations(NamedTuple):
    """A case: the nodes' capacity, the nominations on each, and the arriving group."""

    cpus: list[int]
    reserved: list[tuple[int, int]]  # node and CPUs
    groups: list[tuple[int, list[int]]]  # of each: its minimum, and its members' requests
    needed: int  # how many of the groups are needed
    is_classed: bool = (
        False  # whether it needs one of the members with even numbers, and one of the others
    )

    @property
    def unreserved(self) -> list[int]:
        """Return the nodes' capacity without nominated amounts."""
        free = list(self.cpus)
        for node, cpu in self.reserved:
            free[node] -= cpu
        return free

    @property
    def is_telling(self) -> bool:
        """Return whether a pod is nominated, and the group has surplus members.

        A group without surplus may take capacity nominated for a less important pod, as it may
        evict that one.
        """
        more = len(self.groups) > 1 or any(len(cpus) > least for least, cpus in self.groups)
        return bool(self.reserved) and more

    def fits(self, free: list[int]) -> bool:
        """Return whether the minimum fits, by trying all placements: the smallest members of each
        group suffice.
        """
        if self.is_classed:
            ((_, cpus),) = self.groups
            return _packs([min(cpus[::2]), min(cpus[1::2])], free)
        return any(
            _packs([cpu for least, cpus in some for cpu in sorted(cpus)[:least]], free)
            for some in itertools.combinations(self.groups, self.needed)
        )


def _packs(wanted: list[int], free: list[int]) -> bool:
    if not wanted:
        return True
    cpu, *others = wanted
    for node, cpus_free in enumerate(free):
        if cpu <= cpus_free:
            free[node] -= cpu
            found = _packs(others, free)
            free[node] += cpu
            if found:
                return True
    return False


def nominations(made: str, rng: Random) -> Nominations:
    """Return a case with free capacity beside the nominated one."""
    cpus = [rng.randint(2, 4) for _ in range(rng.randint(2, 3))]
    reserved = [(node, rng.randint(1, cpu)) for node, cpu in enumerate(cpus) if rng.random() < 0.7]
    largest = 1 if made == "like" else 2
    groups = []
    for _ in range(rng.randint(2, 3) if made == "tree" else 1):
        members = [rng.randint(1, largest) for _ in range(rng.randint(2, 4))]
        groups.append((rng.randint(1, len(members)), members))
    if made == "classes":
        groups = [(2, members) for _, members in groups]
    return Nominations(cpus, reserved, groups, rng.randint(1, len(groups)), made == "classes")


def run_case(made: str, cluster: Nominations) -> Rig:
    """Terminate the victims just when the group arrives; return the result."""
    rig = Rig(build, (*KINDS, LEAF, ROOT))
    for node, cpu in enumerate(cluster.cpus):
        rig.api.put("Node", make_node(f"n{node}", cpu=cpu, labels={HOST: f"n{node}"}))
        rig.api.put("Pod", make_pod(f"old-{node}", uid=f"old-{node}", cpu=cpu, node=f"n{node}"))
        rig.api.terminate(f"default/old-{node}")
    for node, cpu in cluster.reserved:
        mine = make_pod(f"p-{node}", uid=f"p-{node}", cpu=cpu, priority=5, nominated=f"n{node}")
        rig.api.put("Pod", with_spec(mine, node_selector={HOST: f"n{node}"}))
    turns(rig)  # they are tried, and wait a moment before the retry
    for node in range(len(cluster.cpus)):
        rig.api.remove("Pod", f"default/old-{node}")
    for kind, obj in objects(made, cluster):
        rig.api.put(kind, obj)
    turns(rig)
    rig.calm()
    return rig


def turns(rig: Rig) -> None:
    """Run one attempt of a pod or group at a time, and deliver all events at once: small groups are
    solved immediately.
    """
    for _ in range(8):
        for kind in rig.kinds:
            rig.watch(kind)
        rig.run(1)
        while rig.wire:
            rig.perform(0)
        while rig.answers:
            rig.deliver(0)


def objects(made: str, cluster: Nominations) -> list[tuple[str, Any]]:
    """Return the group's objects and pods."""
    found: list[tuple[str, Any]] = []
    parent = "app" if made == "tree" else ""
    if parent:
        root = composite(parent, cluster.needed, priority=9)
        found.append((ROOT, msgspec.convert(root, CompositePodGroup)))
    for at, (least, cpus) in enumerate(cluster.groups):
        name = f"g{at}"
        notes = {"sakkara.group/classes": CLASSES} if made == "classes" else {}
        group = leaf(name, least, parent, priority=9, annotations=notes)
        found.append((LEAF, msgspec.convert(group, WorkloadGroup)))
        for number, cpu in enumerate(cpus):
            of = {"sakkara.group.class": ("head", "work")[number % 2]} if made == "classes" else {}
            pod = make_pod(
                f"{name}-{number}", uid=f"{name}-{number}", cpu=cpu, priority=9, labels=of
            )
            found.append(("Pod", with_spec(pod, scheduling_group=SchedulingGroup(name))))
    return found


def whole(rig: Rig, cluster: Nominations) -> int:
    """Return how many of the groups have their minimum, and check that none is partial."""
    found = 0
    for at, (least, _) in enumerate(cluster.groups):
        mine = (pod for pod in rig.api.pods.values() if pod.metadata.name.startswith(f"g{at}-"))
        bound = sum(bool(pod.spec.node_name) for pod in mine)
        assert bound == 0 or bound >= least
        found += bound > 0
    return found


@pytest.mark.parametrize("batch", batches(25, 2_000))
@pytest.mark.parametrize("made", MADE)
def test_surplus_members_leave_reserved_capacity(made: str, batch: int):
    """Each nominated pod gets its capacity if the minimum fits beside it, and the group starts
    whenever it can.
    """
    spared = 0
    for number in range(BATCH):
        cluster = nominations(made, Random(f"promised {made} {batch}/{number}"))
        rig = run_case(made, cluster)
        assert (whole(rig, cluster) >= cluster.needed) == cluster.fits(list(cluster.cpus)), cluster
        if not cluster.is_telling or not cluster.fits(cluster.unreserved):
            continue
        pods = rig.api.pods.values()
        lost = [one.key for one in pods if one.metadata.name[0] == "p" and not one.spec.node_name]
        assert not lost, cluster
        spared += 1
    assert spared
