"""`trellis explain` and `trellis snapshot` on files: forms, exit codes, errors."""

import json

import msgspec
import pytest
import yaml

from scheduler.base.errors import InputError
from scheduler.cli.inputs.access import seconds
from scheduler.cli.main import run
from scheduler.testing import node
from tests.unit.simulate.asking import pod


@pytest.fixture
def cluster(tmp_path):
    """Return two nodes of different size, a placed pod, one that waits and one that fits
    nowhere.
    """
    objects = [
        node("small", cpu="1"),
        node("large", cpu="8"),
        pod("old", namespace="shop", node_name="large", requests={"cpu": "1"}),
        pod("p", namespace="shop", requests={"cpu": "2"}),
        pod("huge", requests={"cpu": "99"}),
    ]
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    return str(file)


def test_explain_a_waiting_pod(cluster, capsys):
    """The first line is the answer; then the nodes follow, best first, each with its reason."""
    assert 0 == run(["explain", "p", "-n", "shop", "--snapshot", cluster])
    lines = capsys.readouterr().out.splitlines()

    assert "shop/p would go to large: the only node found to fit" == lines[0]
    assert ["NODE", "VERDICT", "TOTAL", "WHY"] == lines[2].split()
    assert lines[3].split()[:2] == ["large", "fits"]
    assert "NodeResourcesFit: Insufficient cpu" in lines[4]


def test_explain_a_placed_pod_and_one_that_fits_nowhere(cluster, capsys):
    """Exit code 0 if there is a node, else 3."""
    assert 0 == run(["explain", "shop/old", "--snapshot", cluster])
    assert "shop/old is on large, and would be placed there again" in capsys.readouterr().out
    assert 3 == run(["explain", "huge", "--snapshot", cluster, "-o", "json"])
    answer = json.loads(capsys.readouterr().out)

    assert ("Explanation", "Unschedulable") == (answer["kind"], answer["result"])
    assert answer["message"].startswith("0/2 nodes are available: 2 Insufficient cpu.")
    assert ["large", "small"] == [one["name"] for one in answer["nodes"]]


def test_explain_one_node(cluster, capsys):
    """`--node` lists every plugin; `-o name` prints the node alone, wide every score."""
    argv = ["explain", "shop/p", "--snapshot", cluster]
    assert 0 == run([*argv, "--node", "small"])
    out = capsys.readouterr().out
    assert "small: NodeResourcesFit: Insufficient cpu" in out
    assert "TaintToleration" in out
    assert 0 == run([*argv, "-o", "name"])
    assert "large\n" == capsys.readouterr().out
    assert 0 == run([*argv, "-o", "wide"])
    assert "WHY" in capsys.readouterr().out


def test_explain_what_is_not_there(cluster, capsys):
    """Exit code 1, because the question was valid, and a suggestion."""
    assert 1 == run(["explain", "shop/pp", "--snapshot", cluster])
    assert (
        'error: shop/pp: no such pod is bound or waiting (did you mean "shop/p"?)\n'
    ) == capsys.readouterr().err
    assert 1 == run(["explain", "p", "-n", "shop", "--snapshot", cluster, "--node", "larg"])
    assert 'error: larg: no such node (did you mean "large"?)\n' == capsys.readouterr().err


def test_explain_a_pod_that_has_ended(tmp_path, capsys):
    """`explain` states how the pod ended and where it ran, instead of a missing pod."""
    done = pod("done", namespace="shop", node_name="large") | {"status": {"phase": "Succeeded"}}
    lost = pod("lost", namespace="shop") | {"status": {"phase": "Failed"}}
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all([node("large", cpu="8"), done, lost]))

    assert 1 == run(["explain", "shop/done", "--snapshot", str(file)])
    reported = "the pod has ended (Succeeded); it ran on node large, and uses no capacity any more"
    assert f"error: shop/done: {reported}\n" == capsys.readouterr().err
    assert 1 == run(["explain", "shop/lost", "--snapshot", str(file)])
    assert "has ended (Failed); it was never bound" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_a_snapshot_of_files_is_read_again(cluster, form, tmp_path, capsys):
    """`explain` reads the output of `snapshot`; hidden names are hidden."""
    assert 0 == run(["snapshot", "--snapshot", cluster, "-o", form])
    again = tmp_path / f"again.{form}"
    again.write_text(capsys.readouterr().out)
    assert 0 == run(["explain", "shop/p", "--snapshot", str(again), "-o", "name"])
    assert "large\n" == capsys.readouterr().out
    assert 0 == run(["snapshot", "--snapshot", cluster, "-o", form, "--anonymize"])
    hidden = capsys.readouterr().out

    assert "shop" not in hidden
    assert 5 == len(yaml.safe_load(hidden)["items"])


def test_yaml_that_could_not_be_read_again_is_not_written(tmp_path, capsys):
    """A snapshot must be readable; beyond the reader's limit only JSON is written."""
    name = "x" * 1_000_000
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{n}", "labels": {name: name}}}
        for n in range(20)
    ]
    large = tmp_path / "large.json"
    large.write_bytes(msgspec.json.encode(pods))

    assert 2 == run(["snapshot", "--snapshot", str(large), "-o", "yaml"])
    out, err = capsys.readouterr()
    assert "" == out
    assert "write it as JSON (-o json, the default)" in err


def test_an_empty_snapshot(tmp_path, capsys):
    """Without objects the list is empty."""
    (tmp_path / "none.yaml").write_text("---\n")
    for form in ("json", "yaml"):
        assert 0 == run(["snapshot", "--snapshot", str(tmp_path / "none.yaml"), "-o", form])
        assert [] == yaml.safe_load(capsys.readouterr().out)["items"]


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (["-o", "wide"], "error: --output: a snapshot is written as json or yaml\n"),
        (["--request-timeout", "soon"], 'error: --request-timeout: "soon" is not a duration like'),
        (["--kubeconfig", "/no/such"], "error: "),
    ],
)
def test_wrong_usage_of_snapshot(argv, error, capsys):
    """The command prints one line and exits with 2."""
    assert 2 == run(["snapshot", *argv])
    assert capsys.readouterr().err.startswith(error)


def test_durations():
    """The format is that of kubectl."""
    assert [30.0, 30.0, 120.0, 3600.0] == [seconds(text) for text in ("30", "30s", "2m", "1h")]
    for wrong in ("", "s", "0", "-1s", "1.5s", "1d"):
        with pytest.raises(InputError):
            seconds(wrong)
