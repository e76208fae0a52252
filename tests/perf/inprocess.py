"""A workload in process: the engine alone, its effects carried out at once by a small
simulation.

No API server, no sockets: the result is the engine's cost per pod for intake, decisions, answers
and the watch's echo. Objects are decoded before the clock starts. Binds and evictions are
acknowledged between two turns, as by an API server that is never late. The engine's time runs at
`PACE` decisions a second, so that back-offs and churn are the same everywhere.
"""

import gc
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter, process_time
from typing import Any

import msgspec

from scheduler.base.clock import perf_s
from scheduler.base.meters import Meters
from scheduler.config import default_config
from scheduler.engine.effects import (
    Answer,
    Bind,
    Effects,
    Evict,
    Listed,
    Record,
    SetStatus,
    Watched,
)
from scheduler.engine.engine import Engine
from scheduler.framework.profile import ProfileSpec
from scheduler.intree import registry
from scheduler.objects.kinds import BY_KIND
from scheduler.objects.pod import Pod
from tests.perf.workload import (
    Barrier,
    Churn,
    CreateNamespaces,
    CreateNodes,
    CreatePods,
    Manifest,
    Workload,
)

SCHEDULER = "trellis"
CYCLES = 64
PACE = 5000.0
# A barrier without a bind in this many turns fails.
PATIENCE = 2000


class WorkloadRun:
    """An engine and its simulated surroundings during a workload.

    It has the default profile, unless others are given.
    """

    def __init__(self, specs: Sequence[ProfileSpec] = ()) -> None:
        specs = specs or [
            spec for spec in default_config(registry()).profiles if spec.scheduler_name == SCHEDULER
        ]
        self.meters = Meters()
        self.engine = Engine(specs, registry(), meters=self.meters, stopwatch=perf_s)
        self.now = 1.0
        self.pods: dict[str, Pod] = {}
        self.awaited: set[str] = set()
        self.binds = self.events = self.evictions = self._numbers = 0
        self._churn: _Churning | None = None
        # Entered while measured pods are scheduled: a profiler, for example.
        self.around: AbstractContextManager[Any] = nullcontext()
        for kind in ("Node", "Pod", "Namespace"):
            self.engine.handle(Listed(kind, ()), self.now)

    def carry_out(self, workload: Workload) -> dict[str, Any]:
        """Do all operations in order; return the figures of the measured pods."""
        figures: dict[str, Any] = {}
        for number, op in enumerate(workload.ops):
            if isinstance(op, CreateNodes | CreateNamespaces):
                for manifest in op.manifests():
                    self.add(self.decoded(manifest))
            elif isinstance(op, Churn):
                self._churn = _Churning(self, op)
            elif isinstance(op, CreatePods) and not op.collect_metrics:
                self.create(self.pods_of(op, f"p{number}"), awaited=not op.skip_wait_to_completion)
            elif isinstance(op, CreatePods):
                figures = self.measure(self.pods_of(op, f"p{number}"))
            elif isinstance(op, Barrier):
                self.wait()
        return figures

    def measure(self, pods: Sequence[Pod]) -> dict[str, Any]:
        """Create these pods and see them all bound."""
        self.wait()
        before = attempts(self.meters)
        binds, events = self.binds, self.events
        gc.collect()
        gc.freeze()
        wall, cpu = perf_counter(), process_time()
        with self.around:
            self.create(pods, awaited=True)
            self.wait()
        wall, cpu = perf_counter() - wall, process_time() - cpu
        gc.unfreeze()
        after = attempts(self.meters)
        tries = {result: after.get(result, 0) - before.get(result, 0) for result in after}
        decided = self.binds - binds
        if decided < len(pods):
            raise AssertionError(f"{decided} binds for {len(pods)} pods")
        return {
            "nodes": len(self.engine.cluster.table),
            "pods": len(pods),
            "boundPerCpuSecond": len(pods) / cpu,
            "boundPerSecond": len(pods) / wall,
            "cpuMicrosecondsPerPod": 1e6 * cpu / len(pods),
            "attempts": tries,
            "eventsWritten": self.events - events,
            "evictions": self.evictions,
        }

    def create(self, pods: Sequence[Pod], *, awaited: bool) -> None:
        """Report pods to the engine that are to be placed."""
        for pod in pods:
            self.pods[pod.metadata.uid] = pod
            if awaited:
                self.awaited.add(pod.metadata.uid)
            self.engine.handle(Watched("Pod", "ADDED", pod), self.now)

    def wait(self) -> None:
        """Run the engine until all awaited pods are bound, and no other pod can be tried now."""
        idle, left = 0, len(self.awaited)
        while self.awaited or self.engine.has_work():
            self.turn()
            idle = idle + 1 if len(self.awaited) == left else 0
            left = len(self.awaited)
            if idle > PATIENCE:
                raise AssertionError(f"{left} pods are still not bound")
        self._carry_out(self.engine.run(self.now, 0))

    def turn(self) -> None:
        """Run some cycles, carry out their effects, and advance the time."""
        effects = self.engine.run(self.now, CYCLES)
        self._carry_out(effects)
        self.now += CYCLES / PACE
        if self._churn is not None and self.awaited:
            self._churn.until(self.now)
        if not self.engine.has_work() and self.awaited:
            wake = self.engine.next_wakeup()
            self.now = max(self.now, wake if wake is not None else 0.0)

    def pods_of(self, op: CreatePods, prefix: str) -> list[Pod]:
        """Return the pods of an operation as the engine gets them."""
        found = []
        for manifest in op.manifests(SCHEDULER):
            meta = manifest["metadata"]
            meta["name"] = f"{prefix}-{meta['name']}"
            meta.setdefault("namespace", prefix)
            found.append(self.decoded(manifest))
        return found

    def decoded(self, manifest: Manifest) -> Any:
        """Return an object as the watch delivers it, with a uid and a version."""
        self._numbers += 1
        manifest["metadata"] |= {
            "uid": f"{self._numbers:08d}-0000-0000-0000-000000000000",
            "resourceVersion": str(self._numbers),
        }
        return msgspec.json.decode(
            msgspec.json.encode(manifest), type=BY_KIND[manifest["kind"]].struct
        )

    def add(self, obj: Any) -> None:
        """Report any other object to the engine."""
        self.engine.handle(Watched(type(obj).__name__, "ADDED", obj), self.now)

    def remove(self, obj: Any) -> None:
        """Report the deletion of an object to the engine."""
        if isinstance(obj, Pod):
            obj = self.pods.pop(obj.metadata.uid, obj)
            self.awaited.discard(obj.metadata.uid)
        self.engine.handle(Watched(type(obj).__name__, "DELETED", obj), self.now)

    def _carry_out(self, effects: Sequence[Effects]) -> None:
        handle, now = self.engine.handle, self.now
        for effect in effects:
            if isinstance(effect, Bind):
                self.binds += 1
                handle(Answer(effect.id, 201), now)
                pod = self.pods[effect.uid]
                spec = msgspec.structs.replace(pod.spec, node_name=effect.node)
                bound = self.pods[effect.uid] = msgspec.structs.replace(pod, spec=spec)
                handle(Watched("Pod", "MODIFIED", bound), now)
                self.awaited.discard(effect.uid)
            elif isinstance(effect, Evict):
                self.evictions += 1
                handle(Answer(effect.id, 200), now)
                handle(Watched("Pod", "DELETED", self.pods.pop(effect.uid)), now)
            elif isinstance(effect, SetStatus):
                self._set_status(effect)
            elif isinstance(effect, Record):
                self.events += 1

    def _set_status(self, effect: SetStatus) -> None:
        pod = self.pods.get(effect.uid)
        if pod is None:
            return
        status = pod.status
        if effect.condition is not None:
            status = msgspec.structs.replace(status, conditions=(effect.condition,))
        if effect.nominated_node is not None:
            status = msgspec.structs.replace(status, nominated_node_name=effect.nominated_node)
        pod = self.pods[effect.uid] = msgspec.structs.replace(pod, status=status)
        self.engine.handle(Watched("Pod", "MODIFIED", pod), self.now)


class _Churning:
    """Objects that are created and deleted beside the measured pods."""

    def __init__(self, workload_run: WorkloadRun, op: Churn) -> None:
        self._play = workload_run
        self._op = op
        self._next = workload_run.now
        self._number = 0
        self._made: list[list[Any]] = []

    def until(self, now: float) -> None:
        """Create the objects due by `now`, and in mode recreate delete the previous ones."""
        while self._next <= now:
            if self._op.mode == "recreate" and len(self._made) >= self._op.number:
                for obj in self._made.pop(0):
                    self._play.remove(obj)
            if len(self._made) < self._op.number:
                self._made.append([self._add(each) for each in self._fresh()])
            self._next += self._op.interval_milliseconds / 1000

    def _fresh(self) -> Iterator[Manifest]:
        self._number += 1
        for manifest in self._op.manifests(SCHEDULER):
            manifest["metadata"]["name"] = f"churn-{self._number:05d}"
            if manifest["kind"] != "Node":
                manifest["metadata"]["namespace"] = "churn"
            yield manifest

    def _add(self, manifest: Manifest) -> Any:
        obj = self._play.decoded(manifest)
        if isinstance(obj, Pod):
            self._play.create([obj], awaited=False)
        else:
            self._play.add(obj)
        return obj


def attempts(meters: Meters) -> dict[str, int]:
    """Return the attempts so far by their results, and the pods that were woken without a
    change.
    """
    found: dict[str, int] = {}
    for sample in meters.schedule_attempts.samples():
        value = sample.value
        found[sample.labels[0]] = found.get(sample.labels[0], 0) + int(
            value if isinstance(value, int | float) else value.count
        )
    return found
