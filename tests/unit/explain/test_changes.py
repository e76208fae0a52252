"""Changes of nodes that the page tries: the answers follow, with the figures of both sides."""

import json

import msgspec
import pytest

from scheduler.base.errors import InputError
from scheduler.config import default_config
from scheduler.explain.questions import Question
from scheduler.explain.responder import QuestionResponder
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.simulate.setups import Setups
from scheduler.simulate.stage import AnswerOptions, Setup
from scheduler.snapshot.documents import SourceFile, items_of
from scheduler.snapshot.snapshot import read_snapshot
from scheduler.testing import node, pod

RACK, HOST = "topology.trellis.dev/rack", "kubernetes.io/hostname"


def answer(**changes):
    """Return two racks of one node of 4 CPUs each, one pod of 3 CPUs in each, and a pending one."""
    ours = {"schedulerName": "trellis"}
    items = [
        *(node(one, cpu="4", labels={RACK: f"rack-{one}", HOST: one}) for one in ("a", "b")),
        *(pod(f"on-{one}", node_name=one, requests={"cpu": "3"}, spec=ours) for one in ("a", "b")),
        pod("waits", requests={"cpu": "3"}, spec=ours),
    ]
    snapshot = read_snapshot(items_of(SourceFile("test", json.dumps(items).encode())))
    registry = Registry(IN_TREE)
    responder = QuestionResponder(Setups(registry, Setup(default_config(registry), registry)))
    found = responder.answer(Question("change", **changes), snapshot, AnswerOptions(now=0.0))
    return json.loads(msgspec.json.encode(found))


@pytest.mark.parametrize(
    ("changes", "differs", "nodes"),
    [
        ({}, {}, 2),
        ({"added": ("1=a",)}, {"waits": "a-added"}, 3),
        ({"racks": ("rack-a",)}, {"on-a": None}, 1),
        ({"removed": ("b",)}, {"on-b": None}, 1),
        ({"drained": (f"{HOST}=a",)}, {"on-a": None}, 2),
    ],
)
def test_a_change_of_nodes_is_answered(changes, differs, nodes):
    """Pods whose node is removed are placed again or wait; the others are not in the answer."""
    found = answer(**changes)
    sides = {one["name"]: (one["before"], one["after"]) for one in found["diff"]["pods"]}
    # The number of nodes is part of a message: a pod that waits on both sides may differ in it.
    sides = {name: two for name, two in sides.items() if not two[0] or two[1]["node"]}
    assert differs.keys() == sides.keys()
    for name, wanted in differs.items():
        assert bool(wanted) == bool(sides[name][1]["node"]), sides
    cpus = [side["resources"]["cpu"]["allocatable"] for side in found["figures"]]
    assert [2 * 4000, nodes * 4000] == cpus


def test_an_impossible_change_names_its_fault():
    """The error is that of the command line."""
    with pytest.raises(InputError, match="there is no rack 'rack-c'"):
        answer(racks=("rack-c",))
