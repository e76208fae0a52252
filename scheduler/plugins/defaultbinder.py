"""DefaultBinder: bind the pod by the binding subresource."""

from collections.abc import Generator

from scheduler.framework import SUCCESS, BindPod, CallResult, Code, Cycle, NoArgs, Plugin, Status


class DefaultBinder(Plugin[NoArgs]):
    """Bind the pod to the chosen node through the API server, whose response is the result."""

    def bind(self, cycle: Cycle, node: str) -> Generator[BindPod, CallResult, Status]:
        """Bind the pod; an Error status carries the API server's message."""
        answer = yield BindPod(cycle.pod, node)
        if answer.ok:
            return SUCCESS
        return Status(Code.ERROR, (answer.message or answer.reason or "no answer",))
