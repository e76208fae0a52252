"""PodGroups of KAI and PodGangs of Grove: fields read, objects rejected, and members."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.base.errors import ObjectError
from scheduler.framework.calls import ApiCall
from scheduler.framework.groups import GroupStage
from scheduler.groups.description.classes import ClassSpec
from scheduler.groups.sources import grove, kai
from scheduler.groups.sources.registry import dispute, group_of, moved
from scheduler.groups.status.announcing import StageReport, announce
from scheduler.groups.status.lifecycle import GroupRecord
from scheduler.objects.groups.gangs import KaiPodGroup, PodGang
from scheduler.objects.pod import Pod
from scheduler.testing import node
from tests.unit.simulate.asking import place, pod

KAI, GROVE = "scheduling.run.ai/v2alpha2", "scheduler.grove.io/v1alpha1"
RACKS = [
    node(f"n{at}", allocatable={"cpu": "2"}, labels={"rack": f"r{at // 2}", "zone": "z"})
    for at in range(4)
]
META = {"name": "g", "namespace": "default", "uid": "g"}
LEVELS = {"levels": [{"nodeLabel": "zone"}, {"nodeLabel": "rack"}]}
TOPOLOGY = {
    "apiVersion": "kueue.x-k8s.io/v1beta1",
    "kind": "Topology",
    "metadata": {"name": "t"},
    "spec": LEVELS,
}


def of_kai(**spec):
    """Return a PodGroup of KAI."""
    return {"apiVersion": KAI, "kind": "PodGroup", "metadata": META, "spec": spec}


def of_grove(**spec):
    """Return a PodGang."""
    return {"apiVersion": GROVE, "kind": "PodGang", "metadata": META, "spec": spec}


def kai_pods(number, part=""):
    """Return pods of the PodGroup g of KAI, in a subgroup."""
    labels = {"kai.scheduler/subgroup-name": part} if part else {}
    pods = [
        pod(f"{part or 'p'}-{at}", requests={"cpu": "1"}, labels=labels) for at in range(number)
    ]
    for one in pods:
        one["metadata"]["annotations"] = {"pod-group-name": "g"}
    return pods


def grove_pods(number, clique):
    """Return pods of the PodGang g, of a PodClique."""
    labels = {"grove.io/podgang": "g", "grove.io/podclique": clique}
    return [pod(f"{clique}-{at}", requests={"cpu": "1"}, labels=labels) for at in range(number)]


def parts(**least):
    """Return subgroups with these minimums."""
    return [{"name": name, "minMember": number} for name, number in least.items()]


def cliques(**least):
    """Return podgroups of a PodGang with these minimums."""
    return [{"name": name, "podReferences": [], "minReplicas": n} for name, n in least.items()]


def test_all_or_nothing():
    """Eight pods fit: eight are placed, of nine none; a pod beyond the minimum waits alone."""
    for least, pods, placed in ((8, 8, 8), (9, 9, 0), (8, 9, 8)):
        found = place(*RACKS, of_kai(minMember=least, queue="q"), *kai_pods(pods))
        assert placed == found.summary.scheduled
        gang = of_grove(podgroups=cliques(a=least - 2, b=2))
        members = [*grove_pods(pods - 2, "a"), *grove_pods(2, "b")]
        found = place(*RACKS, gang, *members)
        assert placed == found.summary.scheduled


def test_each_part_needs_its_own_minimum():
    """The right number of pods in all, but one part lacks a member: it is named."""
    by_kai = place(*RACKS, of_kai(subGroups=parts(a=2, b=2)), *kai_pods(3, "a"), *kai_pods(1, "b"))
    gang = of_grove(podgroups=cliques(a=2, b=2))
    by_grove = place(*RACKS, gang, *grove_pods(3, "a"), *grove_pods(1, "b"))

    for found in (by_kai, by_grove):
        assert 0 == found.summary.scheduled
        assert "its class b has 1 members, at least 2 are needed" in found.pods[0].message


def test_a_required_label_keeps_the_group_in_one_value():
    """Five pods fit the zone, four a rack; no object describes the labels."""
    for required, number in (("rack", 0), ("zone", 5)):
        topology = {"requiredTopologyLevel": required, "topology": "t"}
        found = place(*RACKS, of_kai(minMember=5, topologyConstraint=topology), *kai_pods(5))
        assert number == found.summary.scheduled
        pack = {"packConstraint": {"required": required}}
        gang = of_grove(podgroups=cliques(a=5), topologyConstraint=pack)
        assert number == place(*RACKS, gang, *grove_pods(5, "a")).summary.scheduled


def test_a_preferred_label_is_a_level_of_a_topology():
    """Four pods are placed in one rack; without the Topology the group is on hold, with the
    reason.
    """
    topology = {"preferredTopologyLevel": "rack", "requiredTopologyLevel": "zone"}
    group = of_kai(minMember=4, topologyConstraint=topology)
    found = place(*RACKS, TOPOLOGY, group, *kai_pods(4))
    assert 4 == found.summary.scheduled
    assert 1 == len({one.node[:1] + str(int(one.node[1:]) // 2) for one in found.pods})

    found = place(*RACKS, group, *kai_pods(4))
    assert "no Topology of Kueue has the level zone and rack" in found.pods[0].message


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"minMember": -1}, "spec.minMember"),
        ({"minMember": 10**6}, "spec.minMember"),
        ({"preemptibility": "non-preemptible"}, "spec.preemptibility"),
        ({"minSubGroup": 1}, "spec.minSubGroup"),
        ({"subGroups": [{"name": "a", "parent": "b"}]}, "spec.subGroups[0].parent"),
        ({"subGroups": [{"name": "a", "minSubGroup": 1}]}, "spec.subGroups[0].minSubGroup"),
        (
            {"subGroups": [{"name": "a", "topologyConstraint": {"topology": "t"}}]},
            "spec.subGroups[0].topologyConstraint",
        ),
        ({"subGroups": parts(a=1) * 2}, "spec.subGroups[1].name"),
        ({"subGroups": parts(a=-1)}, "spec.subGroups[0].minMember"),
        ({"subGroups": parts(**{f"p{at}": 1 for at in range(9)})}, "spec.subGroups: 9"),
        ({"subGroups": parts(a=9_999, b=9_999)}, "the sum of minMember"),
    ],
)
def test_a_field_of_kai_that_is_not_placed_exactly_is_refused(spec, field):
    """The group is on hold with the field's name."""
    raw = msgspec.convert({"metadata": META, "spec": spec}, KaiPodGroup)
    with pytest.raises(ObjectError, match=field.replace("[", r"\[").replace("]", r"\]")):
        kai.SOURCE.read(raw)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({}, "spec.podgroups: 0"),
        ({"podgroups": cliques(a=0)}, "the sum of minReplicas"),
        ({"podgroups": cliques(a=1) * 2}, "spec.podgroups.1..name"),
        ({"podgroups": cliques(a=-1, b=2)}, "spec.podgroups.0..minReplicas"),
        (
            {
                "podgroups": [
                    {
                        "name": "a",
                        "minReplicas": 1,
                        "topologyConstraint": {"packConstraint": {"required": "rack"}},
                    }
                ]
            },
            "spec.podgroups.0..topologyConstraint",
        ),
        (
            {"podgroups": cliques(a=1), "topologyConstraintGroupConfigs": [{"name": "x"}]},
            "spec.topologyConstraintGroupConfigs",
        ),
    ],
)
def test_a_field_of_grove_that_is_not_placed_exactly_is_refused(spec, field):
    """The gang is on hold with the field's name."""
    with pytest.raises(ObjectError, match=field):
        grove.SOURCE.read(msgspec.convert({"metadata": META, "spec": spec}, PodGang))


def test_a_constraint_and_rules_for_a_tree_exclude_each_other():
    """Both state where members are placed."""
    about = META | {"annotations": {"sakkara.group/constraints": '{"rack": {"type": "pack"}}'}}
    spec = {"minMember": 1, "topologyConstraint": {"requiredTopologyLevel": "rack"}}
    with pytest.raises(ObjectError, match="exclude each other"):
        kai.SOURCE.read(msgspec.convert({"metadata": about, "spec": spec}, KaiPodGroup))


def test_members_are_named_by_annotation_and_label():
    """Two equal names of one gang are one claim; different ones are a dispute. Both follow a
    change.
    """
    (by_kai,), (by_grove,) = kai_pods(1), grove_pods(1, "a")
    both = by_grove["metadata"] | {"annotations": {"pod-group-name": "g"}}
    one, two, same = (
        msgspec.convert(raw, Pod) for raw in (by_kai, by_grove, {**by_grove, "metadata": both})
    )

    assert ["kai:default/g", "podgang:default/g"] == [group_of(one), group_of(two)]
    assert "" == dispute(one) == dispute(two) == dispute(same)
    assert ["kai:default/h", "podgang:default/h"] == [group_of(moved(p, "h")) for p in (one, two)]
    both["annotations"]["pod-group-name"] = "h"
    other = msgspec.convert({**by_grove, "metadata": both}, Pod)
    assert "annotation pod-group-name (h) and label grove.io/podgang (g)" == dispute(other)


def test_a_group_without_its_object_waits():
    """The condition names the object that is missing."""
    for pods, name in ((kai_pods(1), f"no PodGroup of {KAI}"), (grove_pods(1, "a"), "no PodGang")):
        assert name in place(*RACKS, *pods).pods[0].message


def test_no_status_is_written():
    """The status of both kinds belongs to their own controllers; an event is still reported."""
    for source, struct, spec in (
        (kai, KaiPodGroup, {"minMember": 2}),
        (grove, PodGang, {"podgroups": cliques(a=2)}),
    ):
        obj = msgspec.convert({"metadata": META, "spec": spec}, struct)
        record = GroupRecord(message="does not fit")
        reported = announce(source.KIND, obj, StageReport(GroupStage.REFUSED, record, (), 2, 0.0))
        assert reported
        assert not any(isinstance(one, ApiCall) for one in reported)


def test_classes_are_by_the_labels_of_the_tools():
    """The order is that of their names."""
    found = grove.SOURCE.read(
        msgspec.convert({"metadata": META, "spec": {"podgroups": cliques(b=1, a=2)}}, PodGang)
    )
    assert found.classes is not None
    assert (ClassSpec("a", 2), ClassSpec("b", 1)) == found.classes.classes
    assert "grove.io/podclique" == found.classes.label
