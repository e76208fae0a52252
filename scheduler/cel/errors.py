"""Errors of a selector: in its text (compile), or for one device (run time).

Both use upstream's words, so that an event, a condition or an answer of the API server reads as
kube-scheduler's and kube-apiserver's do. Raised by this package only.
"""

from scheduler.base.errors import InputError


class CelCompileError(InputError):
    """The text is no selector: syntax, types, size or estimated cost; the API server refuses it."""


class CelRuntimeError(InputError):
    """The selector cannot be evaluated for a device; `cost` is the cost until the error."""

    def __init__(self, message: str, *, cost: int = 0) -> None:
        super().__init__(message)
        self.cost = cost
