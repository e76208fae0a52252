"""The decisions that the daemon keeps: the numbers of many, every node of some."""

from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from scheduler.base.clock import ManualClock
from scheduler.config import default_config
from scheduler.daemon.records import decisions
from scheduler.daemon.records.compactdecision import keep
from scheduler.daemon.records.decisions import DecisionHistory
from scheduler.engine.effects import Leading, Watched
from scheduler.engine.engine import Engine
from scheduler.framework.nodes import Nodes
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.objects.plain import read_node, read_pod
from scheduler.simulate.verdicts import verdicts
from scheduler.testing import node, pod

REGISTRY = Registry(IN_TREE)
ZONE = "topology.kubernetes.io/zone"
TAINTS = [{"key": "a", "value": "b", "effect": "NoSchedule"}]
NODES = [
    node("a", labels={ZONE: "a"}),
    node("b", cpu="8", labels={ZONE: "b"}),
    node("c", cpu="1", memory="1Gi"),
    node("d", unschedulable=True),
    node("e", taints=TAINTS),
]
PODS = [
    pod("easy"),
    pod("some", requests={"cpu": "2", "memory": "2Gi"}),
    pod("large", requests={"cpu": "6"}),
    pod("huge", requests={"cpu": "99", "memory": "999Gi"}),
    pod("zonal", spec={"nodeSelector": {ZONE: "a"}}),
    pod("nowhere", spec={"nodeSelector": {ZONE: "z"}}),
    pod(
        "named",
        spec={
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {
                                "matchFields": [
                                    {"key": "metadata.name", "operator": "In", "values": ["c"]}
                                ]
                            }
                        ]
                    }
                }
            }
        },
    ),
    pod(
        "claims",
        spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}]},
    ),
]


class RecordedEngine:
    """An engine with some nodes, and its history."""

    def __init__(self) -> None:
        self.clock = ManualClock(1_767_225_600.0)
        self.engine = Engine(default_config(REGISTRY).profiles, REGISTRY)
        self.history = DecisionHistory(self.engine)
        for raw in NODES:
            self.handle("Node", read_node(raw))

    def handle(self, kind, obj):
        self.engine.handle(Watched(kind, "ADDED", obj), self.clock.now())

    def last(self, name, most=9):
        found = self.history.last("default", name, most)
        assert found is not None
        return found

    def place(self, raw):
        found = read_pod(raw)
        spec = msgspec.structs.replace(found.spec, scheduler_name="trellis")
        self.handle("Pod", msgspec.structs.replace(found, spec=spec))
        self.engine.run(self.clock.now(), 1)


def test_each_change_of_the_leader_is_kept_once():
    """A process that never led reports no end; a repeated event changes nothing."""
    recorded = RecordedEngine()
    for active in (False, True, True, False):
        recorded.engine.handle(Leading(active=active), recorded.clock.now())
        recorded.clock.advance(1.0)
    start = 1_767_225_600.0
    assert [(start + 1, True), (start + 3, False)] == list(recorded.history.leading)


@pytest.mark.parametrize("raw", PODS, ids=lambda raw: raw["metadata"]["name"])
def test_a_kept_decision_equals_the_original(raw):
    """The record has the same verdict per node as a simulation at that time, whatever changes
    later.
    """
    recorded = RecordedEngine()
    seen = []

    def look(queued, decision):
        cluster = recorded.engine.cluster
        nodes = Nodes(cluster.table, cluster.pods, decision.feasible)
        names = tuple(nodes.name(row) for row in range(nodes.size))
        seen.append((verdicts(decision, nodes), keep(decision, nodes, names)))

    recorded.engine.observation.on_decision = look
    recorded.place(raw)
    for other in NODES:
        changed = node(other["metadata"]["name"], cpu="100", unschedulable=True)
        recorded.handle("Node", read_node(changed))
    ((reported, kept),) = seen

    assert list(reported) == sorted(kept.verdicts(100), key=lambda one: one.name)


def test_the_last_verdict_is_found_by_name():
    """The verdict has its nodes, best first; `most` limits their number."""
    recorded = RecordedEngine()
    recorded.place(PODS[2])
    found = recorded.last("large", 100)

    assert ("b", 1, 1, 5) == (found.node, found.attempts, found.feasible_nodes, found.all_nodes)
    assert "2026-01-01T00:00:00Z" == found.at
    assert found.nodes is not None
    assert "b" == found.nodes[0].name
    assert ["b", "a"] == [one.name for one in recorded.last("large", 2).nodes]
    assert {"Insufficient cpu": 2} == found.rejected["NodeResourcesFit"]
    assert recorded.history.last("default", "none", 9) is None


def test_nodes_are_kept_of_some_a_second(monkeypatch):
    """Under load the numbers alone are."""
    monkeypatch.setattr(decisions, "WHOLE_PER_S", 2)
    recorded = RecordedEngine()
    for number in range(4):
        recorded.place(pod(f"p{number}"))
    recorded.clock.advance(1.0)
    recorded.place(pod("late"))
    found = {name: recorded.last(name, 9) for name in ("p0", "p1", "p2", "p3", "late")}

    assert ["p0", "p1", "late"] == [name for name, one in found.items() if one.nodes is not None]
    assert all(one.scores for one in found.values())


def test_memory_is_bounded(monkeypatch):
    """The oldest lose their nodes, then their numbers."""
    recorded = RecordedEngine()
    recorded.place(pod("p0"))
    size = recorded.history._whole_bytes
    monkeypatch.setattr(decisions, "WHOLE_BYTES", 2 * size)
    for number in range(1, 4):
        recorded.place(pod(f"p{number}"))
    kept = [f"p{n}" for n in range(4) if recorded.last(f"p{n}", 9).nodes is not None]
    assert ["p2", "p3"] == kept
    assert 0 < recorded.history._whole_bytes <= 2 * size

    monkeypatch.setattr(recorded.history, "_most", 3)
    recorded.place(pod("p4"))
    assert recorded.history.last("default", "p0", 9) is None


def test_an_attempt_is_kept_with_the_time_of_its_turn():
    """The time is that of the decision log, however long the turn has lasted: both sources yield
    one history.
    """
    recorded = RecordedEngine()
    recorded.handle("Pod", read_pod(pod("late", spec={"schedulerName": "trellis"})))
    recorded.clock.advance(1)
    decided_at = recorded.clock.now()
    recorded.clock.advance(1)
    recorded.engine.run(decided_at, 1)
    assert [(decided_at, decided_at, 1)] == [
        (one.since, one.at, one.times) for one in recorded.history.attempts
    ]


def test_the_end_of_an_attempt_is_logged_by_its_result(monkeypatch):
    """A bound pod with its node, a pending one with the message, an error as an error."""
    recorded, seen = RecordedEngine(), []
    for level in ("info", "error"):
        log = partial(lambda level, event, **facts: seen.append((level, event, facts)), level)
        monkeypatch.setattr(decisions._log, level, log)
    queued = SimpleNamespace(pod=read_pod(pod("p")), attempts=3)
    for result in ("scheduled", "unschedulable", "error"):
        recorded.history._ended(cast(Any, queued), result, "text")

    facts = {"pod": "default/p", "attempts": 3}
    assert [
        ("info", "scheduled", {**facts, "node": "text"}),
        ("info", "unschedulable", {**facts, "message": "text"}),
        ("error", "not scheduled", {**facts, "message": "text"}),
    ] == seen


def test_decisions_share_the_names_of_rows_until_a_node_is_added():
    """Each kept decision would otherwise hold the names of all nodes."""
    recorded = RecordedEngine()
    names = recorded.history._row_names()
    assert names is recorded.history._row_names()

    recorded.handle("Node", read_node(node("f")))
    assert {*names, "f"} == set(recorded.history._row_names())
