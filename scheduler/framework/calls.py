"""What a plugin's `pre_bind` and `bind` may yield, and what they receive.

They are generators: `answer = yield ApiCall(...)`. The engine turns a call into an effect and resumes
the generator with the answer, so the same code runs in the daemon, in `simulate` and in a replay.
"""

from __future__ import annotations

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
    """Bind the pod to the node by the binding subresource; carries the pod's uid."""

    pod: Pod
    node: str


class WaitUntil(msgspec.Struct, frozen=True):
    """Go on when `predicate()` holds; it is asked again whenever one of the facts `reads` changes."""

    predicate: Callable[[], bool]
    reads: tuple[str, ...]
    timeout_s: float


BindStep: TypeAlias = ApiCall | BindPod | WaitUntil


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
