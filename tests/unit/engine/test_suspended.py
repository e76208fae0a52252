"""Cycles that wait for an answer: started, resumed, timed out, dropped."""

from collections import deque
from collections.abc import Generator
from typing import Any

import pytest

from scheduler.base.errors import InputError, PluginError
from scheduler.engine.attempt.suspended import (
    GRACE_S,
    UNANSWERED,
    CycleEnded,
    CycleSteps,
    SuspendedCycles,
)
from scheduler.engine.effects import Answer, AskExtender, Solve
from scheduler.engine.outbox import Outbox
from scheduler.framework.calls import CallResult, CycleCall, ExtenderCall, SolverCall
from tests.property.making import make_pod


class RecordedCycles:
    """SuspendedCycles with a record of their ends."""

    def __init__(self) -> None:
        self.outbox = Outbox()
        self.faults: list[tuple[str, str]] = []
        self.changes: deque[CycleEnded] = deque()
        self.all = SuspendedCycles(
            self.outbox,
            lambda plugin, point, _error: self.faults.append((plugin, point)),
            self.changes,
        )

    @property
    def ended(self) -> list[Any]:
        """Return the ends of cycles so far."""
        return [change.outcome for change in self.changes]

    def begin(self, steps: CycleSteps, key: str = "k", profile: str = "a") -> None:
        """Begin a cycle at time 0."""
        self.all.begin(key, profile, steps, None, 0.0)

    def asked(self) -> list[Any]:
        """Return the effects since the last call."""
        return list(self.outbox.drain())


def ask_extender(verb: str = "filter") -> ExtenderCall:
    """Return a call that may take three seconds."""
    return ExtenderCall(make_pod("p"), 1, verb, 3.0, ("n0", "n1"))


def asks(*rounds: tuple[CycleCall, ...]) -> CycleSteps:
    """Yield these calls and return the bodies of all answers."""
    bodies: list[Any] = []
    for calls in rounds:
        answers = yield calls
        bodies += [answer.body if answer.ok else answer.reason for answer in answers]
    return bodies


def test_a_cycle_without_a_question_ends_at_once():
    """No call is made and nothing is stored."""
    cycles = RecordedCycles()
    cycles.begin(asks())

    assert [[]] == cycles.ended
    assert 0 == len(cycles.all)
    assert [] == cycles.asked()


def test_calls_become_effects_and_answers_come_back_in_their_order():
    """Both calls are sent at the same time; the cycle continues after the last answer."""
    cycles = RecordedCycles()
    cycles.begin(asks((ask_extender(), SolverCall({"x": 1}, 7.0))))
    first, second = cycles.asked()
    assert AskExtender(1, 1, "filter", "default", "p", "uid-p", ("n0", "n1")) == first
    assert Solve(2, {"x": 1}, 7.0) == second

    assert cycles.all.answer(Answer(2, 200, body="solved"), 1.0)
    assert [] == cycles.ended
    assert cycles.all.answer(Answer(1, 200, body="asked"), 2.0)
    assert [["asked", "solved"]] == cycles.ended


def test_one_question_after_the_other():
    """Each answer resumes the cycle, under a new effect each time."""
    cycles = RecordedCycles()
    cycles.begin(asks((ask_extender("filter"),), (ask_extender("prioritize"),)))
    (first,) = cycles.asked()
    cycles.all.answer(Answer(first.id, 200, body=1), 1.0)
    (second,) = cycles.asked()
    cycles.all.answer(Answer(second.id, 503, "HTTP503"), 2.0)

    assert ("filter", "prioritize") == (first.verb, second.verb)
    assert [[1, "HTTP503"]] == cycles.ended


def test_an_answer_without_a_suspended_attempt():
    """Late, repeated and foreign ones return False and change nothing."""
    cycles = RecordedCycles()
    cycles.begin(asks((ask_extender(),)))
    assert not cycles.all.answer(Answer(77, 200), 1.0)
    assert cycles.all.answer(Answer(1, 200, body=1), 1.0)
    assert not cycles.all.answer(Answer(1, 200, body=2), 1.0)

    assert [[1]] == cycles.ended


def test_no_answer_ends_in_a_timeout():
    """Answers in time are kept; the others get code 0, and a late answer has no effect."""
    cycles = RecordedCycles()
    cycles.begin(asks((ask_extender(), SolverCall({}, 7.0))))
    cycles.all.answer(Answer(1, 200, body="asked"), 1.0)
    assert 7.0 + GRACE_S == cycles.all.next_deadline()
    cycles.all.expire(11.9)
    assert [] == cycles.ended
    cycles.all.expire(12.0)

    assert [["asked", UNANSWERED.reason]] == cycles.ended
    assert not cycles.all.answer(Answer(2, 200), 13.0)
    assert None is cycles.all.next_deadline()


@pytest.mark.parametrize("limits_s", [(0.25,), (0.25, 0.5), (0.5, 0.25), (7.0, 3.0)])
def test_the_slowest_call_sets_the_deadline(limits_s: tuple[float, ...]):
    """An extender's `httpTimeout` may be shorter than a second."""
    cycles = RecordedCycles()
    calls = [ExtenderCall(make_pod("p"), 1, "filter", limit_s, ("n0",)) for limit_s in limits_s]
    cycles.begin(asks(tuple(calls)))

    assert max(limits_s) + GRACE_S == cycles.all.next_deadline()


def test_a_profile_waits_for_an_extender_and_not_for_the_solver():
    """`blocked` follows the calls, question by question."""
    cycles = RecordedCycles()
    cycles.begin(asks((SolverCall({}, 1.0),), (ask_extender(),)), "g", "a")
    cycles.begin(asks((ask_extender(),)), "p", "b")
    assert frozenset("b") == cycles.all.blocked
    cycles.all.answer(Answer(1, 200), 0.0)
    assert frozenset("ab") == cycles.all.blocked
    cycles.all.answer(Answer(2, 200), 0.0)
    assert frozenset("a") == cycles.all.blocked
    cycles.all.answer(Answer(3, 200), 0.0)

    assert frozenset() == cycles.all.blocked


@pytest.mark.parametrize("error", [PluginError("X", "Filter", "no"), InputError("bad")])
def test_an_error_out_of_a_cycle_ends_it(error: Exception):
    """The starter of the cycle receives it, wherever it is raised."""

    def breaks(*, late: bool) -> CycleSteps:
        if late:
            yield (ask_extender(),)
        raise error

    cycles = RecordedCycles()
    cycles.begin(breaks(late=False), "now")
    cycles.begin(breaks(late=True), "later")
    cycles.all.answer(Answer(1, 200), 4.0)

    assert [error, error] == cycles.ended
    assert 0 == len(cycles.all)


def test_a_dropped_cycle_is_closed_without_a_word():
    """The cycle's subject is deleted: no end is reported, its answer has no effect, a fault of
    closing is reported.
    """
    closed: list[str] = []

    def closes() -> Generator[tuple[CycleCall, ...], tuple[CallResult, ...], Any]:
        try:
            yield (ask_extender(),)
        finally:
            closed.append("yes")
            raise PluginError("X", "Filter", "cannot even close")

    cycles = RecordedCycles()
    cycles.begin(closes())
    assert "k" in cycles.all
    assert cycles.all.drop("k")
    assert not cycles.all.drop("k")

    assert (["yes"], [("X", "Filter")], []) == (closed, cycles.faults, cycles.ended)
    assert not cycles.all.answer(Answer(1, 200), 1.0)
    assert frozenset() == cycles.all.blocked


def test_all_are_dropped_when_requests_are_not_allowed_any_more():
    """The keys of all cycles are returned in the order they began."""
    cycles = RecordedCycles()
    for key in ("c", "a", "b"):
        cycles.begin(asks((ask_extender(),)), key)

    assert ("c", "a", "b") == cycles.all.drop_all()
    assert (0, []) == (len(cycles.all), cycles.ended)


def test_the_end_of_one_may_drop_another():
    """Two time out at once; the first one's end drops the second."""
    cycles = RecordedCycles()
    for key, other in (("a", "b"), ("b", "a")):
        cycles.all.begin(key, "p", asks((ask_extender(),)), (key, other), 0.0)
    ended = []
    while cycles.all.expire(100.0):
        key, other = cycles.changes.popleft().subject
        ended.append(key)
        cycles.all.drop(other)

    assert ["a"] == ended
