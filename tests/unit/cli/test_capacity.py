"""`trellis capacity` on files: the count, where, what stops the next one, and what it refuses."""

import json

import pytest
import yaml

from scheduler.cli.main import run
from scheduler.testing import node
from tests.unit.whatif.asking import pod


@pytest.fixture
def ask(tmp_path, capsys):
    """Ask with the objects of a cluster and those of `-f`; return exit code, stdout and stderr."""

    def asked(objects, shape, *flags):
        names = []
        for name, found in (("cluster.yaml", objects), ("shape.yaml", shape)):
            file = tmp_path / name
            file.write_text(yaml.safe_dump_all(found))
            names.append(str(file))
        code = run(["capacity", "--snapshot", names[0], "-f", names[1], *flags])
        said = capsys.readouterr()
        return code, said.out, said.err

    return asked


CLUSTER = [
    node("n1", cpu="4"),
    node("n2", cpu="2"),
    pod("busy", node_name="n1", requests={"cpu": "1"}),
    pod("waits", requests={"cpu": "2"}),
]


def test_count_places_and_what_stops_the_next_one(ask):
    """The shape of the JSON is what others build upon."""
    code, out, _ = ask(CLUSTER, [pod("web", requests={"cpu": "1"})], "-o", "json")
    assert code == 0
    answer = json.loads(out)
    message = answer.pop("message")
    assert "2 Insufficient cpu" in message
    assert answer == {
        "apiVersion": "trellis.dev/v1alpha1",
        "kind": "Capacity",
        "pod": "default/web",
        "fits": 5,
        "limited": False,
        "nodes": [{"name": "n1", "pods": 3}, {"name": "n2", "pods": 2}],
    }


def test_the_limit_is_said(ask):
    """What was not counted is not claimed."""
    code, out, _ = ask(CLUSTER, [pod("web", requests={"cpu": "1"})], "--limit", "2")
    assert code == 0
    assert out.startswith("at least 2 more of default/web fit\n")


def test_none_fits(ask):
    """Exit code 3, as of simulate."""
    code, out, _ = ask(CLUSTER, [pod("web", requests={"cpu": "9"})])
    assert code == 3
    assert out.startswith("0 more of default/web fit; the next one: 0/2 nodes are available")


@pytest.mark.parametrize(
    ("shape", "flags", "said"),
    [
        ([pod("a"), pod("b")], (), "one pod that is not bound is needed for the shape, not 2"),
        ([node("other")], (), "one pod that is not bound is needed for the shape, not 0"),
        ([pod("a")], ("--limit", "0"), "a number from 1 to 10000"),
        ([pod("a", spec={"schedulingGates": [{"name": "g"}]})], (), "ends as Gated"),
        ([pod("a", labels={"sakkara.group.name": "g"})], (), "a member of the group default/g"),
    ],
)
def test_what_cannot_be_counted_is_refused(ask, shape, flags, said):
    """One line that names what to do, and exit code 2."""
    code, out, err = ask(CLUSTER, shape, *flags)
    assert code == 2
    assert out == ""
    assert said in err


def test_a_name_that_is_taken_is_passed_over(ask):
    """A pod of the cluster that is called as a copy would be stays what it is."""
    taken = pod("web-00001", node_name="n1", requests={"cpu": "1"})
    _, out, _ = ask([*CLUSTER, taken], [pod("web", requests={"cpu": "1"})], "-o", "json")
    assert json.loads(out)["fits"] == 4
