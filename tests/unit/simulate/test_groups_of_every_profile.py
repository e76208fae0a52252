"""Every profile schedules groups: with any configuration file, no member is placed alone."""

import json
from typing import Any

import pytest

from scheduler.testing import node
from tests.unit.config.profilefiles import GATING, HEAD, files
from tests.unit.simulate.asking import place, pod, setup

SIZE = 3
CONFIG_MAP = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "g", "namespace": "default", "labels": {"sakkara.group": ""}},
    "data": {"name": "g", "size": str(SIZE), "constraints": json.dumps({})},
}


def described(kind: str, version: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Return a PodGroup of one of the three kinds."""
    meta = {"name": "g", "namespace": "default", "uid": "g"}
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}


COSCHEDULING = described("PodGroup", "scheduling.x-k8s.io/v1alpha1", {"minMember": SIZE})
VOLCANO = described("PodGroup", "scheduling.volcano.sh/v1beta1", {"minMember": SIZE})
WORKLOAD = described(
    "PodGroup",
    "scheduling.k8s.io/v1alpha2",
    {"schedulingPolicy": {"gang": {"minCount": SIZE}}},
)
# The object of the group, and the field by which its pods name it.
SOURCES = {
    "ConfigMap": (CONFIG_MAP, "metadata", {"labels": {"sakkara.group.name": "g"}}),
    "Coscheduling": (COSCHEDULING, "metadata", {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}),
    "Volcano": (VOLCANO, "metadata", {"annotations": {"scheduling.k8s.io/group-name": "g"}}),
    "Workload": (WORKLOAD, "spec", {"schedulingGroup": {"podGroupName": "g"}}),
    "nothing": (None, "metadata", {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}),
}


def gang(source: str, cpu: str) -> list[dict[str, Any]]:
    """Return the group's object and its members, each with this request."""
    described_by, place_in, named = SOURCES[source]
    members = [pod(f"g-{number}", requests={"cpu": cpu}) for number in range(SIZE)]
    for member in members:
        member[place_in] |= named
    return [*([] if described_by is None else [described_by]), *members]


@pytest.mark.parametrize("text", files().values(), ids=files().keys())
def test_a_gang_that_does_not_fit_starts_no_member(text: str):
    """A gang that fits starts whole, and a pod of no group is placed as usual."""
    using = setup(config=text)
    for source in SOURCES:
        found = place(node("n", cpu="8"), *gang(source, "4"), pod("single"), using=using)
        placed = {one.name for one in found.pods if one.node}
        assert {"single"} == placed, source
    found = place(node("n", cpu="8"), *gang("Coscheduling", "2"), using=using)
    assert SIZE == found.summary.scheduled


@pytest.mark.parametrize("point", ["multiPoint", "preEnqueue"])
def test_a_profile_without_the_plugin_gates_pods_of_groups(point: str):
    """The message of each names the reason; other pods are placed."""
    using = setup(config=HEAD + GATING % point)
    for source in SOURCES:
        found = place(node("n", cpu="8"), *gang(source, "1"), pod("single"), using=using)
        members = [one for one in found.pods if one.name != "single"]
        assert {"single"} == {one.name for one in found.pods if one.node}
        for one in members:
            assert "Gated" == one.result
            text = "waits: the profile trellis disables ClusterTopologyPlacementGroup"
            assert text in one.message, (source, one.message)
