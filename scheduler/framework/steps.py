"""Running one plugin's pre-bind or bind: the half of the runner that is driven by answers.

Such a plugin is a generator; the engine drives it from question to question, so its exceptions come
up outside the runner's loop and are named here.
"""

from collections.abc import Generator, Iterable
from typing import Any

import msgspec

from scheduler.base.errors import PluginError
from scheduler.framework.calls import BindStep, CallResult
from scheduler.framework.cycle import Cycle
from scheduler.framework.profile import Bound
from scheduler.framework.returned import status_of, steps_of
from scheduler.framework.status import SUCCESS, Code, Status


def run_steps(
    bound: Bound, point: str, cycle: Cycle, node: str, state: tuple[Any, ...]
) -> Generator[BindStep, CallResult, Status]:
    """Run one plugin at `point`; an error names plugin and point, a rejection keeps its reasons."""
    try:
        steps = steps_of(bound.call(cycle, node, *state), point)
        status = status_of((yield from steps), point) or SUCCESS
    except Exception as error:
        raise PluginError(bound.name, point, str(error)) from error
    if status.code is Code.ERROR:
        text = f'running {point} plugin "{bound.name}": {status.message}'
        return Status(Code.ERROR, (text,), bound.name)
    return msgspec.structs.replace(status, plugin=bound.name)


def pre_bind(
    asking: Iterable[tuple[Bound, tuple[Any, ...]]], cycle: Cycle, node: str
) -> Generator[BindStep, CallResult, Status]:
    """Run the pre-bind plugins, each with its state, until one does not succeed."""
    for bound, state in asking:
        status = yield from run_steps(bound, "PreBind", cycle, node, state)
        if status.code not in (Code.SUCCESS, Code.SKIP):
            return status
    return SUCCESS


def bind(
    bounds: Iterable[Bound], cycle: Cycle, node: str
) -> Generator[BindStep, CallResult, Status]:
    """Run the first binder that does not skip."""
    for bound in bounds:
        status = yield from run_steps(bound, "Bind", cycle, node, ())
        if status.code is not Code.SKIP:
            return status
    return Status(Code.ERROR, (f"no bind plugin took the pod to node {node}",))
