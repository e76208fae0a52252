"""A group whose members cannot share a host port: the conflict and the advice name the port."""

import pytest

from tests.unit.plugins.groupobjects import members, tree
from tests.unit.simulate.asking import place

PORT = [{"containerPort": 29500, "hostPort": 29500}]


def ported(count, *, cpus=("1",)):
    """Return members with a host port; several CPU requests make several roles."""
    pods = members("g", count)
    for at, pod in enumerate(pods):
        container = pod["spec"]["containers"][0]
        container["ports"] = PORT
        container["resources"]["requests"]["cpu"] = cpus[at % len(cpus)]
        pod["metadata"].pop("labels", None)
        pod["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    return pods


def gang(count):
    """Return a PodGroup with this number of members."""
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": count}}},
    }


@pytest.mark.parametrize("cpus", [("1",), ("1", "2")])
def test_more_members_than_nodes_name_the_port(cpus):
    """Three members on two nodes with free CPUs: the port is the only obstacle."""
    racks = {"r0": {"a": 8, "b": 8}}
    done = place(*tree(racks), gang(3), *ported(3, cpus=cpus))
    messages = {one.message for one in done.pods}

    assert len(messages) == 1
    text = messages.pop()
    assert "host port TCP/29500 cannot hold" in text
    assert "without host port TCP/29500" in text
    assert any("host port TCP/29500" in one for one in done.groups[0].conflict)


@pytest.mark.parametrize("cpus", [("1",), ("1", "2")])
def test_as_many_members_as_nodes_fit(cpus):
    """Each node gets one member."""
    done = place(*tree({"r0": {"a": 8, "b": 8}}), gang(2), *ported(2, cpus=cpus))

    assert {"a", "b"} == {one.node for one in done.pods}
