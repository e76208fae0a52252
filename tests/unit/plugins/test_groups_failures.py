"""Groups after failures: several nodes at once, tainted devices, nodes in a condition."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.base.release import V1_37
from tests.unit.plugins.devices import claim, gpu_class, local_slice
from tests.unit.plugins.groupobjects import group, member, tree
from tests.unit.plugins.test_kubernetes_1_37 import rule
from tests.unit.simulate.asking import place, results

RACKS = {"r0": {"a": 2, "b": 2}, "r1": {"c": 2, "d": 2}}


def not_ready(nodes: list[dict[str, Any]], *failed: str) -> list[dict[str, Any]]:
    """Return the nodes, those that failed with the taint of the node controller."""
    taint = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}
    return [
        one | {"spec": {**one.get("spec", {}), "taints": [taint]}}
        if one["metadata"]["name"] in failed
        else one
        for one in nodes
    ]


@pytest.mark.parametrize(("free", "expected"), [(2, 3), (0, 0)])
def test_members_of_several_failed_nodes_are_replaced_elsewhere(free: int, expected: int):
    """Two of four nodes fail with three of six members: the others stay, and no pod is evicted."""
    bound = [member(f"g-{n}", "g", on=on) for n, on in enumerate(("a", "a", "d"))]
    spare = {f"spare-{n}": 2 for n in range(free)}
    cluster = not_ready(tree({**RACKS, "r2": spare}), "b", "c")
    beside = member("other", on="d", priority=0)
    lost = [member(f"g-{n}", "g", priority=5) for n in (3, 4, 5)]
    done = place(*cluster, group("g", 6), *bound, beside, *lost)
    found = results(done)
    new = [found[f"g-{n}"] for n in (3, 4, 5)]

    assert not {"b", "c"} & set(new)
    assert expected == sum(where.startswith("spare") for where in new)
    assert not [victim for one in done.groups for victim in one.victims]


@pytest.mark.parametrize("shown_by", ["labels", "one label", "status", "nothing"])
@pytest.mark.parametrize("free", [0, 1, 2, 3])
def test_a_group_is_repaired_in_part_where_an_object_shows_that_it_was_whole(
    shown_by: str, free: int
):
    """Three of six members are lost and `free` places are left. A member's label or the status of
    the ConfigMap shows that the group was whole: as many members as fit are placed. Without either
    all three are placed or none. Bound members stay.
    """
    described, running = group("g", 6), [member(f"g-{n}", "g", on="a") for n in range(3)]
    marked = {"labels": 3, "one label": 1}.get(shown_by, 0)
    for one in running[:marked]:
        one["metadata"]["labels"]["sakkara.member.status"] = "Bound"
    if shown_by == "status":
        described["data"]["status"] = "Bound"
    cluster = not_ready(tree({"r0": {"a": 3, "b": 3}, "r1": {"c": free}}), "b")
    done = place(*cluster, described, *running, *(member(f"g-{n}", "g") for n in (3, 4, 5)))
    new = [on for name, on in results(done).items() if name in {"g-3", "g-4", "g-5"}]
    placed = free if shown_by != "nothing" or free == 3 else 0

    assert ["c"] * placed == [on for on in new if on == "c"]
    assert "b" not in new
    assert not [victim for one in done.groups for victim in one.victims]


def test_a_replacement_takes_no_device_that_a_rule_taints():
    """The replacement's rack has a free device that is tainted; the pod is placed in the other
    rack.
    """

    def uses(name: str, on: str = "") -> dict[str, Any]:
        claims = [{"name": "gpu", "resourceClaimName": name}]
        return member(name, "g", on=on, spec={"resourceClaims": claims})

    bound = [uses("g-0", "a"), uses("g-1", "b")]
    claims = [claim(f"g-{n}") for n in range(3)]
    for one, on in zip(claims, ("a", "b"), strict=False):
        result = {"request": "r", "driver": "gpu.example.com", "pool": on, "device": "g0"}
        reserved = {"resource": "pods", "name": one["metadata"]["name"], "uid": "u"}
        one["status"] = {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [reserved],
        }
    devices = [gpu_class(), *(local_slice(name, "g0", "g1") for name in "abcd")]
    rules = [rule("one", pool="a"), rule("other", pool="b")]
    cluster = [*tree(RACKS), group("g", 3, {"rack": {"type": "pack"}}), *devices, *claims]
    plain = place(*cluster, *bound, uses("g-2"), release=V1_37)
    tainted = place(*cluster, *rules, *bound, uses("g-2"), release=V1_37)

    assert results(plain)["g-2"] in ("a", "b")
    assert results(tainted)["g-2"] in ("c", "d")
