"""Verifies a plan by a simulation: it places the pods that the plan moves, then the waiting
ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from scheduler.groups.sources import registry as sources
from scheduler.moves.goals import CapacityGoal, FitGoal, MoveGoal
from scheduler.moves.reach import replacement, touches_filters
from scheduler.objects.pod import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
)
from scheduler.simulate.capacity import capacity
from scheduler.simulate.records import Result
from scheduler.simulate.simulate import simulate
from scheduler.simulate.stage import AnswerOptions, Setup
from scheduler.snapshot.snapshot import Snapshot


class Step(NamedTuple):
    """A pod and the name of the node that the plan moves it to."""

    pod: Pod
    target: str


class Outcome(NamedTuple):
    """How many of the pending pods fit, of how many, and why the next one does not."""

    fits: int
    of: int
    message: str = ""

    @property
    def is_reached(self) -> bool:
        """Return whether all pending pods fit."""
        return self.fits >= self.of


class PlanEvaluator:
    """Simulates plans on a snapshot under one configuration."""

    def __init__(self, snapshot: Snapshot, setup: Setup, options: AnswerOptions) -> None:
        self._snapshot, self._setup, self._options = snapshot, setup, options

    def rejected(self, steps: Sequence[Step]) -> list[Step]:
        """Return the moves whose replacement the scheduler does not place while the sources run."""
        if not steps:
            return []
        replacing = {step.pod.metadata.uid for step in steps if _leaves_first(step.pod)}
        bound = tuple(pod for pod in self._snapshot.bound if pod.metadata.uid not in replacing)
        coming = tuple(
            pinned(replacement(step.pod, at), step.target) for at, step in enumerate(steps)
        )
        after = replace(
            self._snapshot,
            bound=bound,
            unbound=coming,
            given=frozenset(pod.metadata.uid for pod in coming),
        )
        found = simulate(after, self._setup, self._options).pods
        placed = {f"{pod.namespace}/{pod.name}" for pod in found if pod.result is Result.SCHEDULED}
        return [step for step, pod in zip(steps, coming, strict=True) if pod.key not in placed]

    def outcome(self, goal: MoveGoal, waiting: Sequence[Pod], steps: Sequence[Step]) -> Outcome:
        """Return how many waiting pods, or copies of a shape, fit after the moves without
        preemption.
        """
        after = self._after(steps)
        if isinstance(goal, CapacityGoal):
            given = frozenset(pod.metadata.uid for pod in waiting)
            shaped = replace(after, unbound=tuple(waiting), given=given)
            found = capacity(shaped, self._setup, goal.number, self._options)
            return Outcome(found.fits, goal.number, found.message)
        if not isinstance(goal, FitGoal):
            return Outcome(0, 0)
        meek = tuple(
            replace(
                pod,
                spec=replace(pod.spec, preemption_policy="Never"),
                status=replace(pod.status, nominated_node_name=""),
            )
            for pod in waiting
        )
        given = frozenset(pod.metadata.uid for pod in meek)
        pods = simulate(replace(after, unbound=meek, given=given), self._setup, self._options).pods
        left = [pod for pod in pods if pod.result is not Result.SCHEDULED]
        return Outcome(len(pods) - len(left), len(pods), left[0].message if left else "")

    def _after(self, steps: Sequence[Step]) -> Snapshot:
        targets = {step.pod.metadata.uid: step.target for step in steps}
        bound = tuple(
            replace(pod, spec=replace(pod.spec, node_name=targets[pod.metadata.uid]))
            if pod.metadata.uid in targets
            else pod
            for pod in self._snapshot.bound
        )
        return replace(self._snapshot, bound=bound, unbound=(), given=frozenset())


def pinned(pod: Pod, node: str) -> Pod:
    """Return a copy of a pod that may run on one node only, in addition to its own rules."""
    field = NodeSelectorRequirement("metadata.name", "In", (node,))
    affinity = pod.spec.affinity or Affinity()
    own = affinity.node_affinity or NodeAffinity()
    terms = own.required.node_selector_terms if own.required else (NodeSelectorTerm(),)
    kept = tuple(replace(term, match_fields=(*term.match_fields, field)) for term in terms)
    required = replace(own, required=NodeSelector(kept))
    return replace(pod, spec=replace(pod.spec, affinity=replace(affinity, node_affinity=required)))


def _leaves_first(pod: Pod) -> bool:
    """Return whether the filters for a replacement count the pod that it replaces until that pod is
    deleted.
    """
    return touches_filters(pod) or bool(sources.group_of(pod))
