"""Seeded lifecycles of a tree of groups: the events of `grouplifecycles`, on CompositePodGroups and
their groups.

Controllers create, delete and edit the objects of the tree in any order; members are lost, created
and replaced; groups of lower and of higher priority appear and end beside it; the process dies at
any write. The invariants are in `treeinvariants`.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import msgspec

from scheduler.objects.groups.podgroup import (
    BasicPolicy,
    CompositeGangPolicy,
    CompositeGroupSpec,
    CompositePodGroup,
    CompositePolicy,
    GangPolicy,
    PodGroup,
    PodGroupSpec,
    SchedulingConstraints,
    SchedulingPolicy,
    TopologyConstraint,
    WorkloadGroup,
    WorkloadGroupSpec,
    WorkloadReference,
)
from scheduler.objects.meta import AnnotatedMeta
from tests.faults.grouplifecycles import (
    WIRE,
    come_to_rest,
    create,
    die,
    foreign_eviction,
    kubelets,
    lose_node,
    nothing_is_forgotten,
    put_node,
    scale,
    single,
    uid_of,
)
from tests.faults.treeinvariants import COMPOSITE, LEAVES, PARENT, TREE, Plan, TreeLifecycles
from tests.property.moves import Move, Pick

# All groups of a tree are made from one Workload; a group made from another puts its tree on hold.
WORKLOAD, OTHER = "w", "other"


def describe(
    rig: TreeLifecycles, name: str, least: int, workload: str = WORKLOAD, *, is_basic: bool = False
) -> None:
    """Write the object of a group of the tree.

    Of an existing one only a gang's minCount may change.
    """
    known = rig.on_server(name)
    spec = _spec(rig, name, least, workload, is_basic=is_basic)
    if known is None:
        kind = CompositePodGroup if rig.kind_of[name] == COMPOSITE else WorkloadGroup
        about = AnnotatedMeta(name=name, namespace="default", uid=uid_of(rig, None))
        made: Any = kind(about, spec)
    elif name in LEAVES and known.spec.scheduling_policy.gang is not None:
        policy = SchedulingPolicy(gang=GangPolicy(least))
        made = msgspec.structs.replace(
            known, spec=msgspec.structs.replace(known.spec, scheduling_policy=policy)
        )
    else:
        return
    rig.api.put(rig.kind_of[name], made)


def _spec(rig: TreeLifecycles, name: str, least: int, workload: str, *, is_basic: bool) -> Any:
    plan = rig.plan
    key, mode = plan.keys[name], "all" if plan.whole[name] else "single"
    places = SchedulingConstraints((TopologyConstraint(key),) if key else ())
    more: dict[str, Any] = {
        "scheduling_constraints": places,
        "disruption_mode": {mode: {}},
        "priority": plan.rank,
        "parent_composite_pod_group_name": PARENT.get(name, ""),
        "workload_ref": WorkloadReference(workload, "t"),
    }
    basic = BasicPolicy() if is_basic else None
    if name in LEAVES:
        gang = None if is_basic else GangPolicy(least)
        return WorkloadGroupSpec(SchedulingPolicy(basic, gang), **more)
    groups = None if is_basic else CompositeGangPolicy(least)
    return CompositeGroupSpec(scheduling_policy=CompositePolicy(basic, groups), **more)


def write(rig: TreeLifecycles, pick: Pick) -> None:
    """Write, edit or delete an object of the tree, or of a group beside it."""
    name = (*TREE, "gb", "ge")[pick(len(TREE) + 2)]
    if pick(8) == 0:
        rig.api.remove(rig.kind_of[name], f"default/{name}")
        return
    if name in TREE:
        # A basic group must not be in a gang: only the root may be one.
        least = 1 + pick(3)
        workload = WORKLOAD if pick(12) else OTHER
        describe(rig, name, least, workload, is_basic=name == TREE[0] and pick(5) == 0)
    else:
        least = 1 + pick(3)
        known = rig.api.objects[rig.kind_of[name]].get(f"default/{name}")
        about = AnnotatedMeta(name=name, namespace="default", uid=uid_of(rig, known))
        made = PodGroup(about, PodGroupSpec(least))
        if known is not None:
            made = msgspec.structs.replace(made, status=known.status)
        rig.api.put(rig.kind_of[name], made)
    if name in rig.groups:
        rig.replicas[name] = least + pick(2)
    rig.note()


def lose_member(rig: TreeLifecycles, pick: Pick) -> None:
    """A member of the tree is lost."""
    pods = [pod for name in LEAVES for pod in rig.members(name)]
    if pods:
        rig.api.remove("Pod", pods[pick(len(pods))].key)


CLUSTER: tuple[tuple[Any, int], ...] = (
    (create, 20), (write, 5), (scale, 1), (single, 2), (foreign_eviction, 2), (lose_member, 2),
    (lose_node, 1), (put_node, 7), (kubelets, 4), (die, 2),
)  # fmt: skip
WEIGHTED: tuple[Move, ...] = tuple(
    move for move, weight in (*CLUSTER, *WIRE) for _ in range(weight)
)


def noisy(seed: int, differing: int) -> TreeLifecycles:
    """Return a lifecycle of 100 to 220 events that has not settled."""
    random = Random(f"tree {seed}")
    is_hot = random.random() < 0.5
    rig = TreeLifecycles(Plan.of(random), is_hot=is_hot, differing=differing)
    for _ in range(4):
        put_node(rig, random.randrange)
    for name in TREE:
        if random.random() < 0.8:
            describe(rig, name, 1 + random.randrange(2))
            rig.replicas[name] = 2 + random.randrange(2)
    for _ in range(100 + random.randrange(120)):
        WEIGHTED[random.randrange(len(WEIGHTED))](rig, random.randrange)
    return rig


def live(seed: int, differing: int = 0) -> Counter[str]:
    """Run a lifecycle to its end and check it; return its statistics."""
    rig = noisy(seed, differing)
    for name in TREE:
        known = rig.on_server(name)
        if known is not None and known.spec.workload_ref.workload_name != WORKLOAD:
            rig.api.remove(rig.kind_of[name], f"default/{name}")
        if rig.on_server(name) is None:
            describe(rig, name, 1 + seed % 2)
    for name in rig.groups:
        if f"default/{name}" not in rig.api.objects[rig.kind_of[name]]:
            about = AnnotatedMeta(name=name, namespace="default", uid=uid_of(rig, None))
            rig.api.put(rig.kind_of[name], PodGroup(about, PodGroupSpec(2)))
    come_to_rest(rig)
    assert [] == rig.faults
    if not differing:
        could = rig.could_begin()
        assert not could, f"{could} could be placed, and nothing moves"
    nothing_is_forgotten(rig)
    whole = set(rig.whole_tree())
    rig.seen.update(f"at rest {name} whole" for name in whole)
    rig.seen["at rest waiting"] += any(rig.members(name) and name not in whole for name in LEAVES)
    return rig.seen
