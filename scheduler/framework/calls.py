"""The values that a generator of the framework may yield, and the answers it receives.

A plugin's `pre_bind` and `bind` do `answer = yield ApiCall(...)`. A cycle that cannot decide at
once does `(answer,) = yield (SolverCall(...),)`: all calls of a tuple start at the same time, and
their answers come back in the same order. The engine turns a call into an effect and resumes the
generator with the answer, so the same code runs in the daemon, in `simulate` and in a replay.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from scheduler.objects.pod import Pod


class ApiCall(msgspec.Struct, frozen=True):
    """A request to the API server; `path` starts with `/api` or `/apis`, `body` is plain data."""

    method: str
    path: str
    body: Any = None
    content_type: str = "application/json"


class BindPod(msgspec.Struct, frozen=True):
    """Bind the pod to the node by the binding subresource; carries the pod's uid.

    With `extender` that extender binds it instead, within `timeout_s`.
    """

    pod: Pod
    node: str
    extender: int | None = None
    timeout_s: float = 0.0


class WillWait(msgspec.Struct, frozen=True):
    """Announce, before any write, that a `WaitUntil` for another component follows; has no answer.

    The number of pods of a namespace in this wait is limited. Above the limit the pod is retried
    later and has written nothing.
    """


class WaitUntil(msgspec.Struct, frozen=True):
    """Resume when `predicate()` returns True; it runs again on each change of a fact in `reads`.

    `what` is the awaited object, as the user wrote it; without it messages name the kinds of
    `reads`.
    """

    predicate: Callable[[], bool]
    reads: tuple[str, ...]
    timeout_s: float
    what: str = ""


class PodEvent(msgspec.Struct, frozen=True):
    """Emit a Normal event on the pod; has no answer."""

    reason: str
    action: str
    note: str


class PreBindDone(msgspec.Struct, frozen=True):
    """All pre-bind plugins have succeeded: nothing is left but to bind the member of a group.

    Yielded by the framework, not by plugins. Answered once the group may begin with the pod.
    """


BindStep: TypeAlias = ApiCall | BindPod | WillWait | WaitUntil | PodEvent | PreBindDone


class Offer(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A node on which evicting these pods (uids) frees enough capacity, and the budgets it
    violates.
    """

    node: str
    victims: tuple[str, ...]
    violations: int = 0


class ExtenderCall(msgspec.Struct, frozen=True):
    """A request about a pod to the extender with this number.

    `verb` is filter, prioritize or preempt. The profile schedules no other pod until the answer
    arrives. The answer's body is an `engine.effects.ExtenderAnswer`.
    """

    pod: Pod
    extender: int
    verb: str
    timeout_s: float
    nodes: tuple[str, ...] = ()
    offers: tuple[Offer, ...] = ()


class SolverCall(msgspec.Struct, frozen=True):
    """An instance for the solver in the helper process, as plain data, with a limit of `limit_s`
    seconds.

    Other pods are scheduled meanwhile, unless `holds` reserves the nodes as they are until the
    answer arrives. The answer's body is the solution as plain data; code 0 means that no solution
    came back.
    """

    instance: Any
    limit_s: float
    holds: bool = False


CycleCall: TypeAlias = ExtenderCall | SolverCall


class CallResult(msgspec.Struct, frozen=True):
    """The answer to a call: an HTTP status, or 0 after a timeout or without a response."""

    code: int
    reason: str = ""
    message: str = ""
    body: Any = None

    @property
    def ok(self) -> bool:
        """Return whether the call succeeded."""
        return 200 <= self.code < 300
