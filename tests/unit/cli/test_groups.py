"""`trellis groups`: members, nodes, proofs, and why the others wait."""

import json

import pytest

from scheduler.cli.main import run
from scheduler.testing import pod
from tests.unit.plugins.groupobjects import group, member, members, tree

RACKS = {"r0": {"a": 2, "b": 2}, "r1": {"c": 1, "d": 1}}


@pytest.fixture
def cluster(tmp_path) -> str:
    """Return a snapshot with a group that fits, one that does not, and one that runs."""
    objects = [
        *tree(RACKS),
        group("fits", 3, {"rack": {"type": "pack", "hard": True}}),
        *members("fits", 3),
        group("large", 9),
        *members("large", 9),
        group("runs", 1),
        member("runs-0", "runs", on="c"),
    ]
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return str(file)


def test_groups_are_listed(cluster, capsys):
    """Each group has one row: its pods of those needed, units, proof, and the solver's message for
    a group that waits.
    """
    assert 0 == run(["groups", "--snapshot", cluster])
    lines = {line.split()[1]: line for line in capsys.readouterr().out.splitlines()}

    assert ["Fits", "3/3", "r0", "x3", "proven", "best:"] == lines["fits"].split()[2:8]
    assert ["DoesNotFit", "0/9", "-"] == lines["large"].split()[2:5]
    assert "9 pods" in lines["large"]
    assert "c " in lines["runs"]
    assert "large" == list(lines)[1], "what waits comes first"


def test_a_group_that_cannot_be_read_is_invalid(tmp_path, capsys):
    """The row has the fault, and no count: the group's needs are unknown."""
    wrong = group("wrong", 2)
    wrong["data"]["consraints"] = wrong["data"].pop("constraints")
    file = tmp_path / "cluster.json"
    items = [*tree(RACKS), wrong, *members("wrong", 2)]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))

    assert 0 == run(["groups", "--snapshot", str(file)])
    line = capsys.readouterr().out.splitlines()[1]
    assert ["default", "wrong", "Invalid", "-", "-", "-"] == line.split()[:6]
    assert line.endswith("ConfigMap default/wrong: data.constraints is missing")


def test_groups_as_a_document(cluster, capsys):
    """The document has the contract's fields: source, minimum, maximum, placement, proof."""
    assert 0 == run(["groups", "--snapshot", cluster, "-o", "json"])
    items = {one["name"]: one for one in json.loads(capsys.readouterr().out)["items"]}

    fits = items["fits"]
    assert ("ConfigMap", 3, 3, True) == (
        fits["source"],
        fits["minimum"],
        fits["maximum"],
        fits["optimal"],
    )
    assert {"r0"} == set(fits["placement"]["root"])


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ('{"optimal":true,"objective":[1,-3],"bound":[1,-3]}', (True, [1, -3], [1, -3])),
        ('{"optimal":false,"objective":[2],"bound":[1]}', (False, [2], [1])),
        ('{"optimal":"yes"}', (False, [], [])),
        ("[" * 5000, (False, [], [])),
        (None, (False, [], [])),
    ],
)
def test_the_proof_of_a_bound_group_is_the_one_of_its_placing(tmp_path, capsys, text, reported):
    """The proof is in the ConfigMap, so a restart does not lose it.

    A foreign text is no proof.
    """
    bound = group("runs", 1)
    bound["data"] |= {"status": "Bound"} | ({} if text is None else {"proof": text})
    items = [*tree(RACKS), bound, member("runs-0", "runs", on="c")]
    file = tmp_path / "bound.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))

    assert 0 == run(["groups", "--snapshot", str(file), "-o", "json"])
    found = {one["name"]: one for one in json.loads(capsys.readouterr().out)["items"]}["runs"]
    assert ("Bound", *reported) == tuple(
        found[key] for key in ("status", "optimal", "objective", "bound")
    )


def test_a_proof_survives_a_restart_that_lists_members_one_by_one(tmp_path, capsys):
    """The comparison with the object waits until all kinds are listed."""
    proof = '{"optimal":true,"objective":[1],"bound":[1]}'
    bound = group("runs", 2)
    bound["data"] |= {"status": "Bound", "proof": proof}
    items = [
        *tree(RACKS),
        bound,
        member("runs-0", "runs", on="c"),
        member("runs-1", "runs", on="d"),
    ]
    file = tmp_path / "bound.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))

    assert 0 == run(["groups", "--snapshot", str(file), "-o", "json"])
    found = {one["name"]: one for one in json.loads(capsys.readouterr().out)["items"]}["runs"]
    assert ("Bound", True) == (found["status"], found["optimal"])


@pytest.mark.parametrize(
    ("status", "stated"),
    [
        ({"conditions": [{"type": "PodGroupScheduled", "status": "True"}]}, "Completed"),
        ({}, "Waiting"),
    ],
)
def test_a_finished_group_is_not_reported_as_waiting(tmp_path, capsys, status, stated):
    """The group's pods have finished and are on no node; the PodGroup states that it was placed."""
    ended = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "done", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
        "status": status,
    }
    file = tmp_path / "ended.json"
    items = [*tree(RACKS), ended]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))

    assert 0 == run(["groups", "--snapshot", str(file), "-o", "json"])
    (found,) = json.loads(capsys.readouterr().out)["items"]
    assert (stated, "done") == (found["status"], found["name"])


def own_pod(name, group, **more):
    """Return a pod of a PodGroup of the scheduler-plugins."""
    labels = {"scheduling.x-k8s.io/pod-group": group}
    spec = {"schedulerName": "trellis", "containers": [{"name": "c", "image": "i"}]}
    meta = {"name": name, "namespace": "default", "uid": name, "labels": labels}
    spec |= {"nodeName": "a"} if more else {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, **more}


def test_completed_and_incomplete_groups_are_named_as_such(tmp_path, capsys):
    """A group of finished members is not bound; one that lacks members states how many exist, also
    if none of them waits.
    """
    ended = {"status": {"phase": "Succeeded"}}
    items = [*tree(RACKS), own_pod("part-0", "part")]
    items += [own_pod(f"done-{number}", "done", **ended) for number in range(2)]
    running = {"status": {"phase": "Running"}}
    items += [own_pod(f"lost-{number}", "lost", **running) for number in range(2)]
    for name, least in (("done", 2), ("part", 3), ("lost", 3)):
        meta = {"name": name, "namespace": "default"}
        version = "scheduling.x-k8s.io/v1alpha1"
        made = {"apiVersion": version, "kind": "PodGroup", "metadata": meta}
        items.append(made | {"spec": {"minMember": least}})
    file = tmp_path / "some.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))

    assert 0 == run(["groups", "--snapshot", str(file)])
    out = capsys.readouterr().out
    assert "Completed" in next(line for line in out.splitlines() if " done " in line)
    part = next(line for line in out.splitlines() if " part " in line)
    assert "Waiting" in part
    assert part.endswith("is not complete: it needs 3 members: 1 is there")
    lost = next(line for line in out.splitlines() if " lost " in line)
    assert lost.split()[2:4] == ["Waiting", "2/3+"]
    assert lost.endswith("is not complete: it needs 3 members: 2 are there")


def native(name, size, pods, **status):
    """Return a PodGroup of Kubernetes with members; `pods` are pairs of node ('' for none) and
    phase.
    """
    own = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": size}}},
        "status": status,
    }
    spec = {"schedulerName": "trellis", "schedulingGroup": {"podGroupName": name}}
    return [own, *(plain(f"{name}-{at}", on, phase, spec) for at, (on, phase) in enumerate(pods))]


def plain(name, on, phase, spec):
    """A pod in a phase."""
    return pod(name, requests={"cpu": "1"}, node_name=on, spec=spec, status={"phase": phase})


def test_a_table_distinguishes_finished_planned_and_missing_groups(tmp_path, capsys):
    """Finished members count, planned ones have no node yet, and a group may have no object."""
    orphan = plain("orphan", "", "Pending", {"schedulingGroup": {"podGroupName": "gone"}})
    orphan["spec"]["schedulerName"] = "trellis"
    items = [
        *tree(RACKS),
        *native("done", 2, [("c", "Succeeded"), ("d", "Succeeded")]),
        *native("fits", 2, [("", "Pending"), ("", "Pending")]),
        *native("runs", 1, [("c", "Running")]),
        orphan,
    ]
    file = tmp_path / "groups.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert 0 == run(["groups", "--snapshot", str(file)])
    rows = {line.split()[1]: line.split()[2:4] for line in capsys.readouterr().out.splitlines()}
    assert ["Completed", "2/2+"] == rows["done"]
    assert ["Fits", "2/2+"] == rows["fits"]
    assert ["Bound", "1/1+"] == rows["runs"]
    assert ["Missing", "-"] == rows["gone"]

    assert 0 == run(["groups", "gone", "--snapshot", str(file)])
    assert "no PodGroup of scheduling.k8s.io describes" in capsys.readouterr().out
    assert 0 == run(["groups", "fits", "--snapshot", str(file)])
    assert "0 of 2 or more have a node, 2 would get one now" in capsys.readouterr().out
