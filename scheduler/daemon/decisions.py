"""What the daemon tells of decisions: one log line each, and the last ones for the debug pages.

The engine calls the hooks; nothing here reaches a decision.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec
import numpy as np
import structlog

from scheduler.engine.decision import Decision
from scheduler.engine.engine import Engine
from scheduler.engine.queues import QueuedPod

KEPT = 2000

_log = structlog.get_logger()


class Verdict(msgspec.Struct, frozen=True, rename="camel"):
    """What the last attempt at a pod came to, in a form that outlives the attempt.

    `rejected` counts nodes by plugin and reason; `scores` are those of the chosen node.
    """

    namespace: str
    name: str
    node: str
    message: str
    attempts: int
    feasible_nodes: int
    all_nodes: int
    rejected: dict[str, dict[str, int]]
    scores: dict[str, dict[str, int]]


class DecisionTrail:
    """Keeps the last verdict of each of the last `KEPT` pods, and logs how attempts end."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._verdicts: OrderedDict[tuple[str, str], Verdict] = OrderedDict()
        engine.observation.on_decision = self._decided
        engine.observation.on_end = self._ended
        engine.observation.on_fault = self._fault

    def last(self, namespace: str, name: str) -> Verdict | None:
        """Return the last verdict on a pod, or None when none is kept."""
        return self._verdicts.get((namespace, name))

    def _decided(self, queued: QueuedPod, decision: Decision) -> None:
        # Only numbers are kept: the columns of a decision would keep megabytes alive.
        meta = queued.pod.metadata
        key = (meta.namespace, meta.name)
        self._verdicts[key] = Verdict(
            meta.namespace,
            meta.name,
            decision.node,
            decision.message,
            queued.attempts,
            0 if decision.feasible is None else int(np.count_nonzero(decision.feasible)),
            decision.node_count,
            _reasons(decision),
            self._scores(decision),
        )
        self._verdicts.move_to_end(key)
        if len(self._verdicts) > KEPT:
            self._verdicts.popitem(last=False)

    def _scores(self, decision: Decision) -> dict[str, dict[str, int]]:
        if not decision.scores:
            return {}
        row = self._engine.cluster.table.rows[decision.node]
        return {
            scored.plugin: {
                "raw": int(scored.raw[row]),
                "normalized": int(scored.normalized[row]),
                "weight": scored.weight,
            }
            for scored in decision.scores
        }

    def _ended(self, queued: QueuedPod, result: str, text: str) -> None:
        pod = queued.pod.key
        if result == "scheduled":
            _log.info("scheduled", pod=pod, node=text, attempts=queued.attempts)
        elif result == "unschedulable":
            _log.info("unschedulable", pod=pod, message=text, attempts=queued.attempts)
        else:
            _log.error("not scheduled", pod=pod, message=text, attempts=queued.attempts)

    def _fault(self, plugin: str, point: str, error: Exception) -> None:
        _log.error("fault", plugin=plugin, point=point, error=str(error))


def _reasons(decision: Decision) -> dict[str, dict[str, int]]:
    reasons: dict[str, dict[str, int]] = {}
    for rejection in decision.rejections:
        counts = reasons.setdefault(rejection.plugin, {})
        for text, number in rejection.rejected.histogram(rejection.rows):
            counts[text] = counts.get(text, 0) + number
    return reasons
