"""`trellis topology --numa` on files: each node's free amounts, and why a node is not used."""

import json

import yaml

from scheduler.cli.main import run
from scheduler.objects.reports.podfingerprint import fingerprint, mark_of
from scheduler.testing import node
from tests.unit.simulate.asking import pod


def report(name, seen, *, written="2026-01-01T00:00:00Z"):
    zones = [
        {
            "name": f"node-{number}",
            "type": "Node",
            "resources": [
                {"name": "cpu", "capacity": "8", "allocatable": "8", "available": "6"},
                {"name": "memory", "capacity": "8Gi", "allocatable": "8Gi", "available": "8Gi"},
            ],
        }
        for number in (0, 1)
    ]
    values = {
        "topologyManagerPolicy": "single-numa-node",
        "topologyManagerScope": "pod",
        "nodeTopologyPodsFingerprint": fingerprint(mark_of("default", one) for one in seen),
    }
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name, "managedFields": [{"manager": "agent", "time": written}]},
        "attributes": [{"name": key, "value": value} for key, value in values.items()],
        "zones": zones,
    }


def cluster(tmp_path):
    """Return a valid node, one with a foreign pod, one with an invalid report and one without."""
    odd = report("odd", []) | {"zones": [{"name": "zone-a", "type": "Node"}]}
    foreign = pod("foreign", node_name="taken", requests={"cpu": "2"})
    foreign["spec"]["schedulerName"] = "other"
    foreign["status"] = {"phase": "Pending"}
    objects = [
        *(node(name, cpu="16", memory="16Gi") for name in ("fine", "taken", "odd", "bare")),
        pod("ours", node_name="fine", requests={"cpu": "2"}),
        foreign,
        report("fine", ["ours"]),
        report("taken", []),
        odd,
    ]
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    return str(file)


def test_a_table_of_all_nodes(tmp_path, capsys):
    """Each node has its zones, their free amounts, the age of its report and its state."""
    argv = ["topology", "--numa", "--snapshot", cluster(tmp_path)]
    assert 0 == run([*argv, "--now", "2026-01-01T00:00:42Z"])
    lines = capsys.readouterr().out.splitlines()
    found = {line.split()[0]: line for line in lines[1:]}

    assert ["NODE", "POLICY", "SCOPE", "ZONES", "LEFT", "AGE"] == lines[0].split()[:6]
    assert "cpu 6/6 memory 8Gi/8Gi   42s" in found["fine"]
    assert " used " in found["fine"]
    assert "cpu 4/4" in found["taken"]
    assert "no report accounts for default/foreign" in found["taken"]
    assert "none of its zones counts" in found["odd"]
    assert "no NodeResourceTopology of this name" in found["bare"]


def test_other_forms_and_whose_pods_are_ours(tmp_path, capsys):
    """The JSON has exact amounts; pods of a named profile are not foreign."""
    argv = ["topology", "--numa", "--snapshot", cluster(tmp_path), "--scheduler-name", "other"]
    assert 0 == run([*argv, "-o", "json"])
    items = {item["node"]: item for item in json.loads(capsys.readouterr().out)["items"]}

    assert "stale" != items["taken"]["state"]
    assert 1 == items["taken"]["owed"]
    assert [4000, 4000] == items["taken"]["free"]["cpu"]


def test_explain_reports_the_free_capacity_of_zones(tmp_path, capsys):
    """The figures of a verdict are shown beside it: the report's age, and each zone."""
    file = cluster(tmp_path)
    wide = pod("wide", requests={"cpu": "7", "memory": "1Gi"})
    requests = wide["spec"]["containers"][0]["resources"]
    requests["limits"] = requests["requests"]
    more = tmp_path / "pod.yaml"
    more.write_text(yaml.safe_dump(wide))
    argv = ["explain", "wide", "--snapshot", file, "-f", str(more), "--node", "fine"]
    run([*argv, "--now", "2026-01-01T00:00:42Z", "-o", "json"])
    (found,) = json.loads(capsys.readouterr().out)["nodes"]
    verdict = found["plugins"]["NodeResourceTopologyMatch"]

    assert ["cannot align pod"] == verdict["reasons"]
    assert "report used, 42 s old; single-numa-node, scope pod" == verdict["figures"][0]
    assert "zone 1 has left: cpu 6, memory 8Gi" == verdict["figures"][-1]


def test_an_anonymous_snapshot_keeps_the_zones(tmp_path, capsys):
    """Nodes and pods have other names, zones and resources the same; no hash of a pod is left."""
    assert 0 == run(["snapshot", "--snapshot", cluster(tmp_path), "--anonymize", "-o", "json"])
    items = json.loads(capsys.readouterr().out)["items"]
    reports = [item for item in items if item["kind"] == "NodeResourceTopology"]
    nodes = {item["metadata"]["name"] for item in items if item["kind"] == "Node"}

    assert {item["metadata"]["name"] for item in reports} < nodes
    assert "pfp0" not in json.dumps(items)
    zone = next(one["zones"][0] for one in reports if one["zones"][0]["name"] == "node-0")
    assert ["cpu", "memory"] == [resource["name"] for resource in zone["resources"]]
    assert ["topologyManagerPolicy", "topologyManagerScope"] == [
        one["name"] for one in reports[0]["attributes"]
    ]
