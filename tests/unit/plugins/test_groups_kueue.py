"""Kueue's pod groups: the pods themselves state their number and their topology request."""

from collections import Counter

import pytest

from scheduler.groups.sources.registry import group_of, moved
from tests.unit.plugins.groupobjects import group
from tests.unit.plugins.kueueobjects import HOST, RACK, ZONE, K, member, members, nodes, topology
from tests.unit.simulate.asking import place, results, snapshot

TREE = topology("fabric", ZONE, RACK)


def used(simulation):
    """Return the nodes of the placed pods, each as often as it is used."""
    return Counter(
        node for node in results(simulation).values() if node[0] in "ab" and len(node) == 3
    )


def report(simulation):
    """Return the report of the only group."""
    (reported,) = simulation.groups
    return reported


def pending(*objects):
    """Return the reason of the only group, of which no pod is placed."""
    done = place(*objects)
    assert not used(done)
    return " / ".join({one.message for one in done.pods})


def test_all_of_a_group_are_placed_or_none():
    """Sixteen places: sixteen pods are placed, of seventeen none, of three of four none."""
    done = place(*nodes(), *members("g", 16))
    assert 16 == done.summary.scheduled
    assert ("pods of Kueue", 16, True) == (
        report(done).source,
        report(done).size,
        report(done).optimal,
    )

    assert "does not fit" in pending(*nodes(), *members("g", 17))
    assert "is not complete" in pending(*nodes(), *members("g", 4, 3))


def test_a_pod_behind_a_gate_is_not_there():
    """A gated member does not count: two of three members are placed only with the third."""
    gated = member("g-2", "g", 3, spec={"schedulingGates": [{"name": f"{K}admission"}]})
    done = place(*nodes(), *members("g", 3, 2), gated)

    assert not used(done)


def test_a_group_of_which_pods_run_takes_others_one_by_one():
    """Finished pods are not visible, so no pod waits for them."""
    old = member("g-0", "g", 4)
    old["spec"]["nodeName"] = "ar0"
    done = place(*nodes(), old, member("g-9", "g", 4))

    assert 1 == done.summary.scheduled


def test_pods_that_are_admitted_one_by_one_are_in_no_group():
    """Fast admission: the gate of one does not wait for the others, so no pod waits."""
    done = place(*nodes(), member("g-0", "g", 4, pod_group_fast_admission="true"))

    assert 1 == done.summary.scheduled
    assert () == done.groups


@pytest.mark.parametrize(("count", "level"), [(4, RACK), (8, ZONE), (2, HOST)])
def test_required_is_one_unit_of_the_level(count, level):
    """As many as one unit holds are in one unit, one more waits.

    Racks of equal name in two zones are two.
    """
    done = place(*nodes(), TREE, *members("g", count, podset_required_topology=level))
    length = {RACK: 2, ZONE: 1, HOST: 3}[level]
    assert count == done.summary.scheduled
    assert 1 == len({node[:length] for node in used(done)})

    more = members("g", count + 1, podset_required_topology=level)
    named = {"hostname": "node"}.get(level.rpartition("/")[2], level.rpartition("/")[2])
    assert f"do not fit one {named}: the largest" in pending(*nodes(), TREE, *more)


def test_preferred_is_the_lowest_unit_that_does():
    """Four are in one rack, six in one zone, ten in both."""
    for count, length in ((4, 2), (6, 1), (10, 0)):
        done = place(*nodes(), TREE, *members("g", count, podset_preferred_topology=RACK))
        assert count == done.summary.scheduled
        assert 1 == len({node[:length] for node in used(done)})


def test_unconstrained_asks_for_nothing():
    """No tree is needed."""
    done = place(*nodes(), *members("g", 4, podset_unconstrained_topology="true"))
    assert 4 == done.summary.scheduled


def test_slices_are_in_one_unit_each_in_the_order_of_names():
    """Three slices of two in two racks of one zone: each in a rack, with consecutive names."""
    asked = {
        "podset_required_topology": ZONE,
        "podset_slice_required_topology": RACK,
        "podset_slice_size": "2",
    }
    done = place(*nodes(), TREE, *members("g", 6, **asked))
    where = results(done)
    assert 6 == done.summary.scheduled
    assert 1 == len({node[0] for node in used(done)})
    for at in (0, 2, 4):
        assert where[f"g-{at}"][:2] == where[f"g-{at + 1}"][:2]


def test_where_kueue_has_chosen_nodes_nothing_else_is_chosen():
    """The selector counts; a missing or unsuitable tree does not matter."""
    asked = {"podset_required_topology": RACK}
    pods = [
        member(f"g-{at}", "g", 2, spec={"nodeSelector": {HOST: node}}, **asked)
        for at, node in enumerate(("ar0", "bs1"))
    ]
    assert {"g-0": "ar0", "g-1": "bs1"} == results(place(*nodes(), *pods))


def test_a_level_that_no_topology_has_is_named():
    """Two levels that differ are named as well; the argument of the plugin decides."""
    asked = members("g", 2, podset_required_topology=RACK)
    assert f"no Topology of Kueue has the level {RACK}" in pending(*nodes(), *asked)
    others = topology("other", RACK), topology("third", RACK)
    text = pending(*nodes(), TREE, *others, *asked)
    assert f"several Topologies of Kueue have the level {RACK}: fabric and other" in text


@pytest.mark.parametrize(
    ("asked", "expected_text"),
    [
        ({"podset_slice_size": "2"}, f"{K}podset-slice-required-topology]: is missing"),
        ({"podset_slice_required_topology": RACK}, f"{K}podset-slice-size]: is missing"),
        (
            {"podset_slice_required_topology": RACK, "podset_slice_size": "two"},
            f"{K}podset-slice-size]: 'two' is no number",
        ),
        (
            {"podset_slice_required_topology": RACK, "podset_slice_size": "3"},
            "4 pods are no whole number of slices of 3",
        ),
        ({"podset_slice_required_topology_constraints": "[]"}, "is refused: slices of one level"),
        (
            {"podset_required_topology": RACK, "podset_preferred_topology": ZONE},
            f"and {K}podset-preferred-topology exclude each other",
        ),
        ({"podset_unconstrained_topology": "maybe"}, "true or false is needed"),
        (
            {
                "podset_required_topology": RACK,
                "podset_slice_required_topology": ZONE,
                "podset_slice_size": "2",
            },
            f"slices by {ZONE} are not inside one unit of {RACK}",
        ),
    ],
)
def test_what_is_wrong_or_not_placed_exactly_is_named(asked, expected_text):
    """The group is blocked, and the message of its members names the annotation."""
    assert expected_text in pending(*nodes(), TREE, *members("g", 4, **asked))


def test_a_number_is_needed():
    """Without it the size of the group is unknown."""
    assert f"{K}pod-group-total-count]: is missing" in pending(*nodes(), member("g-0", "g", ""))
    assert "'0' is no number from 1" in pending(*nodes(), member("g-0", "g", "0"))
    for text in ("9" * 40, "1" + "0" * 5000, "00000001" + "9" * 5000, "-1", "4.0"):
        assert "is no number from 1" in pending(*nodes(), member("g-0", "g", text))


def test_contradicting_members_are_blocked_with_both_named():
    """Members contradict one another about the number, or about the topology."""
    text = pending(*nodes(), member("g-0", "g", 2), member("g-1", "g", 3))
    assert "is not complete" in text or "g-0 says '2', g-1 '3'" in text
    text = pending(
        *nodes(), TREE, member("g-0", "g", 2, podset_required_topology=RACK), member("g-1", "g", 2)
    )
    assert f"{K}podset-required-topology]: g-0 says '{RACK}', g-1 ''" in text


def test_roles_are_placed_together_or_refused():
    """Each role would have a rack of its own; with one podset group they have one."""
    asked = {"podset_required_topology": RACK}
    leader = member("g-0", "g", 3, cpu="2", **asked)
    workers = [member(f"g-{at}", "g", 3, **asked) for at in (1, 2)]
    text = pending(*nodes(), TREE, leader, *workers)
    assert "g-0 and g-1 have different roles" in text

    asked["podset_group_name"] = "all"
    leader = member("g-0", "g", 3, cpu="2", **asked)
    workers = [member(f"g-{at}", "g", 3, **asked) for at in (1, 2)]
    done = place(*nodes(), TREE, leader, *workers)
    assert 3 == done.summary.scheduled
    assert 1 == len({node[:2] for node in used(done)})

    plain = [member("g-0", "g", 2, cpu="2"), member("g-1", "g", 2)]
    assert 2 == place(*nodes(), *plain).summary.scheduled


def test_slices_go_by_the_index_label_whatever_the_names_are():
    """Indices 0 to 3 and 4 to 7 are slices: each is in one rack, of which each has four places."""
    asked = {"podset_slice_required_topology": RACK, "podset_slice_size": "4"}
    index = f"{K}pod-group-pod-index"
    pods = [member(f"g-{at}", "g", 8, labels={index: str(5 * at % 8)}, **asked) for at in range(8)]
    done = place(*nodes(), TREE, *pods)
    nodes_of = {5 * int(one.name[2:]) % 8: one.node for one in done.pods}

    assert 8 == done.summary.scheduled
    assert 1 == len({nodes_of[at][:2] for at in range(4)})
    assert 1 == len({nodes_of[at][:2] for at in range(4, 8)})


def test_a_pod_of_two_groups_is_blocked_with_both_named():
    """The pod has a group label of Trellis beside that of Kueue."""
    ambiguous = member("ambiguous", "g", 1, labels={"sakkara.group.name": "g"})
    text = pending(*nodes(), group("g", 1), ambiguous)
    assert f"label sakkara.group.name (g) and label {K}pod-group-name (g)" in text


def test_a_member_can_be_moved_to_another_group():
    """`moved` names another group in a member, as copies of a group need it."""
    (waiting,) = snapshot(member("p", "g", 1)).unbound
    assert "kueue:default/g" == group_of(waiting)
    assert "kueue:default/other" == group_of(moved(waiting, "other"))


def test_a_group_goes_whole_when_it_is_evicted():
    """Half of the group would be useless."""
    old = [member(f"g-{at}", "g", 2, cpu="2", spec={"nodeName": f"ar{at}"}) for at in range(2)]
    for at, one in enumerate(old):
        one["spec"] |= {"nodeName": f"ar{at}", "priority": 0}
    boss = member("boss", "", 0, cpu="2", spec={"priority": 9})
    boss["metadata"]["labels"] = {}
    done = place(*nodes()[:2], *old, boss)
    (reported,) = (one for one in done.pods if one.name == "boss")
    assert {"g-0", "g-1"} == {one.name for one in reported.victims}


def test_a_slice_that_cannot_be_repaired_leaves_the_others_alone():
    """Two slices of two lost a pod each.

    The rack of the second has capacity: its pod is placed there.
    """
    asked = {"podset_slice_required_topology": RACK, "podset_slice_size": "2"}
    pods = [
        member(f"g-{at}", "g", 4, cpu="2", spec={"nodeName": on} if on else None, **asked)
        for at, on in enumerate(("", "ar0", "", "as0"))
    ]
    other = member("other", "", 0, cpu="2", spec={"nodeName": "ar1"})
    done = results(place(TREE, *nodes(), other, *pods))

    assert "as1" == done["g-2"]
    assert "Unschedulable" == done["g-0"]
