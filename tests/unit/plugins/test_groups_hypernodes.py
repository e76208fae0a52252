"""Volcano's HyperNodes: their tree, invalid forms of it, and the topology requests of PodGroups."""

from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.base.errors import ObjectError
from scheduler.groups.description.rules import LevelConstraint
from scheduler.groups.description.spec import GroupSpec, TierRule
from scheduler.groups.sources import volcano
from scheduler.groups.topology.hypernodes import (
    MOST_REPEATS,
    HyperNodes,
    add_outside_nodes,
    resolved,
)
from scheduler.objects.groups.volcano import HyperNode, VolcanoPodGroup
from scheduler.testing import node
from tests.unit.plugins.volcanoobjects import hyper_node, members, of_nodes, pod_group
from tests.unit.simulate.asking import place, results

HARD = LevelConstraint("pack", hard=True)


def matching(pattern):
    """Return members by a pattern."""
    return {"type": "Node", "selector": {"regexMatch": {"pattern": pattern}}}


# Two switches of two nodes each below one, as in Volcano's own example.
SWITCHES = (
    hyper_node("s0", 1, *of_nodes("n0", "n1")),
    hyper_node("s1", 1, *of_nodes("n2", "n3")),
    hyper_node("s2", 2, *of_nodes("s0", "s1", kind="HyperNode")),
)
NAMES = ("n0", "n1", "n2", "n3")


def made(*manifests, nodes=NAMES, labels=None):
    """Return the tree that HyperNodes make."""
    found = {one["metadata"]["name"]: msgspec.convert(one, HyperNode) for one in manifests}
    return HyperNodes().tree(found, {name: (labels or {}).get(name, {}) for name in nodes})


def test_tiers_are_levels_from_the_highest_down():
    """Each node has its HyperNodes above it."""
    tree = made(*SWITCHES)

    assert ("tier-2", "tier-1", "node") == tree.levels
    assert (("s2", "s0"), "n0") == tree.leaves[0]
    assert ("s2", "s1") == tree.paths["n3"]


@pytest.mark.parametrize(
    ("selector", "inside"),
    [
        ({"exactMatch": {"name": "n1"}}, ["n1"]),
        ({"exactMatch": {"name": "gone"}}, []),
        ({"regexMatch": {"pattern": "^n[0-1]$"}}, ["n0", "n1"]),
        ({"regexMatch": {"pattern": "3"}}, ["n3"]),
        ({"labelMatch": {"matchLabels": {"rack": "a"}}}, ["n0", "n2"]),
        (
            {"labelMatch": {"matchExpressions": [{"key": "rack", "operator": "DoesNotExist"}]}},
            ["n1", "n3"],
        ),
    ],
)
def test_members_are_found_by_name_pattern_and_labels(selector, inside):
    """Missing members are left out, since they may be added later."""
    one = hyper_node("s", 1, {"type": "Node", "selector": selector})
    labels = {"n0": {"rack": "a"}, "n2": {"rack": "a"}}

    assert inside == [name for _, name in made(one, labels=labels).leaves]


@given(
    st.lists(
        st.tuples(st.sampled_from(["n", "[0-9]", "-", "."]), st.sampled_from(["", "+", "*"])),
        min_size=1,
        max_size=6,
    )
)
def test_a_pattern_with_few_repeated_parts_selects_the_nodes_that_it_matches(parts):
    """Up to MOST_REPEATS parts may be repeated without end, of any pattern without groups."""
    pattern = "^" + "".join(atom + repeat for atom, repeat in parts) + "$"
    one = hyper_node("s", 1, matching(pattern))
    names = ("-", "00", "n", "n-0", "n1", "n12", "nn")
    if sum(bool(repeat) for _, repeat in parts) > MOST_REPEATS:
        with pytest.raises(ObjectError, match="more than 3 parts"):
            made(one, nodes=names)
    else:
        expected = [name for name in names if re.search(pattern, name)]
        assert expected == [name for _, name in made(one, nodes=names).leaves]


def test_what_a_tier_does_not_have_stands_alone_in_it():
    """A node right below tier 2, a HyperNode without a parent, a gap between tiers.

    Other nodes are strays.
    """
    tree = made(
        hyper_node("low", 1, *of_nodes("n0")),
        hyper_node("alone", 1, *of_nodes("n1")),
        hyper_node("top", 3, *of_nodes("low", kind="HyperNode"), *of_nodes("n2")),
        hyper_node("middle", 2, *of_nodes("alone", kind="HyperNode")),
    )

    assert ("top", "low", "low") == tree.paths["n0"]
    assert ("middle", "middle", "alone") == tree.paths["n1"]
    assert ("top", "n2", "n2") == tree.paths["n2"]
    assert "n3" not in tree.paths
    assert ("n3", "n3", "n3") == add_outside_nodes(tree, NAMES).paths["n3"]


@pytest.mark.parametrize(
    ("found", "expected_text"),
    [
        (
            [hyper_node("a", 1, *of_nodes("n0")), hyper_node("b", 1, *of_nodes("n0"))],
            "no tree: the node n0 is in a and in b, of which neither is in the other",
        ),
        (
            [hyper_node("a", 1, *of_nodes("n0")), hyper_node("b", 2, *of_nodes("n0"))],
            "no tree: the node n0 is in a and in b",
        ),
        (
            [
                hyper_node("a", 1, *of_nodes("n0")),
                hyper_node("b", 2, *of_nodes("a", kind="HyperNode")),
                hyper_node("c", 2, *of_nodes("a", kind="HyperNode")),
            ],
            "no tree: a is in b and in c",
        ),
        (
            [
                hyper_node("a", 1, *of_nodes("b", kind="HyperNode")),
                hyper_node("b", 1, *of_nodes("a", kind="HyperNode")),
            ],
            "HyperNode a: its member b is of tier 1, which is not below its own, 1",
        ),
        (
            [hyper_node("a", 2, *of_nodes("a", kind="HyperNode"))],
            "HyperNode a: its member a is of tier 2",
        ),
        ([hyper_node("a", -1)], r"HyperNode a: spec\.tier: '-1' is no number"),
        ([hyper_node("a", "9" * 5000)], r"HyperNode a: spec\.tier: '9+.* is no number"),
        ([hyper_node("a", "one")], r"HyperNode a: spec\.tier: 'one' is no number"),
        (
            [hyper_node("a", 1, {"type": "Rack", "selector": {"exactMatch": {"name": "n"}}})],
            "HyperNode a: a member's type is Node or HyperNode, not 'Rack'",
        ),
        ([hyper_node("a", 1, {"type": "Node"})], "HyperNode a: a member has one of exactMatch"),
        (
            [hyper_node("a", 1, {"type": "HyperNode", "selector": {"labelMatch": {}}})],
            "HyperNode a: labelMatch is for members of type Node",
        ),
        ([hyper_node("a", 1, matching("n("))], "HyperNode a: regexMatch.pattern .* cannot be read"),
        ([hyper_node("a", 1, matching("(n+)+$"))], "is refused: it repeats a group without end"),
        ([hyper_node("a", 1, matching(".*" * 4 + "x"))], "more than 3 parts"),
        ([hyper_node("a", 1, matching("n" * 254))], "longer than 253"),
        ([hyper_node(f"t{at}", at) for at in range(16)], "have 16 tiers, 15 are the most"),
    ],
)
def test_what_is_no_tree_is_refused_with_the_hypernodes_named(found, expected_text):
    """HyperNodes that put a node into two branches, and expressions that may not terminate, are
    rejected; the message names the HyperNodes.
    """
    with pytest.raises(ObjectError, match=expected_text):
        made(*found)


def test_early_versions_write_a_tier_as_a_text():
    """The text is read as the number."""
    assert ("tier-1", "node") == made(hyper_node("a", "1", *of_nodes("n0"))).levels


# Requests of PodGroups


def read(**topology):
    """Read a PodGroup with such a networkTopology."""
    raw = {"metadata": {"name": "g"}, "spec": {"minMember": 1, "networkTopology": topology}}
    return volcano.SOURCE.read(msgspec.convert(raw, VolcanoPodGroup))


def rules(tree, highest=None, name=""):
    """Return the levels that a rule for tiers binds."""
    spec = resolved(GroupSpec("", "g", tiers=TierRule(highest, name)), tree)
    assert set(spec.constraints.values()) <= {HARD}
    return list(spec.constraints)


def test_hard_is_one_unit_of_the_highest_tier_that_is_allowed():
    """A hard rule applies to the allowed tier and to all tiers above.

    A number between two tiers means the lower, one above all of them nothing.
    """
    tree = made(*SWITCHES, hyper_node("s9", 4, *of_nodes("s2", kind="HyperNode")))

    assert ["tier-4", "tier-2", "tier-1"] == rules(tree, 1)
    assert ["tier-4", "tier-2"] == rules(tree, 2)
    assert ["tier-4", "tier-2"] == rules(tree, 3)
    assert ["tier-4"] == rules(tree, 4)
    assert [] == rules(tree, 5)
    with pytest.raises(ObjectError, match="highestTierAllowed: 0 is below the lowest tier, 1"):
        rules(tree, 0)


def test_a_tier_may_have_a_name():
    """A name that several tiers have is no name."""
    rack = hyper_node("s0", 1, *of_nodes("n0"), tier_name="rack")
    row = hyper_node("s2", 2, *of_nodes("s0", kind="HyperNode"), tier_name="row")

    assert ["tier-2", "tier-1"] == rules(made(rack, row), name="rack")
    with pytest.raises(ObjectError, match=r"no tier is called 'hall' \(there are: rack, row\)"):
        rules(made(rack, row), name="hall")
    row["spec"]["tierName"] = "rack"
    with pytest.raises(ObjectError, match=r"there are: none"):
        rules(made(rack, row), name="rack")


@pytest.mark.parametrize(
    ("topology", "expected_text"),
    [
        ({"mode": "strict", "highestTierAllowed": 1}, '"hard" or "soft" is needed'),
        ({}, "with mode hard one of highestTierAllowed and highestTierName is needed"),
        ({"highestTierAllowed": 1, "highestTierName": "rack"}, "one of highestTierAllowed and"),
    ],
)
def test_what_is_wrong_with_a_network_topology_is_named(topology, expected_text):
    """The message names the field and the required form."""
    with pytest.raises(ObjectError, match=expected_text):
        read(**topology)


def test_a_network_topology_and_an_annotation_exclude_each_other():
    """Both name a tree for one group, which is rejected."""
    raw = {
        "metadata": {"annotations": {"sakkara.group/topology": "fabric"}},
        "spec": {"networkTopology": {"mode": "soft"}},
    }
    with pytest.raises(ObjectError, match=r"sakkara\.group/topology exclude each other"):
        volcano.SOURCE.read(msgspec.convert(raw, VolcanoPodGroup))


# In a cluster


def cluster(cpus=2):
    """Return the nodes of the switches, and one that is below none."""
    return [node(name, cpu=str(cpus), memory="64Gi", pods="110") for name in (*NAMES, "n9")]


def used(simulation):
    """Return the nodes that are used."""
    return {node for node in results(simulation).values() if node.startswith("n")}


def test_a_gang_stays_below_one_switch_or_waits():
    """Four pods fill one switch, five need the two; a switch above all allows that."""
    hard = {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}
    done = place(*cluster(), *SWITCHES, pod_group("g", 4, **hard), *members("g", 4))
    assert used(done) in ({"n0", "n1"}, {"n2", "n3"})

    five = members("g", 5)
    pending = place(*cluster(), *SWITCHES, pod_group("g", 5, **hard), *five)
    assert set() == used(pending)
    (reported,) = pending.groups
    assert "do not fit one tier-1: the largest, s0, has capacity for 4" in reported.message
    wider = {"networkTopology": {"mode": "hard", "highestTierAllowed": 2}}
    done = place(*cluster(), *SWITCHES, pod_group("g", 5, **wider), *five)
    assert 5 == done.summary.scheduled
    assert used(done) <= set(NAMES)


def test_soft_takes_the_lowest_tier_there_is_and_any_node_if_need_be():
    """Ten pods fill all nodes, with the node outside of the tree; two are on one node."""
    soft = {"networkTopology": {"mode": "soft"}}
    done = place(*cluster(), *SWITCHES, pod_group("g", 10, **soft), *members("g", 10))
    assert {*NAMES, "n9"} == used(done)

    done = place(*cluster(), *SWITCHES, pod_group("g", 4, **soft), *members("g", 4))
    assert used(done) in ({"n0", "n1"}, {"n2", "n3"})


def test_a_group_is_blocked_while_the_hypernodes_are_no_tree():
    """The message names the nodes and their HyperNodes."""
    hard = {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}
    overlapping = hyper_node("s7", 1, *of_nodes("n0"))
    pending = place(*cluster(), *SWITCHES, overlapping, pod_group("g", 1, **hard), *members("g", 1))
    (reported,) = pending.groups
    assert "the node n0 is in s0 and in s7, of which neither is in the other" in reported.message

    pending = place(*cluster(), pod_group("g", 1, **hard), *members("g", 1))
    (reported,) = pending.groups
    assert "spec.networkTopology: there is no HyperNode" in reported.message


def test_our_groups_may_call_the_tree_by_its_name():
    """The rules name its tiers."""
    rules = {"sakkara.group/topology": "hypernodes"}
    rules["sakkara.group/constraints"] = '{"tier-1": {"type": "spread"}}'
    spread = pod_group("g", 4, annotations=rules)
    done = place(*cluster(), *SWITCHES, spread, *members("g", 4))
    found = list(results(done).values())
    assert [2, 2] == [sum(one in below for one in found) for below in (NAMES[:2], NAMES[2:])]
