"""An engine that receives fuzzed objects as watch lines, and the reports about its pod."""

from collections import Counter
from typing import Any

import msgspec

from scheduler.base.errors import TrellisError
from scheduler.engine.effects import Bind, Watched
from scheduler.engine.engine import Engine
from scheduler.engine.queue.pod import Where
from scheduler.kube.watching.decode import DecodeFault, Decoder
from scheduler.objects.kinds import BY_KIND
from tests.property.engines import PROFILES, REGISTRY

NOW = 1_767_225_600.0


class Listener:
    """One engine; `outcomes` counts the results of its pods."""

    def __init__(self, outcomes: Counter[str]) -> None:
        self._outcomes = outcomes
        self._problems: list[str] = []
        self._engine = Engine(PROFILES, REGISTRY)
        self._engine.observation.on_fault = self._fault
        self._number = 0

    def handle(self, raw: Any) -> None:
        """Process one object as the API server would send it."""
        kind = BY_KIND.get(raw["kind"]) if _is_object(raw) else None
        if kind is None:
            return
        if isinstance(raw.get("metadata"), dict):
            self._number += 1
            raw["metadata"].setdefault("uid", f"uid-{self._number}")
        data = msgspec.json.encode({"type": "ADDED", "object": raw})
        line = Decoder(kind, self._unreadable).line(data)
        if isinstance(line, Watched):
            self._engine.handle(line, NOW)

    def place(self) -> list[str]:
        """Try all pods; return unexpected errors."""
        bound = [e.uid for e in self._engine.run(NOW, 20) if isinstance(e, Bind)]
        self._outcomes["bound"] += len(bound)
        for queued in self._engine.queues:
            where = queued.where
            self._outcomes[where.name.lower()] += 1
            if where is Where.ACTIVE:
                self._problems.append(f"pod {queued.pod.key} was not tried")
            elif queued.reported is None and where not in (Where.GATED, Where.IN_FLIGHT):
                self._problems.append(f"pod {queued.pod.key} has no reason")
        return self._problems

    def _unreadable(self, fault: DecodeFault) -> None:
        self._outcomes["unreadable"] += 1
        if not fault.message:
            self._problems.append(f"{fault.kind} {fault.key}: a fault without words")

    def _fault(self, plugin: str, point: str, error: Exception) -> None:
        self._outcomes["faults"] += 1
        cause = error.__cause__ or error
        # A weight below 0, which no API server accepts, is reported in kube-scheduler's words.
        if not isinstance(cause, TrellisError) and "after normalizing" not in str(cause):
            self._problems.append(f"{plugin} {point}: {type(cause).__name__}: {cause}")


def _is_object(raw: Any) -> bool:
    return isinstance(raw, dict) and isinstance(raw.get("kind"), str)
