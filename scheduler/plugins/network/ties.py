"""`TiesState`: the placed pods that an incoming pod is tied to, and the verdicts that follow.

What pre-filter returns. Hypothetical pods are counted in a copy of their group; verdicts and costs are
worked out for places at once, and from there for rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from scheduler.base.arrays import FloatColumn, IntColumn, Rows
from scheduler.framework.nodes import Nodes
from scheduler.objects.groups import GROUP_LABEL, WORKLOAD_LABEL
from scheduler.objects.pod import Pod
from scheduler.plugins.network.bookings import Amounts
from scheduler.plugins.network.grouppods import GroupPods, Wanted
from scheduler.plugins.network.links import FloatMatrix
from scheduler.plugins.network.lookup import Ties
from scheduler.plugins.network.places import NOWHERE, Places
from scheduler.plugins.network.prices import SAME_PLACE_COST, UNKNOWN_COST, Verdicts
from scheduler.plugins.network.tracker import NetworkTracker


class TiesState:
    """The ties of one pod, with the pods that hypothetically moved."""

    __slots__ = (
        "_cell_places",
        "_elsewhere",
        "_ends",
        "_is_any_nowhere",
        "_verdicts",
        "_wanted",
        "has_moved",
        "pods",
        "ties",
        "tracker",
    )

    def __init__(self, ties: Ties, tracker: NetworkTracker) -> None:
        self.ties = ties
        self.tracker = tracker
        self.pods: GroupPods = tracker.pods(ties.group)
        self.has_moved = False
        self._elsewhere: dict[str, GroupPods] = {}
        self._wanted: Wanted | None = None
        self._verdicts: Verdicts | None = None
        self._cell_places: Rows | None = None
        self._ends: FloatMatrix | None = None
        self._is_any_nowhere: bool | None = None

    @classmethod
    def on(cls, nodes: Nodes, ties: Ties, tracker: NetworkTracker) -> TiesState | None:
        """Return the state for a view; None when nobody that the pod is tied to is or was placed."""
        state = cls(ties, tracker)
        was_tied = state._is_tied()
        for placed, row, sign in nodes.moves():
            state.move(placed.pod, row, sign)
        return state if was_tied or (state.has_moved and state._is_tied()) else None

    @property
    def places(self) -> Places:
        """Return where the rows stand."""
        return self.tracker.places

    @property
    def wanted(self) -> Wanted:
        """Return what the pod needs of the workloads that are there."""
        if self._wanted is None:
            ties = self.ties
            self._wanted = self.pods.wanted(ties.workload, ties.needs, kind=ties.kind)
        return self._wanted

    def move(self, pod: Pod, row: int, sign: int) -> None:
        """Count a pod that lands on (1) or leaves (-1) a row, hypothetically; any pod of any group."""
        group, workload = group_and_workload(pod)
        if not group:
            return
        if group == self.ties.group:
            if self.pods is self.tracker.pods(group):
                self.pods = self.pods.copy()
            self.pods.add(workload, row, sign)
        else:
            if group not in self._elsewhere:
                self._elsewhere[group] = self.tracker.pods(group).copy()
            self._elsewhere[group].add(workload, row, sign)
        self.has_moved = True
        self._wanted = None
        self._verdicts = self._cell_places = self._ends = self._is_any_nowhere = None

    def copy(self) -> TiesState:
        """Return an independent copy."""
        twin = TiesState(self.ties, self.tracker)
        if self.pods is not twin.pods:
            twin.pods = self.pods.copy()
        twin.has_moved = self.has_moved
        twin._elsewhere = {group: pods.copy() for group, pods in self._elsewhere.items()}
        return twin

    def booked_more(self) -> Iterator[Amounts]:
        """Yield how the hypothetical moves of each group change what is booked."""
        if self.has_moved:
            for group, pods in {**self._elsewhere, self.ties.group: self.pods}.items():
                yield self.tracker.bookings.changed_by(group, pods)

    def verdicts(self) -> Verdicts:
        """Return the numbers per place, as if no tied pod stood on the very same node."""
        if self._verdicts is None:
            prices = self.ties.table.matrices(self.places)
            self._verdicts = prices.judge(self.wanted.limits, self._numbers())
        return self._verdicts

    def cell_places(self) -> Rows:
        """Return the place of each cell of the group's pods."""
        if self._cell_places is None:
            self._cell_places = self.places.rows.take(self.pods.rows)
        return self._cell_places

    def is_any_nowhere(self) -> bool:
        """Whether tied pods stand on nodes without region and zone."""
        if self._is_any_nowhere is None:
            self._is_any_nowhere = bool(self._numbers()[:, :: len(self.places)].any())
        return self._is_any_nowhere

    def take_off_own(self, raw: IntColumn, nodes: Nodes) -> None:
        """Subtract from costs per row what tied pods on that very node were counted with."""
        own = self.ties_by_cell()
        if self.is_any_nowhere():
            own *= np.where(self.cell_places() == NOWHERE, UNKNOWN_COST, SAME_PLACE_COST)
        self.tracker.take_off(raw, nodes, self.pods.rows, own.astype(np.int64))

    def ties_by_cell(self) -> FloatColumn:
        """Return the number of ties to each cell's pods, both ends."""
        ties: FloatColumn = self.wanted.ties.take(self.pods.works)
        ties *= self.pods.counts
        return ties

    def by_row(self) -> Iterator[tuple[int, int, bool]]:
        """Yield row, number of ties and whether to dependents, per row with tied pods."""
        rows = self.pods.rows
        for end, needs in enumerate(self.wanted.ties_by_direction(self.pods.works)):
            ties = needs * self.pods.counts
            tied = np.flatnonzero(ties > 0)
            for row, count in zip(rows[tied].tolist(), ties[tied].tolist(), strict=True):
                yield row, int(count), bool(end)

    def accumulated(self, cost: FloatMatrix) -> IntColumn:
        """Return per place the sum of `cost`, a matrix over places there and back, over all tied pods."""
        total: IntColumn = (cost @ self._numbers().sum(axis=0)).astype(np.int64)
        return total

    def _is_tied(self) -> bool:
        totals = self.pods.totals
        return any(totals[number] > 0 for number in self.wanted.numbers)

    def _numbers(self) -> FloatMatrix:
        """Return the numbers of ties, a row per limit, a column for each of those of `Prices`."""
        if self._ends is None:
            self._ends = self.wanted.ends(self.pods, self.cell_places(), len(self.places))
        return self._ends


def group_and_workload(pod: Pod) -> tuple[str, str]:
    """Return what a pod's two labels say; two empty texts for a pod of no group."""
    labels = pod.metadata.labels
    group = labels.get(GROUP_LABEL, "")
    return (group, labels.get(WORKLOAD_LABEL, "")) if group else ("", "")
