"""A plan leaves alone what other MovePlans reserve and move; its own reservations are free to it.

The same holds for answers about a snapshot: `trellis snapshot` writes the MovePlans of a cluster.
"""

import json

import msgspec
import pytest

from scheduler.moves.cluster import ProblemBuilder
from scheduler.moves.eligible import MoveRules
from scheduler.moves.facts import ClusterFacts
from scheduler.moves.goals import FitGoal, FreeGoal
from scheduler.objects.moves.movewire import CHECK, MoveCheck
from scheduler.simulate.stage import AnswerOptions
from scheduler.snapshot.anonymous.anonymize import Anonymizer
from scheduler.snapshot.decoding import READ
from scheduler.snapshot.export import exported
from tests.unit.moves.test_cluster import GPU, find, gpu_node, owned, two_nodes
from tests.unit.moves.test_executing import ask, uids
from tests.unit.simulate.asking import default_setup, place, pod, snapshot

REASON = "so that secret/goal fits"


def move(name, source, target, *, gpus, state, **fields):
    """Return one move of a plan; `gpus` are reserved for the replacement."""
    return {
        "namespace": "default",
        "name": name,
        "uid": name,
        "from": source,
        "to": target,
        "owner": {"kind": "ReplicaSet", "name": "db", "uid": "db"},
        "requests": {"cpu": "1", GPU: str(gpus)},
        "state": state,
        "reason": REASON,
        "deadline": "2099-01-01T00:00:00Z",
        **fields,
    }


def plan(*moves, phase="Executing", name="other"):
    """Return a MovePlan for a pod that other tests wait for."""
    return {
        "apiVersion": "trellis.dev/v1alpha1",
        "kind": "MovePlan",
        "metadata": {"name": name, "uid": name},
        "spec": {"goal": {"waiting": "default/elsewhere"}, "approved": "1a2b"},
        "status": {"phase": phase, "planHash": "1a2b", "summary": REASON, "moves": list(moves)},
    }


def reserving(gpus, target="n2", **fields):
    """Return a plan whose evicted pod has GPUs of `target` reserved."""
    return plan(move("gone", "n9", target, gpus=gpus, state="Evicted"), **fields)


def targets(report):
    """Return pods with their destinations."""
    return [(one.pod, one.target) for one in report.moves]


@pytest.mark.parametrize(("gpus", "moves"), [(1, [("default/a", "n2")]), (2, [])])
def test_a_reserved_destination_is_taken(gpus, moves):
    """Of the two free GPUs of n2, one or both are reserved for a pod that another plan moves."""
    assert moves == targets(find(two_nodes(reserving(gpus))))


def preempting(gpus, node="n2", name="boss"):
    """Return a pending pod that waits for its victims on a node."""
    found = pod(name, requests={"cpu": "1", GPU: str(gpus)})
    found["status"] = {"phase": "Pending", "nominatedNodeName": node}
    return found


@pytest.mark.parametrize(("gpus", "moves"), [(1, [("default/a", "n2")]), (2, [])])
def test_a_node_that_a_preempting_pod_waits_for_is_taken(gpus, moves):
    """Of the two free GPUs of n2, one or both are for that pod: it evicted others for them."""
    assert moves == targets(find(two_nodes(preempting(gpus))))


def test_the_nomination_of_the_pod_that_is_to_fit_does_not_count():
    """With the nomination, the nominated node would have no free GPU."""
    objects = [*two_nodes()[:4], preempting(4, name="train")]

    assert [("default/a", "n2")] == targets(find(objects))


def test_the_check_counts_preempting_pods():
    """One began to wait for the destination after the plan was made."""
    moves = ask(uids(two_nodes())).status.moves
    objects = uids([*two_nodes(), preempting(2)])

    assert "n2 rejects default/a" in ask(objects, CHECK, moves=moves).check.stale


def test_free_amounts_are_without_reservations():
    """Free amounts exclude the reserved GPUs, so that arrivals together do not exceed the rest."""
    objects = [*two_nodes(reserving(1)), gpu_node("n3")]
    builder = ProblemBuilder(
        snapshot(*objects), ClusterFacts(), default_setup(), AnswerOptions(), MoveRules()
    )
    problem = builder.build(FitGoal("default/train")).problem
    gpu = problem.resources.index(GPU)

    assert [("n1", 3), ("n2", 1), ("n3", 4)] == [(n.name, n.free[gpu]) for n in problem.nodes]


@pytest.mark.parametrize(
    ("phase", "state", "moves"),
    [
        ("Executing", "Planned", [("default/b", "n1")]),
        ("Executing", "Done", [("default/a", "n2")]),
        ("Proposed", "Planned", [("default/a", "n2")]),
    ],
)
def test_a_pod_that_an_executing_plan_moves_stays(phase, state, moves):
    """The other pod moves instead; the reason names the plan. A proposed plan may never begin."""
    other = plan(move("a", "n1", "n3", gpus=1, state=state), phase=phase)
    report = find([*uids(two_nodes()), other])

    assert moves == targets(report)
    reasons = {one.reason: one.examples for one in report.excluded}
    stays = phase == "Executing" and state == "Planned"
    assert (("default/a",) if stays else None) == reasons.get("the MovePlan other moves it")


@pytest.mark.parametrize("comes", [reserving, preempting])
@pytest.mark.parametrize(("target", "freed"), [("n1", "n2"), ("n2", "n1")])
def test_a_node_with_a_reservation_or_nomination_becomes_not_free(target, freed, comes):
    """The plan frees the other node, because a reserved or nominated pod is about to run on this
    one.
    """
    nodes = [gpu_node("n1", gpus="8"), gpu_node("n2", gpus="8")]
    objects = [*nodes, owned("a", "n1"), owned("b", "n2"), comes(1, target)]
    report = find(objects, FreeGoal(1, "", ()))

    assert (freed,) == report.freed


def test_the_check_of_a_plan_ignores_its_own_reservations_alone():
    """All that n2 has left is reserved: for the move itself, or for another plan's."""
    moves = ask(uids(two_nodes())).status.moves
    objects = [*uids(two_nodes()), reserving(2, name="mine")]

    assert MoveCheck() == ask(objects, CHECK, moves=moves, plan="mine").check
    assert "n2 rejects default/a" in ask(objects, CHECK, moves=moves, plan="another").check.stale


def written(objects):
    """Return objects as `trellis snapshot --anonymize` writes them."""
    versions = {kind.name: kind.api_version for kind in READ}
    clean = [exported(one["kind"], versions[one["kind"]], one) for one in objects]
    hiding = Anonymizer()
    hiding.learn(clean)
    return [hiding.renamed(one) for one in clean]


def test_an_anonymized_snapshot_keeps_what_is_reserved():
    """The replacement alone gets the reserved GPUs, under its alias; no name or text is left."""
    replacement = owned("db-new", "", owner="db")
    replacement["spec"].pop("nodeName")
    objects = [gpu_node("n1", gpus="1"), *uids([pod("rude", requests={GPU: "1"}), replacement])]
    unit = {"unit": "default/gangway", "ordinal": "db-0", "present": ["gone"]}
    other = plan(move("db-old", "n9", "n1", gpus=1, state="Evicted"))
    group = plan(move("db-x", "n9", "n8", gpus=1, state="Planned", **unit), name="second")
    before, hidden = [*objects, other, group], written([*objects, other, group])

    for shown in (before, hidden):
        assert [False, True] == [one.node is not None for one in place(*shown).pods]
    text = json.dumps(hidden)
    for word in ("secret", "db-", "rude", "gangway", "elsewhere", '"other"', '"second"', '"n9"'):
        assert word not in text, word
    moved = hidden[-1]["status"]["moves"][0]
    assert ("Planned", {"cpu": "1", GPU: "1"}) == (moved["state"], moved["requests"])
    assert 2 == len(moved["unit"].split("/"))
    assert msgspec.json.encode(hidden)
