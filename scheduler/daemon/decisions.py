"""What the daemon tells of decisions: one log line each, and the last ones for the debug pages.

The engine calls the hooks; nothing here reaches a decision. Of every pod's last attempt the numbers
are kept; the verdict on every node only of some a second and as many as fit into a bounded memory, so
that in a quiet cluster, where somebody looks, it is there, and under load it costs nothing.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec
import numpy as np
import structlog

from scheduler.base.clock import Clock, rfc3339
from scheduler.base.meters import Trace
from scheduler.daemon.kept import KeptDecision, keep
from scheduler.daemon.traces import Traces
from scheduler.engine.decision import Decision
from scheduler.engine.engine import Engine
from scheduler.engine.queue.pod import QueuedPod
from scheduler.framework.nodes import Nodes
from scheduler.whatif.records import PodName
from scheduler.whatif.verdicts import NodeVerdict

KEPT = 2000
WHOLE_PER_S = 20
WHOLE_BYTES = 32 << 20

_log = structlog.get_logger()


class Verdict(msgspec.Struct, frozen=True, rename="camel"):
    """What the last attempt at a pod came to, in a form that outlives the attempt.

    `rejected` counts nodes by plugin and reason; `scores` are those of the chosen node. `nodes` is
    the verdict on each node, best first, None where it is not kept.
    """

    namespace: str
    name: str
    uid: str
    at: str
    profile: str
    node: str
    message: str
    nominated_node: str | None
    victims: tuple[PodName, ...]
    attempts: int
    feasible_nodes: int
    all_nodes: int
    rejected: dict[str, dict[str, int]]
    scores: dict[str, dict[str, int]]
    nodes: tuple[NodeVerdict, ...] | None = None


class DecisionTrail:
    """Keeps the last verdict of each of the last `KEPT` pods, and logs how attempts end."""

    def __init__(self, engine: Engine, clock: Clock, traces: Traces | None = None) -> None:
        self._engine = engine
        self._clock = clock
        self._traces = traces
        self._verdicts: OrderedDict[tuple[str, str], Verdict] = OrderedDict()
        self._whole: OrderedDict[tuple[str, str], KeptDecision] = OrderedDict()
        self._whole_bytes = 0
        self._second, self._in_second = 0, 0
        self._names: tuple[int, tuple[str, ...]] = (-1, ())
        engine.observation.on_decision = self._decided
        engine.observation.on_end = self._ended
        engine.observation.on_fault = self._fault

    def last(self, namespace: str, name: str, most: int) -> Verdict | None:
        """Return the last verdict on a pod with up to `most` nodes, or None when none is kept."""
        verdict = self._verdicts.get((namespace, name))
        whole = self._whole.get((namespace, name))
        if verdict is None or whole is None:
            return verdict
        return msgspec.structs.replace(verdict, nodes=whole.verdicts(most))

    def _decided(self, queued: QueuedPod, decision: Decision) -> None:
        # Only numbers are kept: the columns of a decision would keep megabytes alive.
        if self._traces is not None:
            self._traces.decided(queued, decision)
        meta = queued.pod.metadata
        key = (meta.namespace, meta.name)
        now = self._clock.now()
        self._verdicts[key] = Verdict(
            meta.namespace,
            meta.name,
            meta.uid,
            rfc3339(now),
            queued.profile,
            decision.node,
            decision.message,
            decision.nominated_node,
            tuple(
                PodName(one.pod.metadata.namespace, one.pod.metadata.name)
                for one in decision.victims
            ),
            queued.attempts,
            0 if decision.feasible is None else int(np.count_nonzero(decision.feasible)),
            decision.node_count,
            _reasons(decision),
            self._scores(decision),
        )
        self._verdicts.move_to_end(key)
        if len(self._verdicts) > KEPT:
            oldest, _ = self._verdicts.popitem(last=False)
            self._forget(oldest)
        self._keep_whole(key, decision, now)

    def _keep_whole(self, key: tuple[str, str], decision: Decision, now: float) -> None:
        """Keep the verdict on every node, if there is room for another one in this second."""
        self._forget(key)
        if int(now) != self._second:
            self._second, self._in_second = int(now), 0
        if self._in_second >= WHOLE_PER_S:
            return
        self._in_second += 1
        cluster = self._engine.cluster
        nodes = Nodes(cluster.table, cluster.pods, decision.feasible)
        kept = keep(decision, nodes, self._row_names())
        self._whole[key] = kept
        self._whole_bytes += kept.size_bytes
        while self._whole_bytes > WHOLE_BYTES and len(self._whole) > 1:
            self._forget(next(iter(self._whole)))

    def _forget(self, key: tuple[str, str]) -> None:
        kept = self._whole.pop(key, None)
        if kept is not None:
            self._whole_bytes -= kept.size_bytes

    def _row_names(self) -> tuple[str, ...]:
        """Return the node name of every row; one tuple as long as no node comes or goes."""
        table = self._engine.cluster.table
        if self._names[0] != table.generation:
            names = tuple("" if node is None else node.metadata.name for node in table.nodes)
            self._names = (table.generation, names)
        return self._names[1]

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

    def _ended(self, queued: QueuedPod, result: str, text: str) -> Trace | None:
        pod = queued.pod.key
        if result == "scheduled":
            _log.info("scheduled", pod=pod, node=text, attempts=queued.attempts)
        elif result == "unschedulable":
            _log.info("unschedulable", pod=pod, message=text, attempts=queued.attempts)
        else:
            _log.error("not scheduled", pod=pod, message=text, attempts=queued.attempts)
        return None if self._traces is None else self._traces.ended(queued, result, text)

    def _fault(self, plugin: str, point: str, error: Exception) -> None:
        _log.error("fault", plugin=plugin, point=point, error=str(error))


def _reasons(decision: Decision) -> dict[str, dict[str, int]]:
    reasons: dict[str, dict[str, int]] = {}
    for rejection in decision.rejections:
        counts = reasons.setdefault(rejection.plugin, {})
        for text, number in rejection.rejected.histogram(rejection.rows):
            counts[text] = counts.get(text, 0) + number
    return reasons
