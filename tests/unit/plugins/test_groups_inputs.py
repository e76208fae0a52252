"""The ConfigMaps of Sakkara are read strictly: a fault is named, no value is guessed."""

from __future__ import annotations

import pytest

from scheduler.base.errors import ObjectError
from scheduler.groups.description.rules import LevelConstraint
from scheduler.groups.description.spec import check_levels
from scheduler.groups.sources import coscheduling
from scheduler.groups.sources.configmap import from_config_map
from scheduler.groups.topology.tree import from_config_map as topology_of
from scheduler.objects.groups.podgroup import PodGroup, PodGroupSpec
from scheduler.objects.meta import AnnotatedMeta
from tests.unit.plugins.groupsdocs import GROUP, TREE


def test_the_design_texts_examples_are_read() -> None:
    """The topology and the group of the design text."""
    topology = topology_of(TREE, "ConfigMap sakkara/tree")
    spec = from_config_map("default", GROUP, "ConfigMap default/group-a")

    assert ("rack", "node") == topology.levels
    assert (("rack-0",), "node-0") == topology.leaves[0]
    assert 6 == len(topology.leaves)
    assert ("default/group-a", 8, 0) == (spec.key, spec.size, spec.priority)
    assert {"rack": LevelConstraint("pack"), "node": LevelConstraint("spread")} == spec.constraints


def test_what_is_not_written_has_sakkaras_defaults() -> None:
    """Name, size and priority may be left out; constraints may be empty, not missing."""
    spec = from_config_map("ns", {"constraints": "{}"}, "")

    assert ("ns/default-group", 1, 0) == (spec.key, spec.size, spec.priority)
    with pytest.raises(ObjectError, match=r"data\.constraints is missing"):
        from_config_map("ns", {"size": "2"}, "")


@pytest.mark.parametrize(
    ("key", "text", "expected_text"),
    [
        ("size", "eight", r'data\.size: "eight" is no whole number'),
        ("size", "0", r"data\.size: 0 is not between 1"),
        ("size", "99999999999999999999", "no whole number"),
        ("priority", "1e9", r"data\.priority"),
        ("constraints", "{", r"data\.constraints is no JSON"),
        ("constraints", "[]", r"data\.constraints: a JSON object is needed, not an array"),
        ("constraints", "[" * 100_000, r"data\.constraints is"),
        ("constraints", '{"rack": 3}', r"data\.constraints\.rack: .* not a number"),
        ("constraints", '{"rack": {"typ": "pack"}}', r'"typ" is not known.*type'),
        ("constraints", '{"rack": {"type": "Pack"}}', r'"pack" or "spread"'),
        ("constraints", '{"rack": {"hard": "yes"}}', r"rack\.hard: true or false"),
        (
            "constraints",
            '{"rack": {"min": "2"}}',
            r"rack\.min: a whole number is needed, not a text",
        ),
        ("constraints", '{"rack": {"partitions": true}}', "not a boolean"),
        ("constraints", '{"rack": {"factor": -1}}', "not between 0"),
        ("constraints", '{"rack": {"min": 4, "max": 2}}', "min 4 is above max 2"),
    ],
)
def test_a_wrong_key_of_a_group_is_named(key: str, text: str, expected_text: str) -> None:
    """Each mistake is reported with its key."""
    with pytest.raises(ObjectError, match=expected_text):
        from_config_map("ns", {**GROUP, key: text}, "")


@pytest.mark.parametrize(
    ("key", "text", "expected_text"),
    [
        ("tree", "", r"data\.tree is missing"),
        ("tree", "{}", r"data\.tree holds no node"),
        ("tree", '{"a": 1}', r"a is no JSON object"),
        ("tree", '{"a": {"b": {"c": {}}}}', "3 levels deep"),
        ("tree", '{"b": {}}', "names 2 levels, data.tree has 1"),
        ("tree", '{"a": {"n": {}}, "b": {"n": {}}}', "node n stands in two places"),
        ("level-names", '["rack", 3]', r"data\.level-names"),
        ("level-names", '["rack", "rack"]', "stands there twice"),
        ("resource-names", "cpu", r"data\.resource-names is no JSON"),
    ],
)
def test_a_wrong_key_of_a_topology_is_named(key: str, text: str, expected_text: str) -> None:
    """Each mistake is reported with its key."""
    with pytest.raises(ObjectError, match=expected_text):
        topology_of({**TREE, key: text}, "")


def test_a_level_that_the_topology_has_not_is_named() -> None:
    """A rule for an unknown level is not passed over in silence."""
    spec = from_config_map("ns", {**GROUP, "constraints": '{"rak": {}}'}, "")
    with pytest.raises(ObjectError, match=r'"rak" is not known.*"rack"'):
        check_levels(spec, ("rack", "node"))


def test_units_are_known_by_path_and_short_branches_take_part() -> None:
    """Two racks may share a name; a node right under a zone is a leaf like others."""
    tree = '{"z0": {"rack": {"a": {}}}, "z1": {"rack": {"b": {}}}, "z2": {"c": {}}}'
    topology = topology_of({"tree": tree, "level-names": '["zone", "rack", "node"]'}, "")

    assert [
        (("z0", "rack"), "a"),
        (("z1", "rack"), "b"),
        (("z2", "c"), "c"),
    ] == list(topology.leaves)


def test_nodes_of_a_short_branch_share_no_unit() -> None:
    """Each such node is a unit of its own at the levels that its branch lacks."""
    tree = '{"z0": {"a": {}, "b": {}, "rack": {"c": {}}}, "d": {}}'
    topology = topology_of({"tree": tree, "level-names": '["zone", "rack", "node"]'}, "")

    assert {("z0", "a"), ("z0", "b"), ("z0", "rack"), ("d", "d")} == {
        path for path, _ in topology.leaves
    }


def test_a_pod_group_is_a_group_with_a_minimum() -> None:
    """minMember is the size, and rules are in an annotation."""
    rules = {"sakkara.group/constraints": '{"node": {"factor": 2}}'}
    meta = AnnotatedMeta(name="g", namespace="ns", annotations=rules)
    spec = coscheduling.SOURCE.read(PodGroup(meta, PodGroupSpec(3)))

    assert (3, None, True) == (spec.size, spec.priority, spec.is_minimum)
    assert {"node": LevelConstraint(factor=2)} == spec.constraints
    with pytest.raises(ObjectError, match="minMember"):
        coscheduling.SOURCE.read(PodGroup(meta, PodGroupSpec(0)))
