"""Trials: would the pod fit a node with a change of the pod or the cluster?

The steps are those of an attempt (`scheduler.engine.attempt.cycle`), on the engine with the
snapshot of `explain`. Nodes and pods are changed during a trial and restored. A plugin's own
requirement is removed by leaving the plugin out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager

import numpy as np
from msgspec.structs import replace

from scheduler.base.arrays import BoolColumn
from scheduler.base.errors import TrellisError
from scheduler.engine.attempt.attempt import decide
from scheduler.engine.attempt.cycle import Attempt, filter_all, filter_rows
from scheduler.engine.decision import Decision
from scheduler.engine.effects import Watched
from scheduler.engine.engine import Engine
from scheduler.explain.why.requirements import PodRequirement
from scheduler.framework.profile import Bound
from scheduler.framework.running.answers import PreFiltered
from scheduler.framework.running.runner import Runner
from scheduler.framework.status import Rejection
from scheduler.objects.node import Node, Taint
from scheduler.objects.pod import Pod
from scheduler.plugins.nodeunschedulable import CORDON
from scheduler.plugins.tainttoleration import HARD
from scheduler.state.taints import is_tolerated

# For these two, the verdict on a pod without requirements is combined with the pod's own
# requirements.
IN_PART = ("NodeResourcesFit", "InterPodAffinity")
# All verdicts of these follow from a field of the spec, or are found on a pod without requirements.
SPEAK_OF_THE_SPEC = frozenset(
    (
        *IN_PART, "DynamicResources", "NodeAffinity", "NodeName", "NodePorts", "NodeUnschedulable",
        "NodeVolumeLimits", "PodTopologySpread", "TaintToleration", "VolumeBinding",
        "VolumeRestrictions", "VolumeZone",
    )
)  # fmt: skip
MOST_REASONS = 3
_WORDS = {
    "NodeResourcesFit": "takes one more pod",
    "InterPodAffinity": "is far from pods with anti-affinity to it",
}


class PodTrial:
    """Trials with one pod; `engine` has the state of the snapshot between any two of them."""

    def __init__(self, engine: Engine, pod: Pod, now: float) -> None:
        self.engine, self.pod, self.now = engine, pod, now
        self._runners: dict[tuple[frozenset[str], frozenset[str]], Runner] = {}

    def rows(self, pod: Pod, relaxed: Iterable[PodRequirement] = ()) -> BoolColumn:
        """Return the rows that `pod` fits on, without the plugins' requirements in `relaxed`.

        `pod` itself lacks the relaxed requirements of its spec already.
        """
        attempt, partly = self._attempt(pod, relaxed)
        nothing = np.zeros(attempt.nodes.size, dtype=np.bool_)
        if not attempt.nodes.count:
            return nothing
        try:
            pre, feasible, _ = _filtered(attempt)
            for requirement in partly:
                feasible = self._evaluate_in_part(attempt, pre, feasible, requirement)
        except TrellisError:
            return nothing
        return feasible

    def decision(self, pod: Pod, relaxed: Iterable[PodRequirement] = ()) -> Decision | None:
        """Return the decision about `pod`; None where a plugin fails."""
        attempt, _ = self._attempt(pod, relaxed)
        try:
            return decide(attempt)
        except TrellisError:
            return None

    def plugin_requirements(self, bare: Pod) -> tuple[PodRequirement, ...]:
        """Return one requirement for each plugin that rejects a node for the pod, or for `bare`,
        the pod without requirements of its own.
        """
        found = self._objections(self.pod, SPEAK_OF_THE_SPEC)
        names = {requirement.plugin for requirement in found}
        return (
            *found,
            *(
                requirement
                for requirement in self._objections(bare)
                if requirement.plugin not in names
            ),
        )

    def _objections(self, pod: Pod, but: Iterable[str] = ()) -> tuple[PodRequirement, ...]:
        """Return one requirement for each plugin (except `but`) that rejects some node for
        `pod`.
        """
        found: dict[str, PodRequirement] = {}
        while True:
            attempt, _ = self._attempt(pod, found.values(), but)
            try:
                pre, _, rejections = _filtered(attempt)
            except TrellisError:
                return tuple(found.values())
            fresh = {
                one.name: one
                for one in _rejecting_plugins(pre, rejections)
                if one.name not in found
            }
            if not fresh:
                return tuple(found.values())
            found |= {name: _requirement_of(one) for name, one in fresh.items()}

    def untolerated(self) -> tuple[Taint, ...]:
        """Return the hard taints of nodes that the pod does not tolerate, the most frequent
        first.
        """
        counts: dict[Taint, int] = {}
        for node in self.engine.view.nodes():
            taints = [taint for taint in node.spec.taints if taint.effect in HARD]
            if node.spec.unschedulable:
                taints.append(CORDON)
            for taint in dict.fromkeys(taints):
                counts[taint] = counts.get(taint, 0) + 1
        ordered = sorted(counts, key=lambda taint: (-counts[taint], taint.key, taint.value))
        return tuple(one for one in ordered if not is_tolerated(self.pod.spec.tolerations, one))

    @contextmanager
    def changed(self, node: Node | None = None, gone: Sequence[Pod] = ()) -> Iterator[None]:
        """Change or add `node` and delete the bound pods `gone` during a trial."""
        before = None if node is None else self.engine.view.node(node.key)
        for pod in gone:
            self._deliver("Pod", "DELETED", pod)
        if node is not None:
            self._deliver("Node", "ADDED" if before is None else "MODIFIED", node)
        try:
            yield
        finally:
            if before is not None:
                self._deliver("Node", "MODIFIED", before)
            elif node is not None:
                self._deliver("Node", "DELETED", node)
            for pod in gone:
                self._deliver("Pod", "ADDED", pod)

    def _deliver(self, kind: str, verb: str, obj: object) -> None:
        self.engine.handle(Watched(kind, verb, obj), self.now)

    def _attempt(
        self, pod: Pod, relaxed: Iterable[PodRequirement], but: Iterable[str] = ()
    ) -> tuple[Attempt, list[PodRequirement]]:
        """Return an attempt without the plugins of `relaxed` and `but`, and the plugins to ignore
        in part.
        """
        requirements = [requirement for requirement in relaxed if requirement.plugin]
        attempt = self.engine.attempt(pod, self.now)
        attempt.percentage = 100  # the sample of nodes is random
        filters = frozenset((*but, *(requirement.plugin for requirement in requirements)))
        before = frozenset(
            (
                *but,
                *(requirement.plugin for requirement in requirements if requirement.is_pre_filter),
            )
        )
        if (filters, before) not in self._runners:
            self._runners[filters, before] = _without(attempt.runner, filters, before)
        attempt.runner = self._runners[filters, before]
        return attempt, [requirement for requirement in requirements if requirement.reasons]

    def _evaluate_in_part(
        self, attempt: Attempt, pre: PreFiltered, feasible: BoolColumn, requirement: PodRequirement
    ) -> BoolColumn:
        """Return the rows of `feasible` that only the requirement's reasons exclude."""
        alone = self.engine.attempt(attempt.cycle.pod, self.now)
        bounds = (*alone.runner.profile.pre_filter, *alone.runner.profile.filter)
        names = {bound.name for bound in bounds} - {requirement.plugin}
        alone.runner = _without(alone.runner, names, names)
        pre, among, rejections = _filtered(alone, feasible)
        if not pre.status.is_success:
            return np.zeros_like(feasible)
        for one in rejections:
            other = np.zeros_like(feasible)
            for reason in one.rejected.reasons:
                if reason.text not in requirement.reasons:
                    other |= reason.rows
            among = among | (one.rows & ~other)
        return among & feasible


def _filtered(
    attempt: Attempt, rows: BoolColumn | None = None
) -> tuple[PreFiltered, BoolColumn, tuple[Rejection, ...]]:
    """Run the first two steps of an attempt, on all rows or some."""
    pre = attempt.runner.pre_filter(attempt.cycle, attempt.nodes, attempt.states)
    if not pre.status.is_success:
        return pre, np.zeros(attempt.nodes.size, dtype=np.bool_), ()
    if rows is None:
        feasible, rejections = filter_all(attempt, pre)
        return pre, feasible, rejections
    feasible, listed = filter_rows(attempt, rows)
    return pre, feasible, tuple(listed)


def _without(runner: Runner, filters: AbstractSet[str], before: AbstractSet[str]) -> Runner:
    """Return a runner without these plugins at filter, and those at pre-filter.

    It evicts nothing.
    """

    def left(bounds: tuple[Bound, ...], names: AbstractSet[str]) -> tuple[Bound, ...]:
        return tuple(bound for bound in bounds if bound.name not in names)

    profile = runner.profile
    return Runner(
        replace(
            profile,
            pre_filter=left(profile.pre_filter, before),
            filter=left(profile.filter, filters),
            post_filter=(),
        )
    )


class _RejectingPlugin:
    """A plugin that rejects nodes, and its reasons."""

    def __init__(self, name: str, reasons: Iterable[str], *, is_pre_filter: bool = False) -> None:
        self.name, self.reasons, self.is_pre_filter = name, frozenset(reasons), is_pre_filter


def _rejecting_plugins(
    pre: PreFiltered, rejections: tuple[Rejection, ...]
) -> Iterator[_RejectingPlugin]:
    if not pre.status.is_success:
        yield _RejectingPlugin(pre.status.plugin, pre.status.reasons, is_pre_filter=True)
        return
    for name in pre.narrowed_by:
        yield _RejectingPlugin(name, (), is_pre_filter=True)
    texts: dict[str, set[str]] = {}
    for one in rejections:
        stated = texts.setdefault(one.plugin, set())
        stated.update(text for text, _ in one.rejected.histogram(one.rows))
    for name, reasons in texts.items():
        yield _RejectingPlugin(name, reasons)


def _requirement_of(rejecting: _RejectingPlugin) -> PodRequirement:
    name = rejecting.name
    if name in IN_PART:
        text = _WORDS[name]
        return PodRequirement(f"plugins.{name}", text, "", plugin=name, reasons=rejecting.reasons)
    stated = sorted(rejecting.reasons)
    listed = "; ".join(stated[:MOST_REASONS]) + ("; …" if len(stated) > MOST_REASONS else "")
    text = f"passes {name}" + (f" ({listed})" if listed else "")
    less = f"without the filter {name}"
    field = f"plugins.{name}"
    return PodRequirement(field, text, less, plugin=name, is_pre_filter=rejecting.is_pre_filter)
