"""`TiesState`: the placed pods that an incoming pod is tied to, and the verdicts that follow.

What pre-filter returns. Hypothetical pods are counted in a copy of their group; verdicts and costs
are computed per place, and then expanded to rows.
"""

from collections.abc import Iterator

import numpy as np

from scheduler.framework import FloatColumn, IntColumn, Nodes, Pod, Rows
from scheduler.plugins.network.bandwidth.bookings import BookedAmounts
from scheduler.plugins.network.grouppods import GroupPods, WorkloadNeeds
from scheduler.plugins.network.links import FloatMatrix
from scheduler.plugins.network.lookup import Lookup, PodTies
from scheduler.plugins.network.membership import Membership
from scheduler.plugins.network.places import NOWHERE, RowPlaces
from scheduler.plugins.network.prices import SAME_PLACE_COST, UNKNOWN_COST, TieVerdicts
from scheduler.plugins.network.tracker import NetworkTracker


class TiesState:
    """The ties of one pod, with the pods that hypothetically moved."""

    __slots__ = (
        "_by_cell",
        "_cell_places",
        "_elsewhere",
        "_is_any_nowhere",
        "_verdicts",
        "_wanted",
        "has_moved",
        "membership",
        "pods",
        "ties",
        "tracker",
    )

    def __init__(self, ties: PodTies, tracker: NetworkTracker, membership: Membership) -> None:
        self.ties = ties
        self.tracker = tracker
        self.membership = membership
        self.pods: GroupPods = membership.pods(ties.group)
        self.has_moved = False
        self._elsewhere: dict[str, GroupPods] = {}
        self._wanted: WorkloadNeeds | None = None
        self._verdicts: TieVerdicts | None = None
        self._cell_places: Rows | None = None
        self._by_cell: FloatMatrix | None = None
        self._is_any_nowhere: bool | None = None

    @classmethod
    def on(cls, nodes: Nodes, ties: PodTies, lookup: Lookup) -> "TiesState | None":
        """The ties of one pod, with the hypothetically moved pods."""
        state = cls(ties, lookup.tracker, lookup.membership)
        was_tied = state._is_tied()
        for placed, row, sign in nodes.moves():
            state.move(placed.pod, row, sign)
        return state if was_tied or (state.has_moved and state._is_tied()) else None

    @property
    def places(self) -> RowPlaces:
        """Return the state for a view; None if no pod that it depends on is or was placed."""
        return self.tracker.places

    @property
    def wanted(self) -> WorkloadNeeds:
        """Return the pod's needs of workloads with placed pods."""
        if self._wanted is None:
            ties = self.ties
            self._wanted = self.pods.wanted(ties.workload, ties.needs, kind=ties.kind)
        return self._wanted

    def move(self, pod: Pod, row: int, sign: int) -> None:
        """Count a pod that is added to (1) or removed from (-1) a row, hypothetically; any pod of
        any group.
        """
        group, workload = self.membership.key_and_workload(pod)
        if not group:
            return
        if group == self.ties.group:
            if self.pods is self.membership.pods(group):
                self.pods = self.pods.copy()
            self.pods.add(workload, row, sign)
        else:
            if group not in self._elsewhere:
                self._elsewhere[group] = self.membership.pods(group).copy()
            self._elsewhere[group].add(workload, row, sign)
        self.has_moved = True
        self._wanted = self._verdicts = self._cell_places = None
        self._by_cell = self._is_any_nowhere = None

    def copy(self) -> "TiesState":
        """Return an independent copy."""
        twin = TiesState(self.ties, self.tracker, self.membership)
        if self.pods is not twin.pods:
            twin.pods = self.pods.copy()
        twin.has_moved = self.has_moved
        twin._elsewhere = {group: pods.copy() for group, pods in self._elsewhere.items()}
        return twin

    def booked_more(self) -> Iterator[BookedAmounts]:
        """Yield the change of allocations by the hypothetical moves of each group."""
        if self.has_moved:
            for group, pods in {**self._elsewhere, self.ties.group: self.pods}.items():
                yield self.membership.bookings.changed_by(group, pods)

    def verdicts(self) -> TieVerdicts:
        """Return the numbers per place, without the counterparts on the candidate node itself."""
        if self._verdicts is None:
            prices = self.ties.table.matrices(self.places)
            places = self.cell_places()
            self._verdicts = prices.evaluate(
                self.wanted.tied(self._ties(), places, len(self.places))
            )
        return self._verdicts

    def cell_places(self) -> Rows:
        """Return the place of each cell of the group's pods."""
        if self._cell_places is None:
            self._cell_places = self.places.rows.take(self.pods.rows)
        return self._cell_places

    def is_any_nowhere(self) -> bool:
        """Return whether a tied pod is on a node without region and zone."""
        if self._is_any_nowhere is None:
            places = self.cell_places()
            # NOWHERE is 0: in most cases, counting nonzero entries is enough.
            self._is_any_nowhere = bool(
                np.count_nonzero(places) < len(places)
                and self.ties_by_cell()[places == NOWHERE].any()
            )
        return self._is_any_nowhere

    def take_off_own(self, raw: IntColumn, nodes: Nodes) -> None:
        """Subtract the cost of tied pods on the row itself, which were counted with the place's
        cost.
        """
        own = self.ties_by_cell()
        if self.is_any_nowhere():
            own = own * np.where(self.cell_places() == NOWHERE, UNKNOWN_COST, SAME_PLACE_COST)
        self.tracker.take_off(raw, nodes, self.pods.rows, own.astype(np.int64))

    def ties_by_cell(self) -> FloatColumn:
        """Return the number of ties to each cell's pods, both ends; not to be written to."""
        ties: FloatColumn = self._ties()[-1]
        return ties

    def by_row(self) -> Iterator[tuple[int, int, bool]]:
        """Yield row, number of ties and whether to dependents, per row with tied pods."""
        rows = self.pods.rows
        for end, ties in enumerate(self._by_direction()):
            tied = np.flatnonzero(ties > 0)
            for row, count in zip(rows[tied].tolist(), ties[tied].tolist(), strict=True):
                yield row, int(count), bool(end)

    def accumulated(self, cost: FloatMatrix) -> IntColumn:
        """Return per place the sum of the costs of all tied pods.

        `cost` has a row per place; its columns are the places of tied pods, first for traffic to
        them, then for traffic from them.
        """
        places, size = self.cell_places(), len(self.places)
        columns = np.concatenate((places, places + size))
        numbers = np.bincount(columns, np.concatenate(self._by_direction()), 2 * size)
        total: IntColumn = (cost @ numbers).astype(np.int64)
        return total

    def _is_tied(self) -> bool:
        totals = self.pods.totals
        return any(totals[number] > 0 for number in self.wanted.numbers)

    def _ties(self) -> FloatMatrix:
        """Return the numbers of ties to each cell's pods; the last row is the sum of all."""
        if self._by_cell is None:
            self._by_cell = self.wanted.by_cell(self.pods)
        return self._by_cell

    def _by_direction(self) -> tuple[FloatColumn, FloatColumn]:
        """Return the numbers of ties to each cell's pods: as to dependencies, and as to
        dependents.
        """
        ties = self._ties()
        return ties[:-1:2].sum(axis=0), ties[1:-1:2].sum(axis=0)
