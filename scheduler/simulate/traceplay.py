"""Play a trace on the engine's virtual clock: pods arrive, run for their time, and end.

The engine is the daemon's own. Between two events the clock does not move until the engine has no
more work; then it moves to the next arrival, end, or back-off. Pods that ended are dropped, so
memory follows the pending and running pods.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush
from typing import Any

import msgspec

from scheduler.base.clock import rfc3339
from scheduler.engine.effects import Bind
from scheduler.engine.queue.pod import Where
from scheduler.objects.plain import read_pod
from scheduler.objects.quantity import resource_amount
from scheduler.simulate.cluster.cluster import World
from scheduler.simulate.records import API_VERSION
from scheduler.simulate.stage import StagedEngine
from scheduler.simulate.tracefile import TraceRow

_CYCLES = 16
_FRUITLESS = 10_000


class TraceWaiting(msgspec.Struct, frozen=True, rename="camel"):
    """Pods of one namespace and shape.

    Waiting time in seconds from arrival to binding, of bound pods.
    """

    namespace: str
    shape: str
    pods: int
    bound: int
    waiting_p50: float
    waiting_p95: float
    waiting_p99: float
    evicted: int


class TraceUse(msgspec.Struct, frozen=True):
    """The allocated share of a resource in percent: mean over the time, and the peak."""

    resource: str
    mean: float
    peak: float


class TraceSummary(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The result of playing a trace."""

    api_version: str = API_VERSION
    kind: str = "TraceSimulation"
    seconds: float
    pods: int
    bound: int
    never_bound: int
    evicted: int
    complete: bool
    allocation: tuple[TraceUse, ...]
    waiting: tuple[TraceWaiting, ...]


class _Pod(msgspec.Struct):
    row: TraceRow
    uid: str
    amounts: Mapping[str, int]
    bound_at: float | None = None


class _Tally(msgspec.Struct):
    pods: int = 0
    evicted: int = 0
    waits: Any = msgspec.field(default_factory=lambda: array("d"))


class TracePlayer:
    """One trace on one engine; `summary` may be called at any time."""

    def __init__(self, stage: StagedEngine, scheduler: str) -> None:
        self._engine = stage.engine
        self._start = self._now = stage.now
        self._scheduler = scheduler
        self._world = World(self._engine, (*stage.bound, *stage.pending))
        self._pods: dict[str, _Pod] = {}
        self._ends: list[tuple[float, str]] = []
        self._tallies: dict[tuple[str, str], _Tally] = {}
        self._number = self._bound = 0
        self._held: Counter[str] = Counter()
        self._peak: Counter[str] = Counter()
        self._used_seconds: dict[str, float] = {}
        self._is_complete = False

    def play(self, rows: Iterable[TraceRow], progress: Callable[[int, float], None]) -> None:
        """Play all rows until all pods have ended.

        `progress` is called per row with pods and seconds.
        """
        for row in rows:
            self._until(self._start + row.arrival_s)
            for _ in range(row.count):
                self._arrive(row)
            self._work()
            progress(self._number, self._now - self._start)
        while self._ends:
            self._until(self._ends[0][0])
        self._is_complete = True

    def summary(self) -> TraceSummary:
        """Return the current figures."""
        seconds = self._now - self._start
        waiting = [self._waiting(*key, tally) for key, tally in sorted(self._tallies.items())]
        columns = self._engine.view.columns()
        uses = []
        for name in sorted(self._peak):
            offered = int(columns.allocatable(name).sum()) or 1
            mean = self._used_seconds.get(name, 0.0) / seconds if seconds > 0 else self._held[name]
            uses.append(
                TraceUse(name, _percent(mean, offered), _percent(self._peak[name], offered))
            )
        evicted = sum(tally.evicted for tally in self._tallies.values())
        bound = sum(len(tally.waits) for tally in self._tallies.values())
        return TraceSummary(
            seconds=round(seconds, 3),
            pods=self._number,
            bound=bound,
            never_bound=self._number - bound,
            evicted=evicted,
            complete=self._is_complete,
            allocation=tuple(uses),
            waiting=tuple(waiting),
        )

    def _waiting(self, namespace: str, shape: str, tally: _Tally) -> TraceWaiting:
        waits = sorted(tally.waits)
        half, most, last = (_percentile(waits, part) for part in (0.50, 0.95, 0.99))
        return TraceWaiting(
            namespace, shape, tally.pods, len(waits), half, most, last, tally.evicted
        )

    def _until(self, moment: float) -> None:
        """Advance to a time: earlier ends and back-offs are processed."""
        while True:
            wake = self._next_wake()
            end = self._ends[0][0] if self._ends else None
            following = min((at for at in (wake, end) if at is not None), default=moment)
            if following > moment:
                break
            self._pass(max(following, self._now))
            while self._ends and self._ends[0][0] <= self._now:
                self._end(heappop(self._ends)[1])
            self._work()
            if wake is None and end is None:
                break
        self._pass(max(moment, self._now))

    def _next_wake(self) -> float | None:
        """Return when the engine has work without an event, None if only an event helps."""
        view = self._engine.view
        if view.bindings().in_flight or view.count(Where.BACKOFF):
            return self._engine.next_wakeup()
        return None

    def _pass(self, moment: float) -> None:
        for name, amount in self._held.items():
            before = self._used_seconds.get(name, 0.0)
            self._used_seconds[name] = before + amount * (moment - self._now)
        self._now = moment

    def _arrive(self, row: TraceRow) -> None:
        self._number += 1
        uid = f"trace-{self._number:08d}"
        tally = self._tallies.setdefault((row.namespace, row.shape), _Tally())
        tally.pods += 1
        amounts = {name: resource_amount(name, text) for name, text in row.requests}
        self._pods[uid] = _Pod(row, uid, amounts)
        meta = {
            "name": uid,
            "namespace": row.namespace,
            "uid": uid,
            "creationTimestamp": rfc3339(self._now),
        }
        container = {
            "name": "main",
            "image": "trace",
            "resources": {"requests": dict(row.requests)},
        }
        spec = {"schedulerName": self._scheduler, "containers": [container]}
        made = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        self._world.put(read_pod(made), self._now)

    def _end(self, uid: str) -> None:
        pod = self._pods.pop(uid, None)
        if pod is not None:
            self._held.subtract(pod.amounts)
            self._world.drop(uid, self._now)

    def _work(self) -> None:
        """Run the engine until only time or another event can help."""
        fruitless = 0
        while fruitless < _FRUITLESS:
            before = self._world.changes
            effects = self._engine.run(self._now, _CYCLES)
            evicted = len(self._world.evicted)
            self._world.carry_out(effects, self._now)
            for effect in effects:
                if isinstance(effect, Bind):
                    self._begin(effect.uid)
            if len(self._world.evicted) != evicted:
                self._lose()
            if not effects and not self._engine.has_work():
                return
            fruitless = 0 if self._world.changes != before else fruitless + 1

    def _begin(self, uid: str) -> None:
        pod = self._pods.get(uid)
        if pod is None or pod.bound_at is not None:
            return
        pod.bound_at = self._now
        row = pod.row
        waited = self._now - self._start - row.arrival_s
        self._tallies[row.namespace, row.shape].waits.append(max(waited, 0.0))
        self._held.update(pod.amounts)
        for name, amount in self._held.items():
            self._peak[name] = max(self._peak[name], amount)
        if row.duration_s is not None:
            heappush(self._ends, (self._now + row.duration_s, uid))

    def _lose(self) -> None:
        """Count the pods of the trace that were evicted; an evicted pod does not come back."""
        for uid in self._world.evicted & self._pods.keys():
            pod = self._pods.pop(uid)
            self._tallies[pod.row.namespace, pod.row.shape].evicted += 1
            if pod.bound_at is not None:
                self._held.subtract(pod.amounts)


def _percentile(ordered: list[float], part: float) -> float:
    """Return the smallest value that at least `part` of the sorted values do not exceed.

    0 without values.
    """
    if not ordered:
        return 0.0
    return round(ordered[max(-(-int(len(ordered) * part * 1000) // 1000) - 1, 0)], 3)


def _percent(amount: float, offered: int) -> float:
    return round(100 * amount / offered, 2)
