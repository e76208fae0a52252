"""Invalid snapshots, and the one line that reports them: file, object, field."""

import json

import pytest
import yaml

from scheduler.cli.main import run
from scheduler.testing import node
from tests.unit.simulate.asking import pod

N = node("n")
DEEP = "[" * 5000 + "]" * 5000


def text(*objects):
    return yaml.safe_dump_all(objects)


def spec(**fields):
    return text(N, pod("p", spec=fields))


REFUSED = {
    "nothing like YAML": ("{a: [b", "cluster:2:1: not YAML: did not find expected"),
    "binary": (b"\xff\xfe\x00", "cluster: not YAML: "),
    "a number": ("42\n", "cluster:1:1: expected an object"),
    "deep YAML": (f"a: {DEEP}\n", "cluster:1:103: nested deeper than 100 levels"),
    "deep JSON": (f'{{"kind": "Pod", "a": {DEEP}}}', "nested too deeply"),
    "aliases that explode": (
        "a: &a [x, x, x, x, x, x, x, x, x]\n"
        + "".join(
            f"{c}: &{c} [{', '.join([f'*{b}'] * 9)}]\n"
            for b, c in zip("abcdefgh", "bcdefghi", strict=True)
        ),
        "cluster:",
    ),
    "no kind": ("metadata: {name: a}\n", "cluster:1: kind is missing"),
    "no name": ("kind: Node\n", "cluster:1: Node: metadata.name is missing"),
    "two of a name": (
        text(node("n"), node("n", cpu="9")),
        "Node n: there are two of that name, and they differ: the other is cluster:1",
    ),
    "two of a uid": (
        text(*({**pod(name), "metadata": {"name": name, "uid": "u"}} for name in "ab")),
        'Pod default/b: metadata.uid: "u" is that of Pod default/a already',
    ),
    "negative request": (
        text(N, pod("p", requests={"memory": "-1Gi"})),
        "resources.requests[memory]: -1Gi is less than 0",
    ),
    "negative node": (text(node("n", cpu="-1")), "status.allocatable[cpu]: -1 is less than 0"),
    "no quantity": (text(node("n", memory="much")), '"much" is not a quantity (like "500m", "2"'),
    "not a number": (text(node("n", cpu=".nan")), '".nan" is not a quantity'),
    "beyond 64 bits": (
        text(N, pod("p", requests={"cpu": 10**30})),
        "a number of more than 30 digits is beyond 9223372036854775807",
    ),
    "a number of a million digits": (
        '{"kind": "Pod", "metadata": {"name": "p"}, "spec": {"priority": ' + "9" * 1_000_000 + "}}",
        "cluster",
    ),
    "a wide priority": (
        spec(priority=2**40),
        "Expected `int` <= 2147483647 - at `$.spec.priority`",
    ),
    "a port": (text(pod("p", host_ports=[65536])), "hostPort: 65536 is not between 0 and 65535"),
    "a weight": (
        spec(
            affinity={
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 101, "preference": {}}
                    ]
                }
            }
        ),
        "[0].weight: 101 is not between 0 and 100",
    ),
    "the wrong type": (spec(tolerations={"a": "b"}), "got `object` - at `$.spec.tolerations`"),
    "an unknown class": (spec(priorityClassName="vip"), 'no PriorityClass "vip" is given'),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_in_one_line(name, tmp_path, monkeypatch, capsys):
    """The exit code is 2, with nothing on stdout and no traceback."""
    content, words = REFUSED[name]
    monkeypatch.chdir(tmp_path)
    data = content if isinstance(content, bytes) else content.encode()
    (tmp_path / "cluster").write_bytes(data)

    assert 2 == run(["simulate", "--snapshot", "cluster"])
    out, err = capsys.readouterr()
    assert "" == out
    assert words in err
    assert err.startswith("error: cluster")
    assert 1 == err.count("\n")
    assert len(err) < 500


TAKEN = {
    "a pod on an unknown node": (
        text(N, pod("e", node_name="gone", requests={"cpu": "99"}), pod("p")),
        {"p": ("Scheduled", "")},
    ),
    "a node of absurd size": (
        text(node("n", cpu="9E", memory="9E", pods="9E"), pod("p", requests={"cpu": "1"})),
        {"p": ("Scheduled", "")},
    ),
    "a pod of absurd size": (
        text(N, pod("p", requests={"cpu": "9E", "example.com/x": "9E"})),
        {"p": ("Unschedulable", "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient")},
    ),
    "a selector that says nothing": (
        spec(
            topologySpreadConstraints=[
                {
                    "maxSkew": 1,
                    "topologyKey": "zone",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Sort of"}]},
                }
            ]
        ),
        {"p": ("Error", '"Sort of" is not a valid label selector operator')},
    ),
    "no nodes": (text(pod("p")), {"p": ("Unschedulable", "no nodes available to schedule pods")}),
    "nothing at all": ("", {}),
}


@pytest.mark.parametrize("name", TAKEN)
def test_it_ends_in_a_result(name, tmp_path, capsys):
    """A pod's condition states the problem; all other pods are placed."""
    content, wanted = TAKEN[name]
    (tmp_path / "cluster").write_text(content)
    code = run(["simulate", "--snapshot", str(tmp_path / "cluster"), "-o", "json"])
    found = {one["name"]: one for one in json.loads(capsys.readouterr().out)["pods"]}

    assert set(wanted) == set(found)
    for pod_name, (result, words) in wanted.items():
        assert result == found[pod_name]["result"]
        assert words in found[pod_name]["message"]
    assert code == (3 if any(result != "Scheduled" for result, _ in wanted.values()) else 0)
