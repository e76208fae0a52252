"""Cycles that wait for an answer, from their first request to their end.

Each cycle is a generator. It yields tuples of calls (`framework.calls`) that become effects; their
answers, or the timeout, resume it. While a cycle waits for an extender its profile is in `blocked`
and tries no other pod; while one waits for the solver other pods go on. The caller that starts a
cycle sets the key by which it can be dropped; its end is put into `changes`. Decides nothing.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from typing import Any, TypeAlias

import msgspec

from scheduler.base.errors import InputError, PluginError
from scheduler.engine.attempt.cycle import PutOffError
from scheduler.engine.effects import Answer, AskExtender, Effects, Solve
from scheduler.engine.outbox import Outbox
from scheduler.framework.calls import CallResult, CycleCall, ExtenderCall

# An effect has its own time limit; this is how much later an answer is taken for lost.
GRACE_S = 5.0
UNANSWERED = CallResult(0, "Timeout", "context deadline exceeded")

CycleSteps: TypeAlias = Generator[tuple[CycleCall, ...], tuple[CallResult, ...], Any]
Complain = Callable[[str, str, Exception], None]


class CycleEnded(msgspec.Struct, frozen=True):
    """The result of the suspended cycle of `subject`, or the error that ended it."""

    subject: Any
    outcome: Any


class _Waiting(msgspec.Struct, eq=False):
    """A suspended cycle: `results` has a place for each call of its last question."""

    key: str
    profile: str
    steps: CycleSteps
    subject: Any
    holds: bool = False
    deadline: float = 0.0
    results: list[CallResult] = []
    unanswered: dict[int, int] = {}


class SuspendedCycles:
    """All suspended cycles by key: a pod's uid, or the key of a group."""

    def __init__(
        self,
        outbox: Outbox,
        complain: Complain,
        changes: deque[Any],
        profiles: Iterable[str] = (),
    ) -> None:
        self._outbox = outbox
        self._changes = changes
        self.profiles = frozenset(profiles)
        self._complain = complain
        self.waiting: dict[str, _Waiting] = {}
        self._by_effect: dict[int, _Waiting] = {}
        self.blocked: frozenset[str] = frozenset()
        self._is_exclusive = False

    def __len__(self) -> int:
        return len(self.waiting)

    def __contains__(self, key: str) -> bool:
        return key in self.waiting

    def begin(self, key: str, profile: str, steps: CycleSteps, subject: Any, now: float) -> None:
        """Run a cycle up to its first call; without one, the cycle has ended at once."""
        self._advance(_Waiting(key, profile, steps, subject), None, now)

    def hold_all(self, *, is_exclusive: bool) -> None:
        """Block every profile while `is_exclusive`, regardless of what the suspended cycles wait
        for.
        """
        if is_exclusive is not self._is_exclusive:
            self._is_exclusive = is_exclusive
            self._block()

    def answer(self, answer: Answer, now: float) -> bool:
        """Resume the cycle that waits for an answer; return whether there was one.

        Late and duplicate answers, and answers for a dropped cycle, are ignored.
        """
        waiting = self._by_effect.pop(answer.effect, None)
        if waiting is None:
            return False
        place = waiting.unanswered.pop(answer.effect)
        waiting.results[place] = CallResult(answer.code, answer.reason, answer.message, answer.body)
        if not waiting.unanswered:
            self._resume(waiting, now)
        return True

    def expire(self, now: float) -> bool:
        """Resume one cycle whose answer is overdue; return False without such a cycle.

        One per call: resuming a cycle may drop another.
        """
        waiting = next((one for one in self.waiting.values() if one.deadline <= now), None)
        if waiting is not None:
            self._resume(waiting, now)
        return waiting is not None

    def next_deadline(self) -> float | None:
        """Return the earliest deadline of a suspended cycle, or None."""
        return min((waiting.deadline for waiting in self.waiting.values()), default=None)

    def drop(self, key: str) -> bool:
        """Drop the cycle of a deleted subject without resuming it; return whether there was one."""
        waiting = self.waiting.get(key)
        if waiting is None:
            return False
        self._forget(waiting)
        try:
            waiting.steps.close()
        except PluginError as error:
            self._complain(error.plugin, error.point, error)
        return True

    def drop_all(self) -> tuple[str, ...]:
        """Forget all cycles (their effects may never have been sent); return their keys in
        order.
        """
        keys = tuple(self.waiting)
        for key in keys:
            self.drop(key)
        return keys

    def _resume(self, waiting: _Waiting, now: float) -> None:
        self._forget(waiting)
        self._advance(waiting, tuple(waiting.results), now)

    def _advance(
        self, waiting: _Waiting, results: tuple[CallResult, ...] | None, now: float
    ) -> None:
        try:
            calls = next(waiting.steps) if results is None else waiting.steps.send(results)
        except StopIteration as stop:
            self._changes.append(CycleEnded(waiting.subject, stop.value))
        except (PluginError, InputError, PutOffError) as error:
            self._changes.append(CycleEnded(waiting.subject, error))
        else:
            self._send(waiting, calls, now)

    def _send(self, waiting: _Waiting, calls: tuple[CycleCall, ...], now: float) -> None:
        waiting.results = [UNANSWERED] * len(calls)
        waiting.holds = any(isinstance(call, ExtenderCall) for call in calls)
        patience_s = 0.0
        for place, call in enumerate(calls):
            effect = self._outbox.new_id()
            waiting.unanswered[effect] = place
            self._by_effect[effect] = waiting
            self._outbox.put(_effect(effect, call))
            limit_s = call.timeout_s if isinstance(call, ExtenderCall) else call.limit_s
            patience_s = max(patience_s, limit_s)
        waiting.deadline = now + patience_s + GRACE_S
        self.waiting[waiting.key] = waiting
        self._block()

    def _forget(self, waiting: _Waiting) -> None:
        for effect in waiting.unanswered:
            self._by_effect.pop(effect, None)
        waiting.unanswered.clear()
        del self.waiting[waiting.key]
        self._block()

    def _block(self) -> None:
        holding = frozenset(one.profile for one in self.waiting.values() if one.holds)
        self.blocked = self.profiles if self._is_exclusive else holding


def _effect(number: int, call: CycleCall) -> Effects:
    if isinstance(call, ExtenderCall):
        meta = call.pod.metadata
        return AskExtender(
            number,
            call.extender,
            call.verb,
            meta.namespace,
            meta.name,
            meta.uid,
            call.nodes,
            call.offers,
        )
    return Solve(number, call.instance, call.limit_s)
