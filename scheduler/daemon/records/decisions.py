"""Reports of decisions: one log line each, and the last ones for the debug pages.

The engine calls the hooks; nothing here influences a decision. The numbers of the last attempts are
kept; the verdict on every node is kept for some attempts a second, within a bounded memory, so that
it is available in a quiet cluster and costs nothing under load.
"""

from collections import OrderedDict, deque

import numpy as np
import structlog

from scheduler.base.clock import rfc3339
from scheduler.base.meters import Trace
from scheduler.daemon.records.compactdecision import CompactDecision, keep
from scheduler.daemon.records.traces import Traces
from scheduler.engine.decision import Decision
from scheduler.engine.engine import Engine
from scheduler.engine.queue.pod import QueuedPod
from scheduler.explain.attempts import AttemptRecord, LeaderChange
from scheduler.simulate.records import LastVerdict, PodName
from scheduler.simulate.verdicts import NodeVerdict

KEPT = 5000
KEPT_CHANGES = 1000
WHOLE_PER_S = 20
WHOLE_BYTES = 32 << 20

_log = structlog.get_logger()


class DecisionHistory:
    """Keeps the last `most` attempts, consecutive ones with equal results as one entry, and logs
    how they end.
    """

    def __init__(self, engine: Engine, traces: Traces | None = None, *, most: int = KEPT) -> None:
        self._engine = engine
        self._traces = traces
        self._most = most
        self._ring: deque[AttemptRecord] = deque()
        self._last: dict[tuple[str, str], AttemptRecord] = {}
        self._whole: OrderedDict[tuple[str, str], CompactDecision] = OrderedDict()
        self._whole_bytes = 0
        self._second, self._in_second = 0, 0
        self._names: tuple[int, tuple[str, ...]] = (-1, ())
        # When this process began and ceased to lead.
        self.leading: deque[LeaderChange] = deque(maxlen=KEPT_CHANGES)
        engine.report_to(
            on_decision=self._decided,
            on_end=self._ended,
            on_fault=self._fault,
            on_leading=self._led,
        )

    @property
    def attempts(self) -> tuple[AttemptRecord, ...]:
        """Return the recorded attempts, oldest first; entries are immutable."""
        return tuple(self._ring)

    def last(self, namespace: str, name: str, most: int) -> LastVerdict | None:
        """Return the last verdict on a pod with up to `most` nodes, or None when none is kept."""
        attempt = self._last.get((namespace, name))
        if attempt is None:
            return None
        whole = self._whole.get((namespace, name))
        return _verdict(attempt, None if whole is None else whole.verdicts(most))

    def _decided(self, queued: QueuedPod, decision: Decision) -> None:
        # Only numbers are kept: the columns of a decision would keep megabytes alive.
        if self._traces is not None:
            self._traces.decided(queued, decision)
        # as in the decision log, so that both sources yield the same history
        now = self._engine.now
        attempt = self._attempt(queued, decision, now)
        key = (attempt.namespace, attempt.name)
        before = self._last.get(key)
        if before is not None and attempt.repeats(before):
            before.repeat(attempt)
        else:
            self._last[key] = attempt
            self._ring.append(attempt)
        while len(self._ring) > self._most:
            oldest = self._ring.popleft()
            gone = (oldest.namespace, oldest.name)
            if self._last.get(gone) is oldest:
                del self._last[gone]
                self._forget(gone)
        self._keep_whole(key, decision, now)

    def _led(self, is_leading: bool, now: float) -> None:
        before = self.leading[-1].is_leading if self.leading else False
        if is_leading != before:
            self.leading.append(LeaderChange(now, is_leading))

    def _attempt(self, queued: QueuedPod, decision: Decision, now: float) -> AttemptRecord:
        meta = queued.pod.metadata
        victims = (one.pod.metadata for one in decision.victims)
        return AttemptRecord(
            meta.namespace,
            meta.name,
            meta.uid,
            queued.profile,
            now,
            now,
            1,
            queued.attempts,
            decision.node,
            decision.message,
            decision.nominated_node,
            tuple(PodName(one.namespace, one.name) for one in victims),
            0 if decision.feasible is None else int(np.count_nonzero(decision.feasible)),
            decision.node_count,
            _reasons(decision),
            self._scores(decision),
        )

    def _keep_whole(self, key: tuple[str, str], decision: Decision, now: float) -> None:
        """Keep the verdict on every node, unless `WHOLE_PER_S` verdicts of this second are kept
        already.
        """
        self._forget(key)
        if int(now) != self._second:
            self._second, self._in_second = int(now), 0
        if self._in_second >= WHOLE_PER_S:
            return
        self._in_second += 1
        nodes = self._engine.view.columns(decision.feasible)
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
        """Return the node name of every row; the same tuple until a node is added or deleted."""
        view = self._engine.view
        if self._names[0] != view.generation:
            self._names = (view.generation, view.row_names())
        return self._names[1]

    def _scores(self, decision: Decision) -> tuple[tuple[str, int, int, int], ...]:
        if not decision.scores:
            return ()
        row = self._engine.view.row(decision.node)
        return tuple(
            (scored.plugin, int(scored.raw[row]), int(scored.normalized[row]), scored.weight)
            for scored in decision.scores
        )

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


def _verdict(attempt: AttemptRecord, nodes: tuple[NodeVerdict, ...] | None) -> LastVerdict:
    return LastVerdict(
        attempt.namespace,
        attempt.name,
        attempt.uid,
        rfc3339(attempt.at),
        attempt.profile,
        attempt.node,
        attempt.message,
        attempt.nominated_node,
        attempt.victims,
        attempt.attempts,
        attempt.feasible_nodes,
        attempt.all_nodes,
        attempt.rejected,
        {
            plugin: {"raw": raw, "normalized": normalized, "weight": weight}
            for plugin, raw, normalized, weight in attempt.scores
        },
        nodes,
    )


def _reasons(decision: Decision) -> dict[str, dict[str, int]]:
    reasons: dict[str, dict[str, int]] = {}
    for rejection in decision.rejections:
        counts = reasons.setdefault(rejection.plugin, {})
        for text, number in rejection.rejected.histogram(rejection.rows):
            counts[text] = counts.get(text, 0) + number
    return reasons
