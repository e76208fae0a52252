"""`InFlight`: one pod between decision and binding, and how far it has come; `Ended`: how it ended.

`Bindings` alone changes it; whoever decides a pod makes it. It does nothing by itself.
"""

from collections.abc import Generator

import msgspec

from scheduler.engine.queue.pod import QueuedPod
from scheduler.framework.answers import States
from scheduler.framework.calls import BindPod, BindStep, CallResult
from scheduler.framework.cycle import Cycle
from scheduler.framework.runner import Runner
from scheduler.framework.status import Status

# How an extender's failure reads when nobody knows what it has done.
UNKNOWN = frozenset(("Timeout", "Disconnected"))


class InFlight:
    """A pod between decision and binding."""

    __slots__ = (
        "asked",
        "binds",
        "cycle",
        "deadline",
        "doubt_until",
        "effect",
        "ends_at",
        "failure",
        "has_place",
        "is_looking",
        "is_lost",
        "is_member",
        "is_outdated",
        "node",
        "queued",
        "runner",
        "seen_on",
        "short",
        "started_s",
        "states",
        "steps",
        "tells_nomination",
        "uid",
    )

    def __init__(
        self, queued: QueuedPod, cycle: Cycle, runner: Runner, states: States, node: str
    ) -> None:
        self.queued = queued
        self.uid = queued.uid
        self.cycle = cycle
        self.runner = runner
        self.states = states
        self.node = node
        self.started_s = 0.0
        self.steps: Generator[BindStep, CallResult, Status] | None = None
        self.asked: BindStep | None = None
        self.effect = 0
        self.deadline: float | None = None
        self.binds = 0
        self.doubt_until = 0.0
        self.failure = CallResult(0)
        self.has_place = False  # among the pods that wait in pre-bind
        self.is_looking = False
        self.is_lost = False
        self.is_member = False
        # What its node had promised too much of when it was chosen, and whether more came since.
        self.short: frozenset[str] = frozenset()
        self.is_outdated = False
        self.ends_at = 0.0
        self.seen_on = ""
        self.tells_nomination = False


class Ended(msgspec.Struct, frozen=True):
    """A pod has left `Bindings`: bound when `status` is a success."""

    pod: InFlight
    status: Status


def is_doubtful(asked: BindPod, result: CallResult) -> bool:
    """Whether a bind that failed may have happened, or happen yet."""
    if asked.extender is not None:
        return result.reason in UNKNOWN
    return result.code == 0
