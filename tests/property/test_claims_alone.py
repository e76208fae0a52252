"""Device claims under all other faults: no device is allocated twice, no pod sleeps.

Clusters as in `test_objects_alone`, with pods and members of groups that use their own and shared
claims. At any moment a device belongs to one claim. At rest the claim of every bound pod is
allocated and its own, and a restarted process with the same objects has no decision to make.
"""

from collections.abc import Mapping
from random import Random

import pytest

from scheduler.objects.claims import ResourceClaim
from scheduler.objects.groups.podgroup import PodResourceClaim
from scheduler.objects.plain import read_object
from tests.property import moves
from tests.property.engines import build
from tests.property.making import make_pod, with_meta, with_spec
from tests.property.model_api import KINDS
from tests.property.model_claims import CLAIM, CLAIM_KINDS, CLASS, SLICE, control, given_twice
from tests.property.moves import NODES, Move, Pick
from tests.property.rig import Rig
from tests.property.test_objects_alone import (
    WITHOUT,
    describe,
    goes,
    membership,
    put_node,
)
from tests.unit.plugins.devices import claim, gpu_class, local_slice

CLAIMS = tuple(f"c{number}" for number in range(6))
GROUPS = ("gb", "gc")
MODELS = ("", 'device.attributes["gpu.example.com"].model == "a"')


def any_claim(rig: Rig, pick: Pick) -> None:
    """Create a claim for one or two devices."""
    _make_claim(rig, CLAIMS[pick(len(CLAIMS))], pick)


def _make_claim(rig: Rig, name: str, pick: Pick) -> None:
    if f"default/{name}" in rig.api.objects[CLAIM]:
        return
    raw = claim(name, count=1 + (pick(3) == 0), selector=MODELS[pick(4) == 0])
    raw["metadata"]["uid"] = f"{name}-{rig.api._version}"
    rig.api.put(CLAIM, read_object(raw)[1])


def any_pod(rig: Rig, pick: Pick) -> None:
    """A pod or a member of a group appears, with claims or without; or a group is described."""
    choice = pick(10)
    if choice == 0:
        describe(rig, GROUPS[pick(2)], pick, differing=False)
        return
    group = GROUPS[pick(2)] if choice < 4 else ""
    prefix, most = (group, 4) if group else ("p", 8)
    for number in range(most):
        name = f"{prefix}-{number}"
        if f"default/{name}" in rig.api.pods:
            continue
        labels, field = membership(group) if group else ({}, None)
        entries = []
        if pick(4):
            # Its own, as from a template: it exists before the pod, or is created later.
            entries.append(PodResourceClaim("own", f"of-{name}"))
            if pick(4):
                _make_claim(rig, f"of-{name}", pick)
        if pick(4) == 0:
            entries.append(PodResourceClaim("shared", CLAIMS[pick(len(CLAIMS))]))
        priority = (1 + GROUPS.index(group)) if group else pick(3)
        uid = f"{name}-{rig.api._version}"
        pod = make_pod(name, uid=uid, cpu=1, priority=priority, labels=labels)
        rig.api.put("Pod", with_spec(pod, scheduling_group=field, resource_claims=tuple(entries)))
        if not group or not pick(3):
            return


def any_devices(rig: Rig, pick: Pick) -> None:
    """Publish, change or withdraw the devices of a node; or create or delete the class."""
    node = NODES[pick(len(NODES))]
    if pick(12) == 0:
        if "gpu" in rig.api.objects[CLASS]:
            rig.api.remove(CLASS, "gpu")
        else:
            rig.api.put(CLASS, read_object(gpu_class())[1])
    elif pick(8) == 0:
        rig.api.remove(SLICE, f"slice-{node}")
    else:
        put_devices(rig, node, pick(4), pick)


def put_devices(rig: Rig, node: str, count: int, pick: Pick) -> None:
    """Publish the devices of a node, in a new generation of its pool."""
    devices = [
        {"name": f"gpu-{number}", "attributes": {"model": {"string": "ab"[pick(2)]}}}
        for number in range(count)
    ]
    raw = local_slice(node, *devices)
    raw["spec"]["pool"]["generation"] = 1 + rig.api._version
    rig.api.put(SLICE, read_object(raw)[1])


def claim_moves(rig: Rig, pick: Pick) -> None:
    """A claim appears or is deleted, devices change, or the claim controller has its turn."""
    match pick(6):
        case 0 | 1:
            any_claim(rig, pick)
        case 2:
            any_devices(rig, pick)
        case 3:
            known = sorted(rig.api.objects[CLAIM])
            if known:
                _delete(rig, known[pick(len(known))])
        case _:
            control(rig.api)


def _delete(rig: Rig, key: str) -> None:
    found: ResourceClaim = rig.api.objects[CLAIM][key]
    if not found.metadata.finalizers:
        rig.api.remove(CLAIM, key)
    elif found.metadata.deletion_timestamp is None:
        rig.api.put(CLAIM, with_meta(found, deletion_timestamp="2026-01-01T00:00:00Z"))


def any_node(rig: Rig, pick: Pick) -> None:
    """A node appears, or changes in size or schedulability."""
    put_node(rig, pick(len(NODES)), 2 + pick(3), unschedulable=pick(8) == 0)


INSTEAD: Mapping[Move, Move] = {
    moves.create_pod: any_pod,
    moves.add_node: any_node,
    moves.change_node: any_node,
    moves.delete_pod: goes,
    moves.terminate_pod: goes,
    moves.finish_pod: goes,
    moves.service: claim_moves,
    moves.change_pod: claim_moves,
    moves.foreign_pod: claim_moves,
}


def run_moves(seed: int) -> Rig:
    """Run random moves, check for devices allocated twice after each move, and settle."""
    rig = Rig(build, (*KINDS, *CLAIM_KINDS))
    random = Random(seed)
    pick = random.randrange
    rig.api.put(CLASS, read_object(gpu_class())[1])
    for number in range(3):
        put_node(rig, number, 4)
        put_devices(rig, NODES[number], 2, pick)
    for _ in range(60 + pick(60)):
        move = moves.WEIGHTED[pick(len(moves.WEIGHTED))]
        if INSTEAD.get(move) or move not in WITHOUT:
            INSTEAD.get(move, move)(rig, pick)
            assert [] == given_twice(rig.api), (seed, move)
    rig.calm()
    return rig


def nothing_left(seed: int) -> int:
    """Run random moves and check the end; return how many pods were bound with claims."""
    rig = run_moves(seed)
    assert [] == given_twice(rig.api), seed
    assert [] == rig.api.overcommitted, seed
    served = 0
    for pod in rig.api.pods.values():
        for entry in pod.spec.resource_claims if pod.spec.node_name else ():
            stored = rig.api.objects[CLAIM].get(f"default/{entry.resource_claim_name}")
            assert stored is not None, (seed, pod.key)
            assert stored.status.allocation is not None, (seed, pod.key)
            assert pod.metadata.uid in {one.uid for one in stored.status.reserved_for}, (
                seed,
                pod.key,
            )
            served += 1
    before, claims = rig.api.placed, dict(rig.api.objects[CLAIM])
    rig.restart()
    rig.calm()
    assert before == rig.api.placed, seed
    assert claims == rig.api.objects[CLAIM], seed
    return served


# Runs that found a defect: a device allocated to two claims, after another pod had freed a claim
# that was reserved for one in flight (1573, 1723); groups that waited for a member without its
# claims (1585, 1006, 3904); a group that slept although a shared claim had got its devices (3768);
# devices that stayed reserved after an attempt in which members on two nodes share a claim (4815);
# heterogeneous members for whom only two evictions were tried (8269, 8490, 12229, 13899).
FOUND = (
    1006, 1573, 1585, 1723, 1888, 2228, 3768, 3904, 4815, 8269, 8490, 12229, 13899,
)  # fmt: skip


@pytest.mark.parametrize("seed", FOUND)
def test_what_was_found_of_claims_stays_mended(seed: int):
    """A restarted process has nothing to decide about claims in runs that once broke this rule."""
    nothing_left(seed)


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_a_new_process_has_nothing_to_decide_about_claims(first: int):
    """At rest it binds no pod, evicts none and writes no claim."""
    assert sum(map(nothing_left, range(first, first + 10))) > 0


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 11000, 250))
def test_a_new_process_has_nothing_to_decide_about_many_claims(first: int):
    """The invariant holds on ten thousand seeds."""
    for seed in range(first, first + 250):
        nothing_left(seed)
