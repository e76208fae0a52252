"""`trellis simulate` as a person or a script meets it: files in, exit codes and forms out."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from scheduler.cli.main import run
from scheduler.testing import node
from tests.unit.plugins.groupobjects import group, members, tree
from tests.unit.simulate.asking import HEAD, pod

PROJECT = Path(__file__).parents[3]
PACK = (
    f"{HEAD}profiles:\n- plugins: {{score: {{disabled: [{{name: "
    f"NodeResourcesBalancedAllocation}}]}}}}\n"
    "  pluginConfig:\n  - name: NodeResourcesFit\n    args: {scoringStrategy: "
    "{type: MostAllocated, resources: [{name: cpu, weight: 1}]}}\n"
)
GROUPS = {"preEnqueue": {"enabled": [{"name": "ClusterTopologyPlacementGroup"}]}}


@pytest.fixture
def cluster(tmp_path):
    """Return a snapshot of two nodes, a pod on one of them and a pending one."""
    objects = [
        node("a"),
        node("b"),
        pod("old", node_name="b", requests={"cpu": "1"}),
        pod("p", requests={"cpu": "1"}),
    ]
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return file


def write(path, *objects):
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


def out_of(argv, capsys, code=0):
    assert code == run(["simulate", *map(str, argv)])
    return capsys.readouterr().out


def test_everything_fits(cluster, capsys):
    """Exit code 0; JSON and YAML have the same document, the table one row per pod."""
    as_json = json.loads(out_of(["--snapshot", cluster, "-o", "json"], capsys))
    as_yaml = yaml.safe_load(out_of(["--snapshot", cluster, "-o", "yaml"], capsys))
    table = out_of(["--snapshot", cluster], capsys).splitlines()

    assert as_json == as_yaml
    assert ("Simulation", "a") == (as_json["kind"], as_json["pods"][0]["node"])
    assert ["NAMESPACE", "NAME", "RESULT", "NODE", "MESSAGE"] == table[0].split()
    assert ["default", "p", "Scheduled", "a", "-"] == table[1].split()
    assert "default/p a\n" == out_of(["--snapshot", cluster, "-o", "name"], capsys)


def test_something_does_not_fit(cluster, tmp_path, capsys):
    """Exit code 3; `-f` adds pods and their objects, wide shows more, details every node."""
    big = write(tmp_path / "big.yaml", pod("big", requests={"cpu": "9"}))
    out = out_of(["--snapshot", cluster, "-f", big, "-o", "wide", "--details"], capsys, code=3)

    assert "0/2 nodes are available: 2 Insufficient cpu." in out
    assert "default/big: the first attempt" in out
    assert "rejected by NodeResourcesFit" in out
    assert "PROFILE" in out.splitlines()[0]


def test_folders_and_several_files(cluster, tmp_path, monkeypatch, capsys):
    """A folder is read as its manifests, `-` as standard input, files as one cluster."""
    folder = tmp_path / "pods"
    folder.mkdir()
    for name in ("x", "y"):
        write(folder / f"{name}.yaml", pod(name, spec={"schedulerName": "default-scheduler"}))
    (folder / "notes.txt").write_text("no manifest")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(node("c")).encode())))
    argv = ["--snapshot", cluster, "--snapshot", "-", "-f", folder, "-o", "json"]

    assert {"p", "x", "y"} == {one["name"] for one in json.loads(out_of(argv, capsys))["pods"]}


def test_two_configurations(cluster, tmp_path, capsys):
    """Exit code 1 and the pods that differ, or 0 and none."""
    pack, plain = tmp_path / "pack.yaml", tmp_path / "plain.yaml"
    pack.write_text(PACK)
    plain.write_text(f"{HEAD}profiles: [{{}}]\n")
    argv = ["--snapshot", cluster, "--config", plain, "--against"]
    found = json.loads(out_of([*argv, pack, "-o", "json"], capsys, code=1))

    assert "SimulationDiff" == found["kind"]
    assert ["a", "b"] == [found["pods"][0][side]["node"] for side in ("before", "after")]
    assert "p" in out_of([*argv, pack], capsys, code=1)
    assert "default/p\n" == out_of([*argv, pack, "-o", "name"], capsys, code=1)
    assert "" == out_of([*argv, plain], capsys)


def test_batch(tmp_path, monkeypatch, capfdbinary):
    """Line by line, in order, empty lines passed over; wrong cases are answered, exit code 0."""
    cases = [
        json.dumps({"id": number, "objects": [node("n")], "pending": [pod(f"p{number}")]})
        for number in range(3)
    ]
    text = "\n".join([cases[0], "", "{", *cases[1:]])
    (tmp_path / "cases").write_text(text)
    with io.TextIOWrapper(io.BytesIO(text.encode())) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert 0 == run(["simulate", "--batch", "-", "--details"])
    first = capfdbinary.readouterr().out
    assert 0 == run(["simulate", "--batch", str(tmp_path / "cases"), "--details"])

    assert first == capfdbinary.readouterr().out
    answers = [json.loads(line) for line in first.splitlines()]
    assert [0, None, 1, 2] == [answer["id"] for answer in answers]
    assert "InvalidCase" == answers[1]["error"]["code"]
    assert "nodes" in answers[0]["simulation"]["pods"][0]


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (["--kubeconfig", "/no/such"], "error: /no/such: "),
        (
            ["--snapshot", "/no/such"],
            "error: /no/such: cannot be read: No such file or directory\n",
        ),
        (["--snapshot", "-", "-f", "-"], "error: -: standard input can be read once only\n"),
        (["--batch", "x", "--snapshot", "y"], "error: --batch goes without --snapshot, -f and"),
        (["--batch", "/no/such"], "error: /no/such: cannot be read: No such file or directory\n"),
        (["--snapshot", "x", "--now", "soon"], 'error: now: "soon" is not a time like 2026-01-31T'),
        (["--snapshot", "x", "--ties", "luck"], "error: Invalid value for '--ties'"),
        (["--snapshot", "a\0b"], "error: a\0b: cannot be read: "),
    ],
)
def test_wrong_usage(argv, error, capsys):
    """The command prints one line and exits with 2."""
    assert 2 == run(["simulate", *argv])
    out, err = capsys.readouterr()

    assert "" == out
    assert err.startswith(error)


def test_a_broken_file_is_one_line(tmp_path, capsys):
    """The line names file, line, object and field; the exit code is 2."""
    file = tmp_path / "bad.yaml"
    file.write_text(
        f"{yaml.safe_dump(node('n'))}---\n{yaml.safe_dump(pod('p', requests={'cpu': '-1'}))}"
    )
    assert 2 == run(["simulate", "--snapshot", str(file)])
    line = yaml.safe_dump(node("n")).count("\n") + 2

    assert (
        f"error: {file}:{line}: Pod default/p: spec.containers[0].resources.requests[cpu]: "
        "-1 is less than 0\n"
    ) == capsys.readouterr().err


def test_notices_stand_on_stderr(cluster, tmp_path, capsys):
    """Omitted objects are reported, separately from the answer."""
    other = write(tmp_path / "other.yaml", pod("q", spec={"schedulerName": "volcano"}))
    assert 0 == run(["simulate", "--snapshot", str(cluster), "--snapshot", other, "-o", "json"])
    out, err = capsys.readouterr()

    assert 1 == len(json.loads(out)["pods"])
    assert "notice: left alone: 1 unbound pods of schedulerName volcano" in err


def test_the_same_bytes_whatever_the_hash_seed(cluster):
    """Two processes that order their sets differently print the same."""
    argv = ["simulate", "--snapshot", str(cluster), "--details", "-o", "json"]
    printed = [
        subprocess.run(
            [sys.executable, "-m", "scheduler.cli.main", *argv],
            cwd=PROJECT,
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]

    assert printed[0] == printed[1]
    assert b"Scheduled" in printed[0]


@pytest.mark.parametrize(
    ("solver", "limits", "code"),
    [("Exact", {}, 0), ("Exact", {"timeLimitSeconds": 1e-9}, 4), ("Greedy", {}, 4)],
)
def test_a_group_without_proof(tmp_path, capsys, solver: str, limits: dict[str, float], code: int):
    """Exit code 4 where all fit and the time, the process's own too, or the solver forbids a
    proof.
    """
    args = {"name": "ClusterTopologyPlacementGroup", "args": {"solver": solver}}
    ours = {"apiVersion": "trellis.dev/v1alpha1", "kind": "TrellisConfiguration", "solver": limits}
    kube = {**yaml.safe_load(HEAD), "profiles": [{"pluginConfig": [args], "plugins": GROUPS}]}
    config = write(tmp_path / "config.yaml", kube, ours)
    objects = [*tree({"r": {"a": 2, "b": 2}}), group("g", 3, {"node": {"type": "pack"}})]
    file = write(tmp_path / "cluster.yaml", *objects, *members("g", 3))
    out = out_of(["--snapshot", file, "--config", config, "-o", "json"], capsys, code)

    (found,) = json.loads(out)["groups"]
    assert ("Bound", code == 0) == (found["status"], found["optimal"])


def test_which_nodes_let_all_pods_fit(cluster, tmp_path, capsys):
    """Instead of a placement the output has the number of nodes of each kind, and the cheapest
    kind.
    """
    more = tmp_path / "more.yaml"
    more.write_text(yaml.safe_dump_all(pod(f"m{at}", requests={"cpu": "4"}) for at in range(4)))
    words = ["simulate", "--snapshot", str(cluster), "-f", str(more), "-o", "json"]
    assert 3 == run(words)
    capsys.readouterr()
    assert 0 == run([*words, "--offer-nodes", "1.5=a"])
    (found,) = json.loads(capsys.readouterr().out)["offers"]
    assert 0 == run([*words[:-2], "-o", "name", "--add-nodes", f"{found['nodes']}=a"])
    assert 3 == run([*words[:-2], "-o", "name", "--add-nodes", f"{found['nodes'] - 1}=a"])
    assert found["total"] == 1.5 * found["nodes"]
    assert 2 == run([*words[:-2], "--offer-nodes", "1=a", "--against", str(more)])
