"""Where effects gather until the engine's caller takes them, with the time of the turn they belong
to.
"""

from itertools import count

from scheduler.engine.effects import Call, Effects
from scheduler.framework.calls import ApiCall


class Outbox:
    """Effects in the order they were decided; `now` is the time of this turn in seconds."""

    def __init__(self) -> None:
        self.now = 0.0
        self._effects: list[Effects] = []
        self._ids = count(1)

    def begin_turn(self, now: float) -> None:
        """Set the time of the turn that begins."""
        self.now = now

    def new_id(self) -> int:
        """Return the id of an effect; its answer carries the same id."""
        return next(self._ids)

    def put(self, effect: Effects | None) -> None:
        """Add an effect; None is ignored."""
        if effect is not None:
            self._effects.append(effect)

    def request(self, call: ApiCall) -> int:
        """Add a plugin's request to the API server; return its id."""
        number = self.new_id()
        self.put(Call(number, call.method, call.path, call.content_type, call.body))
        return number

    def drain(self) -> tuple[Effects, ...]:
        """Return all effects since the last call."""
        effects, self._effects = tuple(self._effects), []
        return effects
