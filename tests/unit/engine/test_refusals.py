"""Pods equivalent to a just rejected one get the same rejection without an attempt, unless a change
happened in between.
"""

from typing import Any

import pytest

from scheduler.config import default_config
from scheduler.engine.attempt import attempt
from scheduler.engine.effects import Bind, Listed, Record, SetStatus, Watched
from scheduler.engine.engine import IN_PASSING, Engine
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from tests.property.making import make_node, make_pod

REGISTRY = Registry(IN_TREE)
HOST = "kubernetes.io/hostname"


class Turn:
    """One turn of an engine, with its attempts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.engine = Engine(default_config(REGISTRY).profiles, REGISTRY)
        self.tried: list[str] = []
        known = attempt.decide

        def counted(one: Any) -> Any:
            self.tried.append(one.cycle.pod.metadata.name)
            return known(one)

        monkeypatch.setattr(attempt, "decide", counted)
        for kind in ("Node", "Pod", "Namespace"):
            self.engine.handle(Listed(kind, ()), 0.0)
        self.add("Node", make_node("n1", cpu=4, labels={HOST: "n1"}))

    def add(self, kind: str, obj: Any) -> None:
        self.engine.handle(Watched(kind, "ADDED", obj), 0.0)

    def pods(self, *names: str, **fields: Any) -> None:
        for name in names:
            self.add("Pod", make_pod(name, **fields))

    def run(self, cycles: int = 100) -> list[Any]:
        return list(self.engine.run(1.0, cycles))


def bound(effects: list[Any]) -> list[str]:
    """Return the bound pods."""
    return [effect.name for effect in effects if isinstance(effect, Bind)]


def messages(effects: list[Any]) -> dict[str, str]:
    """Return the message of each pod."""
    reported = [(e.name, e.condition) for e in effects if isinstance(e, SetStatus)]
    return {name: condition.message for name, condition in reported if condition is not None}


def test_one_attempt_is_made_for_equivalent_pods(monkeypatch):
    """All have a condition and an event of their own, with the same text, and wait for the same
    plugin.
    """
    turn = Turn(monkeypatch)
    turn.pods("a", "b", "c", cpu=9)
    turn.pods("d", cpu=8)
    effects = turn.run()

    assert ["a", "d"] == turn.tried
    reported = messages(effects)
    assert {"a", "b", "c", "d"} == reported.keys()
    assert reported["a"] == reported["b"] == reported["c"]
    assert "Insufficient cpu" in reported["a"]
    assert ["a", "b", "c", "d"] == [e.name for e in effects if isinstance(e, Record)]
    assert {("NodeResourcesFit",)} == {one.rejected_by for one in turn.engine.queues}
    assert [] == list(turn.engine.run(2.0, 100))


def test_the_next_turn_tries_anew(monkeypatch):
    """Any change may happen between two turns."""
    turn = Turn(monkeypatch)
    turn.pods("a", cpu=9)
    turn.run()
    turn.pods("b", cpu=9)
    turn.run()
    assert ["a", "b"] == turn.tried


def test_pods_placed_in_between_are_reported(monkeypatch):
    """The placed pod used the port; the pod rejected before lacked only CPU."""
    turn = Turn(monkeypatch)
    turn.pods("filler", cpu=2, node="n1")
    turn.pods("early", cpu=3, host_port=80)
    turn.pods("x", cpu=1, host_port=80)
    turn.pods("late", cpu=3, host_port=80)
    effects = turn.run()
    assert ["x"] == bound(effects)
    assert "Insufficient cpu" in messages(effects)["early"]
    assert "free ports" in messages(effects)["late"]


def test_a_nomination_cleared_in_between_may_help(monkeypatch):
    """A pod rejected because of the nomination has that message; the next one of its kind gets the
    capacity.
    """
    turn = Turn(monkeypatch)
    turn.pods("early", cpu=4)
    turn.pods("nominated", cpu=9, nominated="n1")
    turn.pods("late", cpu=4)
    effects = turn.run()
    assert ["late"] == bound(effects)


def test_pods_of_another_priority_are_not_equivalent(monkeypatch):
    """Pods of another priority may evict other pods."""
    turn = Turn(monkeypatch)
    turn.pods("a", cpu=9, priority=5)
    turn.pods("b", cpu=9)
    turn.run()
    assert ["a", "b"] == turn.tried


def test_a_flood_is_refused_as_fast_as_it_comes(monkeypatch):
    """A cached rejection counts for an eighth of an attempt: pods behind a flood wait less."""
    turn = Turn(monkeypatch)
    turn.pods(*(f"f{number:02}" for number in range(30)), cpu=9)
    turn.pods("other", cpu=1)
    assert [1 + IN_PASSING] * 3 == [len(messages(turn.run(2))) for _ in range(3)]
    effects = turn.run(2)
    assert ["f27", "f28", "f29"] == list(messages(effects))
    assert ["other"] == bound(effects)
    assert ["f00", "f09", "f18", "f27", "other"] == turn.tried
