"""Replay a decision log: the same input must lead to the same effects, byte for byte.

Called by `trellis replay` and by tests. It stops at the first turn whose effects differ and shows
both sides; a log that ends in the middle of a line (the process was killed) is replayed up to
there.
"""

from collections.abc import Callable, Iterable

import msgspec

from scheduler.base.errors import InputError
from scheduler.engine import decisionlog
from scheduler.engine.effects import Bind
from scheduler.engine.engine import Engine


class Difference(msgspec.Struct, frozen=True, rename="camel"):
    """The first turn (its line in the log) with different effects."""

    line: int
    now: float
    logged: str
    replayed: str


class ReplayResult(msgspec.Struct, frozen=True, rename="camel"):
    """The result of a replay; `binds` counts bindings up to the end or the difference."""

    turns: int
    events: int
    binds: int
    is_complete: bool
    difference: Difference | None = None

    @property
    def is_same(self) -> bool:
        """Return whether all effects were as logged."""
        return self.difference is None


def replay(
    lines: Iterable[bytes],
    build: Callable[[decisionlog.Header], Engine],
    *,
    where: str = "",
    each: Callable[[decisionlog.LoggedTurn], None] = lambda _step: None,
) -> ReplayResult:
    """Replay a log on the engine that `build` makes; InputError for an invalid log.

    `each` receives every turn before it runs.
    """
    numbered = enumerate(lines, 1)
    first = next(numbered, None)
    if first is None:
        raise InputError("the log is empty", where=where)
    engine = build(decisionlog.decode_header(first[1], where=f"{where}:1"))
    turns = events = binds = 0
    for number, line in numbered:
        if not line.endswith(b"\n"):
            return ReplayResult(turns, events, binds, is_complete=False)
        step = decisionlog.decode_step(line, where=f"{where}:{number}")
        each(step)
        for event in step.events:
            engine.handle(event, step.now)
        effects = engine.run(step.now, step.cycles)
        turns, events = turns + 1, events + len(step.events)
        binds += sum(isinstance(effect, Bind) for effect in effects)
        replayed = decisionlog.encode_effects(effects)
        if replayed != bytes(step.effects):
            difference = Difference(
                number, step.now, bytes(step.effects).decode(), replayed.decode()
            )
            return ReplayResult(turns, events, binds, is_complete=True, difference=difference)
    return ReplayResult(turns, events, binds, is_complete=True)
