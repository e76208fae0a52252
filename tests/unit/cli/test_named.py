"""Usual inputs: TYPE/NAME, applied manifests, amounts; tables cut to a width; the queue."""

import json

import pytest
import yaml

from scheduler.base.errors import InputError
from scheduler.cli.main import run
from scheduler.cli.output.printing import table
from scheduler.snapshot.targets import Target, target_of
from scheduler.testing import node
from tests.unit.plugins.groupobjects import group, member, members
from tests.unit.simulate.asking import pod

RACK = "topology.trellis.dev/rack"
GPU = "nvidia.com/gpu"
CLASHES = [pod("web", namespace="shop", requests={"cpu": "1"})]


def gpu_node(name, rack):
    """A node of 8 GPUs in a rack."""
    made = node(name, cpu="64", memory="512Gi", labels={RACK: rack})
    made["status"]["allocatable"][GPU] = "8"
    return made


def owned(name, kind, owner, **fields):
    """A pod of a workload."""
    made = pod(name, namespace="shop", requests={"cpu": "1"}, **fields)
    reference = {"apiVersion": "v1", "kind": kind, "name": owner, "uid": owner, "controller": True}
    made["metadata"]["ownerReferences"] = [reference]
    return made


@pytest.fixture
def cluster(tmp_path):
    """Return two racks, a Deployment, a Job with a pending pod, a group that runs and one that
    waits.
    """
    web = owned("web-abc-1", "ReplicaSet", "web-abc", node_name="g-0")
    web["metadata"]["labels"] = {"pod-template-hash": "abc"}
    waiting = owned("train-1", "Job", "train")
    waiting["spec"]["nodeSelector"] = {"no": "where"}
    objects = [
        *(gpu_node(f"g-{at}", f"r{at // 2}") for at in range(4)),
        web,
        *CLASHES,
        owned("train-0", "Job", "train", node_name="g-1"),
        waiting,
        group("ring", 2),
        member("ring-0", "ring", on="g-0"),
        member("ring-1", "ring", on="g-1"),
        group("huge", 3),
        *members("huge", 3, cpu="99"),
    ]
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    return str(file)


@pytest.fixture
def ask(cluster, capsys):
    """Run a verb on the cluster; return exit code, stdout and stderr."""

    def asked(verb, *words):
        code = run([verb, *words, "--snapshot", cluster])
        reported = capsys.readouterr()
        return code, reported.out, reported.err

    return asked


@pytest.mark.parametrize(
    ("words", "target"),
    [
        (["web"], Target("", "n", "web")),
        (["shop/web"], Target("", "shop", "web")),
        (["pod/web"], Target("Pod", "n", "web")),
        (["po", "web"], Target("Pod", "n", "web")),
        (["Deployments.apps/web"], Target("Deployment", "n", "web")),
        (["jobs.batch", "shop/x"], Target("Job", "shop", "x")),
        (["podgroups.scheduling.k8s.io/ring"], Target("PodGroup", "n", "ring")),
    ],
)
def test_words_of_kubectl(words, target):
    """Singular, plural, short names and names with the group work, with a slash or a blank
    between.
    """
    assert target == target_of(words, "n")


@pytest.mark.parametrize("words", [[], ["a", "b", "c"], ["dply", "x"], ["pod/"], ["a/b/c"]])
def test_other_words_are_refused(words):
    """One line names the valid forms or types."""
    with pytest.raises(InputError, match=r"NAME|types are|did you mean"):
        target_of(words)


@pytest.mark.parametrize(
    ("words", "code", "reported"),
    [
        (("pod/web-abc-1", "-n", "shop"), 0, "shop/web-abc-1 is on g-0"),
        (("deploy/web", "-n", "shop"), 0, "shop/web-abc-1 is on g-0"),
        (("job", "train", "-n", "shop"), 3, "shop/train-1 waits"),
        (("huge",), 3, "default/huge does not fit"),
        (("podgroup/ring",), 0, "with the group default/ring"),
    ],
)
def test_explain_takes_what_kubectl_takes(ask, words, code, reported):
    """A workload is explained by the pod that waits, a group by its members."""
    got, out, _ = ask("explain", *words)
    assert code == got
    assert reported in out.splitlines()[0]


def test_a_name_in_another_namespace_is_pointed_out(ask):
    """If the name exists in another namespace only, the message names it and `-n`."""
    code, _, err = ask("explain", "deploy/web")
    assert 1 == code
    assert "error: default/web: not in namespace default, but in shop: use -n\n" == err


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (
            ("deploy/web", "-n", "shop", "--limit", "3"),
            "at least 3 more of shop/web-abc-1-copy fit",
        ),
        (("--gpu", "8"), "4 more pods of 8 gpu fit"),
        (
            ("--gpu", "8", "--gang", "2", "--rack"),
            "2 more groups of 2 pods of 8 gpu fit; the next one: 2 pods",
        ),
        (("podgroup/ring", "--limit", "2"), "at least 2 more groups of 2 like default/ring fit"),
    ],
)
def test_capacity_of_what_is_there_and_of_amounts(ask, words, reported):
    """An object of the cluster means one more copy of it; amounts need no manifest."""
    code, out, err = ask("capacity", *words)
    assert (0, "") == (code, err)
    assert reported in out.splitlines()[0]


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        ((), "name one shape"),
        (("--gpu", "1", "deploy/web"), "name one shape"),
        (("--gpu", "1", "--rack"), "--rack: is a rule for a group"),
        (("--gang", "2"), "a shape needs --cpu, --memory or --gpu"),
    ],
)
def test_shapes_that_say_nothing_are_refused(ask, words, reported):
    """One line is printed; the exit code is 2."""
    code, out, err = ask("capacity", *words)
    assert (2, "") == (code, out)
    assert reported in err


def test_a_manifest_that_was_applied_counts_as_one_more(ask, tmp_path):
    """Exported with uid, node and status, as a workload of many replicas, or as it was applied."""
    file = tmp_path / "shape.yaml"
    exported = owned("train-0", "Job", "train", node_name="g-1")
    exported["metadata"]["uid"] = "train-0"
    template = {"metadata": {"labels": {"app": "w"}}, "spec": CLASHES[0]["spec"]}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "w"}}, "template": template},
    }
    for objects in (CLASHES, [exported], [deployment], [group("ring", 2), *members("ring", 2)]):
        file.write_text(yaml.safe_dump_all(objects))
        code, out, _ = ask("capacity", "-f", str(file), "--limit", "5")
        assert (0, "at least 5 more") == (code, out[:15]), out
        code, out, err = ask("simulate", "-f", str(file), "-o", "json")
        assert 3 == code, err
        names = {one["name"] for one in json.loads(out)["pods"]}
        assert objects is CLASHES or any("copy" in one or one.startswith("web-") for one in names)


def test_groups_of_one_name_or_of_a_workload(ask):
    """Each fact has one line; `--failed` lists groups that wait; an unknown group has a hint."""
    code, out, _ = ask("groups", "huge")
    assert 0 == code
    assert "default/huge" == out.splitlines()[0]
    assert "DoesNotFit" in out
    _, out, _ = ask("groups", "--failed", "-o", "name")
    assert "configmap/default/huge\n" == out
    code, _, err = ask("groups", "podgroup/hugo")
    assert (1, 'error: default/hugo: no such group (did you mean "huge"?)\n') == (code, err)


def test_the_queue_has_one_row_for_a_group(ask):
    """In the queue's order, with its requests and the reason for its wait."""
    code, out, _ = ask("queue")
    assert 0 == code
    rows = {line.split()[2]: line for line in out.splitlines()[1:]}
    assert {"web", "train-1", "huge"} == set(rows)
    assert "297 cpu" in rows["huge"]
    assert " 3 " in rows["huge"]
    _, out, _ = ask("queue", "-n", "shop", "-o", "name")
    assert ["shop/train-1", "shop/web"] == sorted(out.split())


def test_pods_of_a_group_are_one_row_of_a_simulation(ask):
    """A gang of 24 has one row, not 24."""
    code, out, _ = ask("simulate")
    assert 3 == code
    assert 1 == sum("huge" in line.split()[1] for line in out.splitlines()[1:] if line.split())
    assert "huge x3" in out


def test_explain_of_a_finished_workload_states_it_in_one_line(tmp_path, capsys):
    """The workload's pods are counted by phase; one that still runs is explained, the others are
    counted.
    """
    ended = [owned(f"train-{at}", "Job", "train", node_name="g-0") for at in range(3)]
    for one, phase in zip(ended, ("Succeeded", "Failed", "Succeeded"), strict=True):
        one["status"] = {"phase": phase}
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all([gpu_node("g-0", "r0"), *ended]))

    assert 1 == run(["explain", "job/train", "-n", "shop", "--snapshot", str(file)])
    reported = "all 3 pods have ended (1 Failed, 2 Succeeded); they use no capacity any more"
    assert ("", f"error: shop/train: {reported}\n") == tuple(capsys.readouterr())
    more = tmp_path / "more.yaml"
    more.write_text(yaml.safe_dump(owned("train-3", "Job", "train", node_name="g-0")))
    both = ["--snapshot", str(file), "--snapshot", str(more)]
    assert 0 == run(["explain", "job/train", "-n", "shop", *both])
    reported = "notice: train has 4 pods, 1 on nodes, 3 ended; this is shop/train-3"
    assert reported in capsys.readouterr().err.splitlines()


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_no_table_is_wider_than_the_terminal(width):
    """The widest columns are cut; short ones stay whole."""
    rows = [["ns", "name-" * at, "x" * 9 * at] for at in range(9)]
    lines = table(["namespace", "name", "message"], rows, width=width).splitlines()
    assert max(map(len, lines)) <= width
    assert 9 + 1 == len(lines)


def test_help_and_version_as_people_type_them(capsys):
    """`help`, `help VERB` and `--version` work."""
    for argv in (["help"], ["help", "queue"], ["--version"]):
        assert 0 == run(argv)
        assert capsys.readouterr().out
