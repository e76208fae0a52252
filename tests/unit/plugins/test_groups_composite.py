"""CompositePodGroups: whole groups in a group, each in its domain, and at least the minimum of
them.
"""

import json
from collections import Counter

import pytest

from scheduler.testing import node
from tests.unit.plugins.compositeobjects import (
    RACK,
    ZONE,
    composite,
    leaf,
    pods,
    rack,
    replica,
)
from tests.unit.simulate.asking import place, results, setup

AVOIDED = "example.com/avoided"
ARGS = {"avoidLabel": AVOIDED, "topologyLabels": [RACK]}
PLUGIN = "ClusterTopologyPlacementGroup"
PROFILE = {
    "schedulerName": "trellis",
    "plugins": {"preEnqueue": {"enabled": [{"name": PLUGIN}]}},
    "pluginConfig": [{"name": PLUGIN, "args": ARGS}],
}
AVOIDING = setup(
    config=json.dumps(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [PROFILE],
        }
    )
)
SCHEDULED = {
    "type": "PodGroupScheduled",
    "status": "True",
    "reason": "Scheduled",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
CHILDREN = (("r0", 2, "inner"), ("r1", 1, "inner"), ("r2", 1, "app"))


def report(simulation):
    """Return the report of the only group."""
    (found,) = simulation.groups
    return found


def racks_of(simulation, group):
    """Return the racks of a group's pods, or the outcome of unplaced ones."""
    return {
        node.rpartition("-")[0] or node
        for name, node in results(simulation).items()
        if name.rpartition("-")[0] == group
    }


def test_each_child_is_placed_whole_in_a_rack_of_its_own_choice():
    """Two replicas of five CPUs: no rack has capacity for both."""
    done = place(
        *rack("a", [3, 3]),
        *rack("b", [4, 2]),
        composite("app", 2),
        *replica("r0", "app", 3),
        *replica("r1", "app", 3),
    )

    assert "Bound" == report(done).status
    assert "app" == report(done).name
    assert "CompositePodGroup.scheduling.k8s.io" == report(done).source
    assert report(done).optimal
    assert [{"a"}, {"b"}] == sorted((racks_of(done, "r0"), racks_of(done, "r1")), key=str)


def test_all_or_nothing():
    """With one rack too small neither replica starts, and the obstacle is named."""
    done = place(
        *rack("a", [3, 3]),
        *rack("b", [4]),
        composite("app", 2),
        *replica("r0", "app", 3),
        *replica("r1", "app", 3),
    )

    assert {"Unschedulable"} == set(results(done).values())
    (message,) = {one.message for one in done.pods}
    assert "the group default/app does not fit: not enough of its groups fit together" in message
    assert "CompositePodGroup app minimum 2" in message
    assert "PodGroup r0 (and 1 like it) minimum 4" in message
    assert report(done).conflict


def test_children_beyond_the_minimum_may_stay_out():
    """Of three replicas two fit; the third waits, and no pod of it starts."""
    done = place(
        *rack("a", [3, 3]),
        *rack("b", [4, 2]),
        composite("app", 2),
        *(one for at in range(3) for one in replica(f"r{at}", "app", 3)),
    )

    placed = [at for at in range(3) if racks_of(done, f"r{at}") in ({"a"}, {"b"})]
    assert 2 == len(placed)
    assert 4 == sum(node == "Unschedulable" for node in results(done).values())


@pytest.mark.parametrize("is_same_child", [True, False])
def test_members_after_finished_ones_that_cover_the_minimum_are_placed(is_same_child):
    """A child of two has finished: another member of it, or its sibling, goes with the rest."""
    finished = pods("r0", 2, on="a-0")
    for one in finished:
        one["status"] = {"phase": "Succeeded"}
    done = place(
        *rack("a", [3]),
        composite("app", 2),
        composite("inner", 1, "app"),
        *(leaf(name, least, parent, key=RACK) for name, least, parent in CHILDREN),
        *finished,
        *pods("r0" if is_same_child else "r1", 1, first=2),
        *pods("r2", 1),
    )

    assert {"a-0"} == set(results(done).values())
    assert 2 == done.summary.scheduled


def test_heterogeneous_children_are_chosen_together():
    """The large child fits into the large rack alone: the small one, first by name, leaves it that
    rack.
    """
    done = place(
        *rack("a", [8]),
        *rack("b", [4]),
        composite("app", 2),
        leaf("first", 3, "app", key=RACK),
        *pods("first", 3),
        leaf("second", 7, "app", key=RACK),
        *pods("second", 7),
    )

    assert {"b"} == racks_of(done, "first")
    assert {"a"} == racks_of(done, "second")


def test_racks_inside_of_the_zone_of_the_parent():
    """Each replica in one rack, both in one zone: the only one with two racks that are large
    enough.
    """
    done = place(
        *rack("a", [5], "z1"),
        *rack("b", [4], "z1"),
        *rack("c", [5], "z2"),
        *rack("d", [5], "z2"),
        composite("app", 2, key=ZONE),
        *replica("r0", "app", 3),
        *replica("r1", "app", 3),
    )

    assert [{"c"}, {"d"}] == sorted((racks_of(done, "r0"), racks_of(done, "r1")), key=str)


def test_groups_in_groups_in_a_group():
    """A replica is a composite of head and workers: both of it in one rack, three replicas, two are
    needed.
    """
    objects = [composite("app", 2)]
    for at in range(3):
        objects.append(composite(f"r{at}", 2, "app", key=RACK))
        objects += [leaf(f"h{at}", 1, f"r{at}"), *pods(f"h{at}", 1, 2)]
        objects += [leaf(f"w{at}", 3, f"r{at}"), *pods(f"w{at}", 3)]
    done = place(*rack("a", [5]), *rack("b", [2, 3]), *rack("c", [4]), *objects)

    assert "Bound" == report(done).status
    placed = [at for at in range(3) if racks_of(done, f"h{at}") != {"Unschedulable"}]
    assert 2 == len(placed)
    for at in range(3):
        assert racks_of(done, f"h{at}") == racks_of(done, f"w{at}")


def test_a_basic_composite_takes_whatever_fits():
    """One replica of two is enough."""
    done = place(
        *rack("a", [5]),
        composite("app"),
        *replica("r0", "app", 3),
        *replica("r1", "app", 3),
    )

    assert 4 == sum(node == "Unschedulable" for node in results(done).values())
    assert "Bound" == report(done).status


def test_nodes_without_a_label_take_who_does_not_ask_for_it():
    """The coordinator needs no rack and may be on the node without one; the workers may not."""
    done = place(
        *rack("", [9]),
        *rack("a", [3]),
        composite("app", 2),
        leaf("workers", 3, "app", key=RACK),
        *pods("workers", 3),
        leaf("boss", 1, "app"),
        *pods("boss", 1, 4),
    )

    assert {"a"} == racks_of(done, "workers")
    assert {"lone"} == racks_of(done, "boss")


def test_an_incomplete_tree_names_the_group_and_its_missing_members():
    """The message names the incomplete group, not only the number of pods."""
    done = place(
        *rack("a", [9, 9]),
        composite("app", 2),
        *replica("r0", "app", 3),
        leaf("r1", 4, "app", key=RACK),
        *pods("r1", 2),
    )

    (message,) = {one.message for one in done.pods}
    assert message.endswith(
        "the group default/app is not complete: app has 1 of the 2 groups it needs: "
        "r1 has 2 of the 4 pods it needs"
    )


def test_a_child_without_its_parent_waits_for_it():
    """The message names the parent."""
    done = place(*rack("a", [9]), *replica("r0", "app", 3))

    (message,) = {one.message for one in done.pods}
    assert "no CompositePodGroup describes the group default/app" in message


def test_one_that_stands_keeps_its_place_and_lets_others_join():
    """The replica that runs is in rack a; the other one, which did not fit before, is placed
    in b.
    """
    done = place(
        *rack("a", [5]),
        *rack("b", [5]),
        composite("app", 1),
        leaf("r0", 4, "app", key=RACK),
        *pods("r0", 4, on="a-0"),
        *replica("r1", "app", 3),
    )

    assert {"b"} == racks_of(done, "r1")


def test_a_lost_member_comes_back_beside_its_own():
    """The lost member's rack and the other one have capacity for one pod: only its own rack is
    valid.
    """
    done = place(
        *rack("a", [4, 1]),
        *rack("b", [9]),
        composite("app", 1),
        leaf("r0", 4, "app", key=RACK),
        *pods("r0", 3, on="a-0"),
        *pods("r0", 1, first=3),
    )

    assert "a" == results(done)["r0-3"].rpartition("-")[0]


@pytest.mark.parametrize("avoided", [0, 1, 2])
@pytest.mark.parametrize("plain", [0, 1, 2])
def test_lost_members_of_a_child_come_back_as_those_of_a_group_of_its_own(plain: int, avoided: int):
    """Two of three members are lost. Both are placed at once: in one avoided rack rather than
    one of them on the last node that is not avoided.
    """
    nodes = [*rack("c", [1]), *rack("a", [1] * plain)]
    nodes += rack("b", [1] * avoided, **{AVOIDED: ""}) + rack("d", [1], **{AVOIDED: ""})
    members = [*pods("r", 1, on="c-0"), *pods("r", 2, first=1)]
    placed = []
    for parent in ("", "app"):
        described = leaf("r", 3, parent) | {"status": {"conditions": [SCHEDULED]}}
        around = [composite("app", 1)] if parent else []
        found = results(place(*nodes, *around, described, *members, using=AVOIDING))
        placed.append(Counter(on.partition("-")[0] for on in found.values() if "-" in on))

    alone, in_a_child = placed
    assert sorted(alone.values()) == sorted(in_a_child.values())


LAYOUTS = {
    "priority": (
        [composite("app", 1, priority=3), leaf("g", 1, "app")],
        "its priority is 0, that of the root 3",
    ),
    "workload": (
        [composite("app", 1), leaf("g", 1, "app", workload="other")],
        "they are made from the Workloads 'other' and 'w'",
    ),
    "basic": ([composite("app", 1), leaf("g", None, "app")], "a basic group in a gang"),
    "mode": (
        [composite("app", 1, mode="all"), leaf("g", 1, "app", mode="single")],
        'disruptionMode "single" in "all"',
    ),
    "depth": (
        [
            composite("app", 1),
            composite("b", 1, "app"),
            composite("c", 1, "b"),
            composite("d", 1, "c"),
            leaf("g", 1, "d"),
        ],
        "the tree is deeper than 4 groups",
    ),
    "circle": (
        [composite("app", 1, "b"), composite("b", 1, "app"), leaf("g", 1, "app")],
        "the groups above it form a circle, or are too many",
    ),
    "annotation": (
        [
            composite("app", 1),
            leaf("g", 1, "app", annotations={"sakkara.group/classes": '{"a": {}}'}),
        ],
        "the annotation sakkara.group/classes is for groups that are in no other",
    ),
    "claims": (
        [
            composite("app", 1),
            leaf("g", 1, "app", resourceClaims=[{"name": "c", "resourceClaimName": "c"}]),
        ],
        "spec.resourceClaims is for groups that are in no other",
    ),
    "number": (
        [composite("app", 0), leaf("g", 1, "app")],
        "spec.schedulingPolicy.gang.minGroupCount: 0 is not between 1 and 1000",
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_that_is_not_valid_is_refused_by_name(layout):
    """Every pod of the tree is gated, and the message names the group and the fault."""
    objects, text = LAYOUTS[layout]
    done = place(*rack("a", [9]), *objects, *pods("g", 1))

    (message,) = {one.message for one in done.pods}
    assert "is on hold: " in message
    assert text in message


def test_keys_that_do_not_nest_are_refused_by_name():
    """Racks and rows cross: no tree shows which nodes are in one value of each."""
    done = place(
        *rack("a", [9, 9], row="1"),
        *rack("b", [9, 9], row="1")[:1],
        *rack("c", [9], row="2"),
        {**rack("a", [9, 9, 9], row="2")[2]},
        composite("app", 2),
        leaf("g", 1, "app", key=RACK),
        *pods("g", 1),
        leaf("h", 1, "app", key="row"),
        *pods("h", 1),
    )

    (message,) = {one.message for one in done.pods}
    assert f"the topology keys {RACK} and row do not nest" in message


def test_too_many_kinds_of_members_are_rejected_by_name():
    """A group with more kinds than the search can enumerate is not placed."""
    children = [
        one
        for at in range(13)
        for one in (leaf(f"g{at}", 1, "app"), *pods(f"g{at}", 1, 1, priority=0))
    ]
    for at, one in enumerate(each for each in children if each["kind"] == "Pod"):
        one["spec"]["containers"][0]["resources"]["requests"]["cpu"] = f"{100 + at}m"
    done = place(*rack("a", [99]), composite("app", 13), *children)

    (message,) = {one.message for one in done.pods}
    assert "its members are of 13 roles" in message


def victims(simulation):
    """Return the pods and groups that a simulation evicts."""
    return {one.name for found in simulation.pods for one in found.victims}


def important(objects):
    """Return objects with a higher priority."""
    for one in objects:
        one["spec"]["priority"] = 9
    return objects


def test_a_composite_group_evicts_the_fewest_that_let_enough_of_it_in():
    """Two of three replicas are needed: the two racks with one victim each are used, not that with
    three.
    """
    busy = [
        *pods("one", 1, 2, on="a-0"),
        *pods("two", 1, 2, on="b-0"),
        *pods("more", 3, 1, on="c-0"),
    ]
    for one in busy:
        del one["spec"]["schedulingGroup"]
    replicas = [one for at in range(3) for one in replica(f"r{at}", "app", 3)]
    nodes = [one for name in "abc" for one in rack(name, [5])]
    done = place(*nodes, *busy, *important([composite("app", 2), *replicas]))

    assert {"one-0", "two-0"} == victims(done)


ONE, OTHER = {"r0-0", "r0-1"}, {"r1-0", "r1-1"}


@pytest.mark.parametrize(
    ("mode", "inner", "expected"),
    [
        ("all", "all", [ONE | OTHER]),
        ("single", "all", [ONE, OTHER]),
        ("single", "single", [{name} for name in sorted(ONE | OTHER)]),
    ],
)
@pytest.mark.parametrize("is_group", [True, False])
def test_what_goes_whole_is_evicted_whole(mode, inner, expected, is_group):
    """The topmost group whose mode is `all`, for a group as for a pod on its own.

    Else single pods.
    """
    placed_pods = [composite("app", 1, mode=mode)]
    for at, name in enumerate(("r0", "r1")):
        placed_pods += [leaf(name, 2, "app", mode=inner), *pods(name, 2, on=f"a-{at}")]
    asking = pods("vip", 1)
    if is_group:
        asking.append(leaf("vip", 1))
    else:
        del asking[0]["spec"]["schedulingGroup"]

    assert victims(place(*rack("a", [2, 2]), *placed_pods, *important(asking))) in expected


@pytest.mark.parametrize("is_nested", [False, True])
def test_the_empty_value_of_a_label_is_a_domain(is_nested):
    """A lost member is placed in its rack again when the rack's label is the empty text."""
    empty = [node(f"a-{at}", cpu="2", memory="64Gi", labels={RACK: ""}) for at in range(2)]
    unlabelled = node("lone", cpu="8", memory="64Gi")
    around = [composite("app", 1)] if is_nested else []
    done = place(
        *empty,
        unlabelled,
        *rack("b", [8]),
        *around,
        leaf("r0", 3, "app" if is_nested else "", key=RACK),
        *pods("r0", 2, 1, on="a-0"),
        *pods("r0", 1, 1, first=2),
    )

    assert "a-1" == results(done)["r0-2"]
