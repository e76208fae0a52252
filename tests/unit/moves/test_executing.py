"""The helper process's answers about MovePlans, from raw lists of the API server."""

import json

import msgspec
import pytest

from scheduler.base.errors import InputError
from scheduler.cli.jobs.movejobs import run_moves
from scheduler.objects.moves.moveplan import MovePlanSpec, PlanGoal
from scheduler.objects.moves.movewire import (
    CHECK,
    PLAN,
    MoveAnswer,
    MoveCheck,
    MoveQuestion,
    packed,
)
from tests.unit.cli.test_derived_live import LABEL, jobset
from tests.unit.moves.test_cluster import GPU, gpu_node, owned, two_nodes, waiting
from tests.unit.simulate.asking import pod

NOW = 1_800_000_000.0
COOLING = ("ReplicaSet default/web",)
FIT = MovePlanSpec(PlanGoal("default/train"))


def ask(objects, what=PLAN, spec=FIT, **fields):
    """Return the answer for objects that arrive in two pages."""
    pages = [
        json.dumps({"apiVersion": "v1", "kind": "List", "items": part}).encode()
        for part in (objects[:2], objects[2:])
    ]
    _, found = run_moves(packed(MoveQuestion(what, spec, NOW, **fields), pages))
    return msgspec.json.decode(found, type=MoveAnswer)


def uids(objects):
    """Give pods the uids that an API server gives."""
    for one in objects:
        if one["kind"] == "Pod":
            one["metadata"]["uid"] = one["metadata"]["name"]
    return objects


def test_a_plan_has_all_that_its_execution_needs():
    """Pod by uid, owner, nodes, the reserved resources, and the proof."""
    status = ask(uids(two_nodes())).status

    (move,) = status.moves
    assert (move.pod, move.uid, move.source, move.target) == ("default/a", "a", "n1", "n2")
    assert (move.owner.kind, move.owner.uid, move.ordinal) == ("ReplicaSet", "web", "")
    assert move.requests == {"cpu": "1000m", GPU: "1"}
    assert (status.phase, status.is_proven, move.state) == ("Proposed", True, "Planned")
    assert move.reason == "so that default/train fits"


def test_a_plan_names_the_host_ports_that_its_execution_reserves():
    """Number, address and protocol of each host port; ports of the container alone are none."""
    objects = uids(two_nodes())
    ports = [
        {"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1", "protocol": "UDP"},
        {"containerPort": 81},
    ]
    objects[2]["spec"]["containers"][0]["ports"] = ports
    (move,) = ask(objects).status.moves

    assert msgspec.to_builtins(move.host_ports) == (
        {"hostPort": 8080, "hostIP": "10.0.0.1", "protocol": "UDP"},
    )


@pytest.mark.parametrize("uid", ["web", "created-again"])
def test_an_owner_in_its_cool_down_stays(uid):
    """Both pods are of one owner, which another plan moved recently; its name counts."""
    objects = uids(two_nodes())
    for one in (objects[2], objects[3]):
        one["metadata"]["ownerReferences"][0]["uid"] = uid
    status = ask(objects, cooling=COOLING).status

    assert status.phase == "Impossible"
    assert "recently" in status.excluded[0].reason


def test_a_plan_does_not_start_after_another_one_moved_an_owner():
    """Both plans were calculated before the moves of the other one."""
    moves = ask(uids(two_nodes())).status.moves
    assert tuple({move.owner_key for move in moves}) == COOLING
    check = ask(uids(two_nodes()), CHECK, moves=moves, cooling=COOLING).check

    assert "default/a may not move: a pod of its owner was moved recently" in check.stale


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet"])
def test_a_workload_with_a_priority_class_and_missing_pods_changes_no_plan(kind):
    """Priority classes are not listed for a plan, and controllers create the missing pods."""
    spec = {"containers": [{"name": "main", "image": "web:1"}], "priorityClassName": "work"}
    workload = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web", "namespace": "default", "uid": "web"},
        "spec": {
            "replicas": 5,
            "serviceName": "web",
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": spec},
        },
    }
    assert ask([*uids(two_nodes()), workload]) == ask(uids(two_nodes()))


def two_members(*more):
    """Return two pods that restart together; the waiting pod needs the node of one of them."""
    objects = uids([gpu_node("n1"), gpu_node("n2"), gpu_node("n3"), waiting("8")])
    objects[0] = gpu_node("n1", gpus="8")
    members = [owned("a", "n1"), owned("b", "n2")]
    for one in members:
        one["metadata"]["labels"] = {"app": "web", "leaderworkerset.sigs.k8s.io/name": "x"}
    return uids([*objects[:3], *members, objects[3], *more])


def budget(allowed):
    """A budget of the two pods."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": allowed},
    }


def test_pods_that_restart_together_are_one_step():
    """Both moves name the unit; a budget has to allow both disruptions, also at the eviction."""
    moves = ask(two_members(budget(2))).status.moves

    assert [(move.pod, move.unit) for move in moves] == [
        ("default/a", "default/x/"),
        ("default/b", "default/x/"),
    ]
    status = ask(two_members(budget(1))).status
    assert status.phase == "Impossible"
    assert "1 of 2 disruptions" in status.excluded[0].reason
    check = ask(two_members(budget(1)), CHECK, moves=moves).check
    assert "1 of 2 disruptions" in check.later
    assert ask(two_members(budget(2)), CHECK, moves=moves).check == MoveCheck()


def test_a_step_starts_only_if_each_of_its_pods_may_move():
    """The second pod of the group is excluded after the plan was made."""
    moves = ask(two_members()).status.moves
    objects = two_members()
    objects[4]["metadata"]["annotations"] = {"trellis.dev/moves": "never"}

    assert "default/b may not move" in ask(objects, CHECK, moves=moves).check.stale


def test_a_plan_does_not_start_if_a_later_pod_may_not_move():
    """The first of two steps is unchanged; after it the plan would end without its goal."""
    nodes = [gpu_node("n1", gpus="8"), gpu_node("n2")]
    objects = uids([*nodes, owned("a", "n1"), owned("b", "n1"), waiting("8")])
    moves = ask(objects).status.moves
    assert len(moves) == 2
    assert ask(objects, CHECK, moves=moves).check == MoveCheck()
    last = next(one for one in objects if one["metadata"]["name"] == moves[1].name)
    last["metadata"]["annotations"] = {"trellis.dev/moves": "never"}

    assert f"{moves[1].pod} may not move" in ask(objects, CHECK, moves=moves).check.stale


def test_a_goal_that_is_missing_is_named():
    """The API server requires one; a snapshot may lack it."""
    with pytest.raises(InputError, match="name one goal"):
        ask(two_nodes(), spec=MovePlanSpec())


@pytest.mark.parametrize(
    ("change", "field", "text"),
    [
        (lambda objects: None, "", ""),
        (lambda objects: objects.pop(2), "stale", "is gone"),
        (lambda objects: objects[2]["spec"].update(nodeName="n2"), "stale", "is not on n1"),
        (lambda objects: objects.pop(), "over", "waits"),
        (
            lambda objects: objects.append(owned("c", "n2", gpus="2")),
            "stale",
            "n2 rejects default/a",
        ),
        (
            lambda objects: objects.append(owned("c", "n1", gpus="2")),
            "stale",
            "goal is not reached",
        ),
        (lambda objects: objects.append(gpu_node("n3")), "over", "without further moves"),
        (
            lambda objects: objects[2]["metadata"].update(
                annotations={"trellis.dev/moves": "never"}
            ),
            "stale",
            "trellis.dev/moves=never",
        ),
        (
            lambda objects: objects[3].update(
                status={"conditions": [{"type": "Ready", "status": "False"}]}
            ),
            "later",
            "another replica",
        ),
    ],
)
def test_a_move_starts_only_if_it_is_still_right(change, field, text):
    """The pod, its rules, the destination and the goal are judged again before each eviction."""
    objects = uids(two_nodes())
    moves = ask(uids(two_nodes())).status.moves
    change(objects)
    check = ask(objects, CHECK, moves=moves).check

    found = {name: getattr(check, name) for name in ("over", "stale", "later")}
    assert {name for name, value in found.items() if value} == ({field} - {""})
    assert text in found.get(field, "")


DERIVING = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: trellis
  pluginConfig: [{name: ClusterTopologyPlacementGroup, args: {derive: [JobSet]}}]
"""


@pytest.mark.parametrize(("size", "moves"), [(0, []), (2, [("a", "n0", "n1")]), (3, [])])
def test_a_plan_for_a_derived_group_reads_the_workload_that_describes_it(size, moves):
    """Two pods of a JobSet need a whole node each; 0: it is not listed, which no move mends.

    A third pod, which its controller did not create yet, has no request: the plan creates none.
    """
    workload = jobset(size)
    (job,) = workload["spec"]["replicatedJobs"]
    job["template"]["spec"]["template"]["spec"]["schedulerName"] = "trellis"
    nodes = [gpu_node(f"n{number}") for number in range(3)]
    workers = [
        pod(f"w-{number}", requests={"cpu": "1", GPU: "4"}, labels={LABEL: "w"})
        for number in range(2)
    ]
    pods = [owned("a", "n0"), owned("b", "n1", gpus="2"), *workers]
    spec = MovePlanSpec(PlanGoal("default/jobset-w"))
    objects = [*nodes, *uids(pods), *([workload] if size else [])]
    found = ask(objects, spec=spec, config=DERIVING).status.moves
    assert moves == [(one.name, one.source, one.target) for one in found]
