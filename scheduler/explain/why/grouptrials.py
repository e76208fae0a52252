"""A trial places a whole group beside all placed pods, with some objects changed, and removes it
again.

Called by `grouped` on the engine that has just simulated the queue. Nothing is evicted for a trial.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec.structs import replace

from scheduler.base.clock import perf_s
from scheduler.engine.effects import Watched
from scheduler.groups.problem.instance import SolveLimits
from scheduler.groups.topology.placement import in_order
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.plugins.dynamicresources.podclaims import CLAIM
from scheduler.simulate.simulate import SimulationRun

# A question without an answer after this time stays open, as do all trials after the total time.
SOLVER_S = 0.25
ALL_TRIALS_S = 2.0


class GroupEdit(msgspec.Struct, frozen=True):
    """The changes of a trial: the members, objects by kind, and added nodes."""

    members: tuple[Pod, ...]
    objects: tuple[tuple[str, Any], ...] = ()
    nodes: tuple[Node, ...] = ()


class GroupTrial:
    """Trials with one group; `members` are the pending ones."""

    def __init__(self, run: SimulationRun, key: str) -> None:
        self.run, self._now = run, run.clock.now()
        self._until = perf_s() + ALL_TRIALS_S
        run.cluster.solver_limits = SolveLimits(stage_s=SOLVER_S, total_s=SOLVER_S)
        waiting = []
        for uid, pod in run.pending.items():
            now = run.cluster.pod(uid)
            if now is None or now.spec.node_name:
                continue
            if run.engine.group_of(pod) == key:
                waiting.append(pod)
            run.cluster.drop(uid, self._now)  # a pod that waits could take the capacity
        self.members = tuple(in_order(waiting))
        self._claims = dict(run.engine.view.objects(CLAIM))

    @property
    def now(self) -> float:
        """Return the time of the simulated clock."""
        return self._now

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Limit each trial in the block to `seconds`."""
        before, self._until = self._until, perf_s() + seconds
        try:
            yield
        finally:
            self._until = before + seconds

    def placed(self, edit: GroupEdit) -> dict[str, str] | None:
        """Return the node of each member of the edit.

        Empty unless all fit, None if that is undecided.
        """
        if perf_s() > self._until or not edit.members:
            return None
        run, engine = self.run, self.run.engine
        before = [(kind, engine.view.objects(kind).get(_key(obj))) for kind, obj in edit.objects]
        for node in edit.nodes:
            engine.handle(Watched("Node", "ADDED", node), self._now)
        self._deliver(edit.objects)
        for pod in edit.members:
            meek = replace(pod, spec=replace(pod.spec, preemption_policy="Never"))
            run.cluster.put(meek, self._now)
        run.fruitless, run.cluster.is_open = 0, False
        run.to_the_end()
        self._now = run.clock.now()
        found = [run.cluster.pod(pod.metadata.uid) for pod in edit.members]
        nodes = {pod.key: pod.spec.node_name for pod in found if pod is not None}
        for pod in edit.members:
            run.cluster.drop(pod.metadata.uid, self._now)
        self._free_claims()
        self._deliver([(kind, obj) for kind, obj in before if obj is not None])
        for node in edit.nodes:
            engine.handle(Watched("Node", "DELETED", node), self._now)
        if all(nodes.values()) and len(nodes) == len(edit.members):
            return nodes
        return None if run.cluster.is_open else {}

    def _deliver(self, objects: Sequence[tuple[str, Any]]) -> None:
        for kind, obj in objects:
            self.run.engine.handle(Watched(kind, "MODIFIED", obj), self._now)

    def _free_claims(self) -> None:
        """Restore claims: no controller here releases the allocations of a trial."""
        engine = self.run.engine
        for key, claim in list(engine.view.objects(CLAIM).items()):
            before = self._claims.get(key)
            if before is None:
                engine.handle(Watched(CLAIM, "DELETED", claim), self._now)
            elif before is not claim:
                engine.handle(Watched(CLAIM, "MODIFIED", before), self._now)


def _key(obj: Any) -> str:
    meta = obj.metadata
    return f"{meta.namespace}/{meta.name}"
