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


class InFlight(msgspec.Struct, eq=False):
    """A pod between decision and binding."""

    queued: QueuedPod
    cycle: Cycle
    runner: Runner
    states: States
    node: str
    started_s: float = 0.0
    steps: Generator[BindStep, CallResult, Status] | None = None
    asked: BindStep | None = None
    effect: int = 0
    deadline: float | None = None
    binds: int = 0
    doubt_until: float = 0.0
    failure: CallResult = CallResult(0)
    has_place: bool = False  # among the pods that wait in pre-bind
    is_looking: bool = False
    is_lost: bool = False
    is_member: bool = False
    # What its node had promised too much of when it was chosen, and whether more came since.
    short: frozenset[str] = frozenset()
    is_outdated: bool = False
    ends_at: float = 0.0
    seen_on: str = ""
    tells_nomination: bool = False

    @property
    def uid(self) -> str:
        """Return the pod's uid."""
        return self.queued.uid


class Ended(msgspec.Struct, frozen=True):
    """A pod has left `Bindings`: bound when `status` is a success."""

    pod: InFlight
    status: Status


def is_doubtful(asked: BindPod, result: CallResult) -> bool:
    """Whether a bind that failed may have happened, or happen yet."""
    if asked.extender is not None:
        return result.reason in UNKNOWN
    return result.code == 0
