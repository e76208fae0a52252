"""TaintToleration: exclude tainted nodes, and prefer nodes without soft taints."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from scheduler.framework import (
    Change,
    Cycle,
    Handle,
    IntColumn,
    NoArgs,
    Nodes,
    PerSpec,
    Plugin,
    Pod,
    Rejected,
    Taint,
    TaintSet,
    Toleration,
    is_tolerated,
    reject,
)

REASON = "node(s) had untolerated taint(s)"
HARD = ("NoSchedule", "NoExecute")
SOFT = "PreferNoSchedule"
COMPARISON_GATE = "TaintTolerationComparisonOperators"


class TaintVerdicts:
    """The verdicts of one pod's tolerations on each known set of taints; grows only."""

    def __init__(self, tolerations: Sequence[Toleration], *, compares: bool) -> None:
        self._compares = compares
        self._hard = tolerations
        self._soft = [t for t in tolerations if t.effect in ("", SOFT)]
        self.rejected: tuple[bool, ...] = ()
        self.disliked: tuple[int, ...] = ()

    def catch_up(self, sets: Sequence[TaintSet]) -> "TaintVerdicts":
        """Add the verdicts on new sets."""
        for taints in sets[len(self.rejected) :]:
            self.rejected += (not self._admits(taints),)
            self.disliked += (self._dislikes(taints),)
        return self

    def _admits(self, taints: TaintSet) -> bool:
        return all(self._tolerated(self._hard, taint) for taint in taints if taint.effect in HARD)

    def _dislikes(self, taints: TaintSet) -> int:
        soft = (taint for taint in taints if taint.effect == SOFT)
        return sum(not self._tolerated(self._soft, taint) for taint in soft)

    def _tolerated(self, tolerations: Sequence[Toleration], taint: Taint) -> bool:
        return is_tolerated(tolerations, taint, compares=self._compares)


class TaintToleration(Plugin[NoArgs]):
    """Reject nodes with a hard taint that the pod does not tolerate.

    Score by the number of soft ones.
    """

    reads = ("node.taints", "self.tolerations")
    unread: ClassVar[Mapping[str, str]] = {
        "pre_score": 'failed to read "PreScoreTaintToleration" from cycleState: not found'
    }
    local = True
    normalize = "reverse"

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._verdicts = PerSpec(self._evaluate)

    def key(self, pod: Pod) -> tuple[Toleration, ...]:
        """Return the tolerations, which determine the result."""
        return pod.spec.tolerations

    def filter(self, cycle: Cycle, nodes: Nodes) -> Rejected | None:
        """Reject nodes with a NoSchedule or NoExecute taint that no toleration matches."""
        rejected = self._verdicts.of(cycle).catch_up(nodes.taint_sets).rejected
        return reject(nodes.taint_flags(rejected), REASON, final=True) if any(rejected) else None

    def pre_score(self, cycle: Cycle, nodes: Nodes) -> tuple[int, ...]:
        """Count the untolerated PreferNoSchedule taints of each set of taints."""
        return self._verdicts.of(cycle).catch_up(nodes.taint_sets).disliked

    def score(self, _cycle: Cycle, nodes: Nodes, disliked: tuple[int, ...]) -> IntColumn:
        """Return the number of untolerated PreferNoSchedule taints."""
        return nodes.taint_numbers(disliked) if any(disliked) else nodes.constant(0)

    def hint(self, change: Change, pod: Pod) -> bool:
        """Return whether a node's taints are tolerated now and were not before."""
        verdicts = self._evaluate(pod)
        if change.kind == "Pod":
            return True
        taints: list[Any] = [change.node.spec.taints]
        if change.old is not None:
            taints.append(change.old.spec.taints)
        now, *before = verdicts.catch_up(taints).rejected
        return not now and before != [False]

    def _evaluate(self, pod: Pod) -> TaintVerdicts:
        compares = bool(self.handle.feature_gates.get(COMPARISON_GATE))
        return TaintVerdicts(pod.spec.tolerations, compares=compares)
