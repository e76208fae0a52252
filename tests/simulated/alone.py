"""One run on its own event loop, and its leftovers: logged or unhandled exceptions."""

import gc
import logging
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import structlog

from tests.simulated.actions import Actions
from tests.simulated.invariants import Breach, BrokenError, Invariant
from tests.simulated.runs import Length, prepared, simulate
from tests.simulated.search import Script
from tests.simulated.turns import SpinningError, Turns


class Run(NamedTuple):
    """The result of a run: the history if it completed, else the violated invariants.

    And its virtual seconds.
    """

    actions: Actions | None
    broken: BrokenError | None
    virtual_s: float
    script: Script


def alone(seed: int, length: Length) -> Run:
    """Run a seed."""
    return again(Script(seed), length)


def again(script: Script, length: Length) -> Run:
    """Run a script; raise exceptions of the simulation's own code."""
    loop, faults = Turns(), list[str]()
    loop.set_exception_handler(lambda _, context: faults.append(_message(context)))
    one, broken = prepared(script), None
    # A run leaves many reference cycles; collecting them continuously costs more than it frees.
    gc.disable()
    try:
        with listening(faults):
            try:
                loop.run_until_complete(simulate(one, script, length))
            except BrokenError as error:
                broken = error
            except SpinningError as error:
                broken = BrokenError([Breach(Invariant.PACE, loop.time(), str(error))])
    finally:
        loop.close()
        gc.enable()
        gc.collect()
    if faults and broken is None:
        broken = BrokenError([Breach(Invariant.FAULT, loop.time(), stated) for stated in faults])
    actions = script._replace(steps=tuple(one.steps))
    return Run(None if broken else one, broken, loop.time(), actions)


@contextmanager
def listening(faults: list[str]) -> Iterator[None]:
    """Suppress the log, but record the exceptions in it: after a bug in a task, the process
    continues.
    """
    before = structlog.get_config()

    def take(_logger: Any, _name: str, entry: MutableMapping[str, Any]) -> Any:
        if found := entry.get("exc_info"):
            error = found if isinstance(found, BaseException) else sys.exc_info()[1]
            faults.append(f"{entry.get('event')}: {error!r}")
        raise structlog.DropEvent

    structlog.configure(
        processors=[take], wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR)
    )
    try:
        yield
    finally:
        structlog.configure(**before)


def _message(context: dict[str, Any]) -> str:
    return f"{context.get('message')}: {context.get('exception')!r}"
