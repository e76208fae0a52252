"""Groups in a CompositePodGroup that have rules for levels of their own, in annotations."""

import json

import pytest

from tests.unit.plugins.compositeobjects import RACK, ZONE, composite, leaf, pods
from tests.unit.plugins.compositeobjects import rack as plain_rack
from tests.unit.simulate.asking import place, results

HARD = {"type": "pack", "hard": True}
APART = {"type": "spread", "hard": True}
LABEL = "topology.trellis.dev/rack"


def rack(name, cpus, zone=""):
    """Return nodes with the label of racks that makes the profile's own tree, rack and node."""
    return plain_rack(name, cpus, zone, **{LABEL: name})


def rules(**levels):
    """Return the annotation with rules by level."""
    return {"sakkara.group/constraints": json.dumps(levels)}


def child(name, count, rule, parent="app", cpu=1, **more):
    """Return a PodGroup with rules of its own and its pods, all needed."""
    return [leaf(name, count, parent, annotations=rule, **more), *pods(name, count, cpu)]


def nodes_of(simulation, group):
    """Return the nodes of a group's pods, sorted."""
    found = results(simulation).items()
    return sorted(node for name, node in found if name.rpartition("-")[0] == group)


def racks_of(simulation, group):
    """Return the racks that a group's pods are in."""
    return {node.rpartition("-")[0] for node in nodes_of(simulation, group)}


def test_children_are_each_in_one_rack_and_each_pod_on_a_node_of_its_own():
    """Rack a would take all in one, but has two nodes: the child of three pods is in b."""
    done = place(
        *rack("a", [9, 9]),
        *rack("b", [1, 1, 1]),
        composite("app", 2),
        *child("first", 3, rules(rack=HARD, node=APART)),
        *child("second", 2, rules(rack=HARD, node=APART)),
    )

    assert ["b-0", "b-1", "b-2"] == nodes_of(done, "first")
    assert ["a-0", "a-1"] == nodes_of(done, "second")
    assert done.groups[0].optimal


def test_a_child_is_spread_over_so_many_racks_while_the_other_stays_in_one():
    """Two pods in each of two racks, the other child together in the third."""
    done = place(
        *rack("a", [2]),
        *rack("b", [2]),
        *rack("c", [4]),
        composite("app", 2),
        *child("wide", 4, rules(rack={"partitions": 2, "min": 2, "max": 2})),
        *child("near", 4, rules(rack=HARD)),
    )

    assert ["a-0", "a-0", "b-0", "b-0"] == nodes_of(done, "wide")
    assert {"c"} == racks_of(done, "near")


def test_rules_of_a_child_inside_of_the_unit_of_the_root():
    """The only rack with two nodes of enough capacity: one for each pod of the child."""
    done = place(
        *rack("a", [9, 1]),
        *rack("b", [4, 4]),
        composite("app", 2, annotations=rules(rack=HARD)),
        *child("first", 2, rules(node=APART), cpu=2),
        *child("second", 4, {}),
    )

    assert ["b-0", "b-1"] == nodes_of(done, "first")
    assert {"b"} == racks_of(done, "second")


def test_rules_for_nodes_beside_topology_keys_of_others():
    """The root requires one zone by a key, the child a node for each pod."""
    done = place(
        *rack("a", [9], "z1"),
        *rack("b", [3, 3], "z2"),
        composite("app", 2, key=ZONE),
        *child("first", 2, rules(node=APART)),
        leaf("second", 4, "app", key=RACK),
        *pods("second", 4),
    )

    assert ["b-0", "b-1"] == nodes_of(done, "first")
    assert {"b"} == racks_of(done, "second")


def test_what_a_child_wishes_for_counts_where_all_pods_are_as_well_placed():
    """All pods are in two racks in any case: the child with the preference is in one rack, the
    other child is split.
    """
    done = place(
        *rack("a", [3, 3]),
        *rack("b", [3]),
        composite("app", 2),
        *child("free", 5, {}),
        *child("near", 4, rules(rack={"type": "pack"})),
    )

    assert 1 == len(racks_of(done, "near"))
    assert 2 == len(racks_of(done, "free"))
    (report,) = done.groups
    assert ("rack of its groups units", 1) in zip(report.terms, report.objective, strict=True)


def test_a_composite_in_another_has_rules_for_all_pods_in_it():
    """Head and workers of the replica are each on a node of their own, in one rack."""
    done = place(
        *rack("a", [9, 9]),
        *rack("b", [9, 9, 9]),
        composite("app", 1),
        composite("replica", 2, "app", annotations=rules(rack=HARD, node=APART)),
        *child("head", 1, {}, "replica"),
        *child("workers", 2, {}, "replica"),
    )

    assert ["b-0", "b-1", "b-2"] == sorted(nodes_of(done, "head") + nodes_of(done, "workers"))


def test_a_recreated_member_keeps_the_rules_with_the_bound_ones():
    """The member's group has two nodes of the rack: the third one is left."""
    done = place(
        *rack("a", [9, 9, 9]),
        composite("app", 1),
        leaf("g", 3, "app", annotations=rules(rack=HARD, node=APART)),
        *pods("g", 1, on="a-0"),
        *pods("g", 1, on="a-2", first=1),
        *pods("g", 1, first=2),
    )

    assert "a-1" == results(done)["g-2"]


def test_rules_that_cannot_be_kept_are_named():
    """The rule keeps three pods apart, and there are two nodes: the message names it."""
    done = place(
        *rack("a", [9, 9]), composite("app", 1), *child("g", 3, rules(rack=HARD, node=APART))
    )

    (message,) = {one.message for one in done.pods}
    assert "not enough of its groups fit together" in message
    assert "PodGroup g" in message
    assert "node" in message


def test_many_like_children_that_are_each_in_one_rack_are_counted():
    """Twenty of two pods each: single ones would be more kinds than the search allows."""
    children = [one for at in range(20) for one in child(f"g{at}", 2, rules(rack=HARD))]
    done = place(*rack("a", [19]), *rack("b", [21]), composite("app", 19), *children)

    placed = [at for at in range(20) if nodes_of(done, f"g{at}") != ["Unschedulable"] * 2]
    assert 19 == len(placed)
    assert all(1 == len(racks_of(done, f"g{at}")) for at in placed)


REFUSED = {
    "level": (
        [*child("g", 1, rules(rck=HARD))],
        'the constraints of its group g: "rck" is not known (did you mean "rack"?)',
    ),
    "for": (
        [*child("g", 1, rules(rack=HARD | {"for": "10m"}))],
        "only a rule of the root becomes a wish after a time (for)",
    ),
    "key": (
        [*child("g", 1, rules(node=APART), key=RACK)],
        (
            "spec.schedulingConstraints.topology and the annotation sakkara.group/constraints "
            "exclude each other"
        ),
    ),
    "inner key": (
        [
            composite("c", 1, "app", key=RACK, annotations=rules(node=APART)),
            *child("g", 1, {}, "c"),
        ],
        (
            "spec.schedulingConstraints.topology and the annotation sakkara.group/constraints "
            "exclude each other"
        ),
    ),
    "tree": (
        [*child("g", 1, {"sakkara.group/topology": "other"})],
        "the annotation sakkara.group/topology is for groups that are in no other",
    ),
    "inner tree": (
        [
            composite("c", 1, "app", annotations={"sakkara.group/topology": "other"}),
            *child("g", 1, {}, "c"),
        ],
        "the annotation sakkara.group/topology is for groups that are in no other",
    ),
    "costs": (
        [
            *child(
                "g",
                1,
                {"sakkara.group/classes": '{"a": {}}', "sakkara.group/costs": '{"rack": 1}'},
            )
        ],
        "the annotation sakkara.group/classes is for groups that are in no other",
    ),
    "too many": (
        [
            one
            for at in range(13)
            for one in child(f"g{at}", 2, rules(rack={"type": "spread", "partitions": 2}))
        ],
        "12 are the most that are placed exactly; each group with rules of its own counts alone",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_placed_exactly_is_refused_by_name(case):
    """Every pod of the tree is gated, and the message names the group and the fault."""
    objects, text = REFUSED[case]
    done = place(*rack("a", [9]), *rack("b", [9]), composite("app", 1), *objects)

    (message,) = {one.message for one in done.pods}
    assert "is on hold: " in message
    assert text in message
