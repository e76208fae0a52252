"""`trellis topology` on files: the tree of labels, with free capacity, pods and groups."""

import json

import pytest
import yaml

from scheduler.cli.main import run
from scheduler.testing import node
from tests.unit.plugins.groupobjects import config_map
from tests.unit.plugins.volcanoobjects import hyper_node, of_nodes
from tests.unit.simulate.asking import pod

ZONE, RACK = "topology.kubernetes.io/zone", "topology.trellis.dev/rack"
GPU = "example.com/gpu"


def labelled(name, zone="", rack="", **fields):
    """A node in a rack of a zone, with eight GPUs in zone a."""
    labels = {key: value for key, value in ((ZONE, zone), (RACK, rack)) if value}
    made = node(name, cpu="4", memory="8Gi", labels=labels, **fields)
    if zone == "a":
        made["status"]["allocatable"][GPU] = "8"
    return made


@pytest.fixture
def cluster(tmp_path):
    """Two zones, three racks, a node that belongs nowhere, and a group of two."""
    member = {"labels": {"sakkara.group.name": "g"}}
    closed = labelled("n4", "b", "r3")
    closed["spec"]["unschedulable"] = True
    objects = [
        labelled("n1", "a", "r1"),
        labelled("n2", "a", "r2"),
        labelled("n3", "b", "r3"),
        closed,
        labelled("stray"),
        pod("one", node_name="n1", requests={"cpu": "1", GPU: "2"}, **member),
        pod("two", node_name="n2", requests={"cpu": "2"}, **member),
        pod("web", node_name="n2", requests={"memory": "1Gi"}),
        {
            "apiVersion": "networktopology.diktyo.x-k8s.io/v1alpha1",
            "kind": "NetworkTopology",
            "metadata": {"name": "net"},
            "spec": {"weights": [{"name": "UserDefined", "topologyList": [COSTS]}]},
        },
    ]
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    return str(file)


COSTS = {
    "topologyKey": ZONE,
    "originList": [{"origin": "a", "costList": [{"destination": "b", "networkCost": 5}]}],
}


def rows(capsys):
    """The cells of each line of a table."""
    lines = capsys.readouterr().out.splitlines()
    return [line.rstrip() for line in lines]


def test_the_tree_shows_free_capacity_and_groups(cluster, capsys):
    """Each level adds up the units below it; nodes outside of a level are last."""
    assert 0 == run(["topology", "--snapshot", cluster])
    found = rows(capsys)

    assert "3 of 20" in found[1]
    assert "2 of 16" in found[1]
    assert "default/g 2" in found[1]
    assert ["cluster", "a", "r1", "r2", "b", "r3", "(without"] == [
        line.split()[0] for line in found[1:8]
    ]
    assert "2 (1 unschedulable)" in next(line for line in found if line.split()[:1] == ["r3"])
    assert "default/net UserDefined   zone    a      b    5" in found[-1]


def test_the_tree_down_to_the_nodes_and_as_json(cluster, capsys):
    """The JSON has the same facts with exact amounts."""
    assert 0 == run(["topology", "--snapshot", cluster, "--nodes"])
    assert any("      n4" in line and "unschedulable" in line for line in rows(capsys))
    assert 0 == run(["topology", "--snapshot", cluster, "-o", "json"])
    found = json.loads(capsys.readouterr().out)

    zone = found["tree"]["children"][0]
    assert (ZONE, "a", 2, 3) == (zone["level"], zone["name"], zone["nodes"], zone["pods"])
    assert {"requested": 3000, "allocatable": 8000} == zone["room"]["cpu"]
    assert 5 == found["ways"][0]["cost"]


def test_levels_are_labels_of_ones_own_choice(cluster, capsys):
    """A label that no node has is named, with those that nodes do have."""
    assert 0 == run(["topology", "--snapshot", cluster, "--level", RACK])
    assert ["cluster", "r1", "r2", "r3", "(without"] == [
        line.split()[0] for line in rows(capsys)[1:6]
    ]
    assert 2 == run(["topology", "--snapshot", cluster, "--level", "rack"])
    error = capsys.readouterr().err
    assert "no node carries the label rack" in error
    assert f"{ZONE}, {RACK}" in error
    assert 2 == run(["topology", "--snapshot", cluster, "--numa", "--nodes"])


def test_trees_that_have_a_name_are_listed_and_shown(cluster, tmp_path, capsys):
    """Kueue's Topology and a topology ConfigMap are listed; nodes in neither are last."""
    more = tmp_path / "more.yaml"
    fabric = {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Topology",
        "metadata": {"name": "fabric"},
        "spec": {"levels": [{"nodeLabel": RACK}, {"nodeLabel": "kubernetes.io/hostname"}]},
    }
    hand = {"name": "by-hand", "level-names": '["row", "node"]', "tree": '{"left": {"n1": {}}}'}
    made = config_map("tree", "sakkara.topology", hand)
    broken = config_map("worse", "sakkara.topology", {"tree": "{"})
    more.write_text(yaml.safe_dump_all([fabric, made, broken]))
    asked = ["topology", "--snapshot", cluster, "--snapshot", str(more)]

    assert 0 == run(asked)
    assert ["by-hand", "fabric"] == [line.split()[0] for line in rows(capsys)[-2:]]
    assert 0 == run([*asked, "--tree", "fabric"])
    assert ["cluster", "r1", "r2", "r3", "(without"] == [
        line.split()[0] for line in rows(capsys)[1:6]
    ]
    assert 0 == run([*asked, "--tree", "by-hand"])
    assert ["cluster", "left", "(without"] == [line.split()[0] for line in rows(capsys)[1:4]]
    assert 0 == run([*asked, "-o", "json"])
    found = json.loads(capsys.readouterr().out)["trees"]
    assert {"name": "fabric", "source": "Topology of Kueue", "levels": [RACK]} in found
    assert 2 == run([*asked, "--tree", "fabrik"])
    assert "there are: by-hand, fabric" in capsys.readouterr().err
    assert 2 == run([*asked, "--tree", "fabric", "--level", RACK])


def test_the_tree_of_hypernodes_is_shown_or_what_is_wrong_with_it(cluster, tmp_path, capsys):
    """Tiers from the highest down; two HyperNodes that share a node are no tree."""
    more = tmp_path / "more.yaml"
    switch = hyper_node("switch", 1, *of_nodes("n1", "n2"))
    more.write_text(yaml.safe_dump_all([switch]))
    asked = ["topology", "--snapshot", str(cluster), "--snapshot", str(more)]
    assert 0 == run([*asked, "--tree", "hypernodes"])
    assert any(line.split()[:2] == ["switch", "tier-1"] for line in rows(capsys))
    assert 0 == run(asked)
    assert ["hypernodes", "HyperNodes", "tier-1"] == rows(capsys)[-1].split()

    more.write_text(yaml.safe_dump_all([switch, hyper_node("torn", 1, *of_nodes("n2"))]))
    assert 2 == run([*asked, "--tree", "hypernodes"])
    assert "the node n2 is in switch and in torn" in capsys.readouterr().err


HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def configured(tmp_path, args, name="trellis"):
    """A configuration file whose profile places groups by these arguments."""
    file = tmp_path / "config.yaml"
    entry = {"name": "ClusterTopologyPlacementGroup", "args": args}
    profiles = {"profiles": [{"schedulerName": name, "pluginConfig": [entry]}]}
    file.write_text(HEAD + yaml.safe_dump(profiles))
    return str(file)


def test_the_tree_is_the_configuration_s(cluster, tmp_path, capsys):
    """The topology labels or the tree that the profile names are used, unless flags name others."""
    config = configured(tmp_path, {"topologyLabels": [RACK]})
    assert 0 == run(["topology", "--snapshot", cluster, "--config", config])
    assert ["cluster", "r1", "r2", "r3", "(without"] == [
        one.split()[0] for one in rows(capsys)[1:6]
    ]
    config = configured(tmp_path, {"topologyLabels": [RACK, "example.com/pod"]})
    assert 0 == run(["topology", "--snapshot", cluster, "--config", config])
    assert "notice: no node carries example.com/pod" in capsys.readouterr().err
    config = configured(tmp_path, {"topology": "fabric"})
    assert 2 == run(["topology", "--snapshot", cluster, "--config", config])
    assert "fabric" in capsys.readouterr().err
    words = ["topology", "--snapshot", cluster, "--config", config, "--level", ZONE]
    assert 0 == run(words)
    capsys.readouterr()
    assert 2 == run([*words, "--scheduler-name", "trelis"])
    assert "no profile is called trelis; there are: trellis" in capsys.readouterr().err
