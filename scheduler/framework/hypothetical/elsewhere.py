"""`Elsewhere`: which victims would fit a node other than their own.

A victim fits elsewhere if the filters of the preemptor's profile accept a new pod like it on
another node beside all pods that run now and the pods nominated there. Pods of other profiles count
as fitting nowhere: their filters are not known here. Nothing is reserved.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from msgspec.structs import replace

from scheduler.base.arrays import BoolColumn
from scheduler.framework.hypothetical.rowpods import Nominated
from scheduler.framework.postfilter import FilterRerun
from scheduler.objects.pod import Pod, PodStatus
from scheduler.state.podindex import Placed
from scheduler.state.resources import PODS


class Elsewhere:
    """The nodes that accept each victim during one attempt, cached by the victim's shape."""

    def __init__(self, attempted: FilterRerun, nominated: Nominated) -> None:
        self._attempted, self._nominated = attempted, nominated
        self._rows: dict[int, BoolColumn] = {}

    def stranded(self, victims: Iterable[Placed]) -> int:
        """Return how many of these pods fit no other node, each judged on its own."""
        return sum(not self._others(victim).any() for victim in victims)

    def destinations(self, victims: Sequence[Placed]) -> dict[str, str]:
        """Return by uid the destination of each victim that fits another node beside the victims
        before it.
        """
        nodes, found = self._attempted.nodes, {}
        taken: dict[tuple[int, str], int] = {}
        for victim in victims:
            needs = {**victim.shape.requests, PODS: 1}
            for row in np.flatnonzero(self._others(victim)).tolist():
                if all(
                    taken.get((row, name), 0) == 0
                    or self._left(row, name) >= taken[row, name] + amount
                    for name, amount in needs.items()
                ):
                    for name, amount in needs.items():
                        taken[row, name] = taken.get((row, name), 0) + amount
                    found[victim.pod.metadata.uid] = nodes.name(row)
                    break
        return found

    def _left(self, row: int, name: str) -> int:
        nodes = self._attempted.nodes
        return int(nodes.allocatable(name)[row] - nodes.requested(name)[row])

    def _others(self, victim: Placed) -> BoolColumn:
        """Return the rows that accept a pod like this one, except its own row."""
        found = self._rows.get(victim.shape.id)
        if found is None:
            found = self._rows[victim.shape.id] = self._accepting(victim)
        own = self._attempted.nodes.row(victim.node)
        if own is None or not found[own]:
            return found
        found = found.copy()
        found[own] = False
        return found

    def _accepting(self, victim: Placed) -> BoolColumn:
        by = self._attempted
        if victim.pod.spec.scheduler_name != by.cycle.pod.spec.scheduler_name:
            return np.zeros(by.nodes.size, dtype=np.bool_)
        return by.accepting(unbound(victim.pod), victim.shape, self._nominated)


def unbound(pod: Pod) -> Pod:
    """Return a pod as its controller would create it again."""
    return replace(pod, spec=replace(pod.spec, node_name=""), status=PodStatus())
