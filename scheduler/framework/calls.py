"""What a generator of the framework may yield, and what it receives.

A plugin's `pre_bind` and `bind` do `answer = yield ApiCall(...)`. A cycle that cannot decide at once
does `(answer,) = yield (SolverCall(...),)`: all calls of a tuple are asked at the same time, and their
answers come back in the same order. The engine turns a call into an effect and resumes the generator
with the answer, so the same code runs in the daemon, in `simulate` and in a replay.
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
    """Say, before anything is written, that a `WaitUntil` for somebody else follows; there is no answer.

    A namespace can have only so many pods that wait so. Where there are as many already the pod is tried
    again later, and has written nothing.
    """


class WaitUntil(msgspec.Struct, frozen=True):
    """Go on when `predicate()` holds; it is asked again whenever one of the facts `reads` changes.

    `what` is the object that is waited for, as the user wrote it; without it the kinds of `reads` are named.
    """

    predicate: Callable[[], bool]
    reads: tuple[str, ...]
    timeout_s: float
    what: str = ""


class PodEvent(msgspec.Struct, frozen=True):
    """Tell the pod's owner something as a normal event; there is no answer to wait for."""

    reason: str
    action: str
    note: str


class PreBindDone(msgspec.Struct, frozen=True):
    """All pre-bind plugins have succeeded: nothing is left but to bind the member of a group.

    Yielded by the framework, not by plugins. Answered once the group may begin with the pod.
    """


BindStep: TypeAlias = ApiCall | BindPod | WillWait | WaitUntil | PodEvent | PreBindDone


class Offer(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A node on which evicting pods would make room: their uids, and how many budgets that violates."""

    node: str
    victims: tuple[str, ...]
    violations: int = 0


class ExtenderCall(msgspec.Struct, frozen=True):
    """A question about a pod to the extender with this number: `verb` is filter, prioritize, preempt.

    Its profile tries no other pod meanwhile. The answer's body is an `engine.effects.ExtenderAnswer`.
    """

    pod: Pod
    extender: int
    verb: str
    timeout_s: float
    nodes: tuple[str, ...] = ()
    offers: tuple[Offer, ...] = ()


class SolverCall(msgspec.Struct, frozen=True):
    """An instance to be solved in the helper process, as plain data, within `limit_s` seconds.

    Other pods go on meanwhile, unless `holds` keeps the nodes as they are until the answer is there. The answer's body is the solution as plain data; code 0 says that none
    came.
    """

    instance: Any
    limit_s: float
    holds: bool = False


CycleCall: TypeAlias = ExtenderCall | SolverCall


class CallResult(msgspec.Struct, frozen=True):
    """The answer: an HTTP status, or 0 when a wait timed out or nothing came back."""

    code: int
    reason: str = ""
    message: str = ""
    body: Any = None

    @property
    def ok(self) -> bool:
        """Whether the call went well."""
        return 200 <= self.code < 300
