"""`trellis moves` on the example of the documentation: plan, exit codes, forms, and rejections."""

import copy
import json
import re
from pathlib import Path

import pytest
import yaml

from scheduler.cli.main import run
from scheduler.sandbox.kinds.schema import Schema

CRDS = Path(__file__).parents[3] / "crds"
EXAMPLES = Path(__file__).parents[3] / "docs" / "examples" / "moves"
CLUSTER, TRAIN = str(EXAMPLES / "cluster.yaml"), str(EXAMPLES / "train.yaml")


@pytest.fixture
def ask(capsys):
    """Run it on the example cluster; return exit code, stdout and stderr."""

    def asked(*flags):
        code = run(["moves", "--snapshot", CLUSTER, *flags])
        reported = capsys.readouterr()
        return code, reported.out, reported.err

    return asked


def test_a_pod_of_8_fits_after_three_moves(ask):
    """The contract of the JSON: verdict, proof, moves in order, the goal before and after."""
    code, out, _ = ask("train", "--snapshot", TRAIN, "-o", "json")
    answer = json.loads(out)

    assert code == 0
    assert (answer["kind"], answer["verdict"], answer["proven"]) == ("Moves", "planned", True)
    assert [move["order"] for move in answer["moves"]] == [1, 2, 3]
    assert {move["source"] for move in answer["moves"]} == {answer["placed"][0]["node"]}
    assert answer["before"] == "0 of 1 waiting pods fit"
    assert answer["after"] == "1 of 1 waiting pods fit"


def test_explain_names_the_moves_after_which_a_pod_fits(capsys):
    """One line below the explanation of the pending pod names the moves."""
    code = run(["explain", "train", "--snapshot", CLUSTER, "--snapshot", TRAIN])

    assert code == 3
    assert (
        "It fits after 3 moves; no plan with fewer moves exists. "
        "The plan: trellis moves default/train"
    ) in capsys.readouterr().out


UNAPPROVED = ("Proposed", "Planned", "", "makes it fit after 2 moves, once spec.approved is 1a2b")
APPROVED = ("Proposed", "Planned", "1a2b", "makes it fit after 2 moves; it is approved")
EXECUTING = ("Executing", "Reserved", "1a2b", "makes it fit: 1 of 2 moves is done")


@pytest.mark.parametrize(("phase", "state", "approved", "text"), [UNAPPROVED, APPROVED, EXECUTING])
def test_explain_names_the_plan_that_makes_a_pod_fit(phase, state, approved, text, explained):
    """`explain` names the existing plan and its progress, and does not calculate another; for a pod
    that the plan moves it names both nodes.
    """
    code, out = explained("train", phase, state, approved)
    assert code == 3
    assert re.search(f"  moves: +MovePlan defragment {text}", out)
    assert "trellis moves" not in out

    _, out = explained("serving/infer-16", phase, state, approved)
    verb = "moves" if phase == "Executing" else "plans to move"
    assert f"MovePlan defragment {verb} it from gpu-6 to gpu-1 ({state})" in out


def test_explain_names_the_plan_that_reserves_nodes(explained):
    """For the replacement its destination, for any other pod the nodes that it does not get."""
    _, out = explained("serving/infer-new", "Executing", "Evicted", "1a2b")
    assert "MovePlan defragment reserves gpu-1 for it, in place of serving/infer-16" in out

    _, out = explained("other", "Executing", "Evicted", "1a2b", goal="default/somewhere")
    assert "MovePlan defragment reserves capacity of gpu-1 for pods that it moves" in out


@pytest.mark.parametrize("phase", ["Completed", "Aborted", "Impossible"])
def test_explain_names_no_plan_that_has_ended(phase, explained):
    """The moves that would help now are named instead."""
    _, out = explained("train", phase, "Planned", "1a2b")

    assert "MovePlan" not in out
    assert "It fits after 3 moves" in out


@pytest.fixture
def explained(tmp_path, capsys):
    """Explain a pod of the example cluster beside a MovePlan and a replacement that waits."""

    def ask_about(name, phase, state, approved, goal="default/train"):
        owner = {"kind": "ReplicaSet", "name": "infer", "uid": "infer"}
        move = {
            "namespace": "serving", "name": "infer-16", "from": "gpu-6", "to": "gpu-1",
            "uid": "of-infer-16", "owner": owner, "requests": {"nvidia.com/gpu": "1"},
            "state": state, "deadline": "2099-01-01T00:00:00Z",
        }  # fmt: skip
        plan = {
            "apiVersion": "trellis.dev/v1alpha1",
            "kind": "MovePlan",
            "metadata": {"name": "defragment", "uid": "plan"},
            "spec": {"goal": {"waiting": goal}, "approved": approved},
            "status": {
                "phase": phase,
                "planHash": "1a2b",
                "moves": [{**move, "uid": "done", "state": "Done"}, move],
            },
        }
        cluster = list(yaml.safe_load_all(Path(CLUSTER).read_text()))
        items = [part for one in cluster for part in one.get("items", [one])]
        old = next(one for one in items if one["metadata"]["name"] == "infer-16")
        old["metadata"] |= {"uid": "of-infer-16"}
        # A pod with a uid is read as the API server has it: with its requests.
        resources = old["spec"]["containers"][0]["resources"]
        resources["requests"] = dict(resources["limits"])
        new = copy.deepcopy(old)
        new["metadata"] |= {
            "name": "infer-new",
            "uid": "of-infer-new",
            "ownerReferences": [{**owner, "controller": True}],
        }
        del new["spec"]["nodeName"]
        other = copy.deepcopy(new)
        other["metadata"] = {"name": "other", "namespace": "default", "uid": "other"}
        if state == "Evicted":
            items.remove(old)
            items += [new, other]
        path = tmp_path / "cluster.yaml"
        path.write_text(yaml.safe_dump_all([*items, plan]))
        words = [*name.split("/")[::-1], "serving"] if "/" in name else [name, "default"]
        code = run(
            ["explain", words[0], "-n", words[1], "--snapshot", str(path), "--snapshot", TRAIN]
        )
        return code, capsys.readouterr().out

    return ask_about


@pytest.fixture
def gang(tmp_path):
    """Return a file with a gang of two pods of 8 GPUs."""
    group = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "pair", "namespace": "default", "labels": {"sakkara.group": ""}},
        "data": {"name": "pair", "size": "2", "constraints": "{}"},
    }
    (pod,) = yaml.safe_load_all(Path(TRAIN).read_text())
    members = []
    for name in ("pair-0", "pair-1"):
        labels = {"sakkara.group.name": "pair"}
        members.append({**pod, "metadata": {**pod["metadata"], "name": name, "labels": labels}})
    file = tmp_path / "gang.yaml"
    file.write_text(yaml.safe_dump_all([group, *members]))
    return str(file)


def test_explain_names_the_moves_after_which_a_group_fits(capsys, gang):
    """Both members need a whole node: six moves, as for two copies of the pod."""
    code = run(["explain", "podgroup/pair", "--snapshot", CLUSTER, "-f", gang])

    assert code == 3
    assert (
        "It fits after 6 moves; no plan with fewer moves exists. "
        f"The plan: trellis moves default/pair-0 -f {gang}"
    ) in capsys.readouterr().out


@pytest.mark.parametrize(("want", "reported"), [("1", "1 fits after 3"), ("2", "2 fit after 6")])
def test_capacity_names_the_moves_after_which_the_copies_fit(capsys, ask, want, reported):
    """`capacity` prints one line with the number of moves after which the copies fit; the plan of
    `moves` has that number.
    """
    code = run(["capacity", "--snapshot", CLUSTER, "-f", TRAIN, "--want", want])

    assert code == 3
    assert (
        f"{reported} moves; no plan with fewer moves exists. "
        f"The plan: trellis moves --capacity {want} -f {TRAIN}\n"
    ) in capsys.readouterr().out
    _, out, _ = ask("--capacity", want, "-f", TRAIN, "-o", "json")
    assert len(json.loads(out)["moves"]) == int(reported.split()[-1])


def test_capacity_that_suffices_or_that_moves_cannot_add_names_none(capsys):
    """Six pods of 8 GPUs need 48, and 40 are free."""
    run(["capacity", "--snapshot", CLUSTER, "--gpu", "1"])
    run(["capacity", "--snapshot", CLUSTER, "-f", TRAIN, "--want", "6"])

    assert "moves" not in capsys.readouterr().out


def test_simulate_names_the_moves_after_which_the_first_pod_fits(capsys, gang):
    """`simulate` prints one line with the number of moves after which the first pod, or its group,
    fits.
    """
    assert run(["simulate", "--snapshot", CLUSTER, "-f", TRAIN]) == 3
    assert (
        "default/train fits after 3 moves; no plan with fewer moves exists. "
        f"The plan: trellis moves default/train -f {TRAIN}\n"
    ) in capsys.readouterr().err
    assert run(["simulate", "--snapshot", CLUSTER, "-f", gang]) == 3
    assert "default/pair fits after 6 moves" in capsys.readouterr().err


def test_no_plan_within_the_limit_is_proven(ask):
    """Exit code 3, and no table of moves."""
    code, out, _ = ask("--free", "1", "--level", "rack", "--most", "5")

    assert code == 3
    assert "no set of at most 5 moves reaches the goal" in out


def test_more_than_is_free_is_answered_by_figures(ask):
    """Six pods of 8 need 48 GPUs; 40 are free."""
    code, out, _ = ask("--capacity", "6", "-f", TRAIN)

    assert code == 3
    assert "48 of nvidia.com/gpu are needed, 40 are free" in out


def test_a_page_shows_both_sides(ask):
    """One file has the cluster before and after the moves."""
    code, out, _ = ask("--free", "1", "-o", "html")

    assert code == 0
    assert out.startswith("<!doctype html>")
    assert "before the moves" in out


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ((), "name one goal"),
        (("train", "--free", "1"), "name one goal"),
        (("absent",), "no pod and no group default/absent waits"),
        (("--free", "1", "--level", "floor"), "no domain of the node label floor"),
        (("--free", "1", "-l", "gpu"), "KEY=VALUE"),
        (("--free", "1", "--allow", "everything"), "is not one of local-data"),
        (("--load-below", "50", "--resource", "disk"), "cpu or memory"),
    ],
)
def test_refused_with_what_to_do(ask, flags, text):
    """The command prints one line with the remedy and exits with 2."""
    code, _, err = ask(*flags)

    assert code == 2
    assert text in err
    assert "Traceback" not in err


def test_a_moveplan_has_goal_and_limits_of_the_flags(ask):
    """The manifest on stdout passes the schema of the kind; the plan is on stderr."""
    words = ("train", "--snapshot", TRAIN, "--most", "5", "--allow", "local-data")
    code, out, err = ask(*words, "-o", "moveplan")
    document = yaml.safe_load(out)
    definition = yaml.safe_load((CRDS / "moveplans.yaml").read_text())
    (version,) = definition["spec"]["versions"]

    assert code == 0
    assert "plan: 3 moves" in err
    assert document["metadata"] == {"name": "fit-default-train"}
    assert document["spec"] == {
        "goal": {"waiting": "default/train"},
        "limits": {"maxMoves": 5},
        "allow": ["local-data"],
    }
    assert [] == Schema(version["schema"]["openAPIV3Schema"]).check(document)
    code, _, err = ask("--capacity", "2", "-f", TRAIN, "-o", "moveplan")
    assert code == 2
    assert "no goal for copies" in err
