"""The daemon's loop: how much a turn takes in and tries, by how long that takes."""

from typing import Any

import pytest

from scheduler.base.clock import ManualClock
from scheduler.base.meters import Meters
from scheduler.daemon.inbox import Inbox
from scheduler.daemon.loop import MOST_CYCLES, MOST_IN_FLIGHT, TURN_S, Loop
from scheduler.engine.effects import Leading


class Slow:
    """An engine that takes a given time for each event and each pod; it is its own stopwatch."""

    view: Any

    def __init__(self, event_s: float, pod_s: float) -> None:
        self.now_s = 0.0
        self.taken = 0
        self.tried: list[int] = []
        self.waiting = True
        self.view = self
        self.busy = 0
        self.deadline: float | None = None
        self._event_s, self._pod_s = event_s, pod_s

    def bindings(self) -> "Slow":
        return self

    def has_work(self) -> bool:
        return self.waiting

    def next_wakeup(self) -> float | None:
        return self.deadline

    def handle(self, _event: Any, _now: float) -> None:
        self.taken += 1
        self.now_s += self._event_s

    def run(self, _now: float, cycles: int) -> tuple[()]:
        self.tried.append(cycles)
        self.now_s += cycles * self._pod_s
        return ()


def flooded(engine: Slow, turns: int) -> None:
    """Run this many turns while more events arrive than any turn processes."""
    inbox: Any = Inbox()
    for _ in range(400 * turns):
        inbox.put(Leading(active=True))
    driven: Any = engine
    loop = Loop(
        driven,
        inbox,
        Outside(),
        ManualClock(0.0),
        Meters(),
        after_turn=lambda: None,
        stopwatch=lambda: engine.now_s,
    )
    for _ in range(turns):
        loop.turn()


class Outside:
    """Accepts no effects."""

    def submit(self, _effects: Any) -> None:
        raise AssertionError

    async def wait_capacity(self) -> None:
        raise AssertionError


def test_a_flood_of_events_leaves_as_much_to_be_tried():
    """Intake uses its share of every turn and no more, and active pods are tried as fast as without
    a flood.
    """
    engine = Slow(event_s=TURN_S / 100, pod_s=TURN_S / 1000)
    flooded(engine, 10)
    assert MOST_CYCLES == engine.tried[-1]
    assert engine.taken <= 10 * (50 + 16)


def test_long_attempts_make_turns_short():
    """The number of handled events does not matter."""
    engine = Slow(event_s=0.0, pod_s=TURN_S * 0.4)
    flooded(engine, 10)
    assert 2 == engine.tried[-1]


@pytest.mark.parametrize("turns_a_pod", [0.001, 0.03, 0.045, 0.06, 0.1, 0.15, 0.3, 0.6, 2.0])
def test_attempts_fill_between_half_and_all_of_a_turn(turns_a_pod: float):
    """If a pod takes the same time in each turn, the number of pods settles, unless the least or
    the largest number is reached.
    """
    engine = Slow(event_s=0.0, pod_s=TURN_S * turns_a_pod)
    flooded(engine, 12)
    share = engine.tried[-1] * turns_a_pod
    assert 0.5 <= share <= 1.0 or engine.tried[-1] == (1 if share > 1.0 else MOST_CYCLES)
    assert engine.tried[-1] == engine.tried[-2]


def test_without_waiting_pods_a_turn_only_takes_in_events():
    """No active pod is delayed by the longer intake."""
    engine = Slow(event_s=TURN_S / 100, pod_s=0.0)
    engine.waiting = False
    flooded(engine, 1)
    assert engine.taken > 100


def test_the_loop_sleeps_only_if_no_pod_can_be_tried_now():
    """Waiting pods keep it awake while a binding is free; else it sleeps until the next deadline,
    or until an event if there is none.
    """
    engine, clock = Slow(0.0, 0.0), ManualClock(100.0)
    driven: Any = engine
    loop = Loop(driven, Inbox(), Outside(), clock, Meters(), after_turn=lambda: None)
    for has_work in (False, True):
        for busy in (0, MOST_IN_FLIGHT - 1, MOST_IN_FLIGHT, MOST_IN_FLIGHT + 1):
            for deadline, patience_s in ((None, None), (99.0, 0.0), (107.5, 7.5)):
                engine.waiting, engine.busy, engine.deadline = has_work, busy, deadline
                expected = 0.0 if has_work and busy < MOST_IN_FLIGHT else patience_s
                assert expected == loop._patience_s()
